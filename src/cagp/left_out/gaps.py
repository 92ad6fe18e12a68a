"""What is left out around training points, where points without data lie, and who is nearest beyond a gap.

Points stand in boxes of a few, these in boxes of boxes, and so on. From the largest on, boxes that lie wholly in a gap
are passed over, and those that are further than k points in other boxes: the work grows with the border of a gap, and
hardly with what it holds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

_LEAF, _TIMES = 16, 4  # points in the smallest boxes, and boxes in a larger one
_FEW = 64  # so many of the largest boxes are looked at in any case
_ROWS, _NUMBERS = 256, 2**23  # so many points, and so many coordinates, are looked at at once


@dataclass(frozen=True)
class Gaps:
    """Left out around n points: what is nearer than ``radius`` (n,), or than ``reach`` (n,) to ``centre`` (n, q)."""

    radius: torch.Tensor
    centre: torch.Tensor
    reach: torch.Tensor

    @property
    def any(self) -> bool:
        """Whether more than the points themselves is left out."""
        return bool((self.radius > 0).any() | (self.reach > 0).any())

    def some(self, chosen: torch.Tensor) -> Gaps:
        """Those at the places ``chosen``: a mask (n,) or indices."""
        return Gaps(self.radius[chosen], self.centre[chosen], self.reach[chosen])

    def hold(self, own: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
        """Whether points ``others`` (n, m, q) lie in the gap of each of ``own`` (n, q), shape (n, m)."""
        near = (others - own[:, None]).norm(dim=2) < self.radius[:, None]
        return near | ((others - self.centre[:, None]).norm(dim=2) < self.reach[:, None])


@dataclass(frozen=True)
class Voids:
    """Where points without data lie: ``distance`` (T,) to the nearest datum, ``reach`` (T,) of the largest ball without
    data around one of them that holds the point, and how far its middle is, ``offset`` (T,).
    """

    distance: torch.Tensor
    reach: torch.Tensor
    offset: torch.Tensor

    def some(self, chosen: torch.Tensor) -> Voids:
        """Those at the places ``chosen``: a mask (T,) or indices."""
        return Voids(self.distance[chosen], self.reach[chosen], self.offset[chosen])


@dataclass(frozen=True)
class _Level:
    """Boxes that hold ``size`` points each, but for the last: their corners, each (b, q)."""

    size: int
    low: torch.Tensor
    high: torch.Tensor

    def apart(self, places: torch.Tensor, box: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """How far the nearest and the furthest point of a ``box`` (m,) may be from each of ``places`` (m, q)."""
        below, above = self.low[box] - places, places - self.high[box]
        return torch.maximum(below, above).clamp_min_(0).norm(dim=1), torch.minimum(below, above).norm(dim=1)


class Boxes:
    """The ``points`` (n, q) in boxes, in an ``order`` (n,) in which neighbours stand together, mostly."""

    def __init__(self, points: torch.Tensor, order: torch.Tensor) -> None:
        self._points, self._order, self._levels = points[order], order, list[_Level]()
        low = high = self._points
        size, times = 1, _LEAF
        while not self._levels or len(low) > _FEW:
            missing = (-len(low)) % times  # what fills up the last box repeats its last point
            low, high = (torch.cat([each, each[-1:].expand(missing, -1)]) for each in (low, high))
            low, high = low.unflatten(0, (-1, times)).amin(dim=1), high.unflatten(0, (-1, times)).amax(dim=1)
            size, times = size * times, _TIMES
            self._levels.insert(0, _Level(size, low, high))

    def beyond(self, own: torch.Tensor, gaps: Gaps, k: int) -> torch.Tensor:
        """The k points nearest to each of ``own`` (n, q) outside of its gap, nearest first: (n, k), −1 for none."""
        found = torch.full((len(own), k), -1, device=own.device)
        first = torch.arange(len(self._levels[0].low), device=own.device)
        for rows in torch.arange(len(own), device=own.device).split(_ROWS):
            row, box = rows.repeat_interleave(len(first)), first.repeat(len(rows))
            self._descend(0, row, box, own, gaps, torch.full_like(own[:, 0], torch.inf), found)
        return found

    def _descend(
        self,
        depth: int,
        row: torch.Tensor,
        box: torch.Tensor,
        own: torch.Tensor,
        gaps: Gaps,
        limit: torch.Tensor,
        found: torch.Tensor,
    ) -> None:
        """Look for ``row`` (m,) in ``box`` (m,) of a level; nobody needs what is further than its ``limit`` (n,)."""
        if row.numel() * own.shape[1] > _NUMBERS and row[0] != row[-1]:  # so many at once that half as many are quicker
            middle = int(torch.searchsorted(row, (row[0] + row[-1]) // 2, right=True))
            for part in (slice(None, middle), slice(middle, None)):
                self._descend(depth, row[part], box[part], own, gaps, limit, found)
            return
        k, n, radius, reach = found.shape[1], len(self._order), gaps.radius[row], gaps.reach[row]
        if depth == len(self._levels):
            apart = (self._points[box] - own[row]).norm(dim=1)
            outside = (apart >= radius) & ((self._points[box] - gaps.centre[row]).norm(dim=1) >= reach)
            row, box, apart = (each[outside & (apart <= limit[row])] for each in (row, box, apart))
            order, rank = _ranked(row, apart)
            first = rank < k
            found[row[order[first]], rank[first]] = self._order[box[order[first]]]
            return
        level = self._levels[depth]
        near, far = level.apart(own[row], box)
        near_centre, far_centre = level.apart(gaps.centre[row], box)
        whole = (near >= radius) & (near_centre >= reach) & ((box + 1) * level.size <= n) & (far < limit[row])
        order, rank = _ranked(row[whole], far[whole])
        last = whole.nonzero()[order[rank == -(-k // level.size) - 1], 0]  # so many boxes hold k points
        limit[row[last]] = far[last]
        kept = (far >= radius) & (far_centre >= reach) & (near <= limit[row])
        below = _LEAF if depth + 1 == len(self._levels) else _TIMES
        within = n if depth + 1 == len(self._levels) else len(self._levels[depth + 1].low)
        row = row[kept].repeat_interleave(below)
        box = (box[kept, None] * below + torch.arange(below, device=box.device)).flatten()
        there = box < within
        self._descend(depth + 1, row[there], box[there], own, gaps, limit, found)


def _ranked(row: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """An order (m,) by ``row`` (m,), which ascends, and by ``value`` within each, and the rank there of each, (m,)."""
    order = value.argsort()
    order = order[row[order].argsort(stable=True)]
    _, counts = row.unique_consecutive(return_counts=True)
    starts = (counts.cumsum(0) - counts).repeat_interleave(counts)
    return order, torch.arange(len(row), device=row.device) - starts

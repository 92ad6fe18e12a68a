"""How far points are from the data, and who is nearest outside of a gap."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import torch

from ..gram.neighbours import Search, search
from ..predicting.conditioned import Conditioned

# Beyond gaps that hold more data than ``_WIDE``, neighbours are searched among a quarter of the data, and so on, as
# long as there are eight times as many: k neighbours then lie within the part k / ``_WIDE`` of the radius more.
_WIDE, _THINNED = 2**14, 8
_ENTRIES = 2**21  # so many neighbours are looked at at once
_VOIDS = 3000  # so many points say how wide gaps are
_REMEMBERED = 4  # so many answers about neighbours are kept


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


class Geometry:
    """The training ``points`` (d, q) in lengthscales, or in spreads where no part of the kernel falls with distance."""

    def __init__(self, model: Conditioned) -> None:
        self._model = model
        scaled = model.gram.search_coordinates()
        self._spread: torch.Tensor | None = None
        if scaled is None:
            spread = model.X.std(dim=0, correction=0)
            self._spread = torch.where(spread > 0, spread, 1.0)
            scaled = model.X / self._spread
        self.points = scaled
        self._memory: dict[Hashable, torch.Tensor] = {}
        known = model.gram.neighbours
        self.search: Search = search(scaled) if known is None else known

    def remembered(self, asked: Hashable, compute: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What ``compute`` gives, or gave when the same was ``asked`` for lately."""
        if asked not in self._memory:
            self._memory[asked] = compute()
            while len(self._memory) > _REMEMBERED:
                del self._memory[next(iter(self._memory))]
        return self._memory[asked]

    def coordinates(self, test: torch.Tensor) -> torch.Tensor:
        """Points (T, p) in these coordinates, shape (T, q)."""
        if self._spread is not None:
            return test / self._spread
        cross = self._model.cross(test)
        found = cross.gram.search_coordinates(cross.test)
        assert found is not None
        return found

    def distance(self, test: torch.Tensor) -> torch.Tensor:
        """How far each of ``test`` (T, p) is from the nearest training point, shape (T,)."""
        at = self.coordinates(test)
        return (self.points[self.search.query(at, 1)[:, 0]] - at).norm(dim=1)

    def beyond(self, rows: torch.Tensor, gaps: Gaps, k: int, among: torch.Tensor | None = None) -> torch.Tensor:
        """The k nearest others, of ``among`` (m,), beyond each gap of ``rows`` (n,), in order: (n, k), −1 for none."""
        known, tree = self.points, self.search
        if among is not None:
            known, tree = known[among], search(known[among])
        found = rows.new_full((len(rows), k), -1)
        todo, ask = torch.arange(len(rows), device=rows.device), min(k + 1, len(known))
        while len(todo) and k:
            later = []
            for part in todo.split(max(1, _ENTRIES // ask)):
                centres = self.points[rows[part]]
                near = tree.query(centres, ask)
                indices = near if among is None else among[near]
                allowed = indices != rows[part, None]
                if gaps.any:
                    allowed &= ~gaps.some(part).hold(centres, known[near])
                rank = allowed.cumsum(dim=1)
                allowed &= rank <= k
                enough = (rank[:, -1] >= k) | (ask == len(known))
                row, column = (allowed & enough[:, None]).nonzero(as_tuple=True)
                found[part[row], rank[row, column] - 1] = indices[row, column]
                later.append(part[~enough])
            todo, ask = torch.cat(later), min(2 * ask, len(known))
            if ask > _WIDE and len(known) > _THINNED * _WIDE:
                # a gap with so many data: of one in four, those that are nearest beyond it are hardly further away
                kept = torch.randperm(len(known), generator=torch.Generator().manual_seed(0))[: len(known) // 4]
                among = kept.to(rows.device) if among is None else among[kept.to(rows.device)]
                known = self.points[among]
                tree, ask = search(known), ask // 4
        return found

    def reach(self, rows: torch.Tensor, k: int) -> torch.Tensor:
        """How far the k-th neighbour of each of the training points ``rows`` (n,) is, shape (n,)."""
        own = self.points[rows]
        last = self.search.query(own, min(k + 1, len(self.points)))[:, -1]
        return (self.points[last] - own).norm(dim=1)

    def voids(self, test: torch.Tensor, generator: torch.Generator) -> Voids:
        """The voids that some of ``test`` (T, p) lie in, a sample of at most a few thousand."""
        test = test[torch.randperm(len(test), generator=generator)[:_VOIDS].to(test.device)]
        at, distance = self.coordinates(test), self.distance(test)
        apart = torch.cdist(at, at)
        reach, middle = torch.where(apart < distance, distance, 0.0).max(dim=1)
        return Voids(distance, reach, apart.gather(1, middle[:, None])[:, 0])

    def like(self, rows: torch.Tensor, voids: Voids, generator: torch.Generator) -> Gaps:
        """Gaps around training points ``rows`` (n,) as wide as ``voids`` (of n), in any direction."""
        own = self.points[rows]
        way = torch.randn(own.shape, generator=generator, dtype=torch.float64).to(own)
        way *= (voids.offset / way.norm(dim=1).clamp_min(torch.finfo(way.dtype).tiny))[:, None]
        centre = self.points[self.search.query(own + way, 1)[:, 0]]  # where data lie, on the globe for example
        shift = (centre - own).norm(dim=1) - voids.offset  # the point stays as deep in its gap
        radius = torch.minimum(voids.distance, self.widest(own))
        return Gaps(radius, centre, torch.minimum(voids.reach + shift, self.widest(centre)))

    def widest(self, centres: torch.Tensor) -> torch.Tensor:
        """The widest gaps around ``centres`` (n, q) that leave about half of the training points, shape (n,)."""
        some = self.points[:: max(1, len(self.points) // _VOIDS)]
        return torch.cat([torch.cdist(part, some).median(dim=1).values for part in centres.split(1000)])

    def single(self, rows: torch.Tensor) -> Gaps:
        """No gap but the training points ``rows`` (n,) themselves."""
        nothing = self.points.new_zeros(len(rows))
        return Gaps(nothing, self.points[rows], nothing)

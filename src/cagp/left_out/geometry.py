"""How far points are from the data, and who is nearest outside of a gap."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable
from functools import cached_property

import torch

from ..gram.neighbours import ScaledSearch, Search, TreeSearch, search
from ..predicting.conditioned import Conditioned
from .gaps import Boxes, Gaps, Voids

_ENTRIES = 2**21  # so many neighbours are looked at at once
_WIDER = 8  # where too few lie beyond a gap, so many times as many are looked at
_VOIDS = 3000  # so many points say how wide gaps are
_SHARED_FROM = 200_000  # a tree of so many points takes longer than all that is asked of it here
_REMEMBERED = 8  # so many answers about neighbours are kept


class Geometry:
    """The training ``points`` (d, q) in lengthscales, or in spreads where no part of the kernel falls with distance.

    Very many are searched in the tree of ``another``, where they are the same in other units.
    """

    def __init__(self, model: Conditioned, another: Geometry | None = None) -> None:
        self.model = model
        scaled = model.gram.search_coordinates()
        self._spread: torch.Tensor | None = None
        if scaled is None:
            spread = model.X.std(dim=0, correction=0)
            self._spread = torch.where(spread > 0, spread, 1.0)
            scaled = model.X / self._spread
        self.points = scaled
        self._memory: dict[Hashable, torch.Tensor] = {}
        shared = None
        if another is not None and len(scaled) >= _SHARED_FROM and isinstance(another.search, TreeSearch):
            shared = ScaledSearch.of(another.search, scaled)
        self.search: Search | ScaledSearch = shared or model.gram.neighbours or search(scaled)

    def remembered(
        self, what: Hashable, rows: torch.Tensor, gaps: Gaps, compute: Callable[[], torch.Tensor]
    ) -> torch.Tensor:
        """What ``compute`` gives, or gave lately for the same ``what``, ``rows`` (n,) and ``gaps``.

        The models of a mixture, and candidates that are compared, ask the same one after another.
        """
        parts = (each.cpu().numpy().tobytes() for each in (rows, gaps.radius, gaps.centre, gaps.reach))
        asked = (what, *(hashlib.sha256(each).digest() for each in parts))
        if asked not in self._memory:
            self._memory[asked] = compute()
            while len(self._memory) > _REMEMBERED:
                del self._memory[next(iter(self._memory))]
        return self._memory[asked]

    def coordinates(self, test: torch.Tensor) -> torch.Tensor:
        """Points (T, p) in these coordinates, shape (T, q)."""
        if self._spread is not None:
            return test / self._spread
        cross = self.model.cross(test)
        found = cross.gram.search_coordinates(cross.test)
        assert found is not None
        return found

    def distance(self, test: torch.Tensor) -> torch.Tensor:
        """How far each of ``test`` (T, p) is from the nearest training point, shape (T,)."""
        at = self.coordinates(test)
        return (self.points[self.search.query(at, 1)[:, 0]] - at).norm(dim=1)

    def gap(self, rows: torch.Tensor, gaps: Gaps) -> torch.Tensor:
        """How far the nearest training point beyond the gap of each of ``rows`` (n,) is; infinite if there is none."""
        return self.remembered("gap", rows, gaps, lambda: self.distance_of(self.beyond(rows, gaps, 1)[:, 0], rows))

    def distance_of(self, others: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """How far training points ``others`` (…, n), or −1 for none, are from ``rows`` (n,): infinite for none."""
        return (self.points[others] - self.points[rows]).norm(dim=-1).masked_fill(others < 0, torch.inf)

    def beyond(self, rows: torch.Tensor, gaps: Gaps, k: int, among: torch.Tensor | None = None) -> torch.Tensor:
        """The k nearest others, of ``among`` (m,), beyond each gap of ``rows`` (n,), in order: (n, k), −1 for none."""
        known = self.points if among is None else self.points[among]
        tree, found = self.search if among is None else search(known), rows.new_full((len(rows), k), -1)
        if not k or not len(known):
            return found

        def take(near: torch.Tensor, part: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
            indices = near if among is None else among[near]
            allowed = allowed & (indices != rows[part, None])
            rank = allowed.cumsum(dim=1)
            row, column = (allowed & (rank <= k)).nonzero(as_tuple=True)
            found[part[row], rank[row, column] - 1] = indices[row, column]
            return part[rank[:, -1] < k]

        left, ask = torch.arange(len(rows), device=rows.device), 0
        for more in (1, _WIDER):  # the neighbours of most are beyond a gap, and those of many a few further on
            if not len(left) or ask == len(known):
                return found
            todo, ask = [], min(more * (k + 1), len(known))  # one more: a point finds itself
            for part in left.split(max(1, _ENTRIES // ask)):
                own, around = self.points[rows[part]], gaps.some(part)
                near = tree.query(own, ask)
                todo.append(take(near, part, ~around.hold(own, known[near]) if around.any else near >= 0))
            left = torch.cat(todo)
        if len(left) and ask < len(known):
            boxes = Boxes(known, tree.order) if among is not None else self._boxes
            near = boxes.beyond(self.points[rows[left]], gaps.some(left), min(k + 1, len(known)))
            take(near, left, near >= 0)
        return found

    @cached_property
    def _boxes(self) -> Boxes:
        return Boxes(self.points, self.search.order)

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

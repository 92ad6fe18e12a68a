"""Where the training points lie, in the coordinates in which the kernel falls with distance, and who is near."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch

from ..gram.neighbours import ScaledSearch, Search, TreeSearch, search
from ..predicting.conditioned import Conditioned

_FEW, _SAMPLE = 200, 10_000  # so many points, beside so many others, say how many are near each other
_SPACED = 1000  # so many points say how far each usually is from the nearest other one
_SHARED_FROM = 200_000  # a tree of so many points takes longer than all that is asked of it here
# Points to be predicted lie in gaps where nine in ten are this much further from data than data are from each other.
_MOSTLY, _AMONG, _WIDER = 0.9, 1.5, 3.0
_BLOCKS = 10  # at least
_ROUND = 1e-9  # three coordinates whose squares add up to the same for all points, to so much of it, are on a globe


class Geometry:
    """The training ``points`` (d, q) in lengthscales, or in spreads where no part of the kernel falls with distance.

    Very many are searched in the tree of ``another``, where they are the same in other units.
    """

    def __init__(self, model: Conditioned, another: Geometry | None = None) -> None:
        self.model, self._another = model, another
        scaled = model.gram.search_coordinates()
        self._spread: torch.Tensor | None = None
        if scaled is None:
            spread = model.X.std(dim=0, correction=0)
            self._spread = torch.where(spread > 0, spread, 1.0)
            scaled = model.X / self._spread
        self.points = scaled

    @cached_property
    def search(self) -> Search | ScaledSearch:
        """The points, ready for questions about neighbours."""
        shared, other = None, self._another
        if other is not None and len(self.points) >= _SHARED_FROM and isinstance(other.search, TreeSearch):
            shared = ScaledSearch.of(other.search, self.points)
        return shared or self.model.gram.neighbours or search(self.points)

    def coordinates(self, test: torch.Tensor) -> torch.Tensor:
        """Points (T, p) in these coordinates, shape (T, q)."""
        if self._spread is not None:
            return test / self._spread
        found = self.model.gram.search_coordinates(self.model.embedded(test))
        assert found is not None
        return found

    def distance(self, test: torch.Tensor) -> torch.Tensor:
        """How far each of ``test`` (T, p) is from the nearest training point, shape (T,)."""
        return self.apart(self.coordinates(test))

    def apart(self, at: torch.Tensor) -> torch.Tensor:
        """How far each of the places ``at`` (T, q) is from the nearest training point, shape (T,)."""
        return (self.points[self.search.query(at, 1)[:, 0]] - at).norm(dim=1)

    def distance_of(self, others: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """How far the nearest of training points ``others`` (n, k), or −1, is from each of ``rows`` (n,): infinite
        where there is none.
        """
        apart = (self.points[others] - self.points[rows, None]).norm(dim=2).masked_fill(others < 0, torch.inf)
        return apart.amin(dim=1) if others.shape[1] else apart.new_full((len(rows),), torch.inf)

    def others(self, rows: torch.Tensor, k: int, among: torch.Tensor | None = None) -> torch.Tensor:
        """The k training points, of ``among`` (m,), nearest to each of ``rows`` (n,) but itself: (n, k), or −1."""
        return self.nearest(self.points[rows], k, among, rows)

    def nearest(
        self, at: torch.Tensor, k: int, among: torch.Tensor | None = None, rows: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The k training points, of ``among`` (m,), nearest to places ``at`` (n, q) but ``rows`` (n,): (n, k), or −1.

        Without ``rows`` a training point at the very place is passed over, as if it were not known.
        """
        size = len(self.points) if among is None else len(among)
        tree = self.search if among is None else search(self.points[among])
        near = tree.query(at, min(k + 1, size))
        found = near if among is None else among[near]
        if rows is None:
            own = (self.points[found[:, :1]] == at[:, None]).all(dim=2)
            own = torch.nn.functional.pad(own, (0, found.shape[1] - 1))
        else:
            own = found == rows[:, None]
        order = own.to(torch.uint8).argsort(dim=1, stable=True)
        found = found.masked_fill(own, -1).gather(1, order)[:, :k]
        return torch.nn.functional.pad(found, (0, k - found.shape[1]), value=-1)

    def reach(self, rows: torch.Tensor, k: int) -> torch.Tensor:
        """How far the k-th neighbour of each of the training points ``rows`` (n,) is, shape (n,)."""
        own = self.points[rows]
        last = self.search.query(own, min(k + 1, len(self.points)))[:, -1]
        return (self.points[last] - own).norm(dim=1)

    @cached_property
    def spacing(self) -> float:
        """How far a training point usually is from the nearest other one; a guess."""
        some = torch.linspace(0, len(self.points) - 1, min(_SPACED, len(self.points)), device=self.points.device)
        return float(self.reach(some.long(), 1).median())

    def within(self, rows: torch.Tensor, radius: torch.Tensor) -> float:
        """How many training points are nearer to one of ``rows`` (n,) than its ``radius`` (n,), on average; a guess."""
        among = self.points[:: -(-len(self.points) // _SAMPLE)]
        near = torch.cdist(self.points[rows[:_FEW]], among) <= radius[:_FEW, None]
        return float(near.double().sum(dim=1).mean()) * len(self.points) / len(among)

    @cached_property
    def _globe(self) -> int | None:
        """The first of three coordinates that are those of points on a globe, if any are."""
        alike = max(_ROUND, 50 * torch.finfo(self.points.dtype).eps)
        for first in range(self.points.shape[1] - 2):
            squares = self.points[:, first : first + 3].square().sum(dim=1)
            if bool(squares[0] > 0) and bool(((squares - squares[0]).abs() <= alike * squares[0]).all()):
                return first
        return None

    def moved(self, offsets: torch.Tensor, start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
        """``offsets`` (n, k, q) from places ``start`` (n, q) as they are from ``end`` (n, q): turned with the globe."""
        first = self._globe
        if first is None:
            return offsets
        there = slice(first, first + 3)
        turned = offsets.clone()
        turned[..., there] = (offsets[..., there] @ _frame(start[:, there])) @ _frame(end[:, there]).mT
        return turned


def blocks_like(geometry: Geometry, test: torch.Tensor, seed: int) -> np.ndarray | None:
    """Blocks (n,) of training points as wide as the gaps around ``test`` (T, p); None where these lie among the data.

    Of the points in a square gap nine in ten are within a third of its width of the data.
    """
    draws, own = torch.Generator().manual_seed(seed), geometry.points
    rows, at = (torch.randperm(size, generator=draws)[:_SAMPLE].to(own.device) for size in (len(own), len(test)))
    usual = float(geometry.distance_of(geometry.others(rows, 1), rows).quantile(_MOSTLY))
    far = float(geometry.distance(test[at]).quantile(_MOSTLY))
    if far <= _AMONG * usual:
        return None
    width = _WIDER * far
    apart = (own - own.amin(dim=0) + width * torch.rand(own.shape[1], generator=draws).to(own)).cpu().numpy()
    wanted = min(_BLOCKS, len(np.unique(apart, axis=0)))  # no width tells places that are the same apart
    while True:  # fewer than a few blocks for each fold are halved
        _, block = np.unique(np.floor(apart / width), axis=0, return_inverse=True)
        if block.max() + 1 >= wanted:
            return np.asarray(block.reshape(-1))
        width = width / 2


def _frame(at: torch.Tensor) -> torch.Tensor:
    """East, north and up at places (n, 3) of a globe, as columns (n, 3, 3)."""
    up = at / at.norm(dim=1, keepdim=True)
    axis = torch.zeros_like(up)
    pole = up[:, 2].abs() > 1 - _ROUND
    axis[:, 2], axis[pole, 2], axis[pole, 0] = 1.0, 0.0, 1.0
    east = torch.linalg.cross(axis, up)
    east = east / east.norm(dim=1, keepdim=True)
    return torch.stack([east, torch.linalg.cross(up, east), up], dim=2)

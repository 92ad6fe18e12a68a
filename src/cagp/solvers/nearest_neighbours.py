"""Exact kriging on the nearest training points of each test point: the way to millions of test points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights, zero_weights
from ..errors import InputError, InputTypeError, NotPositiveDefiniteError
from ..gram import Cross, Functionals, Gram
from ..gram.neighbours import TreeSearch
from ..support.memory import require
from ..support.validation import count
from .base import CalibratedSolver, Description, Prepared
from .combined_neighbours import combined, functionals_at_once
from .local_kriging import COPIES, LocalKriging, Neighbourhoods
from .neighbourhoods import WIDEST, Cells, FarSubset, levels_of, with_far

_BATCHES_AT_ONCE = {"cpu": 64, "cuda": 1}  # how many batches the threads share out before Ctrl-C is heard
_CELLS_AT_ONCE = 4096  # of cells, before Ctrl-C is heard
# For the weights of test points that share neighbours: much larger tensors come from the operating system each time,
# which takes longer than to fill them.
_SHARING_BYTES = 2**23
_FAR = 5  # of so many neighbours one more is far, where a trend needs it and nothing else is said


@dataclass(frozen=True, repr=False)
class NearestNeighbours(CalibratedSolver):
    """For each test point the exact weights on its ``k`` nearest training points, zero on all others.

    Near is what the kernel calls near: a KD tree in its own scaled coordinates where it falls with distance; of a sum
    in those of the term with the most variance; the largest correlations where nothing falls with distance.
    ``far`` more points, for the long range and the trend, are the nearest of a few thousand, of a few hundred, of a few
    dozen training points drawn with ``seed``; left out, there are a fifth of ``k`` where the prior has a trend with
    unknown coefficients, and none otherwise.

    On a CPU all test points in a cell of space are solved with the neighbours of its centre and its corners, at most
    twice as many: one factorisation for many. The cells are fixed by the training points and ``k``, so the same point
    gets the same answer whatever else is asked. Where cells would be too small for several points, and where ``shared``
    is False, every test point has its own neighbours.

    With a trend each neighbourhood is solved by universal kriging. Calibrated, with the exact covariance between test
    points too. Averages add up the weights of their points, and correct the sum on up to a thousand training points.
    """

    k: int = 100
    far: int | None = field(default=None, metadata={"absent": 0})
    seed: int = field(default=0, metadata={"absent": 0})
    shared: bool = field(default=True, metadata={"absent": False})

    cost = "O(k³ T) time after a search tree, whatever d is, and less where test points share; no pass over G"
    corrects = False
    worth_threads = False

    def __post_init__(self) -> None:
        count(self.k, "k")
        if self.far is not None:
            count(self.far, "far")
        count(self.seed, "seed")
        if not isinstance(self.shared, bool):
            raise InputTypeError(f"shared must be True or False, got {self.shared!r}")

    def prepare(self, gram: Gram) -> PreparedNearestNeighbours:
        k, far = min(self.k, gram.size), self.far_of(gram.basis is not None)
        levels = levels_of(gram, k, far, self.seed) if far and k < gram.size else []
        size = k + sum(level.take for level in levels)
        n_bytes = COPIES * size * size * gram.dtype.itemsize
        require(n_bytes, gram.budget, f"the Gram matrix of {size} neighbours", "choose a smaller k")
        return PreparedNearestNeighbours(self, gram, k, levels)

    def far_of(self, trend: bool) -> int:
        """How many far points a test point has, where the prior has a ``trend`` with unknown coefficients or not."""
        return self.far if self.far is not None else self.k // _FAR if trend else 0

    def description(self, size: int) -> Description:
        k = min(max(2 * self.k, 1), size)
        more = f"{k} neighbours instead of {self.k}"
        return Description(self.k >= size, min(self.k, size), "k", replace(self, k=k), more)

    def operations(self, size: int, tests: int) -> Operations:
        k = min(self.k, size)
        tree = 3e4 * size  # as long as so many flops
        return Operations(flops=tree + tests * k**3 / 3, kernel_values=2.0 * tests * k * k)


class PreparedNearestNeighbours(Prepared):
    unbiased = True

    def __init__(self, solver: NearestNeighbours, gram: Gram, k: int, levels: list[FarSubset]) -> None:
        super().__init__(solver, gram)
        self.near, self._levels, self._shares = k, levels, solver.shared  # the first of its members are so many nearest
        self.members_each = k + sum(level.take for level in levels)  # how many neighbours a test point has
        self._cell_levels = [level.with_more(WIDEST) for level in levels]
        # how many neighbours a cell has at most
        self._wide = min(int(WIDEST * k), gram.size) + sum(each.take for each in self._cell_levels)
        self._kriging = LocalKriging(gram)
        self._trend = self._kriging.trend

    @property
    def numbers_per_test_point(self) -> int:
        # the blocks are made in batches of their own; a test point may be alone in its cell, whose neighbours are kept
        return 6 * (self._wide if self.gram.device.type == "cpu" else self.members_each)

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        yield from ()  # it knows test points only

    @cached_property
    def _cells(self) -> Cells | None:
        """The cells that test points share, on a CPU, where there is a search tree; None where none are worth it."""
        neighbours, block = self.gram.neighbours, COPIES * self._wide**2 * self.gram.dtype.itemsize
        if not self._shares or not isinstance(neighbours, TreeSearch) or block > self.gram.working_budget:
            return None
        return Cells.of(neighbours, self.near)

    def _places(self, cross: Cross) -> np.ndarray:
        coordinates = self.gram.search_coordinates(cross.seen_by(self.gram).test)
        assert coordinates is not None
        return coordinates.double().numpy()

    def cells(self, cross: Cross) -> tuple[np.ndarray, torch.Tensor]:
        """The cell of each test point (T,), or −1, and the neighbours of the cells (n, wide), then −1."""
        if self._cells is None:
            return np.full(cross.size, -1), torch.empty(0, self._wide, dtype=torch.int64)
        cell, centres, found = self._cells.find(self._places(cross))
        near = torch.from_numpy(found)
        if not self._levels:
            return cell, near
        near = with_far(near, self._cell_levels, lambda level: level.nearest_to(torch.from_numpy(centres)))
        return cell, near.gather(1, (near < 0).to(torch.uint8).argsort(dim=1, stable=True))

    def pieces(self, cross: Cross) -> list[torch.Tensor]:
        """A few test points at a time; those of a cell mostly stay together, because each piece solves it anew."""
        if isinstance(cross, Functionals):
            return functionals_at_once(cross)
        self.gram.expect(cross.size * self.members_each**2)
        if self._cells is None:
            batches = _BATCHES_AT_ONCE.get(self.gram.device.type, 1)
            return list(torch.arange(cross.size).split(self._kriging.batch(self.members_each) * batches))
        points = max(1, _SHARING_BYTES // (self._wide * self.gram.dtype.itemsize))
        found = self._cells.pieces(self._places(cross), points, _CELLS_AT_ONCE)
        return [torch.from_numpy(piece) for piece in found]

    def _own(self, cross: Cross) -> torch.Tensor:
        """The neighbours of each test point by itself, shape (T, k + far); −1 where there are fewer."""
        nobody = torch.empty(cross.size, 0, dtype=torch.int64, device=self.gram.device)
        near = cross.nearest(self.near) if self.near else nobody
        return with_far(near, self._levels, lambda level: level.nearest(cross))

    def members(self, nearest: Callable[[int, torch.Tensor | None], torch.Tensor]) -> torch.Tensor:
        """Neighbours (T, k + far), or −1, by another rule: ``nearest(n, among)`` gives n of all, or ``among`` (m,)."""
        return with_far(nearest(self.near, None), self._levels, lambda level: nearest(level.ask, level.points))

    @property
    def anchors(self) -> torch.Tensor:
        """Training points (q,) that determine the trend by themselves; none where the mean is known."""
        none = torch.empty(0, dtype=torch.int64, device=self.gram.device)
        return none if self._trend is None else self._trend.anchors

    def weights(self, cross: Cross) -> Iterator[Weights]:
        yield zero_weights(cross.size, self.gram)
        if self.members_each or self._trend is not None:
            yield self._solve(cross)

    def final(self, cross: Cross) -> Weights | None:
        return self._solve(cross) if self.members_each or self._trend is not None else None

    def where_possible(self, cross: Cross) -> Weights:
        """The weights on each test point's own neighbours; where that fails zero, or useless: the reduction is −∞."""
        if isinstance(cross, Functionals):
            try:
                return self._solve(cross)
            except (InputError, NotPositiveDefiniteError):
                useless = zero_weights(cross.size, self.gram)
                return replace(useless, reduction=torch.full_like(useless.reduction, -torch.inf))
        return self._solve(cross, strict=False, share=False)

    def weights_on(self, cross: Cross, members: torch.Tensor, anchors: torch.Tensor, strict: bool = False) -> Weights:
        """The same on given ``members`` (T, m), or −1, and ``anchors`` (T, q), or −1, where a trend needs them.

        Where that fails it is an error if ``strict``.
        """
        self.gram.expect(members.numel() * members.shape[1])
        asked = Neighbourhoods.single(members, np.arange(cross.size), anchors)
        return self._kriging.weights(cross, [asked], strict)

    def _solve(self, cross: Cross, strict: bool = True, share: bool = True) -> Weights:
        if isinstance(cross, Functionals):
            return combined(cross, self.pieces(cross.points), self._solve, self._trend)
        asked: list[Neighbourhoods] = []
        alone = np.arange(cross.size)
        if share and self._cells is not None:
            cell, members = self.cells(cross)
            alone, order = np.flatnonzero(cell < 0), np.argsort(cell, kind="stable")[np.count_nonzero(cell < 0) :]
            starts = np.append(0, np.cumsum(np.bincount(cell[order], minlength=len(members))))
            asked.append(Neighbourhoods(members, order, starts))
        if len(alone):
            own = cross if len(alone) == cross.size else cross.rows(torch.from_numpy(alone).to(self.gram.device))
            asked.append(Neighbourhoods.single(self._own(own), alone))
        return self._kriging.weights(cross, asked, strict)

    def stopped(self, iteration: int) -> str:
        if self.near == self.gram.size:
            return f"NearestNeighbours used all {self.near} training points: the posterior is exact."
        far = self.members_each - self.near
        which = f"{self.near} near and {far} far ones" if far else f"{self.near}"
        cells = f", or up to {self._wide} for all of a cell" if self._cells is not None else ""
        return f"NearestNeighbours used {which} of {self.gram.size} training points for each test point{cells}."

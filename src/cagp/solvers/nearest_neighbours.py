"""Exact kriging on the nearest training points of each test point: the way to millions of test points."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights, zero_weights
from ..errors import InputError, NotPositiveDefiniteError
from ..gram import Cross, Functionals, Gram
from ..gram.neighbourhoods import Neighbourhoods
from ..gram.neighbours import TreeSearch
from ..kernels import Embedding, map_embedding
from ..support.memory import require
from ..support.threads import share_out
from ..support.validation import count
from .base import CalibratedSolver, MoreWork, Prepared
from .combined_neighbours import combined, functionals_at_once
from .levels import Level, levels_of, with_far
from .local_trend import LocalTrend, constrained
from .sharing import WIDEST, Asked, shared_neighbourhoods

_BATCH_BYTES = {"cpu": 2**21, "cuda": 2**30}
"""For a batch of k × k blocks: small enough for the cache of a CPU core, large enough to fill a GPU."""

_BATCHES_AT_ONCE = {"cpu": 64, "cuda": 1}
"""How many batches the threads share out before Ctrl-C is heard."""

_SHARING_BYTES = 2**23
"""For the weights of test points that share neighbours, before Ctrl-C is heard. Several such tensors are made for
each piece; what is much larger is asked from the operating system each time, which takes longer than to fill it.
"""

_COMPILED_FROM = 4e7
"""Kernel values of one prediction from which on compiled code for them pays, which has to be loaded."""

_FAR = 5
"""Of so many neighbours one more is far, where a trend needs it and nothing else is said."""

_PADDED = 1.04
"""How much larger than the smallest the largest of a batch of neighbourhoods may be: all are made as large as it."""

_COPIES = 4
"""How many blocks are in memory for each one that is solved: itself, its factor and temporaries."""


@dataclass(frozen=True, repr=False)
class NearestNeighbours(CalibratedSolver):
    """For each test point the exact weights on its ``k`` nearest training points, zero on all others.

    Near is what the kernel calls near: a KD tree in its own scaled coordinates where it falls with distance; of a sum
    in those of the term with the most variance; the largest correlations where nothing falls with distance.
    ``far`` more points come from random subsets of the training points, each sparser than the one before: the nearest
    of a few thousand, of a few hundred, of a few dozen. They are there for the long range and the trend, which decide
    in gaps and beyond the data; left out, there are a fifth of ``k`` where the prior has a trend with unknown
    coefficients, and none otherwise. The subsets are drawn with ``seed``, once, without a look at y.

    On a CPU test points that lie close together are solved with the union of their neighbours, where that is faster.
    So the result at a point may depend on the other test points of the same call, but not on how the call is cut into
    batches; it is calibrated whatever they are, and its variance is never larger than with its own neighbours alone.
    With a trend of unknown coefficients each neighbourhood is solved by universal kriging: the weights are unbiased for
    every value of the coefficients. Calibrated, with the exact covariance between test points too.

    Averages add up the weights of their points, and correct the sum on up to a thousand training points; see
    ``combined_neighbours``.
    """

    k: int = 100
    far: int | None = field(default=None, metadata={"absent": 0})
    seed: int = field(default=0, metadata={"absent": 0})

    side = "test"
    name = "nearest-neighbours"
    cost = "O(k³ T) time after a search tree, whatever d is, and less where test points share; no pass over G"
    corrects = False

    def __post_init__(self) -> None:
        count(self.k, "k")
        if self.far is not None:
            count(self.far, "far")
        count(self.seed, "seed")

    def prepare(self, gram: Gram) -> PreparedNearestNeighbours:
        k, far = min(self.k, gram.size), self.far
        if far is None:
            far = 0 if gram.basis is None else self.k // _FAR
        levels = levels_of(gram, k, far, self.seed) if far and k < gram.size else []
        size = k + sum(level.take for level in levels)
        n_bytes = _COPIES * size * size * gram.dtype.itemsize
        require(n_bytes, gram.budget, f"the Gram matrix of {size} neighbours", "choose a smaller k")
        return PreparedNearestNeighbours(gram, k, levels)

    @property
    def effort(self) -> str:
        return "k"

    def is_exact(self, size: int) -> bool:
        return self.k >= size

    def points_used(self, size: int) -> int:
        return min(self.k, size)

    def with_more_work(self, size: int, seed: int = 0) -> MoreWork:
        k = min(max(2 * self.k, 1), size)
        return MoreWork(replace(self, k=k), f"{k} neighbours instead of {self.k}", counted=False)

    def operations(self, size: int, tests: int) -> Operations:
        k = min(self.k, size)
        tree = 3e4 * size  # as long as so many flops
        return Operations(flops=tree + tests * k**3 / 3, kernel_values=2.0 * tests * k * k)


class PreparedNearestNeighbours(Prepared):
    unbiased = True

    shares = True
    """Whether test points that lie close together share their neighbours; else each has its own, for comparison."""

    def __init__(self, gram: Gram, k: int, levels: list[Level]) -> None:
        super().__init__(gram)
        self._k, self._levels = k, levels
        self._size = k + sum(level.take for level in levels)
        self._trend = None if gram.basis is None else LocalTrend(gram)

    def _batch(self, size: int) -> int:
        """How many neighbourhoods of so many points are solved together."""
        block = size**2 * self.gram.dtype.itemsize
        allowed = min(_BATCH_BYTES.get(self.gram.device.type, 2**21), self.gram.working_budget // _COPIES)
        return max(1, allowed // max(1, block))

    @property
    def numbers_per_test_point(self) -> int:
        # the blocks are made in batches of their own; test points that share have wider rows of weights
        return round((4 * WIDEST if self.gram.device.type == "cpu" else 6) * self._size)

    def inverse(self, rows: torch.Tensor) -> torch.Tensor | None:
        return None

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        raise InputError("NearestNeighbours starts a chain; it cannot correct the weights of another solver")

    # --- who sees whom --------------------------------------------------------------------------------------------

    def arrange(self, cross: Cross) -> Cross:
        """With the groups of test points that share their neighbours; on a CPU, where there is a search tree."""
        if isinstance(cross, Functionals):
            return cross.at(self.arrange(cross.points))
        if cross.size * self._size**2 >= _COMPILED_FROM:
            self.gram.compile_blocks()
        test, neighbours = self.gram.search_coordinates(cross.seen_by(self.gram).test), self.gram.neighbours
        if not self.shares or test is None or not isinstance(neighbours, TreeSearch):
            return cross
        asked = [Asked(neighbours, None, self._k)] if self._k else []
        for level in self._levels:
            assert isinstance(level.search, TreeSearch)
            asked.append(Asked(level.search, level.points.numpy(), level.ask))
        found = shared_neighbourhoods(test.double().numpy(), asked, self._size) if asked else None
        return cross if found is None else cross.shared(found)

    def pieces(self, cross: Cross) -> list[torch.Tensor]:
        """A few test points at a time; those that share neighbours stay together."""
        if isinstance(cross, Functionals):
            return functionals_at_once(cross)
        few = self._batch(self._size) * _BATCHES_AT_ONCE.get(self.gram.device.type, 1)
        if cross.neighbourhoods is None:
            return list(torch.arange(cross.size).split(few))
        group, order = cross.neighbourhoods.group.cpu().sort(stable=True)
        alone = int((group < 0).sum())
        step = max(1, round(_SHARING_BYTES / (WIDEST * self._size * self.gram.dtype.itemsize)))
        # cut where the group of every so-many-th of them begins
        cuts = torch.searchsorted(group[alone:], group[alone::step].contiguous()).unique()[1:]
        pieces = [*order[:alone].split(few), *order[alone:].tensor_split(cuts)]
        return [piece for piece in pieces if len(piece)]

    def _own(self, cross: Cross) -> torch.Tensor:
        """The neighbours of each test point by itself, shape (T, k + far); −1 where there are fewer."""
        near = (
            cross.nearest(self._k)
            if self._k
            else torch.empty(cross.size, 0, dtype=torch.int64, device=self.gram.device)
        )
        return with_far(near, self._levels, lambda level: level.nearest(cross)) if self._levels else near

    def members(self, nearest: Callable[[int, torch.Tensor | None], torch.Tensor]) -> torch.Tensor:
        """The neighbours of test points by another rule, shape (T, k + far); −1 where there are fewer.

        ``nearest(n, among)`` gives the n nearest of all training points, or of those ``among`` (m,), shape (T, n).
        """
        return with_far(nearest(self._k, None), self._levels, lambda level: nearest(level.ask, level.points))

    @property
    def choice(self) -> tuple[int, ...]:
        """What the rule of ``members`` depends on, beside the training points."""
        return (self._k, *(n for level in self._levels for n in (level.take, level.ask, int(level.points[0]))))

    @property
    def members_each(self) -> int:
        """How many neighbours a test point has."""
        return self._size

    @property
    def anchors(self) -> torch.Tensor:
        """Training points (q,) that determine the trend by themselves; none where the mean is known."""
        none = torch.empty(0, dtype=torch.int64, device=self.gram.device)
        return none if self._trend is None else self._trend.anchors

    # --- weights --------------------------------------------------------------------------------------------------

    def weights(self, cross: Cross) -> Iterator[Weights]:
        yield zero_weights(cross.size, self.gram)
        if self._size or self._trend is not None:
            yield self._solve(cross)

    def final(self, cross: Cross) -> Weights | None:
        return self._solve(cross) if self._size or self._trend is not None else None

    def where_possible(self, cross: Cross) -> Weights:
        """The weights on each test point's own neighbours; where those are not positive definite to working precision,
        zero, or with a trend useless, which a reduction of −∞ says.
        """
        if isinstance(cross, Functionals):
            try:
                return self._solve(self.arrange(cross))
            except (InputError, NotPositiveDefiniteError):
                useless = zero_weights(cross.size, self.gram)
                return replace(useless, reduction=torch.full_like(useless.reduction, -torch.inf))
        return self._solve(cross, strict=False, share=False)

    def weights_on(self, cross: Cross, members: torch.Tensor, anchors: torch.Tensor) -> Weights:
        """The weights on given ``members`` (T, m) of each test point, which −1 fills up; where possible, as above.

        ``anchors`` (T, q), or −1, are added where the members do not determine the trend.
        """
        if members.numel() * members.shape[1] >= _COMPILED_FROM:
            self.gram.compile_blocks()
        step = min(self._batch(members.shape[1]), -(-len(members) // torch.get_num_threads()))
        rows = torch.arange(cross.size, device=self.gram.device)[:, None]
        parts = zip(members.split(step), rows.split(step), anchors.split(step), strict=True)
        return self._weights(cross, [_Task(*part) for part in parts], strict=False)

    def _solve(self, cross: Cross, strict: bool = True, share: bool = True) -> Weights:
        if isinstance(cross, Functionals):
            points = self.pieces(cross.points)
            return combined(cross, points, self._solve, self._trend)
        groups = cross.neighbourhoods if share else None
        alone = torch.arange(cross.size, device=self.gram.device)
        tasks: list[_Task] = []
        if groups is not None:
            tasks = self._shared_tasks(groups)
            alone = (groups.group < 0).nonzero()[:, 0]
        if len(alone):
            own = self._own(cross if groups is None else cross.rows(alone))
            step = min(self._batch(self._size), -(-len(own) // torch.get_num_threads()))  # something for every thread
            tasks += [_Task(*both) for both in zip(own.split(step), alone[:, None].split(step), strict=True)]
        return self._weights(cross, tasks, strict)

    def _shared_tasks(self, groups: Neighbourhoods) -> list[_Task]:
        """The groups of some test points in batches of about the same size."""
        ranked, order = groups.group.sort(stable=True)
        shared = ranked >= 0
        order, (label, rows) = order[shared], torch.unique_consecutive(ranked[shared], return_counts=True)
        starts = rows.cumsum(0) - rows
        sizes = groups.offsets.diff()[label]
        by_size = (sizes + (int(sizes.max()) + 1 if len(sizes) else 0) * rows).argsort()  # by rows, then by size
        tasks, start = [], 0
        sizes_in_order, rows_in_order = sizes[by_size].tolist(), rows[by_size].tolist()
        while start < len(by_size):
            stop, step = start + 1, self._batch(max(sizes_in_order[start], 1))
            while (
                stop < len(by_size)
                and rows_in_order[stop] == rows_in_order[start]
                and sizes_in_order[start] <= sizes_in_order[stop] <= _PADDED * sizes_in_order[start]
                and stop - start < step
            ):
                stop += 1
            chosen = by_size[start:stop]
            members = _ragged(groups.members, groups.offsets[label[chosen]], sizes[chosen])
            tasks.append(_Task(members, _ragged(order, starts[chosen], rows[chosen])))
            start = stop
        return tasks

    def _weights(self, cross: Cross, tasks: list[_Task], strict: bool) -> Weights:
        more = 0 if self._trend is None else len(self._trend.anchors)
        width = max((task.members.shape[1] for task in tasks), default=0) + more
        values, reduction = self.gram.noise.new_empty(cross.size, width), self.gram.noise.new_empty(cross.size)
        indices = torch.empty(cross.size, width, dtype=torch.int64, device=self.gram.device)
        h = None if self._trend is None or cross.basis is None else self._trend.at(cross.basis)

        def solve(task: _Task) -> None:
            rows, at = task.rows, task.rows.flatten()
            test = map_embedding(cross.test, lambda part: part[:, rows])
            members, found, taken = self._unbiased(test, None if h is None else h[rows], task, strict)
            n = members.shape[1]
            values[at, :n], reduction[at] = found.flatten(0, 1), taken.flatten()
            indices[at, :n] = members.clamp_min(0).repeat_interleave(rows.shape[1], dim=0)
            if n < width:
                values[at, n:] = indices[at, n:] = 0

        share_out(solve, tasks, self.gram.device)
        return Weights(values, reduction, 1, 0.0, self.gram.size, indices)

    def _unbiased(
        self, test: Embedding, h: torch.Tensor | None, task: _Task, strict: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The members (B, m), weights (B, s, m) and reductions (B, s) for B neighbourhoods of s test points each.

        Where the members do not determine the trend, the points that do are added to them.
        """
        members = task.members
        found, taken, poor = self._kriging(test, h, members, strict)
        if self._trend is None or not bool(poor.any()):
            return members, found, taken
        added = self._trend.anchors.expand(len(members), -1) if task.anchors is None else task.anchors
        known = (added[:, :, None] == members[:, None, :]).any(dim=2) | ~poor[:, None]
        members = torch.cat([members, added.masked_fill(known, -1)], dim=1)
        found = torch.nn.functional.pad(found, (0, added.shape[1]))
        some = map_embedding(test, lambda part: part[:, poor])
        found[poor], taken[poor], still = self._kriging(some, None if h is None else h[poor], members[poor], strict)
        if bool(still.any()) and strict:
            raise InputError(
                f"the neighbours of a test point (k={self._k}, far={self._size - self._k}) do not determine the trend; "
                "use a larger k or more far points"
            )
        useless = poor.nonzero()[:, 0][still]
        found[useless], taken[useless] = 0.0, -torch.inf
        return members, found, taken

    def _kriging(
        self, test: Embedding, h: torch.Tensor | None, members: torch.Tensor, strict: bool
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Weights (B, s, m), reductions (B, s), and which neighbourhoods do not determine the trend (B,)."""
        missing = members < 0
        fewer = bool(missing.any())
        index = members.clamp_min(0) if fewer else members
        with self.gram.systems(test, index) as (G, V):
            if fewer:  # a point that has nothing to do with anything
                G.masked_fill_(missing[:, :, None], 0).masked_fill_(missing[:, None, :], 0)
                G.diagonal(dim1=1, dim2=2).masked_fill_(missing, 1)
                V.masked_fill_(missing[:, None, :], 0)
            factors, info = torch.linalg.cholesky_ex(G)
            if strict and bool(info.any()):
                raise NotPositiveDefiniteError(
                    f"the Gram matrix of the {members.shape[1]} neighbours of a test point is not positive definite to "
                    "working precision; a larger noise_variance or a smaller k helps"
                )
            half = torch.linalg.solve_triangular(factors, V.mT, upper=False)
        taken, failed = half.square().sum(dim=1), info > 0
        poor = torch.zeros_like(failed)
        if self._trend is not None and h is not None:
            basis = self._trend.basis[index].masked_fill(missing[:, :, None], 0)
            whitened = torch.linalg.solve_triangular(factors, basis, upper=False)
            half, cost, poor = constrained(half, whitened, h)
            taken = taken - cost
            poor &= ~failed
        values = torch.linalg.solve_triangular(factors.mT, half, upper=True).mT
        if bool(failed.any()):
            values = values.masked_fill(failed[:, None, None], 0)
            taken = taken.masked_fill(failed[:, None], 0 if self._trend is None else -torch.inf)
        return values, taken, poor

    def stopped(self, iteration: int) -> str:
        if self._k == self.gram.size:
            return f"NearestNeighbours used all {self._k} training points: the posterior is exact."
        far = self._size - self._k
        which = f"{self._k} near and {far} far ones" if far else f"{self._k}"
        return f"NearestNeighbours used {which} of {self.gram.size} training points for each test point."


@dataclass(frozen=True)
class _Task:
    """Neighbourhoods with training points ``members`` (B, m), which −1 fills up, and test points ``rows`` (B, s).

    ``anchors`` (B, q) are added where the members do not determine the trend, by default the trend's own.
    """

    members: torch.Tensor
    rows: torch.Tensor
    anchors: torch.Tensor | None = None


def _ragged(flat: torch.Tensor, starts: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
    """flat[start : start + size] for each of ``starts`` and ``sizes`` (B,), as rows (B, largest) that −1 fills up."""
    place = torch.arange(int(sizes.max()), device=flat.device)
    inside = place < sizes[:, None]
    return torch.where(inside, flat[(starts[:, None] + place).clamp_max(len(flat) - 1)], -1)

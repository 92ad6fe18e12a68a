"""What ``Auto`` picks from: solvers, the operations and the memory that each takes, and the excess that it leaves."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch

from ..algebra.operations import KERNEL_VALUE, Operations
from ..errors import NotPositiveDefiniteError
from ..gram import Cross, Gram
from ..preconditioners import Nystrom
from ..support.memory import human
from ..support.threads import on_one_thread
from .base import Solver
from .calibrated_cg import CalibratedCG
from .exact import Cholesky
from .nearest_neighbours import NearestNeighbours

LADDER = (50, 100, 200, 400, 800)  # the numbers of neighbours to pick from
PATIENCE = {"cpu": 2e13, "cuda": 1e15}  # operations, some ten minutes: what needs more is not picked if possible
_AS_GOOD, _LITTLE = 1.5, 7.5e9  # exact is picked up to so many times the fewest operations, or so many operations
_FREE = 6e7  # operations that are not worth saving
_PROBES, _FEWEST_PROBES, _TESTS_PER_PROBE = 16, 4, 32  # the excess is judged at one in so many, at most, at least
_MARGIN = 0.7  # a few test points may be kinder than all: so much of the stated excess may be expected at them
_FASTEST, _SLOWEST = 0.3, 0.9  # what twice the neighbours leave of the excess is trusted to be between these
_FAR_SHARE = 1.2  # neighbours with the far ones that a trend adds, in relation to the near ones
_CG_NUMBERS = 14  # numbers per training and test point that are alive while CG runs from neighbours
# Ten iterations with rank 2,000 left at most 1% on data of 36,000 to 64,800 points, with little noise too.
_ITERATIONS, _MOST_RANK, _POINTS_PER_RANK = 10, 2_000, 20
_LOOK, _NEIGHBOUR = 30.0, 4_500.0  # operations for a coordinate that a tree looks at, and for a neighbour that it finds


@dataclass(frozen=True)
class Costed:
    """A solver, its ``operations`` and memory, and the ``excess`` to be expected; None where nobody has looked."""

    solver: Solver
    excess: float | None = None
    operations: float = 0.0
    n_bytes: float = 0.0

    def reaches(self, excess: float) -> bool:
        return self.excess is None or self.excess <= _MARGIN * excess


@dataclass(frozen=True)
class Choice:
    """The ``picked`` of several candidates, and ``because`` of what; printed, a table of all of them."""

    candidates: Sequence[Costed]
    picked: Costed
    because: str

    def __str__(self) -> str:
        rows = [("", "solver", "operations", "memory", "excess")]
        for each in sorted(self.candidates, key=lambda each: each.operations):
            left = "not judged" if each.excess is None else f"{100 * each.excess:.2g}%" if each.excess else "exact"
            mark = "→" if each is self.picked else ""
            rows.append((mark, repr(each.solver), f"{each.operations:.1e}", human(each.n_bytes), left))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, f"{self.because[:1].upper()}{self.because[1:]}."])

    @property
    def sentence(self) -> str:
        """Why, with what is expected, in a few words."""
        left = f" and {100 * self.picked.excess:.2g}% excess" if self.picked.excess else ""
        return f"{self.because}; {self.picked.operations:.1e} operations{left} expected"


class Costs:
    """What solvers take for one Gram matrix, counted; nothing of it is computed."""

    def __init__(self, gram: Gram) -> None:
        near = gram.search_coordinates()
        self.gram, self.size = gram, gram.size
        self._coordinates = gram.coordinates().shape[1]
        self._searched = None if near is None else near.shape[1]

    def candidate(self, solver: Solver, tests: int, excess: float | None = None, prepared: bool = False) -> Costed:
        """A solver with what it takes for so many test points; its preparation is left out where it is ``prepared``."""
        once, each = self._parts(solver, tests)
        return Costed(solver, excess, each if prepared else once + each, self._bytes(solver))

    def _parts(self, solver: Solver, tests: int) -> tuple[float, float]:
        """Operations to prepare the solver, and to predict."""
        if isinstance(solver, NearestNeighbours):
            return self._total(solver.operations(self.size, 0)), tests * self.neighbours(solver.k)
        if isinstance(solver, CalibratedCG) and solver.start is not None and solver.preconditioner is not None:
            before, start = self._parts(solver.start, tests)
            once = self._total(solver.preconditioner.operations(self.size, 0, 0))
            rest = CalibratedCG(solver.iterations + 1, solver.preconditioner)  # one pass goes to the start
            together = self.gram.working_budget // (_CG_NUMBERS * self.size * self.gram.dtype.itemsize)
            batches = -(-tests // max(1, together))
            each = self._total(rest.operations(self.size, -(-tests // batches))) - once
            return before + once, start + batches * each
        once = self._total(solver.operations(self.size, 0))
        return once, self._total(solver.operations(self.size, tests)) - once

    def _total(self, operations: Operations) -> float:
        return operations.total(tiles=self.gram.storage == "tiles", coordinates=self._coordinates)

    def neighbours(self, k: int) -> float:
        """Operations for a test point with its k nearest neighbours: to find them, and to solve."""
        own = NearestNeighbours(round(k * (1 if self.gram.basis is None else _FAR_SHARE)))
        solving = self._total(own.operations(self.size, 1)) - self._total(own.operations(self.size, 0))
        if self._searched is None:  # all points are looked at
            return solving + self.size * KERNEL_VALUE
        seen = min(float(self.size), k * 3.0 ** min(self._searched, 30))
        return solving + _NEIGHBOUR * k + _LOOK * self._searched * seen

    def _bytes(self, solver: Solver) -> float:
        """Memory beside the batches of test points."""
        if isinstance(solver, NearestNeighbours):
            return 4 * (2 * _FAR_SHARE * solver.k) ** 2 * self.gram.dtype.itemsize
        if isinstance(solver, CalibratedCG) and isinstance(solver.preconditioner, Nystrom) and solver.start is not None:
            beside = max(3 * 8.0 * self.size * solver.preconditioner.rank, self._bytes(solver.start))
            return beside + self.gram.stored_bytes
        return 2.0 * self.gram.dense_bytes

    def others(self, tests: int) -> list[Costed]:
        """Solvers that need G as a whole, where they fit the memory."""
        found = [self.candidate(Cholesky(), tests, 0.0)]
        rank = min(_MOST_RANK, self.size // _POINTS_PER_RANK, int(self.gram.working_budget // (4 * 3 * 8 * self.size)))
        if rank >= 1:
            solver = CalibratedCG(_ITERATIONS, Nystrom(rank), start=NearestNeighbours(200))
            found.append(self.candidate(solver, tests))
        return [each for each in found if each.n_bytes <= self.gram.budget]

    def candidates(self, tests: int, excess: float, probe: Probe) -> list[Costed]:
        """What there is to pick from. Neighbours are tried from few to many, as long as they can be the cheapest."""
        found, tried = self.others(tests), []
        limit = min((each.operations for each in found), default=math.inf)
        free = max((k for k in LADDER if tests * self.neighbours(k) <= _FREE), default=0)
        for k in LADDER:
            own = self.candidate(NearestNeighbours(k), tests)
            if k >= self.size or own.n_bytes > self.gram.budget or own.operations > limit:
                break
            if k >= free:  # a few more cost nothing, so there is nothing to try
                tried.append(k)
                if replace(own, excess=probe.excess(k)).reaches(excess):
                    break
        # the more neighbours, the better they tell what is exact: one measure for all
        found += [self.candidate(NearestNeighbours(k), tests, probe.excess(k, tried[-1])) for k in tried]
        return found or [self.candidate(NearestNeighbours(LADDER[0]), tests)]

    def pick(self, from_: Sequence[Costed], tests: int, excess: float, prepared: Collection[Solver] = ()) -> Choice:
        """The one with the fewest operations that reaches the excess; what is ``prepared`` needs not be again."""
        found = [self.candidate(each.solver, tests, each.excess, each.solver in prepared) for each in from_]
        wanted, patience = f"{100 * excess:.2g}%", PATIENCE.get(self.gram.device.type, PATIENCE["cpu"])
        quick = [each for each in found if each.operations <= patience]
        able = [each for each in quick if each.reaches(excess)]
        if not able:
            judged = [each for each in quick if each.excess is not None]
            if judged:
                best = min(judged, key=lambda each: each.excess or 0.0)
                return Choice(found, best, f"nothing reaches {wanted} with {patience:.0e} operations")
            least = min(found, key=lambda each: each.operations)
            return Choice(found, least, f"all take more than {patience:.0e} operations")
        least = min(able, key=lambda each: each.operations)
        for each in able:
            if each.excess == 0 and each.operations <= max(_AS_GOOD * least.operations, _LITTLE):
                return Choice(found, each, f"exact and {'the least' if each is least else 'about as little'} work")
        return Choice(found, least, f"the least work within {wanted}")


class Probe:
    """A few test points (``cross``), at which more and more neighbours are tried."""

    def __init__(self, gram: Gram, cross: Cross) -> None:
        self.gram, self.cross = gram, cross
        self._variance: dict[int, float] = {}

    @classmethod
    def of(cls, gram: Gram, cross: Cross | None, tests: int) -> Probe:
        """Some of the test points, or where there are none, training points that nobody has seen."""
        number = max(_FEWEST_PROBES, min(_PROBES, tests // _TESTS_PER_PROBE))
        some = torch.Generator().manual_seed(0)
        if cross is not None:
            rows = torch.randperm(cross.size, generator=some)[:number].sort().values.to(gram.device)
            return cls(gram, cross.seen_by(gram).rows(rows))
        rows = torch.randperm(gram.size, generator=some)[: min(number, gram.size // 2)].to(gram.device)
        others = gram.without(rows)
        return cls(others, others.cross(gram.chosen(rows), None if gram.basis is None else gram.basis[rows]))

    def excess(self, k: int, judged: int | None = None) -> float:
        """mean(variance − exact) / mean(exact) with k neighbours, where exact is what ``judged`` (or k) tell."""
        exact = self._exact(k if judged is None else judged)
        return self._mean_variance(k) / exact - 1 if exact > 0 else math.inf

    def _exact(self, k: int) -> float:
        """What half and twice as many neighbours say about how the variance goes on."""
        fewer, own, more = (self._mean_variance(n) for n in (k // 2, k, 2 * k))
        gained = max(own - more, 0.0)
        ratio = min(max(gained / max(fewer - own, 1e-300), _FASTEST), _SLOWEST)
        if 2 * k >= self.gram.size:
            ratio = 0.0  # twice as many are all
        return max(own - gained / (1 - ratio), more / 2)  # an extrapolation that goes further says nothing

    def _mean_variance(self, k: int) -> float:
        k = min(k, self.gram.size)
        if k not in self._variance:
            few = self.cross.size < 2 * torch.get_num_threads()
            self._variance[k] = on_one_thread(lambda: self._try(k), self.gram.device) if few else self._try(k)
        return self._variance[k]

    def _try(self, k: int) -> float:
        prepared = NearestNeighbours(k).prepare(self.gram)
        try:
            weights = prepared.final(self.cross)
        except NotPositiveDefiniteError:
            weights = None
        left = self.cross.prior_variance() - (0 if weights is None else weights.reduction)
        return float(left.double().mean())

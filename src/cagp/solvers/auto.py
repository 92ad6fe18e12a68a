"""``solver="auto"``: counts what each solver would cost, and takes the cheapest that is good enough; never silent.

| when | choice |
|---|---|
| d ≤ 2,000, d²T ≤ 10¹⁰ and 2d² numbers fit the budget | Cholesky, at once |
| exact takes at most 1.5 times as long as the fastest below, or a quarter of a second | Cholesky |
| otherwise | the fastest within the stated excess: NearestNeighbours(k), CalibratedCG, Cholesky |
| nothing reaches it within ten minutes | what comes closest within them |

The numbers of neighbours k are 50, 100, 200, 400 and 800; CalibratedCG is
``CalibratedCG(10, Nystrom(rank), start=NearestNeighbours(200))``, whose excess is not judged in advance.
The rank is d/20, at most 2,000 and at most what a quarter of the memory budget holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights
from ..gram import Cross, Gram
from ..support.validation import count, positive
from .base import CalibratedSolver, Prepared, Solver
from .candidates import Candidate, Costs, Probe, candidates, pick
from .cholesky import Cholesky
from .nearest_neighbours import NearestNeighbours
from .rates import Rates

_EXACT_AT_ONCE = 2_000
"""Training points for which a Cholesky factor takes no longer than to think about it."""

_FACTOR_AT_ONCE = 1_000
"""Training points for which it is made before anybody asks."""

_ENTRIES_AT_ONCE = 10**10
"""d²T for which a prediction with the factor takes no longer either."""

_GUESS = 1_000
"""Test points to expect where nobody has said how many."""

_TOO_SLOW = 2.0
"""A choice is kept for other test points as long as it takes at most so many times as long as the best one."""


@dataclass(frozen=True, repr=False)
class Auto(CalibratedSolver):
    """Picks the cheapest calibrated solver whose variance is within ``excess`` of the exact one, for each prediction.

    ``excess`` is mean(variance − exact) / mean(exact). The time of each solver follows from the numbers of training and
    test points, the coordinates, the memory and how fast this machine is, which is measured once; the excess of nearest
    neighbours from a few of the test points. The first prediction decides, or ``test_points``, how many are to be
    expected in all: then the choice is for good. Without them another prediction may choose again, where what was
    chosen would take more than twice as long as the best. Neither looks at y.
    """

    test_points: int | None = None
    excess: float = 0.01

    side = "test"
    name = "auto"
    cost = "that of the solver it picks"
    corrects = False
    picks = True

    def __post_init__(self) -> None:
        if self.test_points is not None:
            count(self.test_points, "test_points", minimum=1)
        positive(self.excess, "excess")

    def prepare(self, gram: Gram) -> Prepared:
        return _PreparedAuto(self, gram)

    def rates(self, gram: Gram) -> Rates:
        """How fast the machine is that works with this Gram matrix."""
        return Rates.measured(gram.device, gram.dtype)

    def for_test_points(self, number: int) -> Solver:
        return self if self.test_points is not None else replace(self, test_points=number)

    def operations(self, size: int, tests: int) -> Operations:
        """Those of what is picked where memory is no concern and the kernel falls with distance."""
        return (Cholesky() if size <= _EXACT_AT_ONCE else NearestNeighbours(200)).operations(size, tests)


class _PreparedAuto(Prepared):
    """Chooses when it is asked to settle, and keeps what it has prepared for the next time."""

    def __init__(self, solver: Auto, gram: Gram, earlier: dict[Solver, Prepared] | None = None) -> None:
        super().__init__(gram)
        self._solver = solver
        self._earlier = earlier or {}
        self._kept: dict[Solver, Prepared] = {}
        self._judged: _Judged | None = None
        self._now: Prepared | None = None
        self._small = gram.size <= _EXACT_AT_ONCE and 2 * gram.dense_bytes <= gram.budget
        if self._small and gram.size <= _FACTOR_AT_ONCE:
            self._get(Cholesky())

    def grown(self, gram: Gram) -> Prepared:
        """It chooses anew, as for other points; what was prepared before is used again if the choice falls on it."""
        return _PreparedAuto(self._solver, gram, dict(self._kept))

    def settled(self, cross: Cross | None = None) -> tuple[Prepared, str]:
        if cross is None and self._now is not None:
            return self._now, ""
        tests = self._solver.test_points or (_GUESS if cross is None else cross.size)
        if self._small and self.gram.size**2 * tests <= _ENTRIES_AT_ONCE:
            self._now = self._get(Cholesky())
            return self._now, ""
        judged = self._judged
        if judged is None or (cross is not None and (judged.guessed or self._outdated(judged, tests))):
            judged = self._judged = self._judge(cross, tests)
        expected = _words(judged, tests, judged.choice.solver in self._kept)
        self._now = now = self._get(judged.choice.solver)
        return now, expected

    def _get(self, solver: Solver) -> Prepared:
        """The solver, prepared; what was prepared before is kept, but only one of those that need much memory."""
        prepared = self._kept.get(solver)
        if prepared is None:
            if not isinstance(solver, NearestNeighbours):
                self._kept = {each: kept for each, kept in self._kept.items() if isinstance(each, NearestNeighbours)}
            before, self._earlier = self._earlier.get(solver), {}  # the first choice decides: then it is let go
            grown = None if before is None else before.grown(self.gram)
            prepared = self._kept[solver] = grown or solver.prepared_for(self.gram)
            prepared.picked = solver
        return prepared

    def _judge(self, cross: Cross | None, tests: int) -> _Judged:
        rates, excess = self._solver.rates(self.gram), self._solver.excess
        costs, probe = Costs(self.gram, rates), Probe.of(self.gram, cross, tests)
        costs.sharing = probe.sharing(rates)
        found = candidates(self.gram, costs, probe, tests, excess)
        choice, why = pick(found, costs, tests, excess, self._kept)
        return _Judged(found, costs, choice, why, cross is None)

    def _outdated(self, judged: _Judged, tests: int) -> bool:
        """Whether another solver is so much better for so many test points that it pays to choose again."""
        if self._solver.test_points is not None:
            return False
        best, _ = pick(judged.candidates, judged.costs, tests, self._solver.excess, self._kept)
        now, then = (
            judged.costs.seconds(each.solver, tests, each.solver in self._kept) for each in (judged.choice, best)
        )
        return now > _TOO_SLOW * then

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        return self.settled()[0].corrections(rhs)

    def stopped(self, iteration: int) -> str:
        return self.settled()[0].stopped(iteration)


@dataclass(frozen=True)
class _Judged:
    """The candidates with their excess, the one that was chosen, and why; ``guessed`` without test points."""

    candidates: list[Candidate]
    costs: Costs
    choice: Candidate
    why: str
    guessed: bool


def _words(judged: _Judged, tests: int, prepared: bool) -> str:
    seconds = judged.costs.seconds(judged.choice.solver, tests, prepared)
    known = judged.choice.excess
    left = "" if not known else f" and {100 * known:.2g}% excess"
    return f"{judged.why}; expected {seconds:.2g} s{left}"

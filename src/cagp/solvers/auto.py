"""``solver="auto"``: counts what each solver would cost, and takes the cheapest that is good enough; never silent.

| when | choice |
|---|---|
| d ≤ 2,000, d²T ≤ 10¹⁰ and 2d² numbers fit the budget | Cholesky, at once |
| exact takes at most 1.5 times the operations of the cheapest below, or 7.5·10⁹ | Cholesky |
| otherwise | the fewest operations within the stated excess: NearestNeighbours(k), CalibratedCG, Cholesky |
| nothing reaches it with 2·10¹³ operations (10¹⁵ on a GPU) | what comes closest with them |

k is 50, 100, 200, 400 or 800; CalibratedCG(10, Nystrom(rank), start=NearestNeighbours(200)) is not judged in advance.
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
from .candidates import Choice, Costs, Probe
from .exact import Cholesky
from .nearest_neighbours import NearestNeighbours

_EXACT_AT_ONCE, _ENTRIES_AT_ONCE = 2_000, 10**10  # d, and d²T, for which a factor takes no longer than to think
_FACTOR_AT_ONCE = 1_000  # training points for which it is made before anybody asks
_GUESS = 1_000  # test points to expect where nobody has said how many
_TOO_MUCH = 2.0  # times the operations of the best: up to that a choice is kept for other test points
_AT_ONCE = "exact, and little work at this size"


@dataclass(frozen=True, repr=False)
class Auto(CalibratedSolver):
    """Picks the cheapest calibrated solver whose variance is within ``excess`` of the exact one, for each prediction.

    ``excess`` is mean(variance − exact) / mean(exact). Operations and memory are counted, the excess of nearest
    neighbours is judged at a few of the test points. Nothing is timed: the choice is the same on every machine with the
    same budget, and ``print(model.prepared.why)`` shows what it was made from. The first prediction decides, or
    ``test_points``, how many are to be expected in all: then the choice is for good. Without them another prediction
    chooses again where this one would take more than twice the operations of the best. Neither looks at y.
    """

    test_points: int | None = None
    excess: float = 0.01

    cost = "that of the solver it picks"
    corrects = False

    def __post_init__(self) -> None:
        if self.test_points is not None:
            count(self.test_points, "test_points", minimum=1)
        positive(self.excess, "excess")

    def prepare(self, gram: Gram) -> Prepared:
        return _PreparedAuto(self, gram)

    def for_test_points(self, number: int) -> Solver:
        return self if self.test_points is not None else replace(self, test_points=number)

    def operations(self, size: int, tests: int) -> Operations:
        """Those of what is picked where memory is no concern and the kernel falls with distance."""
        return (Cholesky() if size <= _EXACT_AT_ONCE else NearestNeighbours(200)).operations(size, tests)


class _PreparedAuto(Prepared):
    """Chooses when it is asked to settle, and keeps what it has prepared for the next time."""

    solver: Auto

    def __init__(self, solver: Auto, gram: Gram, earlier: dict[Solver, Prepared] | None = None) -> None:
        super().__init__(solver, gram)
        self._earlier = earlier or {}
        self._kept: dict[Solver, Prepared] = {}
        self._choice: Choice | None = None
        self._costs: Costs | None = None
        self._guessed = False
        self._now: Prepared | None = None
        self._small = gram.size <= _EXACT_AT_ONCE and 2 * gram.dense_bytes <= gram.budget
        if self._small and gram.size <= _FACTOR_AT_ONCE:
            self._now = self._get(Cholesky(), _AT_ONCE)

    @property
    def picked(self) -> Solver | None:  # type: ignore[override]
        """What it has picked last; None before it had a reason to pick anything."""
        return None if self._now is None else self._now.picked

    @property
    def undecided(self) -> bool:  # type: ignore[override]
        return self._now is None

    def grown(self, gram: Gram) -> Prepared:
        """It chooses anew, as for other points; what was prepared before is used again if the choice falls on it."""
        return _PreparedAuto(self.solver, gram, dict(self._kept))

    def picked_for(self, cross: Cross | None = None) -> tuple[Prepared, str]:
        if cross is None and self._now is not None:
            return self._now, ""
        tests = self.solver.test_points or (_GUESS if cross is None else cross.size)
        if self._small and self.gram.size**2 * tests <= _ENTRIES_AT_ONCE:
            self._now = self._get(Cholesky(), _AT_ONCE)
            return self._now, _AT_ONCE
        choice = self._choose(cross, tests)
        self._now = now = self._get(choice.picked.solver, choice)
        return now, choice.sentence

    def _choose(self, cross: Cross | None, tests: int) -> Choice:
        """The choice so far with what it takes for these test points, or another one where it pays to choose again."""
        costs = self._costs = self._costs or Costs(self.gram)
        excess, known = self.solver.excess, self._choice
        if known is not None and (cross is None or not self._guessed):
            best = costs.pick(known.candidates, tests, excess, self._kept)
            own = next(each for each in best.candidates if each.solver == known.picked.solver)
            fixed = self.solver.test_points is not None or cross is None
            if fixed or own.operations <= _TOO_MUCH * best.picked.operations:
                self._choice = Choice(best.candidates, own, known.because)
                return self._choice
        found = costs.candidates(tests, excess, Probe.of(self.gram, cross, tests))
        self._guessed = cross is None
        self._choice = costs.pick(found, tests, excess, self._kept)
        return self._choice

    def _get(self, solver: Solver, why: object) -> Prepared:
        """The solver, prepared; what was prepared before is kept, but only one of those that need much memory."""
        prepared = self._kept.get(solver)
        if prepared is None:
            if not isinstance(solver, NearestNeighbours):
                self._kept = {each: kept for each, kept in self._kept.items() if isinstance(each, NearestNeighbours)}
            before, self._earlier = self._earlier.get(solver), {}  # the first choice decides: then it is let go
            grown = None if before is None else before.grown(self.gram)
            prepared = self._kept[solver] = grown or solver.prepared_for(self.gram)
            prepared.picked = solver
        prepared.why = why
        return prepared

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        return self.picked_for()[0].corrections(rhs)

    def stopped(self, iteration: int) -> str:
        return self.picked_for()[0].stopped(iteration)

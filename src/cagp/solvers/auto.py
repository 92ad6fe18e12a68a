"""``solver="auto"``: a choice by rules that are written down, never silent.

| when | choice | why |
|---|---|---|
| d ≤ 8,000 and 2d² numbers fit the budget | Cholesky | exact within seconds |
| the kernel falls with distance in at most 3 coordinates | NearestNeighbours(200) | near points say it all |
| more than 100,000 test points are expected | NearestNeighbours(400) | the only cost that does not grow with d |
| otherwise | CalibratedCG(15, Nystrom(rank), start=NearestNeighbours(200)) | fast in any dimension |

The rank is 2,000, or what a quarter of the memory budget holds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..algebra.operations import Operations
from ..gram import Gram
from ..preconditioners import Nystrom
from ..support.validation import count
from .base import CalibratedSolver, Prepared, Solver
from .calibrated_cg import CalibratedCG
from .cholesky import Cholesky
from .nearest_neighbours import NearestNeighbours

_EXACT_UP_TO = 8_000
"""Training points that a Cholesky factor of G takes seconds for."""


@dataclass(frozen=True, repr=False)
class Auto(CalibratedSolver):
    """Picks a calibrated solver from d, the kernel's dimension, the memory budget and the expected ``test_points``."""

    test_points: int | None = None

    side = "test"
    name = "auto"
    cost = "that of the solver it picks"
    corrects = False
    picks = True

    def __post_init__(self) -> None:
        if self.test_points is not None:
            count(self.test_points, "test_points", minimum=1)

    def choose(self, gram: Gram) -> Solver:
        """The solver for this Gram matrix."""
        if gram.size <= _EXACT_UP_TO and 2 * gram.dense_bytes <= gram.budget:
            return Cholesky()
        if gram.radial and gram.coordinates().shape[1] <= 3:
            return NearestNeighbours(200)
        if self.test_points is not None and self.test_points > 100_000:
            return NearestNeighbours(400)
        affordable = gram.working_budget // (4 * 3 * 8 * gram.size)
        return CalibratedCG(15, Nystrom(max(1, min(2_000, affordable))), start=NearestNeighbours(200))

    def prepare(self, gram: Gram) -> Prepared:
        choice = self.choose(gram)
        prepared = choice.prepared_for(gram)
        prepared.picked = choice
        return prepared

    def for_test_points(self, number: int) -> Solver:
        return self if self.test_points is not None else replace(self, test_points=number)

    def operations(self, size: int, tests: int) -> Operations:
        """Those of what is picked where memory is no concern and the kernel falls with distance."""
        return (Cholesky() if size <= _EXACT_UP_TO else NearestNeighbours(200)).operations(size, tests)

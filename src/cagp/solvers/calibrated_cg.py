"""Conjugate gradients on G W = k(X, X′): as fast as CG, and calibrated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights
from ..errors import InputTypeError
from ..gram import Gram
from ..preconditioners import Identity, Preconditioner, PreparedPreconditioner
from ..support.validation import count
from .base import Prepared, Solver, iteration_limit
from .chain import Chain
from .pcg import pcg


@dataclass(frozen=True, repr=False)
class CalibratedCG(Solver):
    """Preconditioned conjugate gradients on G W = k(X, X′), one Krylov space per test point.

    The paper's CG takes its directions from y and loses calibration. Here they come from the test points, so nothing
    depends on y; and since each test point has its own, the results do not depend on which others are in the batch.
    ``preconditioner``: ``Nystrom``, ``SymmetricGaussSeidel``, ``Jacobi``, or None. ``start``: another solver whose
    weights to begin with, such as ``NearestNeighbours(100)``.
    """

    iterations: int = 10
    preconditioner: Preconditioner | None = None
    start: Solver | None = None

    calibrated = True
    side = "test"
    name = "calibrated-cg"
    cost = "O(m d² T) time and the preconditioner's; O(dT) memory beside G"

    def __post_init__(self) -> None:
        count(self.iterations, "iterations")
        if self.preconditioner is not None and not isinstance(self.preconditioner, Preconditioner):
            raise InputTypeError(f"preconditioner must be one such as Nystrom(1000), got {self.preconditioner!r}")
        if self.start is not None:
            if not isinstance(self.start, Solver):
                raise InputTypeError(f"start must be a solver such as NearestNeighbours(100), got {self.start!r}")
            object.__setattr__(self, "calibrated", self.start.calibrated)
            object.__setattr__(self, "corrects", self.start.corrects)

    def prepared_for(self, gram: Gram, b: torch.Tensor | None = None) -> Prepared:
        if self.start is None:
            return _PreparedCalibratedCG(self, (self.preconditioner or Identity()).prepare(gram))
        prepared = Chain((self.start, replace(self, start=None))).prepared_for(gram, b)
        if isinstance(prepared.picked, Chain):
            prepared.picked = replace(self, start=prepared.picked.solvers[0])
        return prepared

    def for_points(self, kept: np.ndarray, size: int) -> Solver:
        return self if self.start is None else replace(self, start=self.start.for_points(kept, size))

    def operations(self, size: int, tests: int) -> Operations:
        if self.start is not None:
            return Chain((self.start, replace(self, start=None))).operations(size, tests)
        preconditioner = self.preconditioner or Identity()
        return super().operations(size, tests) + preconditioner.operations(size, self.iterations, tests)


class _PreparedCalibratedCG(Prepared):
    def __init__(self, solver: CalibratedCG, preconditioner: PreparedPreconditioner) -> None:
        super().__init__(preconditioner.gram)
        self._solver = solver
        self.limit = solver.iterations
        self._M = preconditioner
        self.held_bytes = preconditioner.held_bytes

    @property
    def numbers_per_test_point(self) -> int:
        return (12 if self._M.held_bytes else 10) * self.gram.size

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        yield from pcg(self._M, rhs, self._solver.iterations)

    def stopped(self, iteration: int) -> str:
        return iteration_limit(self._solver, iteration)

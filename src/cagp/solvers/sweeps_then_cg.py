"""The paper's hybrid: Gauss-Seidel on G v = b, then conjugate gradients on what is left of b. Not calibrated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights, certified
from ..gram import Cross, Gram
from ..support.validation import count
from .base import DataDrivenSolver, Prepared, iteration_limit
from .conjugate_gradient import lanczos
from .directions import conjugate
from .stationary import Stationary


@dataclass(frozen=True, repr=False)
class SweepsThenCG(DataDrivenSolver):
    """``sweeps`` of Gauss-Seidel in natural order on G v = b, then ``steps`` of CG on the residual. Not calibrated.

    What the paper's conclusion proposes. With v = Q b after the sweeps and conjugate directions P of the residual,
    PᵀGP = I, the mean is that of v + P Pᵀ (b − G v), so the weights are W = Qᵀ Vᵀ + (I − Qᵀ G) P Pᵀ Vᵀ. (A ``Chain``
    of the two solvers applies them to k(X, X′) in turn, which for b is the other way round: first CG, then the sweeps.)
    """

    sweeps: int = 5
    steps: int = 5

    side = "test"
    name = "sweeps-then-cg"
    cost = "that of the sweeps, and as much again for the directions"

    def __post_init__(self) -> None:
        count(self.sweeps, "sweeps")
        count(self.steps, "steps")

    def prepare(self, gram: Gram, b: torch.Tensor) -> Prepared:
        first = Stationary("sor", self.sweeps).prepare(gram)
        coefficients = first.coefficients(b)
        assert coefficients is not None
        *_, v = coefficients
        basis, _, _ = lanczos(gram, b - gram.matmul(v[None, :])[0], self.steps)
        directions = conjugate(basis, gram.matmul(basis)) if len(basis) else basis
        return _PreparedSweepsThenCG(self, gram, first, directions)

    @property
    def effort(self) -> str:
        return "steps"

    def operations(self, size: int, tests: int) -> Operations:
        return Operations.each_test_point(2.0 * (self.sweeps + self.steps), size, tests)


class _PreparedSweepsThenCG(Prepared):
    def __init__(self, solver: SweepsThenCG, gram: Gram, first: Prepared, P: torch.Tensor) -> None:
        super().__init__(gram)
        self._solver, self._first, self._P = solver, first, P
        self.limit = solver.sweeps + solver.steps
        self._left = P - self._swept(gram.matmul(P))  # (I − Qᵀ G) P, as rows

    def _swept(self, rhs: torch.Tensor) -> torch.Tensor:
        """Qᵀ applied to every row of ``rhs`` (T, d)."""
        values = torch.zeros_like(rhs)
        for iterate in self._first.corrections(rhs):
            values = iterate.values
        return values

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        values = torch.zeros_like(rhs)
        for iterate in self._first.corrections(rhs):
            values = iterate.values
            yield iterate
        values, coordinates = values.clone(), rhs @ self._P.T
        for i in range(len(self._P)):
            values = values + coordinates[:, i : i + 1] * self._left[i]
            reduction = (values * (2 * rhs - self.gram.matmul(values))).sum(dim=1)
            yield self._weights(values, reduction, i + 1)

    def final(self, cross: Cross) -> Weights | None:
        if not len(self._P):
            return None
        values = self._swept(cross.matrix) + (cross.matrix @ self._P.T) @ self._left
        return self._weights(values, certified(values, cross).reduction, len(self._P))

    def _weights(self, values: torch.Tensor, reduction: torch.Tensor, steps: int) -> Weights:
        sweeps = self._solver.sweeps
        return Weights(values, reduction, sweeps + steps, float(sweeps + 1 + steps), self.gram.size)

    def stopped(self, iteration: int) -> str:
        return iteration_limit(self._solver, iteration)

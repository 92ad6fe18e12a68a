"""Conjugate gradients on G W = k(X, X′): as fast as CG, and calibrated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch

from ..errors import InputTypeError
from ..gram import Gram
from ..preconditioners import Identity, Preconditioner, PreparedPreconditioner
from ..validation import count
from ..weights import Weights
from .base import Prepared, Solver, iteration_limit
from .chain import Chain


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

    def prepare(self, gram: Gram, b: torch.Tensor) -> Prepared:
        if self.start is not None:
            return Chain((self.start, replace(self, start=None))).prepare(gram, b)
        preconditioner = (self.preconditioner or Identity()).prepare(gram)
        return _PreparedCalibratedCG(self, preconditioner, gram, b)


class _PreparedCalibratedCG(Prepared):
    def __init__(
        self, solver: CalibratedCG, preconditioner: PreparedPreconditioner, gram: Gram, b: torch.Tensor
    ) -> None:
        super().__init__(gram, b)
        self._solver = solver
        self._M = preconditioner

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        """Each iteration lowers the energy by α rᵀz: what it takes off the variance. Scalars are per row, (T,)."""
        values, reduction = torch.zeros_like(rhs), rhs.new_zeros(len(rhs))
        r = self._M.enter(rhs).clone()
        z = self._M.apply(r)
        p = z.clone()
        rz = (r * z).sum(dim=1)
        radau = Radau(self._M.floor, rz)
        for i in range(1, self._solver.iterations + 1):
            product, step = self._M.product(p)
            curvature = (p * product).sum(dim=1)
            # a row that is solved to rounding has nothing left to divide by: it stands still
            alpha = torch.where((curvature > 0) & (rz > 0), rz / curvature, 0)
            values.addcmul_(step, alpha[:, None])
            r.addcmul_(product, alpha[:, None], value=-1)
            reduction = reduction + alpha * rz
            z = self._M.apply(r)
            previous, rz = rz, (r * z).sum(dim=1).clamp_min(0)
            beta = torch.where(previous > 0, rz / previous, 0)
            p = torch.addcmul(z, p, beta[:, None])
            yield Weights(values, reduction, i, float(i), self.gram.size, upper=radau.advance(alpha, beta, rz))

    def stopped(self, iteration: int) -> str:
        return iteration_limit(self._solver, iteration)


@dataclass
class Radau:
    """The Gauss-Radau upper bound on the squared energy error of conjugate gradients, at no extra product.

    Golub and Meurant; in the recursive form of Meurant and Tichý. ``floor`` is a lower bound μ on the spectrum of the
    preconditioned matrix, which is what makes the bound certain (up to rounding).
    """

    floor: float | None
    energy: torch.Tensor
    _gamma: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        self._gamma = torch.full_like(self.energy, 1 / self.floor if self.floor else torch.inf)

    def advance(self, alpha: torch.Tensor, beta: torch.Tensor, rz: torch.Tensor) -> torch.Tensor | None:
        """The bound (T,) after a step α, with β and the new rᵀz; None where no floor is known."""
        if self.floor is None:
            return None
        rest = (self._gamma - alpha).clamp_min(torch.finfo(alpha.dtype).tiny)
        self._gamma = (rest / (self.floor * rest + beta)).clamp_max(1 / self.floor)
        return self._gamma * rz

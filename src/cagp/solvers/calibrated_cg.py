"""Conjugate gradients on G W = k(X, X′), as fast as CG and calibrated, with error bounds that cost nothing."""

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
from .base import Prepared, Solver
from .chain import Chain


@dataclass(frozen=True, repr=False)
class CalibratedCG(Solver):
    """Preconditioned conjugate gradients on G W = k(X, X′), one Krylov space per test point.

    The paper's CG takes its directions from y and loses calibration. Here each test point has its own, so nothing
    depends on y, nor on which others are in the batch. ``preconditioner``: ``Nystrom``, ``SymmetricGaussSeidel``,
    ``Jacobi``, or None. ``start``: another solver whose weights to begin with, such as ``NearestNeighbours(100)``.
    """

    iterations: int = 10
    preconditioner: Preconditioner | None = None
    start: Solver | None = None

    calibrated = True
    cost = "O(m d² T) time and the preconditioner's; O(dT) memory beside G"

    def __post_init__(self) -> None:
        super().__post_init__()
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
        super().__init__(solver, preconditioner.gram)
        self._M, self.held_bytes = preconditioner, preconditioner.held_bytes

    @property
    def numbers_per_test_point(self) -> int:
        return (12 if self._M.held_bytes else 10) * self.gram.size

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        yield from pcg(self._M, rhs, self.limit)


def pcg(M: PreparedPreconditioner, rhs: torch.Tensor, iterations: int) -> Iterator[Weights]:
    """Iterates 1, 2, … from w = 0, for rows r of ``rhs`` (T, d); each has its own Krylov space and scalars (T,)."""
    values, reduction = torch.zeros_like(rhs), rhs.new_zeros(len(rhs))
    r = M.enter(rhs).clone()
    z = M.apply(r)
    p = z.clone()
    rz = (r * z).sum(dim=1)
    radau = None if M.floor is None else Radau(M.floor, (rhs.square() / M.gram.noise).sum(dim=1))
    for i in range(1, iterations + 1):
        product, step = M.product(p)
        curvature = (p * product).sum(dim=1)
        # a row that is solved to rounding has nothing left to divide by: it stands still
        moves = (curvature > 0) & (rz > 0)
        alpha = torch.where(moves, rz / curvature, 0)
        values.addcmul_(step, alpha[:, None])
        r.addcmul_(product, alpha[:, None], value=-1)
        reduction = reduction + alpha * rz  # what the step takes off the energy, and so off the variance
        z = M.apply(r)
        previous, rz = rz, (r * z).sum(dim=1).clamp_min(0)
        beta = torch.where(previous > 0, rz / previous, 0)
        p = torch.addcmul(z, p, beta[:, None])
        upper = None if radau is None else radau.advance(alpha, beta, rz, moves)
        yield Weights(values, reduction, i, float(i), M.gram.size, upper=upper)


class Radau:
    """The Gauss-Radau upper bound on the squared energy error of conjugate gradients, at no extra product.

    Golub and Meurant; in the recursive form of Meurant and Tichý. ``floor`` is a lower bound μ on the spectrum of the
    preconditioned matrix. Where rounding has broken the recursion, the bound is ``fallback`` (T,), that of the start.
    """

    def __init__(self, floor: float, fallback: torch.Tensor) -> None:
        least = torch.finfo(fallback.dtype).tiny
        self._floor, self._fallback = max(floor, least), fallback  # one over the floor must be a number
        self._gamma = torch.full_like(fallback, 1 / self._floor)
        self._whole = torch.full_like(fallback, floor >= least, dtype=torch.bool)

    def advance(self, alpha: torch.Tensor, beta: torch.Tensor, rz: torch.Tensor, moves: torch.Tensor) -> torch.Tensor:
        """The bound (T,) after a step α, with β and the new rᵀz; ``moves`` tells where there was a step."""
        rest = self._gamma - alpha
        self._whole &= moves & (rest > 0) & (rz > 0)
        rest = rest.clamp_min(torch.finfo(alpha.dtype).tiny)
        self._gamma = (rest / (self._floor * rest + beta)).clamp_max(1 / self._floor)
        return torch.where(self._whole, torch.minimum(self._gamma * rz, self._fallback), self._fallback)

"""Preconditioned conjugate gradients on G w = r for many right-hand sides, with error bounds that cost nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from .preconditioners import PreparedPreconditioner
from .weights import Weights


def pcg(M: PreparedPreconditioner, rhs: torch.Tensor, iterations: int) -> Iterator[Weights]:
    """Iterates 1, 2, … from w = 0, for every row r of ``rhs`` (T, d); each row has its own Krylov space.

    Each step lowers the energy by α rᵀz: what it takes off the variance. Scalars are per row, (T,).
    """
    values, reduction = torch.zeros_like(rhs), rhs.new_zeros(len(rhs))
    r = M.enter(rhs).clone()
    z = M.apply(r)
    p = z.clone()
    rz = (r * z).sum(dim=1)
    radau = Radau(M.floor, rz)
    for i in range(1, iterations + 1):
        product, step = M.product(p)
        curvature = (p * product).sum(dim=1)
        # a row that is solved to rounding has nothing left to divide by: it stands still
        alpha = torch.where((curvature > 0) & (rz > 0), rz / curvature, 0)
        values.addcmul_(step, alpha[:, None])
        r.addcmul_(product, alpha[:, None], value=-1)
        reduction = reduction + alpha * rz
        z = M.apply(r)
        previous, rz = rz, (r * z).sum(dim=1).clamp_min(0)
        beta = torch.where(previous > 0, rz / previous, 0)
        p = torch.addcmul(z, p, beta[:, None])
        yield Weights(values, reduction, i, float(i), M.gram.size, upper=radau.advance(alpha, beta, rz))


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

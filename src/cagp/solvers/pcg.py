"""Preconditioned conjugate gradients on G w = r for many right-hand sides, with error bounds that cost nothing."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..algebra.weights import Weights
from ..preconditioners import PreparedPreconditioner


def pcg(M: PreparedPreconditioner, rhs: torch.Tensor, iterations: int) -> Iterator[Weights]:
    """Iterates 1, 2, … from w = 0, for every row r of ``rhs`` (T, d); each row has its own Krylov space.

    Each step lowers the energy by α rᵀz: what it takes off the variance. Scalars are per row, (T,).
    """
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
        reduction = reduction + alpha * rz
        z = M.apply(r)
        previous, rz = rz, (r * z).sum(dim=1).clamp_min(0)
        beta = torch.where(previous > 0, rz / previous, 0)
        p = torch.addcmul(z, p, beta[:, None])
        upper = None if radau is None else radau.advance(alpha, beta, rz, moves)
        yield Weights(values, reduction, i, float(i), M.gram.size, upper=upper)


class Radau:
    """The Gauss-Radau upper bound on the squared energy error of conjugate gradients, at no extra product.

    Golub and Meurant; in the recursive form of Meurant and Tichý. ``floor`` is a lower bound μ on the spectrum of the
    preconditioned matrix, which is what makes the bound certain. Where rounding has broken the recursion, the bound
    falls back on ``fallback`` (T,), which holds for the start and so for all that comes after.
    """

    def __init__(self, floor: float, fallback: torch.Tensor) -> None:
        least = torch.finfo(fallback.dtype).tiny
        self._floor = max(floor, least)  # one over it must be a number
        self._fallback = fallback
        self._gamma = torch.full_like(fallback, 1 / self._floor)
        self._whole = torch.full_like(fallback, floor >= least, dtype=torch.bool)

    def advance(self, alpha: torch.Tensor, beta: torch.Tensor, rz: torch.Tensor, moves: torch.Tensor) -> torch.Tensor:
        """The bound (T,) after a step α, with β and the new rᵀz; ``moves`` tells where there was a step."""
        rest = self._gamma - alpha
        self._whole &= moves & (rest > 0) & (rz > 0)
        rest = rest.clamp_min(torch.finfo(alpha.dtype).tiny)
        self._gamma = (rest / (self._floor * rest + beta)).clamp_max(1 / self._floor)
        return torch.where(self._whole, torch.minimum(self._gamma * rz, self._fallback), self._fallback)

"""The exact Gaussian process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights
from ..gram import Gram
from .base import CalibratedSolver, Prepared


@dataclass(frozen=True, repr=False)
class Cholesky(CalibratedSolver):
    """The exact posterior, W = G⁻¹ k(X, X′), from the Cholesky factor of G. One iteration, no computational error."""

    side = "data"
    name = "cholesky"
    cost = "O(d³/3 + d² T) time, 2d² memory"

    def prepare(self, gram: Gram) -> Prepared:
        return _PreparedCholesky(gram)

    def is_exact(self, size: int) -> bool:
        return True

    def operations(self, size: int, tests: int) -> Operations:
        square = float(size) ** 2
        slow = 1e3 * square  # what is no large product takes as long as so many flops
        factor = Operations(flops=size * square / 3 + slow, kernel_values=square / 2)
        return factor + Operations(flops=2 * square * tests, kernel_values=float(size) * tests)


class _PreparedCholesky(Prepared):
    def __init__(self, gram: Gram, factor: torch.Tensor | None = None) -> None:
        super().__init__(gram)
        self.factor: torch.Tensor = gram.cholesky() if factor is None else factor

    def grown(self, gram: Gram) -> Prepared | None:
        """By the block below the factor, O(d² m) for m more points; anew where that fails, to succeed or to say why."""
        factor = _extended(self.factor, gram)
        if factor is None:
            return None
        other = _PreparedCholesky(gram, factor)
        other.picked = self.picked
        return other

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        half = torch.linalg.solve_triangular(self.factor, rhs.T, upper=False)
        values = torch.linalg.solve_triangular(self.factor.T, half, upper=True).T.contiguous()
        yield Weights(values, half.square().sum(dim=0), 1, float(self.gram.size), self.gram.size)

    def coefficients(self, b: torch.Tensor) -> Iterator[torch.Tensor]:
        yield torch.zeros_like(b)
        yield torch.cholesky_solve(b[:, None], self.factor)[:, 0]

    def stopped(self, iteration: int) -> str:
        return "Cholesky solved the system exactly: there is no computational uncertainty."


def _extended(factor: torch.Tensor, gram: Gram) -> torch.Tensor | None:
    """The factor of G (n, n) from that of its first rows and columns (d, d); None where memory or precision end.

    What is below is that of [[L, 0], [B, M]] with B Lᵀ = G[d:, :d] and M Mᵀ = G[d:, d:] − B Bᵀ.
    """
    n, d = gram.size, len(factor)
    if (n + 3 * (n - d)) * n * gram.dtype.itemsize > gram.budget:
        return None
    new = torch.arange(d, n, device=gram.device)
    rows = gram.kernel_rows(new)
    rows[:, d:].diagonal().add_(gram.noise[new])
    below = torch.linalg.solve_triangular(factor, rows[:, :d].T, upper=False)
    corner, info = torch.linalg.cholesky_ex(rows[:, d:] - below.T @ below)
    if int(info):
        return None
    whole = factor.new_empty(n, n).T  # by columns, as factors are
    whole[:d, :d], whole[:d, d:], whole[d:, :d], whole[d:, d:] = factor, 0, below.T, corner
    return whole

"""P = Σ + K_XU K_UU⁻¹ K_UX for inducing points U: a matrix below G that is cheap to invert.

G − P is positive semidefinite for every choice of U. That makes P a preconditioner whose preconditioned spectrum starts
at 1, and the source of guaranteed bounds on the computational variance.
"""

from __future__ import annotations

import torch

from .gram import Gram, positive_definite_factor
from .memory import require


class Inducing:
    """P for ``rank`` training points drawn at random (seeded), with its inverse by Woodbury."""

    def __init__(self, gram: Gram, rank: int, seed: int = 0) -> None:
        rank = min(rank, gram.size)
        n_bytes = 3 * rank * gram.size * 8
        remedy = "choose a smaller rank, or raise memory_budget"
        require(n_bytes, gram.working_budget, f"{rank} inducing points for {gram.size} training points", remedy)
        chosen = torch.randperm(gram.size, generator=torch.Generator().manual_seed(seed))[:rank].to(gram.device)
        # in float64 whatever the arithmetic of G: the factor of K_UU loses half of the digits
        rows = gram.cast(torch.float64).kernel_rows(chosen)
        inner = rows[:, chosen]
        inner = (inner + inner.T) / 2
        # a ridge on K_UU makes P smaller still, so that it stays below G
        inner.diagonal().add_(10 * rank * torch.finfo(torch.float64).eps * inner.diagonal().max())
        factor = positive_definite_factor(inner, "the kernel matrix of the inducing points", "a smaller rank")
        low_rank = torch.linalg.solve_triangular(factor, rows, upper=False)  # A with P = Σ + AᵀA
        noise = gram.noise.double()
        capacitance = (low_rank / noise) @ low_rank.T
        capacitance.diagonal().add_(1.0)
        inverse_root = torch.linalg.cholesky(capacitance)
        # P⁻¹ = Σ⁻¹ − Bᵀ B with B = C⁻¹ A Σ⁻¹, CCᵀ the capacitance
        scaled = torch.linalg.solve_triangular(inverse_root, low_rank / noise, upper=False)
        self._inverse_noise = (1 / noise).to(gram.dtype)
        self._correction = scaled.to(gram.dtype)

    def solve(self, R: torch.Tensor) -> torch.Tensor:
        """P⁻¹ r for every row r of R (T, d)."""
        return R * self._inverse_noise - (R @ self._correction.T) @ self._correction

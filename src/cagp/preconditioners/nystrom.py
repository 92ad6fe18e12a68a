"""Nyström: P = Σ + τI + Q with Q = K_XU K_UU⁻¹ K_UX for inducing points U, a stand-in for G that is cheap to invert.

τ = tr(K − Q)/d is what Q leaves over on average; without it conjugate gradients need several times the iterations.
K ⪰ Q, so G ⪰ Σ + Q ⪰ ``floor`` · P with the smallest noise/(noise + τ): the source of guaranteed bounds. The inducing
points are drawn in blocks, each with probabilities proportional to what the ones before left over of the diagonal of K.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..algebra.operations import Operations
from ..gram import Gram
from ..support.memory import require
from ..support.positive_definite import positive_definite_factor, solve_lower
from ..support.validation import count
from .base import Preconditioner, PreparedPreconditioner

_BLOCKS = 20
_LEAST = 1e-280
_REMEDY = "a larger noise_variance"


@dataclass(frozen=True)
class Nystrom(Preconditioner):
    """M = Σ + τI + K_XU K_UU⁻¹ K_UX with ``rank`` training points U by randomly pivoted Cholesky (seeded).

    τ is the average of what the projection leaves over of the diagonal. O(d · rank²) once, O(d · rank) per iteration
    and test point, 8 · d · rank bytes. More rank, fewer iterations.
    """

    rank: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        count(self.rank, "rank", minimum=1)
        count(self.seed, "seed")

    def prepare(self, gram: Gram) -> PreparedPreconditioner:
        return _PreparedNystrom(gram, self.rank, self.seed)

    def operations(self, size: int, steps: int, vectors: int) -> Operations:
        rank = min(self.rank, size)
        flops = 4.0 * size * rank**2 + 4.0 * steps * size * rank * vectors
        return Operations(flops=flops, kernel_values=float(size) * rank)


class _PreparedNystrom(PreparedPreconditioner):
    """P for ``rank`` training points, with its inverse by Woodbury. G ⪰ ``floor`` · P."""

    def __init__(self, gram: Gram, rank: int, seed: int) -> None:
        super().__init__(gram)
        rank = min(rank, gram.size)
        n_bytes = 3 * rank * gram.size * 8
        remedy = "choose a smaller rank, or raise memory_budget"
        require(n_bytes, gram.working_budget, f"{rank} inducing points for {gram.size} training points", remedy)
        # in float64 whatever the arithmetic of G: factors of kernel matrices lose half of the digits
        precise = gram.cast(torch.float64)
        low_rank, left_over = _pivoted_cholesky(precise, rank, torch.Generator().manual_seed(seed))
        tau = float(left_over.mean())
        self.floor = float((precise.noise / (precise.noise + tau)).min())
        noise = precise.noise + tau
        capacitance = (low_rank / noise) @ low_rank.T
        capacitance.diagonal().add_(1.0)
        factor = positive_definite_factor(capacitance, "the capacitance of the inducing points", _REMEDY)
        # P⁻¹ = N⁻¹ − BᵀB with N = Σ + τI, Q = AᵀA, B = C⁻¹ A N⁻¹ and CCᵀ = I + A N⁻¹ Aᵀ
        self._inverse_noise = (1 / noise).to(gram.dtype)
        self._correction = solve_lower(factor, low_rank.div_(noise)).to(gram.dtype)
        self.held_bytes = self._correction.nbytes + self._inverse_noise.nbytes

    def apply(self, R: torch.Tensor) -> torch.Tensor:
        # in place: conjugate gradients have this many right-hand sides in memory several times already
        return (R * self._inverse_noise).addmm_(R @ self._correction.T, self._correction, alpha=-1.0)


def _pivoted_cholesky(gram: Gram, rank: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows A (rank, d) with AᵀA ⪯ K, and what is left over of the diagonal of K (d,)."""
    A = torch.empty(rank, gram.size, dtype=gram.dtype, device=gram.device)
    diagonal = gram.kernel_diagonal()
    left_over = diagonal.clone()
    block = max(1, -(-rank // _BLOCKS))
    for start in range(0, rank, block):
        stop = min(start + block, rank)
        taken = A[:start]
        chances = left_over.cpu() + torch.finfo(gram.dtype).tiny  # where nothing is left over, any point will do
        pivots = drawn(chances, stop - start, generator).to(gram.device)
        rows = gram.kernel_rows(pivots) - taken[:, pivots].T @ taken
        inner = (rows[:, pivots] + rows[:, pivots].T) / 2
        # a ridge makes AᵀA smaller still, so that it stays below K; it is positive even where all of K is zero
        inner.diagonal().add_(10 * rank * torch.finfo(gram.dtype).eps * diagonal.max().clamp_min(_LEAST))
        factor = positive_definite_factor(inner, "the covariance of the inducing points", _REMEDY)
        A[start:stop] = solve_lower(factor, rows)
        left_over = (left_over - A[start:stop].square().sum(dim=0)).clamp_min(0)
    return A, left_over


def drawn(chances: torch.Tensor, n: int, generator: torch.Generator) -> torch.Tensor:
    """n different indices into ``chances`` (d,), each next one with chances proportional to those that are left."""
    # the race of exponential times, which ``torch.multinomial`` runs too but refuses for more than 2²⁴ entries
    times = torch.empty_like(chances).exponential_(1, generator=generator)
    return torch.div(chances, times, out=times).topk(n).indices

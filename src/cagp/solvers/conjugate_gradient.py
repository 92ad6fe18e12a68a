"""The paper's CAGP-CG: BayesCG, conjugate gradients on G v = b. Fast for the mean, not calibrated."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..gram import Gram
from ..support.validation import count
from .base import DataDrivenSolver, Prepared, iteration_limit
from .directions import PreparedDirections, require_directions


@dataclass(frozen=True, repr=False)
class ConjugateGradient(DataDrivenSolver):
    """Conjugate gradient directions from b = y − m₀(X), as in the paper's CAGP-CG.

    The directions depend on y, so the error bars are not calibrated: usually too wide. The directions come from
    Lanczos with full reorthogonalisation, because the plain recurrences lose conjugacy and then report negative
    variances within a few dozen iterations.
    """

    iterations: int = 10

    side = "data"
    name = "conjugate-gradient"
    cost = "O(m d²) once, then O(m d) per test point; O(md) memory beside G"

    def __post_init__(self) -> None:
        count(self.iterations, "iterations")

    def prepare(self, gram: Gram, b: torch.Tensor) -> Prepared:
        require_directions(gram, min(self.iterations, gram.size))
        basis, alphas, betas = lanczos(gram, b, self.iterations)
        directions = _conjugate_directions(basis, alphas, betas)
        done = len(directions)
        reason = iteration_limit(self, done)
        if done < self.iterations:
            reason = (
                f"ConjugateGradient stopped after {done} of {self.iterations} iterations: the Krylov space of b is "
                "exhausted and the mean is exact to rounding. More iterations change nothing."
            )
        return PreparedDirections(gram, directions, reason)


def lanczos(gram: Gram, start: torch.Tensor, steps: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Orthonormal Krylov basis (m, d) with the tridiagonal QᵀGQ as its diagonal (m,) and off-diagonal (m−1,).

    m is ``steps``, or less where the Krylov space is exhausted before.
    """
    steps = min(steps, gram.size)
    basis = start.new_empty(steps, gram.size)
    alphas, betas = start.new_empty(steps), start.new_empty(max(steps - 1, 0))
    norm, largest = start.norm(), start.new_zeros(())
    candidate = start
    for i in range(steps):
        if norm <= 1e3 * torch.finfo(start.dtype).eps * largest or norm == 0:
            return basis[:i], alphas[:i], betas[: max(i - 1, 0)]
        if i:
            betas[i - 1] = norm
        basis[i] = candidate / norm
        candidate = gram.matmul(basis[i : i + 1])[0]
        alphas[i] = basis[i] @ candidate
        for _ in range(2):  # twice is enough
            candidate = candidate - (basis[: i + 1] @ candidate) @ basis[: i + 1]
        norm = candidate.norm()
        largest = torch.maximum(largest, alphas[i])
    return basis, alphas, betas


def _conjugate_directions(basis: torch.Tensor, alphas: torch.Tensor, betas: torch.Tensor) -> torch.Tensor:
    """G-conjugate rows P (m, d) with PᵀGP = I from the bidiagonal Cholesky factor of the tridiagonal matrix.

    Lanczos stops at the pivot that rounding has made negative: there the Krylov space holds nothing new.
    """
    directions = torch.empty_like(basis)
    pivot = alphas.new_zeros(())
    for i in range(len(basis)):
        below = betas[i - 1] / pivot.sqrt() if i else alphas.new_zeros(())
        pivot = alphas[i] - below.square()
        if pivot <= torch.finfo(alphas.dtype).eps * alphas[i]:
            return directions[:i]
        previous = directions[i - 1] * below if i else 0.0
        directions[i] = (basis[i] - previous) / pivot.sqrt()
    return directions

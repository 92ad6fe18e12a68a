"""Positive definite matrices: Cholesky factors without jitter, and joint draws from a normal distribution."""

from __future__ import annotations

import torch

from ..errors import NotPositiveDefiniteError


def positive_definite_factor(matrix: torch.Tensor, what: str, remedy: str) -> torch.Tensor:
    """The lower Cholesky factor of ``matrix``, or an error that says what failed and what helps. No jitter is added."""
    factor, info = torch.linalg.cholesky_ex(matrix)
    if int(info):
        raise NotPositiveDefiniteError(
            f"{what} ({matrix.shape[0]} × {matrix.shape[0]}, {matrix.dtype}) is not positive definite to working "
            f"precision: the factorisation failed at row {int(info)}; {remedy} or dtype=torch.float64 helps, "
            "and so does removing near-duplicate points"
        )
    return factor


_SOLVE_COLUMNS = 2**16
"""Columns that a triangular solve takes at once: with a million, a GPU is many times slower."""


def solve_lower(factor: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """L⁻¹ B for a lower triangular L (m, m) and many columns B (m, d), as a new matrix."""
    if B.shape[1] <= _SOLVE_COLUMNS:
        return torch.linalg.solve_triangular(factor, B, upper=False)
    out = torch.empty_like(B)
    for part, solved in zip(B.split(_SOLVE_COLUMNS, dim=1), out.split(_SOLVE_COLUMNS, dim=1), strict=True):
        solved.copy_(torch.linalg.solve_triangular(factor, part.contiguous(), upper=False))
    return out


def joint_draws(
    mean: torch.Tensor, covariance: torch.Tensor, n: int, seed: int, what: str, remedy: str, scale: float = 0.0
) -> torch.Tensor:
    """``n`` draws from N(mean (T,), covariance (T, T)), shape (n, T). The same ``seed`` gives the same draws.

    ``scale`` is the size of what the covariance is a small difference of, and rounding errors with it.
    """
    generator = torch.Generator().manual_seed(seed)
    values, vectors = torch.linalg.eigh(covariance)
    # eigenvalues that rounding made negative are zero; anything beyond rounding is an error
    tolerance = 100 * len(values) * torch.finfo(values.dtype).eps * values.abs().max().clamp_min(scale)
    if bool(values[0] < -tolerance):
        raise NotPositiveDefiniteError(f"{what} has the eigenvalue {float(values[0]):.3g}, beyond rounding; {remedy}")
    normal = torch.randn(n, len(values), generator=generator, dtype=torch.float64).to(values)
    return mean + (normal * values.clamp_min(0).sqrt()) @ vectors.T

"""Positive definite matrices: Cholesky factors without jitter, and joint draws from a normal distribution."""

from __future__ import annotations

import torch

from ..errors import NotPositiveDefiniteError

_SOLVE_COLUMNS = 2**16  # columns that a triangular solve takes at once: with a million, a GPU is many times slower


def positive_definite_factor(matrix: torch.Tensor, what: str, remedy: str) -> torch.Tensor:
    """The lower Cholesky factor of ``matrix``, or an error that says what failed and what helps. No jitter is added."""
    factor, info = torch.linalg.cholesky_ex(matrix)
    if int(info):
        raise not_positive_definite(what, len(matrix), matrix.dtype, int(info), remedy)
    return factor


def not_positive_definite(what: str, n: int, dtype: torch.dtype, row: int, remedy: str) -> NotPositiveDefiniteError:
    """The error where an n × n matrix has no factor from a ``row`` on."""
    more = "" if dtype == torch.float64 else " or dtype=torch.float64"
    unless = "" if more else ", unless the kernel itself is no covariance"
    return NotPositiveDefiniteError(
        f"{what} ({n} × {n}, {dtype}) is not positive definite to working precision: the factorisation failed at row "
        f"{row}; {remedy}{more} helps, and so does removing near-duplicate points{unless}"
    )


def solve_lower(factor: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """L⁻¹ B for a lower triangular L (m, m) and many columns B (m, d), as a new matrix."""
    if B.shape[1] <= _SOLVE_COLUMNS:
        return torch.linalg.solve_triangular(factor, B, upper=False)
    out = torch.empty_like(B)
    for part, solved in zip(B.split(_SOLVE_COLUMNS, dim=1), out.split(_SOLVE_COLUMNS, dim=1), strict=True):
        solved.copy_(torch.linalg.solve_triangular(factor, part.contiguous(), upper=False))
    return out


def nonnegative_eigen(
    matrix: torch.Tensor, what: str, remedy: str, scale: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Eigenvalues (m,), none negative beyond rounding, and eigenvectors of a difference of things of ``scale``."""
    values, vectors = torch.linalg.eigh(matrix)
    tolerance = 100 * len(values) * torch.finfo(values.dtype).eps * values.abs().max().clamp_min(scale)
    if bool(values[0] < -tolerance):
        raise NotPositiveDefiniteError(f"{what} has the eigenvalue {float(values[0]):.3g}, beyond rounding; {remedy}")
    return values.clamp_min(0), vectors


def any_root(matrix: torch.Tensor, what: str, remedy: str) -> tuple[torch.Tensor, str]:
    """R with R Rᵀ = a positive semidefinite matrix, and by which factorisation: "eigh" where that is singular."""
    factor, info = torch.linalg.cholesky_ex(matrix)
    if not int(info):
        return factor, "cholesky"
    values, vectors = nonnegative_eigen(matrix, what, remedy)
    return vectors * values.sqrt(), "eigh"


def joint_draws(
    mean: torch.Tensor, covariance: torch.Tensor, n: int, seed: int, what: str, remedy: str, scale: float = 0.0
) -> torch.Tensor:
    """``n`` draws from N(mean (T,), covariance (T, T)), shape (n, T). The same ``seed`` gives the same draws."""
    generator = torch.Generator().manual_seed(seed)
    values, vectors = nonnegative_eigen(covariance, what, remedy, scale)
    normal = torch.randn(n, len(values), generator=generator, dtype=torch.float64).to(values)
    return mean + (normal * values.sqrt()) @ vectors.T

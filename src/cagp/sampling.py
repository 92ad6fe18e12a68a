"""Joint draws from a normal distribution whose covariance may be singular to working precision."""

from __future__ import annotations

import torch

from .errors import NotPositiveDefiniteError


def joint_draws(
    mean: torch.Tensor, covariance: torch.Tensor, n: int, seed: int, what: str, remedy: str
) -> torch.Tensor:
    """``n`` draws from N(mean (T,), covariance (T, T)), shape (n, T). The same ``seed`` gives the same draws."""
    generator = torch.Generator().manual_seed(seed)
    values, vectors = torch.linalg.eigh(covariance)
    # eigenvalues that rounding made negative are zero; anything beyond rounding is an error
    tolerance = 100 * len(values) * torch.finfo(values.dtype).eps * values.abs().max()
    if bool(values[0] < -tolerance):
        raise NotPositiveDefiniteError(f"{what} has the eigenvalue {float(values[0]):.3g}, beyond rounding; {remedy}")
    normal = torch.randn(n, len(values), generator=generator, dtype=torch.float64).to(values)
    return mean + (normal * values.clamp_min(0).sqrt()) @ vectors.T

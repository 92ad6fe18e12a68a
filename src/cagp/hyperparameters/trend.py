"""The coefficients of a mean, by generalised least squares."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..errors import InputError


@dataclass(frozen=True)
class Trend:
    """Coefficients (q,) of a mean, and their covariance (q, q) given the hyperparameters."""

    coefficients: torch.Tensor
    covariance: torch.Tensor


def fit_trend(basis: torch.Tensor, y: torch.Tensor) -> Trend:
    """Maximum-likelihood coefficients from the whitened basis L⁻¹H (n, q) and observations L⁻¹y (n,), where LLᵀ = G."""
    scale = basis.norm(dim=0).clamp_min(torch.finfo(basis.dtype).tiny)
    Q, R = torch.linalg.qr(basis / scale)
    size = R.diagonal().abs()
    if len(basis) < basis.shape[1] or size.min() <= 1e-13 * size.max():
        raise InputError(
            f"the mean has {basis.shape[1]} coefficients, which these {len(basis)} points do not determine; "
            "lower the degree, choose fewer columns, or leave refit_mean out"
        )
    coefficients = torch.linalg.solve_triangular(R, (Q.T @ y)[:, None], upper=True)[:, 0] / scale
    half = torch.linalg.inv(R) / scale[:, None]
    return Trend(coefficients, half @ half.T)

"""Cholesky factors, without jitter."""

from __future__ import annotations

import torch

from .errors import NotPositiveDefiniteError


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

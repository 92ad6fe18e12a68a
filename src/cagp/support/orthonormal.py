"""The columns of a matrix made orthonormal, or a clear refusal where they do not differ: what trends are made of."""

from __future__ import annotations

import torch

from ..errors import InputError


def orthonormal(basis: torch.Tensor, what: str = "the mean", least: float = 1e-13) -> tuple[torch.Tensor, torch.Tensor]:
    """Q (n, q) with orthonormal columns and a triangle R (q, q) with Q R = ``basis`` (n, q), however it is scaled;
    refused where a column is, but for ``least`` of its size, made up of those before it.
    """
    scale = torch.linalg.vector_norm(basis, torch.inf, dim=0) if len(basis) else basis.new_zeros(basis.shape[1])
    if len(basis) < basis.shape[1] or bool((scale == 0).any()):
        raise not_determined(basis.shape[1], len(basis), what)
    Q, R = torch.linalg.qr(basis / scale)  # the digits of torch.linalg.lstsq depend on where it finds memory
    size = R.diagonal().abs()
    if bool(size.min() <= least * size.max()):
        raise not_determined(basis.shape[1], len(basis), what)
    return Q, R * scale


def not_determined(coefficients: int, points: int, what: str = "the mean") -> InputError:
    """The error where the points say nothing about some direction of the coefficients."""
    return InputError(
        f"{what} has {coefficients} coefficients, which these {points} points do not determine; "
        "lower the degree, choose fewer columns, or give the coefficients"
    )

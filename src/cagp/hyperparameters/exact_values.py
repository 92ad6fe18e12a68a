"""The exact log-likelihood at many hyperparameters, without gradients: small matrices are factorised together."""

from __future__ import annotations

import math

import numpy as np
import torch

from ..errors import NotPositiveDefiniteError
from .likelihood import ExactLikelihood

_TOGETHER = 500
"""From so many observations on, matrices are factorised one by one."""

_BATCH_BYTES = 2**26


def exact_values(likelihood: ExactLikelihood, log_values: np.ndarray) -> np.ndarray:
    """log p at each row of logarithms (S, q), shape (S,); −∞ where G is not positive definite."""
    n = likelihood.data.size
    batch = max(1, _BATCH_BYTES // (8 * n**2)) if n < _TOGETHER else 1
    found = [_some(likelihood, log_values[i : i + batch]) for i in range(0, len(log_values), batch)]
    return np.concatenate(found)


def _some(likelihood: ExactLikelihood, log_values: np.ndarray) -> np.ndarray:
    data = likelihood.data
    factor, bad = _factors(likelihood, log_values)
    b = (data.y - data.mean).reshape(data.size, -1)
    right, q = b, 0
    if data.basis is not None:
        # every basis of the same functions gives the same restricted likelihood; with an orthonormal one
        # its term log det HᵀH is zero
        scaled = data.basis / data.basis.abs().amax(dim=0).clamp_min(torch.finfo(data.basis.dtype).tiny)
        right, q = torch.column_stack([torch.linalg.qr(scaled).Q, data.y.reshape(data.size, -1)]), data.basis.shape[1]
    outputs = right.shape[1] - q
    whitened = torch.linalg.solve_triangular(factor, right.expand(len(factor), -1, -1), upper=False)
    total = -outputs * factor.diagonal(dim1=1, dim2=2).log().sum(dim=1)
    residual = whitened[:, :, q:]
    if q:
        Q, R = torch.linalg.qr(whitened[:, :, :q])
        residual = residual - Q @ (Q.mT @ residual)
        total = total - outputs * R.diagonal(dim1=1, dim2=2).abs().log().sum(dim=1)
    total = total - 0.5 * residual.square().sum(dim=(1, 2)) - 0.5 * outputs * (data.size - q) * math.log(2 * math.pi)
    return torch.where(bad | ~total.isfinite(), -torch.inf, total).cpu().numpy()


def _factors(likelihood: ExactLikelihood, log_values: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """The Cholesky factors (S, n, n), and where there is none (S,)."""
    data, space = likelihood.data, likelihood.space
    values = space.values(log_values)
    if data.size >= _TOGETHER:
        try:
            factor = likelihood.factor(values[0]) * likelihood.amplitude[:, None]
            return factor[None], torch.tensor([False], device=data.y.device)
        except NotPositiveDefiniteError:
            unit = torch.ones(data.size, dtype=data.y.dtype, device=data.y.device).diag()
            return unit[None], torch.tensor([True], device=data.y.device)
    origin = data.X.mean(dim=0)
    matrices = data.X.new_empty(len(values), data.size, data.size)
    for matrix, each in zip(matrices, values, strict=True):
        kernel = space.kernel(each)
        embedding = kernel.embed(data.X, origin)
        matrix.copy_(kernel.evaluate(embedding, embedding))
        matrix.diagonal().add_(data.diagonal(space.noise(each)))
    factors, info = torch.linalg.cholesky_ex(matrices)
    bad = (info != 0) | ~factors.diagonal(dim1=1, dim2=2).isfinite().all(dim=1)
    factors[bad] = torch.eye(data.size, dtype=factors.dtype, device=factors.device)
    return factors, bad

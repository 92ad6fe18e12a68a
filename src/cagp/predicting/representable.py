"""Whether the numbers of a problem can be computed with: what would overflow is refused before work is done."""

from __future__ import annotations

import torch

from ..errors import InputError
from ..kernels import Embedding, embedding_leaves

_ROOM = 10.0
"""Squares are summed over coordinates, and products of two variances occur; so much is left between them and the end
of what a float type has."""


def largest(dtype: torch.dtype) -> float:
    """The largest coordinate, in lengthscales, and the largest variance that can be squared in this arithmetic."""
    return float(torch.finfo(dtype).max) ** 0.5 / _ROOM


def require_coordinates(embedding: Embedding, dtype: torch.dtype, name: str) -> None:
    """Refuse points whose squared distances, in the coordinates of the kernel, would overflow."""
    furthest = max(float(leaf.abs().max()) for leaf in embedding_leaves(embedding) if leaf.numel())
    if not furthest <= largest(dtype):
        raise InputError(
            f"{name} is too far out for its kernel: a coordinate of {furthest:g}, counted from the middle of the "
            f"training points in lengthscales, has no square in {dtype}; rescale the points, or give a longer "
            "lengthscale"
        )


def require_variances(diagonal: torch.Tensor, noise: torch.Tensor, y: torch.Tensor, dtype: torch.dtype) -> None:
    """Refuse a diagonal of G (d,), a noise (d,) and observations y (d,) that would overflow."""
    if bool((noise.to(dtype) < torch.finfo(dtype).tiny).any()):
        remedy = "give a larger one, or rescale y" if dtype == torch.float64 else "solve in float64"
        raise InputError(f"noise_variance is so small that it is as good as zero in {dtype}; {remedy}")
    widest = float(diagonal.max())
    if not torch.finfo(dtype).tiny ** 0.5 <= widest <= largest(dtype):
        raise InputError(
            f"the variance of an observation under the prior, {widest:g}, has no square in {dtype}; rescale y, and "
            "the kernel and the noise with it"
        )
    if not float(y.abs().max()) <= torch.finfo(dtype).max / _ROOM:
        raise InputError(f"y has the magnitude {float(y.abs().max()):g}, too large for {dtype}; rescale y")


def require_trend(values: torch.Tensor, name: str) -> None:
    """Refuse points where the functions (n, q) of a trend overflow."""
    if not bool(torch.isfinite(values).all()):
        raise InputError(f"{name} is too far out for the trend: its functions overflow there; rescale the points")

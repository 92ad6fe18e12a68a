"""Which way of drawing the prior suits the points: dense for few, Fourier transform on grids, neighbours anywhere."""

from __future__ import annotations

import torch

from ..errors import InputError
from ..kernels import Kernel, Varying, map_embedding
from ..support.memory import require
from .circulant import circulant_draws
from .prior_draws import ChangedDraws, DenseDraws, PriorDraws, distinct
from .vecchia_draws import VecchiaDraws

METHODS = ("auto", "dense", "circulant", "vecchia")

_DENSE = 2500  # so many points at most have the factor of their whole covariance by themselves: seconds, and exact


def prior_draws(kernel: Kernel, points: torch.Tensor, method: str, budget: int) -> PriorDraws:
    """Draws at ``points`` (N, p) by that method; "auto" takes the first of dense, circulant and Vecchia that suits."""
    if isinstance(kernel, Varying):
        amplitude = kernel.amplitude.at(points)
        return ChangedDraws(prior_draws(kernel.kernel, points, method, budget), lambda draws: draws.mul_(amplitude))
    if method == "circulant" or (method == "auto" and len(points) > _DENSE):
        on_grid, reason = circulant_draws(kernel, points, budget)
        if on_grid is not None:
            return on_grid
        if method == "circulant":
            raise InputError(f'method="circulant" does not suit: {reason}; "vecchia" works anywhere')
    embedding = kernel.embed(points, points.mean(dim=0))
    first, place = distinct(embedding)
    if len(first) < len(points):
        embedding = map_embedding(embedding, lambda part: part[:, first].contiguous())
    size = len(first)
    way: type[DenseDraws | VecchiaDraws] = VecchiaDraws
    needed = 5 * 8 * size**2
    if method == "dense" or (method == "auto" and size <= _DENSE and needed <= budget):
        remedy = 'draw at fewer points, or use method="vecchia"'
        require(needed, budget, f"the covariance matrix of {size} points", remedy)
        way = DenseDraws
    inner = way(kernel, embedding)
    return inner if len(first) == len(points) else ChangedDraws(inner, lambda draws: draws[:, place])

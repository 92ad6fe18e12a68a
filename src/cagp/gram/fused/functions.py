"""A covariance function in the form that the Triton kernels take, and which functions have it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import torch

from ...kernels import Embedding, Kernel, embedding_leaves
from ...kernels.radial_terms import radial_terms

MAX_COORDINATES = 32
"""Beyond that the coordinates of a tile no longer fit the registers."""

_MAX_FACTORS = 16

PROFILES = ("rbf", "matern12", "matern32", "matern52", "rational_quadratic")
"""What the Triton kernels can compute; they call a profile by its place in this list."""

_UNITS = {
    "rbf": math.sqrt(0.5 / math.log(2)),  # exp(−s/2) = 2^(−s′)
    "matern12": 1 / math.log(2),  # exp(−r) = 2^(−r′)
    "matern32": math.sqrt(3) / math.log(2),
    "matern52": math.sqrt(5) / math.log(2),
}
"""What coordinates are multiplied by, so that the kernel falls as a power of two."""


@cache
def installed() -> bool:
    """Whether Triton is there."""
    return find_spec("triton") is not None


@dataclass(frozen=True)
class Function:
    """A sum of products of radial kernels.

    ``factors`` is what the Triton kernels call FACTORS, ``parameters`` holds the variance and α of each factor,
    ``units`` what each coordinate is multiplied by. ``total`` is k(x, x).
    """

    factors: tuple[int, ...]
    parameters: tuple[float, ...]
    units: tuple[float, ...]
    total: float

    def coordinates(self, embedding: Embedding) -> torch.Tensor:
        """The points in the units of the Triton kernels, shape (coordinates, points)."""
        joined = torch.cat(embedding_leaves(embedding))
        units = torch.tensor(self.units, dtype=joined.dtype, device=joined.device)
        return (joined * units[:, None]).contiguous()


def function_of(kernel: Kernel, embedding: Embedding) -> Function | None:
    """The kernel for points with this ``embedding`` as a ``Function``, or None where it has no such form."""
    terms = radial_terms(kernel, embedding)
    n_coordinates = sum(leaf.shape[0] for leaf in embedding_leaves(embedding))
    if terms is None or n_coordinates > MAX_COORDINATES or sum(map(len, terms)) > _MAX_FACTORS:
        return None
    factors: list[int] = []
    parameters: list[float] = []
    units = [1.0] * n_coordinates
    for term in terms:
        variance = math.prod(factor.variance for factor in term)
        for place, factor in enumerate(term):
            factors += [PROFILES.index(factor.profile), factor.first, factor.count, int(place == 0)]
            parameters += [variance, factor.alpha]
            unit = _UNITS.get(factor.profile) or math.sqrt(0.5 / factor.alpha)
            units[factor.first : factor.first + factor.count] = [unit] * factor.count
    total = sum(math.prod(factor.variance for factor in term) for term in terms)
    return Function(tuple(factors), tuple(parameters), tuple(units), total)

"""A covariance function in the form that the Triton kernels take, and which functions have it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec

import torch

from ... import kernels
from ...kernels import Embedding, Kernel, Radial, embedding_leaves
from ...kernels.base import embedding_coordinates

_MAX_COORDINATES = 32  # beyond that the coordinates of a tile no longer fit the registers
_MAX_FACTORS = 16
_KINDS = [each for each in vars(kernels).values() if isinstance(each, type) and issubclass(each, Radial)]

# The code of all profiles that the Triton kernels know, those of the package; its places are the numbers of them.
PROFILES = list(dict.fromkeys(kind.gpu_profile for kind in _KINDS if kind.gpu_profile is not None))


@cache
def installed() -> bool:
    """Whether Triton is there."""
    return find_spec("triton") is not None


@dataclass(frozen=True)
class Function:
    """A sum of products of radial kernels: FACTORS, the variance and α of each, units of coordinates, and k(x, x)."""

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
    terms = kernel.radial_terms(embedding)
    n_coordinates = embedding_coordinates(embedding)
    known = terms is not None and all(factor.kind.gpu_profile in PROFILES for term in terms for factor in term)
    if terms is None or not known or n_coordinates > _MAX_COORDINATES or sum(map(len, terms)) > _MAX_FACTORS:
        return None
    factors: list[int] = []
    parameters: list[float] = []
    units = [1.0] * n_coordinates
    for term in terms:
        variance = math.prod(factor.variance for factor in term)
        for place, factor in enumerate(term):
            factors += [PROFILES.index(factor.kind.gpu_profile), factor.first, factor.count, int(place == 0)]
            parameters += [variance, factor.parameter]
            unit = factor.kind.gpu_unit / math.sqrt(factor.parameter)
            units[factor.first : factor.first + factor.count] = [unit] * factor.count
    total = sum(math.prod(factor.variance for factor in term) for term in terms)
    return Function(tuple(factors), tuple(parameters), tuple(units), total)

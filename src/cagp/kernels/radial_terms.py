"""A kernel as a sum of products of radial kernels, where it is one: the form that fused GPU kernels work on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product


@dataclass(frozen=True)
class Factor:
    """variance · profile(|a − b|²) on the coordinates ``first`` … ``first + count − 1`` of all embeddings together.

    ``profile`` is the ``profile_name`` of the radial kernel; ``alpha`` the exponent of a rational quadratic one.
    """

    profile: str
    first: int
    count: int
    variance: float
    alpha: float


_MAX_TERMS = 64
"""A kernel that falls into more is better evaluated as it was written."""

Terms = tuple[tuple[Factor, ...], ...]
"""The outer tuple is a sum, each inner one a product."""


def sum_of_terms(parts: Sequence[Terms]) -> Terms:
    """The sum of several sums of products."""
    return tuple(term for terms in parts for term in terms)


def product_of_terms(parts: Sequence[Terms]) -> Terms | None:
    """The product of several sums is the sum of all products, and they multiply; None where they get too many."""
    if math.prod(map(len, parts)) > _MAX_TERMS:
        return None
    return tuple(tuple(factor for term in chosen for factor in term) for chosen in product(*parts))

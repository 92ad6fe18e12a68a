"""A kernel as a sum of products of radial kernels, where it is one: the form that compiled code and GPUs work on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

COMPILED_FROM = 4e7  # kernel values from which on compiled code for them pays, which has to be loaded
_MAX_TERMS = 64  # a kernel that falls into more is better evaluated as it was written

# Of a squared scaled distance s and a parameter: the profile, its derivative in s, and in the log of the parameter.
ScalarProfile = Callable[[float, float], tuple[float, float, float]]


def decay(x: float) -> float:
    """exp(−x) for x ≥ 0, for profiles; compiled code has one of its own, which fits vector units."""
    return math.exp(-x)


@dataclass(frozen=True)
class Factor:
    """variance · profile(|a − b|²) on the coordinates ``first`` … ``first + count − 1`` of all embeddings together."""

    kind: Any  # the class of the radial kernel
    first: int
    count: int
    variance: float
    parameter: float  # what the profile depends on, 1 where there is nothing


Terms = tuple[tuple[Factor, ...], ...]  # a sum of products


def sum_of_terms(parts: Sequence[Terms]) -> Terms:
    """The sum of several sums of products."""
    return tuple(term for terms in parts for term in terms)


def product_of_terms(parts: Sequence[Terms]) -> Terms | None:
    """The product of several sums is the sum of all products, and they multiply; None where they get too many."""
    if math.prod(map(len, parts)) > _MAX_TERMS:
        return None
    return tuple(tuple(factor for term in chosen for factor in term) for chosen in product(*parts))


class Plan(NamedTuple):
    """Terms as the arrays that compiled code reads."""

    ends: np.ndarray  # term t is variances[t] times the factors ends[t] … ends[t + 1] − 1
    variances: np.ndarray
    codes: np.ndarray  # of each factor f: the address of its compiled loop, which another process does not share
    first: np.ndarray  # its profile is of the squared distance over the coordinates first[f] … last[f] − 1
    last: np.ndarray
    parameters: np.ndarray  # what its profile depends on

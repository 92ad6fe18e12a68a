"""A kernel as a sum of products of radial kernels, where it is one: the form that fused GPU kernels work on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import torch

from .base import Embedding, Kernel, OnColumns, Product, Sum, embedding_leaves
from .geographic import Geographic
from .radial import RBF, Matern12, Matern32, Matern52, Periodic, Radial, RationalQuadratic

PROFILES: dict[type[Radial], str] = {
    Matern12: "matern12",
    Matern32: "matern32",
    Matern52: "matern52",
    RBF: "rbf",
    Periodic: "rbf",  # on the circle, where its embedding puts the points
    RationalQuadratic: "rational_quadratic",
}


@dataclass(frozen=True)
class Factor:
    """variance · profile(|a − b|²) on the coordinates ``first`` … ``first + count − 1`` of all embeddings together."""

    profile: str
    first: int
    count: int
    variance: float
    alpha: float


_MAX_TERMS = 64
"""A kernel that falls into more is better evaluated as it was written."""

Terms = tuple[tuple[Factor, ...], ...]
"""The outer tuple is a sum, each inner one a product."""


def radial_terms(kernel: Kernel, embedding: Embedding) -> Terms | None:
    """The kernel as terms on ``torch.cat(embedding_leaves(embedding))``, or None where it has no such form."""
    return _terms(kernel, embedding, 0)


def _terms(kernel: Kernel, embedding: Embedding, first: int) -> Terms | None:
    if isinstance(kernel, (OnColumns, Geographic)):
        return _terms(kernel.kernel, embedding, first)
    if isinstance(kernel, (Sum, Product)):
        parts: list[Terms] = []
        for inner, part in zip(kernel.kernels, embedding, strict=True):
            terms = _terms(inner, part, first)
            if terms is None:
                return None
            parts.append(terms)
            first += sum(leaf.shape[0] for leaf in embedding_leaves(part))
        if isinstance(kernel, Sum):
            return tuple(term for terms in parts for term in terms)
        # a product of sums is the sum of all products, and they multiply
        if math.prod(map(len, parts)) > _MAX_TERMS:
            return None
        return tuple(tuple(factor for term in chosen for factor in term) for chosen in product(*parts))
    profile = PROFILES.get(type(kernel))  # type: ignore[arg-type]  # a subclass may have any profile
    if profile is None or not isinstance(kernel, Radial):
        return None
    alpha = _number(kernel.alpha) if isinstance(kernel, RationalQuadratic) else 1.0
    return ((Factor(profile, first, embedding_leaves(embedding)[0].shape[0], _number(kernel.variance), alpha),),)


def _number(value: float | torch.Tensor) -> float:
    return float(value.detach() if isinstance(value, torch.Tensor) else value)

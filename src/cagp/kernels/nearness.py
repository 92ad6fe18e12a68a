"""In which coordinates near points are strongly correlated: what a search tree for neighbours needs to know."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Embedding, Kernel, OnColumns, Product, Sum, embedding_leaves, slice_embedding
from .varying import Varying


@dataclass(frozen=True)
class _Part:
    """A part of a kernel that falls with distance: in which leaves of the embedding, on which columns, how strongly."""

    leaves: tuple[int, ...]
    columns: frozenset[int] | None  # None for all of them
    variance: float


def near_leaves(kernel: Kernel, embedding: Embedding) -> tuple[int, ...]:
    """The places in ``embedding_leaves(embedding)`` that make up the coordinates for a search; none if none is radial.

    In a product the distances of all factors that fall with distance count together. Of a sum the term with the most
    variance decides, and others only about columns which that one does not see. Any rule that does not look at y is
    calibrated; this one finds good neighbours.
    """
    part = _part(kernel, embedding, 0)
    return () if part is None else part.leaves


def _part(kernel: Kernel, embedding: Embedding, first: int) -> _Part | None:
    if isinstance(kernel, OnColumns):
        inner = _part(kernel.kernel, embedding, first)
        return inner and _Part(inner.leaves, frozenset(kernel.columns), inner.variance)
    if kernel.radial:
        leaves = tuple(range(first, first + len(embedding_leaves(embedding))))
        return _Part(leaves, None, float(kernel.diagonal(slice_embedding(embedding, 0, 1))[0]))
    if isinstance(kernel, Varying):
        return _part(kernel.kernel, embedding[0], first)
    if not isinstance(kernel, (Sum, Product)):
        inner_kernel = getattr(kernel, "kernel", None)  # Geographic, and wrappers from outside
        return _part(inner_kernel, embedding, first) if isinstance(inner_kernel, Kernel) else None
    parts = []
    for inner_kernel, inner_embedding in zip(kernel.kernels, embedding, strict=True):
        part = _part(inner_kernel, inner_embedding, first)
        first += len(embedding_leaves(inner_embedding))
        if part is not None:
            parts.append(part)
    if not parts:
        return None
    added = isinstance(kernel, Sum)
    whole, *others = sorted(parts, key=lambda part: -part.variance) if added else parts
    for part in others:
        known = whole.columns is None or (part.columns is not None and part.columns <= whole.columns)
        if added and known:
            continue
        columns = None if whole.columns is None or part.columns is None else whole.columns | part.columns
        variance = whole.variance + part.variance if added else whole.variance * part.variance
        whole = _Part(whole.leaves + part.leaves, columns, variance)
    return whole

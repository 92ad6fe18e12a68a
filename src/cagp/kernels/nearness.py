"""In which coordinates near points are strongly correlated: what a search tree for neighbours needs to know.

In a product the distances of all factors that fall with distance count together. In a sum each term counts by how much
the covariance falls with its distances between neighbours: s of Σᵢ wᵢ sᵢ, with wᵢ the average semivariance of a term
over its average squared distance, there. What a rough term of short reach tells about a column is then worth more than
what a strong term does that hardly falls. Any rule that does not look at y is calibrated; this one finds neighbours as
good as those of the largest correlations, among as many as one likes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch

from .base import Embedding, Kernel, Product, Sum, embedding_leaves, embedding_size, map_embedding
from .coregionalised import Coregionalised
from .varying import Varying

# The coordinates of a search: leaves of an embedding by their places, and the scale of each of their rows (q, 1).
Near: TypeAlias = tuple[tuple[int, torch.Tensor], ...]

_SAMPLE, _CENTRES = 4000, 300  # among so many points so many look for neighbours
_NEIGHBOURS = 100  # of all points so many are neighbours, and as large a share of the sample
_DIFFERENCES = "donot_use_mm_for_euclid_dist"  # products of matrices would lose the digits of small distances
_ALIKE = 1e-6  # of the largest coordinate: rows that differ by no more are the same
_ROUNDS = 2  # weights say who is near, and who is near says what the weights are


def near_coordinates(kernel: Kernel, embedding: Embedding, first: int = 0, size: int | None = None) -> Near:
    """What makes up the coordinates for a search, see ``coordinates_of``; nothing if no part falls with distance.

    The leaves of this ``embedding`` are those from the place ``first`` on. Where a ``size`` is given, they are those of
    ``looked_at(size)`` alone, of so many points.
    """
    if kernel.radial:
        leaves = enumerate(embedding_leaves(embedding), first)
        return tuple((place, leaf.new_ones(len(leaf), 1)) for place, leaf in leaves)
    if isinstance(kernel, (Varying, Coregionalised)):  # of several quantities all are near that are near in space
        return near_coordinates(kernel.kernel, embedding[0], first, size)
    if not isinstance(kernel, (Sum, Product)):
        inner = getattr(kernel, "kernel", None)  # Geographic, columns, and wrappers from outside
        return near_coordinates(inner, embedding, first, size) if isinstance(inner, Kernel) else ()
    terms = []
    for (inner, places), own in zip(_of_places(kernel.kernels, embedding), embedding, strict=True):
        if near := near_coordinates(inner, places, first, size):
            terms.append(_Term(inner, places, first, near))
        first += len(embedding_leaves(own))
    if isinstance(kernel, Product) or len(terms) < 2:
        return tuple(each for term in terms for each in term.near)
    return _summed(terms, size)


def _of_places(kernels: Sequence[Kernel], embedding: Embedding) -> list[tuple[Kernel, Embedding]]:
    """The kernels with their embeddings; of terms of several quantities what they say about places alone, as large as
    the share that they have of a quantity on average.
    """
    several = [np.square(each.deviations) for each in kernels if isinstance(each, Coregionalised)]
    found: list[tuple[Kernel, Embedding]] = []
    for each, own in zip(kernels, embedding, strict=True):
        if isinstance(each, Coregionalised):
            share = float(np.mean(np.square(each.deviations) / sum(several)))
            found.append((each.kernel.scaled(share), own[0]))
        else:
            found.append((each, own))
    return found


def coordinates_of(near: Near, embedding: Embedding) -> torch.Tensor:
    """Points, given by their embedding, in the coordinates of a search (n, q)."""
    leaves = embedding_leaves(embedding)
    parts = [leaves[place] if bool((scale == 1).all()) else leaves[place] * scale for place, scale in near]
    return (parts[0] if len(parts) == 1 else torch.cat(parts)).T


@dataclass(frozen=True)
class _Term:
    """A term of a sum: its kernel, its embedding, whose leaves begin at the place ``first``, and its coordinates."""

    kernel: Kernel
    embedding: Embedding
    first: int
    near: Near

    def some(self, rows: torch.Tensor) -> _Term:
        """The same of some points (m,)."""
        return replace(self, embedding=map_embedding(self.embedding, lambda part: part[:, rows]))

    @property
    def coordinates(self) -> torch.Tensor:
        """The points in its own coordinates (n, q)."""
        own = tuple((place - self.first, scale) for place, scale in self.near)
        return coordinates_of(own, self.embedding)


def looked_at(size: int) -> np.ndarray:
    """The rows, of so many points, that say what the coordinates of a sum are."""
    return np.arange(size) if size <= _SAMPLE else np.random.default_rng(0).integers(0, size, _SAMPLE)


def _summed(terms: list[_Term], size: int | None) -> Near:
    """The coordinates of a sum of terms that fall with distance."""
    n, device = embedding_size(terms[0].embedding), embedding_leaves(terms[0].embedding)[0].device
    rows = looked_at(n) if size is None else np.arange(n)
    size = n if size is None else size
    sample = [term.some(torch.from_numpy(rows).to(device)) for term in terms]
    centres = torch.arange(0, len(rows), -(-len(rows) // _CENTRES), device=device)
    squares, falls, weights = [], [], []
    for term in sample:
        there = term.some(centres)
        squares.append(torch.cdist(there.coordinates, term.coordinates, compute_mode=_DIFFERENCES).square())
        variance = term.kernel.diagonal(there.embedding)[:, None]
        falls.append(variance - term.kernel.evaluate(there.embedding, term.embedding))
        weights.append(variance.mean().sqrt())
    whole = sum(term.kernel.diagonal(term.embedding).mean() for term in sample)
    k = min(len(rows), 1 + max(2, _NEIGHBOURS * len(rows) // size))  # a point finds itself
    for _ in range(_ROUNDS):
        distance = torch.stack([w * s for w, s in zip(weights, squares, strict=True)]).sum(dim=0)
        near = distance.topk(k, dim=1, largest=False).indices
        found = [(f.gather(1, near).sum(), s.gather(1, near).sum()) for f, s in zip(falls, squares, strict=True)]
        weights = [
            2 * fall / (whole * square) if square > 0 else w for (fall, square), w in zip(found, weights, strict=True)
        ]
    scaled = [(place, scale * w.sqrt()) for term, w in zip(terms, weights, strict=True) for place, scale in term.near]
    leaves = {place: leaf for term in sample for place, leaf in enumerate(embedding_leaves(term.embedding), term.first)}
    return _merged(scaled, leaves)


def _merged(near: list[tuple[int, torch.Tensor]], leaves: dict[int, torch.Tensor]) -> Near:
    """The same distances in fewer coordinates: leaves whose rows are multiples of those of another one go into it."""
    kept: list[tuple[int, torch.Tensor]] = []
    for place, scale in near:
        for i, (other, its) in enumerate(kept):
            A, B = leaves[other], leaves[place]
            if len(A) != len(B):
                continue
            times = ((A * B).sum(dim=1, keepdim=True) / (A * A).sum(dim=1, keepdim=True)).nan_to_num()
            if bool(((B - times * A).abs() <= _ALIKE * B.abs().amax(dim=1, keepdim=True)).all()):
                kept[i] = other, (its.square() + (times * scale).square()).sqrt()
                break
        else:
            kept.append((place, scale))
    return tuple(kept)

"""For every point, its nearest neighbours among the points that come before it in the order.

Near is what the kernel calls near. Where the kernel falls with the distance between embeddings, a search tree finds
neighbours in O(n log n); for sums, products and users' own functions the neighbours are those with the largest
squared correlation, found by looking at all pairs, O(n²) time in bounded memory.
"""

from __future__ import annotations

import math

import torch

from ..gram.neighbours import Search, search
from ..kernels import Embedding, Kernel, embedding_size, slice_embedding

NONE = -1
"""Stands where a point has fewer than k predecessors."""

_BLOCK_ENTRIES = 2**22


def previous_neighbours(kernel: Kernel, X: torch.Tensor, k: int) -> torch.Tensor:
    """Indices (n, k) of the k nearest of the earlier points for each point of X (n, p); ``NONE`` fills up.

    The order is that of the rows of X. Searched where X is, given on the CPU.
    """
    embedding = kernel.embed(X, X.mean(dim=0))
    if kernel.radial and isinstance(embedding, torch.Tensor):
        return _by_search(embedding.T.contiguous(), k).cpu()
    return _by_correlation(kernel, embedding, k)


def _by_search(coordinates: torch.Tensor, k: int) -> torch.Tensor:
    """Blocks that double in size, each searched among its own points and all before them.

    In a random order at least half of those points come before the one asked about, so a little more than 2k
    candidates are enough for nearly all; the others ask again for twice as many.
    """
    n = len(coordinates)
    found = torch.full((n, k), NONE, dtype=torch.int64, device=coordinates.device)
    start, stop = 0, min(n, 4 * (k + 1))
    while start < n:
        known = search(coordinates[:stop])
        todo = torch.arange(start, stop, device=coordinates.device)
        candidates = min(stop, 2 * k + 4 * math.isqrt(2 * k) + 4)
        while len(todo):
            step = max(1, _BLOCK_ENTRIES // candidates)
            todo = torch.cat([_take(known, coordinates, part, candidates, found) for part in todo.split(step)])
            candidates = min(stop, 2 * candidates)
        start, stop = stop, min(n, 2 * stop)
    return found


def _take(
    known: Search, coordinates: torch.Tensor, asked: torch.Tensor, candidates: int, found: torch.Tensor
) -> torch.Tensor:
    """Fill in the neighbours of the points ``asked``; returns those that need more candidates."""
    near = known.query(coordinates[asked], candidates)
    earlier = near < asked[:, None]
    k = found.shape[1]
    enough = earlier.sum(dim=1) >= asked.clamp_max(k)
    order = (~earlier).to(torch.uint8).argsort(dim=1, stable=True)[:, :k]  # the earlier ones first, nearest first
    chosen = torch.where(earlier.gather(1, order), near.gather(1, order), NONE)
    found[asked[enough], : chosen.shape[1]] = chosen[enough]
    return asked[~enough]


def _by_correlation(kernel: Kernel, embedding: Embedding, k: int) -> torch.Tensor:
    n = embedding_size(embedding)
    found = torch.full((n, k), NONE, dtype=torch.int64)
    scale = kernel.diagonal(embedding).sqrt()
    step = max(1, _BLOCK_ENTRIES // n)
    for top in range(0, n, step):
        bottom = min(top + step, n)
        rows = slice_embedding(embedding, top, bottom)
        columns = slice_embedding(embedding, 0, bottom)
        strength = (kernel.evaluate(rows, columns) / scale[:bottom]).abs()
        later = torch.arange(bottom) >= torch.arange(top, bottom)[:, None]
        strength.masked_fill_(later.to(strength.device), -1.0)
        best = strength.topk(min(k, bottom), dim=1)
        found[top:bottom, : best.indices.shape[1]] = torch.where(best.values >= 0, best.indices, NONE).cpu()
    return found

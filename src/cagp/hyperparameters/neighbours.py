"""For every point, its nearest neighbours among the points that come before it in the order.

Near is what the kernel calls near. Where the kernel falls with the distance between embeddings, a search tree finds
neighbours in O(n log n); for sums, products and users' own functions the neighbours are those with the largest
squared correlation, found by looking at all pairs, O(n²) time in bounded memory.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.spatial import cKDTree

from ..kernels import Embedding, Kernel, embedding_size, slice_embedding

NONE = -1
"""Stands where a point has fewer than k predecessors."""

_BLOCK_ENTRIES = 2**22


def previous_neighbours(kernel: Kernel, X: torch.Tensor, k: int) -> torch.Tensor:
    """Indices (n, k) of the k nearest of the earlier points for each point of X (n, p); ``NONE`` fills up.

    The order is that of the rows of X. Always on the CPU.
    """
    embedding = kernel.embed(X, X.mean(dim=0))
    if kernel.radial and isinstance(embedding, torch.Tensor):
        return torch.from_numpy(_by_tree(embedding.T.contiguous().cpu().numpy(), k))
    return _by_correlation(kernel, embedding, k)


def _by_tree(coordinates: np.ndarray, k: int) -> np.ndarray:
    """Blocks that double in size, each with a tree of its own points and all before them.

    In a random order at least half of the points in that tree come before the one asked about, so a little more than
    2k candidates are enough for nearly all; the others ask again for twice as many.
    """
    n = len(coordinates)
    found = np.full((n, k), NONE, dtype=np.int64)
    start, stop = 0, min(n, 4 * (k + 1))
    while start < n:
        tree = cKDTree(coordinates[:stop])
        todo = np.arange(start, stop)
        candidates = min(stop, 2 * k + 4 * math.isqrt(2 * k) + 4)
        while len(todo):
            step = max(1, _BLOCK_ENTRIES // candidates)
            short = [_take(tree, coordinates, part, candidates, found) for part in _split(todo, step)]
            todo = np.concatenate(short)
            candidates = min(stop, 2 * candidates)
        start, stop = stop, min(n, 2 * stop)
    return found


def _split(indices: np.ndarray, step: int) -> list[np.ndarray]:
    return [indices[i : i + step] for i in range(0, len(indices), step)]


def _take(tree: cKDTree, coordinates: np.ndarray, asked: np.ndarray, candidates: int, found: np.ndarray) -> np.ndarray:
    """Fill in the neighbours of the points ``asked``; returns those that need more candidates."""
    _, near = tree.query(coordinates[asked], k=candidates, workers=torch.get_num_threads())
    near = near.reshape(len(asked), candidates)
    earlier = near < asked[:, None]
    k = found.shape[1]
    enough = earlier.sum(axis=1) >= np.minimum(k, asked)
    order = np.argsort(~earlier, axis=1, kind="stable")[:, :k]  # the earlier ones first, nearest first
    chosen = np.where(np.take_along_axis(earlier, order, axis=1), np.take_along_axis(near, order, axis=1), NONE)
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

"""For every point, its nearest neighbours among the points that come before it in the order.

Where the kernel falls with the distance between embeddings, a search tree finds neighbours in O(n log n); for sums,
products and users' own functions they are those with the largest squared correlation, found by looking at all pairs.
Among too many points for that, a tree takes over in the coordinates of ``near_coordinates``, where there are any.
"""

from __future__ import annotations

import hashlib
import math
import operator
import threading

import torch

from ..kernels import Embedding, Kernel, embedding_size, map_embedding, slice_embedding
from ..kernels.nearness import coordinates_of, near_coordinates
from .covariances import Covariances
from .neighbours import search

NONE = -1  # stands where a point has fewer than k predecessors that vary
_BLOCK_ENTRIES = 2**22  # pairs that are in memory together
_FEW = 4  # A tree of more points than this for each one asked about is built in a hurry
_ALL_PAIRS = 2**22  # pairs that are looked at one by one where a tree would do nearly as well
_MANY, _FASTER = 32, 8  # of more points than this for each one asked about, blocks grow so fast: fewer trees are built
_REMEMBERED = 4  # answers that are kept, of few points among many

_answers: dict[bytes, torch.Tensor] = {}
_asking = threading.Lock()


def previous_neighbours(kernel: Kernel, X: torch.Tensor, k: int, places: torch.Tensor | None = None) -> torch.Tensor:
    """Indices (m, k), on the CPU, of the k nearest of the earlier points for points of X (n, p); ``NONE`` fills up.

    ``places`` (m,) are the points asked about, ascending; None for all of them. Only these cost anything.
    """
    return previous_neighbours_of(kernel, kernel.embed(X, X.mean(dim=0)), k, places).cpu()


def previous_neighbours_of(
    kernel: Kernel, embedding: Embedding, k: int, places: torch.Tensor | None = None
) -> torch.Tensor:
    """The same for points that are given by their ``embedding``; where a tree is searched, given where they are."""
    n = embedding_size(embedding)
    asked = torch.arange(n) if places is None else places
    searched = (kernel.radial and isinstance(embedding, torch.Tensor)) or len(asked) * n > _ALL_PAIRS
    near = near_coordinates(kernel, embedding) if searched else ()
    if not near:
        return _by_correlation(kernel, embedding, k, asked)
    coordinates = coordinates_of(near, embedding).contiguous()
    few = coordinates.device.type == "cpu" and n > _FEW * len(asked)
    return (_remembered if few else _by_search)(coordinates, k, asked.to(coordinates.device))


def _remembered(coordinates: torch.Tensor, k: int, asked: torch.Tensor) -> torch.Tensor:
    """What ``_by_search`` gives, or gave lately: fits that begin where another has ended ask the same once more."""
    digest = hashlib.sha256(repr((k, tuple(coordinates.shape))).encode())
    for each in (coordinates, asked):
        digest.update(each.numpy().data)
    question = digest.digest()
    with _asking:
        found = _answers.get(question)
    if found is None:
        found = _by_search(coordinates, k, asked)
        with _asking:
            _answers[question] = found
            while len(_answers) > _REMEMBERED:
                del _answers[next(iter(_answers))]
    return found


def _by_search(coordinates: torch.Tensor, k: int, asked: torch.Tensor) -> torch.Tensor:
    """Blocks that grow, each searched among its own points and all before them."""
    # in a random order at least half of those points come before the one asked about, so a little more than 2k
    # candidates are enough for nearly all; the others ask again for twice as many
    n = len(coordinates)
    found = torch.full((len(asked), k), NONE, dtype=torch.int64, device=coordinates.device)
    start, stop = 0, min(n, 4 * (k + 1))
    while start < n:
        todo = torch.nonzero((asked >= start) & (asked < stop))[:, 0]
        if len(todo):
            known = search(coordinates[:stop], few=stop > _FEW * len(todo))
        candidates = min(stop, 2 * k + 4 * math.isqrt(2 * k) + 4)
        while len(todo):
            step = max(1, _BLOCK_ENTRIES // candidates)
            near = (known.query(coordinates[asked[part]], candidates) for part in todo.split(step))
            todo = torch.cat([_take(*each, asked, found) for each in zip(near, todo.split(step), strict=True)])
            candidates = min(stop, 2 * candidates)
        start, stop = stop, min(n, (_FASTER if stop > _MANY * len(asked) else 2) * stop)
    return found


def _take(near: torch.Tensor, rows: torch.Tensor, asked: torch.Tensor, found: torch.Tensor) -> torch.Tensor:
    """Fill in ``rows`` of what is ``found`` from candidates ``near``; returns the rows that need more of them."""
    own, k = asked[rows], found.shape[1]
    earlier = near < own[:, None]
    enough = earlier.sum(dim=1) >= own.clamp_max(k)
    order = (~earlier).to(torch.uint8).argsort(dim=1, stable=True)[:, :k]  # the earlier ones first, nearest first
    chosen = torch.where(earlier.gather(1, order), near.gather(1, order), NONE)
    found[rows[enough], : chosen.shape[1]] = chosen[enough]
    return rows[~enough]


def _by_correlation(kernel: Kernel, embedding: Embedding, k: int, asked: torch.Tensor) -> torch.Tensor:
    n = embedding_size(embedding)
    found = torch.full((len(asked), k), NONE, dtype=torch.int64)
    scale = kernel.diagonal(embedding).sqrt()
    covariances = Covariances(kernel, embedding, torch.zeros_like(scale))
    covariances.expect(len(asked) * n)
    step = max(1, _BLOCK_ENTRIES // n)
    for top in range(0, len(asked), step):
        own = asked[top : top + step]
        bottom = int(own[-1]) + 1
        rows = map_embedding(embedding, operator.itemgetter((slice(None), own)))
        columns = slice_embedding(embedding, 0, bottom)
        with covariances.between(rows, columns) as strength:
            strength.div_(scale[:bottom]).abs_()
            later = torch.arange(bottom) >= own[:, None]
            strength.masked_fill_(later.to(strength.device) | ~(scale[:bottom] > 0), -1.0)  # no variance, nothing known
            best = strength.topk(min(k, bottom), dim=1)
            nearest = torch.where(best.values >= 0, best.indices, NONE).cpu()
            found[top : top + len(own), : nearest.shape[1]] = nearest
    return found

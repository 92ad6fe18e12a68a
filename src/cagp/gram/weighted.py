"""Sums of covariances with weights: B k(P, Q) and B k(P, P) Bᵀ for points P and Q, tile by tile, nothing kept.

What they cost is the kernel values: as many as there are pairs of points, half of them where both sets are the same.
Tiles stay in the cache of a core, and sums are added up in a fixed order, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch

from ..kernels import Embedding, embedding_size, map_embedding, slice_embedding
from ..support.threads import share_out
from .covariances import Covariances

_TILE = {"cpu": (256, 1024), "cuda": (4096, 2**14)}
"""Rows and columns that are computed at once."""

_STRIP = 4096
"""Columns of B k(P, P) that are in memory at once."""

_SPARSE = 8
"""A block of weights of which less than one in so many is not zero is multiplied as a sparse matrix."""

_COMPILED_FROM = 4e7
"""Kernel values from which on compiled code for them pays, which has to be loaded."""


def weighted(cov: Covariances, B: sp.csr_array, P: Embedding, Q: Embedding) -> torch.Tensor:
    """B k(P, Q) for weights B (m, points of P), shape (m, points of Q), without noise."""
    n, width = embedding_size(Q), _TILE[cov.device.type][1]
    _expect(cov, embedding_size(P) * n)
    out = torch.zeros(B.shape[0], n, dtype=cov.dtype, device=cov.device)
    parts = list(_parts(cov, B))

    def tile(left: int) -> None:
        columns, target = slice_embedding(Q, left, left + width), out[:, left : left + width]
        for part in parts:
            with cov.between(slice_embedding(P, part.start, part.stop), columns) as K:
                part.add(K, target)

    share_out(tile, range(0, n, width), cov.device)
    return out


def form(cov: Covariances, B: sp.csr_array, P: Embedding) -> torch.Tensor:
    """B k(P, P) Bᵀ, shape (m, m), without noise; each pair of points once."""
    n, total = embedding_size(P), torch.zeros(B.shape[0], B.shape[0], dtype=cov.dtype, device=cov.device)
    _expect(cov, n * n / 2)
    by_column = B.tocsc()
    for first in range(0, n, _STRIP):
        last = min(first + _STRIP, n)
        strip, own = slice_embedding(P, first, last), sp.csr_array(by_column[:, first:last])
        inside = _times(own, weighted(cov, own, strip, strip).T)
        total += (inside + inside.T) / 2
        if last < n:
            rest = sp.csr_array(by_column[:, last:])
            outside = _times(own, weighted(cov, rest, slice_embedding(P, last, n), strip).T)
            total += outside + outside.T
    return total


def form_diagonal(cov: Covariances, B: sp.csr_array, P: Embedding) -> torch.Tensor:
    """The diagonal of B k(P, P) Bᵀ, shape (m,): the points of each row of B among themselves, where those are fewer."""
    found = torch.empty(B.shape[0], dtype=cov.dtype, device=cov.device)
    for rows in together(B):
        some = B[rows]
        used = np.unique(some.indices)
        where, at = (torch.from_numpy(each.astype(np.int64)).to(cov.device) for each in (used, rows))
        found[at] = form(cov, sp.csr_array(some[:, used]), take(P, where)).diagonal()
    return found


def take(P: Embedding, which: torch.Tensor) -> Embedding:
    """Some of the points of an embedding: indices (k,)."""
    return map_embedding(P, lambda leaf: leaf[:, which])


def together(B: sp.csr_array) -> list[np.ndarray]:
    """Rows of weights that are best worked on together: those on the same points, or all, whichever has fewer pairs."""
    alike: dict[bytes, list[int]] = {}
    for row in range(B.shape[0]):
        alike.setdefault(B.indices[B.indptr[row] : B.indptr[row + 1]].tobytes(), []).append(row)
    groups = [np.array(rows, dtype=np.int64) for rows in alike.values()]
    pairs = sum(float(B.indptr[rows[0] + 1] - B.indptr[rows[0]]) ** 2 for rows in groups)
    if pairs > float(len(np.unique(B.indices))) ** 2:
        return [np.arange(B.shape[0])]
    return groups


def _expect(cov: Covariances, values: float) -> None:
    if values >= _COMPILED_FROM:
        cov.compile_blocks()


@dataclass(frozen=True)
class _Part:
    """The columns ``start`` … ``stop`` − 1 of weights in the rows ``which`` (r,) that are not zero there."""

    start: int
    stop: int
    which: torch.Tensor | slice
    values: torch.Tensor

    def add(self, K: torch.Tensor, out: torch.Tensor) -> None:
        """Add the product with K (columns, n) to ``out`` (m, n)."""
        out[self.which] += self.values @ K


def _parts(cov: Covariances, B: sp.csr_array) -> Iterator[_Part]:
    height, columns = _TILE[cov.device.type][0], B.tocsc()
    for start in range(0, B.shape[1], height):
        stop = min(start + height, B.shape[1])
        block = sp.csr_array(columns[:, start:stop])
        rows = np.flatnonzero(np.diff(block.indptr))
        if not len(rows):
            continue
        values = _as_tensor(sp.csr_array(block[rows]), cov)
        which = slice(None) if len(rows) == B.shape[0] else torch.from_numpy(rows.astype(np.int64)).to(cov.device)
        yield _Part(start, stop, which, values)


def _times(B: sp.csr_array, M: torch.Tensor) -> torch.Tensor:
    """B M for weights B (m, n) and M (n, c), shape (m, c)."""
    return _as_tensor(B, M) @ M


def _as_tensor(B: sp.csr_array, like: torch.Tensor | Covariances) -> torch.Tensor:
    """The weights as a matrix, sparse where it pays."""
    if B.nnz * _SPARSE >= B.shape[0] * B.shape[1]:
        return torch.from_numpy(B.toarray()).to(dtype=like.dtype, device=like.device)
    where = torch.from_numpy(np.stack(B.nonzero()).astype(np.int64))
    values = torch.from_numpy(B.data).to(dtype=like.dtype)
    return torch.sparse_coo_tensor(where, values, B.shape, check_invariants=False).to(like.device)

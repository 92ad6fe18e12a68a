"""Sums of covariances with weights: B k(P, Q) and B k(P, P) Bᵀ for points P and Q, tile by tile, nothing kept.

Sums are added up in a fixed order, whatever the number of threads. And the linear functionals that they are for,
averages, differences and integrals of f, seen as test points: A f(X′) has the covariances A k(X′, X) with the training
points, A k(X′, X′) Aᵀ with each other, and the basis A h(X′) of a trend, which is all that a solver asks.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
import torch

from ..errors import InputError
from ..kernels import Embedding, embedding_leaves, embedding_size, map_embedding, slice_embedding
from ..support.threads import share_out
from .covariances import Covariances
from .gram import Cross, Gram, PortablePoints

_TILE = {"cpu": (256, 1024), "cuda": (4096, 2**14)}  # rows and columns that are computed at once
_NO_PLACE = "an average is not a place: it has no neighbours and is not sent to workers; ask its points"
_MANY = 1e6  # covariances that are worth all threads
STRIP = 4096  # columns of B k(P, P) that are in memory at once
_SPARSE = 8  # A block of weights of which less than one in so many is not zero is multiplied as a sparse matrix


def weighted(cov: Covariances, B: sp.csr_array, P: Embedding, Q: Embedding) -> torch.Tensor:
    """B k(P, Q) for weights B (m, points of P), shape (m, points of Q), without noise."""
    n, width = embedding_size(Q), _TILE[cov.device.type][1]
    cov.expect(embedding_size(P) * n)
    out = torch.zeros(B.shape[0], n, dtype=cov.dtype, device=cov.device)
    parts = list(_parts(cov, B))

    def tile(left: int) -> None:
        columns, target = slice_embedding(Q, left, left + width), out[:, left : left + width]
        for rows, which, values in parts:
            with cov.between(slice_embedding(P, rows.start, rows.stop), columns) as K:
                target[which] += values @ K

    share_out(tile, range(0, n, width), cov.device, large=embedding_size(P) * n >= _MANY)
    return out


def form(cov: Covariances, B: sp.csr_array, P: Embedding) -> torch.Tensor:
    """B k(P, P) Bᵀ, shape (m, m), without noise; each pair of points once."""
    n, total = embedding_size(P), torch.zeros(B.shape[0], B.shape[0], dtype=cov.dtype, device=cov.device)
    cov.expect(n * n / 2)
    by_column = B.tocsc()
    for first in range(0, n, STRIP):
        last = min(first + STRIP, n)
        strip, own = slice_embedding(P, first, last), sp.csr_array(by_column[:, first:last])
        weights = _as_tensor(own, cov)
        inside = weights @ weighted(cov, own, strip, strip).T
        total.add_(inside + inside.T, alpha=0.5)
        if last < n:
            rest = sp.csr_array(by_column[:, last:])
            outside = weights @ weighted(cov, rest, slice_embedding(P, last, n), strip).T
            total += outside + outside.T
    return total


def form_diagonal(cov: Covariances, B: sp.csr_array, P: Embedding) -> torch.Tensor:
    """The diagonal of B k(P, P) Bᵀ, shape (m,): the points of each row of B among themselves, where those are fewer."""
    found = torch.empty(B.shape[0], dtype=cov.dtype, device=cov.device)
    for rows in together(B):
        some = B[rows]
        used = np.unique(some.indices)
        where, at = (torch.from_numpy(each.astype(np.int64)).to(cov.device) for each in (used, rows))
        own = map_embedding(P, operator.itemgetter((slice(None), where)))
        found[at] = form(cov, sp.csr_array(some[:, used]), own).diagonal()
    return found


def error_covariance(A: Cross, W: sp.csr_array, B: Cross, U: sp.csr_array) -> torch.Tensor:
    """The covariance between the errors f(A) − W y and f(B) − U y, of sparse weights (a, d) and (b, d): (a, b)."""
    gram = A.gram
    left, right = (np.flatnonzero(np.bincount(each.indices, minlength=gram.size)) for each in (W, U))
    own = sp.csr_array(sp.hstack([sp.eye_array(A.size), -W[:, left]]))
    K = weighted(gram, own, _beside(A, left), _beside(B, right))
    noise = gram.noise[torch.from_numpy(right).to(gram.device)]
    with_data = K[:, B.size :] - torch.from_numpy(W[:, right].toarray()).to(noise) * noise
    place = np.zeros(gram.size, dtype=U.indices.dtype)
    place[right] = np.arange(len(right))
    narrow = sp.csr_array((U.data, place[U.indices], U.indptr), shape=(B.size, len(right)))
    return K[:, : B.size] - torch.from_numpy((narrow @ with_data.double().cpu().numpy().T).T).to(K)


def _beside(points: Cross, indices: np.ndarray) -> Embedding:
    """Test points and, behind them, training points ``indices`` (n,)."""
    others = iter(embedding_leaves(points.gram.chosen(torch.from_numpy(indices).to(points.gram.device))))
    return map_embedding(points.test, lambda leaf: torch.cat([leaf, next(others)], dim=1))


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


def _parts(cov: Covariances, B: sp.csr_array) -> Iterator[tuple[slice, torch.Tensor | slice, torch.Tensor]]:
    """Columns of weights, the rows (r,) that are not zero there, and the weights in them (r, columns)."""
    height, columns = _TILE[cov.device.type][0], B.tocsc()
    for start in range(0, B.shape[1], height):
        stop = min(start + height, B.shape[1])
        block = sp.csr_array(columns[:, start:stop])
        rows = np.flatnonzero(np.diff(block.indptr))
        if not len(rows):
            continue
        values = _as_tensor(sp.csr_array(block[rows]), cov)
        which = slice(None) if len(rows) == B.shape[0] else torch.from_numpy(rows.astype(np.int64)).to(cov.device)
        yield slice(start, stop), which, values


def _as_tensor(B: sp.csr_array, like: Covariances) -> torch.Tensor:
    """The weights as a matrix, sparse where it pays."""
    if B.nnz * _SPARSE >= B.shape[0] * B.shape[1]:
        return torch.from_numpy(B.toarray()).to(dtype=like.dtype, device=like.device)
    where = torch.from_numpy(np.stack(B.nonzero()).astype(np.int64))
    values = torch.from_numpy(B.data).to(dtype=like.dtype)
    return torch.sparse_coo_tensor(where, values, B.shape, check_invariants=False).to(like.device)


class Functionals(Cross):
    """Functionals with weights A (m, T) of f at the test points of another ``Cross``, less those without a weight."""

    travels = False

    def __init__(self, points: Cross, A: sp.csr_array) -> None:
        used = np.unique(A.indices)
        if len(used) < A.shape[1]:
            where = torch.from_numpy(used.astype(np.int64)).to(points.gram.device)
            points, A = points.rows(where), sp.csr_array(A[:, used])
        self.points, self.A = points, A
        basis = None
        if points.basis is not None:
            basis = torch.from_numpy(A @ points.basis.double().cpu().numpy()).to(points.basis)
        super().__init__(points.gram, points.kernel, points.test, basis)
        self.size = A.shape[0]
        self._variance: torch.Tensor | None = None

    @property
    def matrix(self) -> torch.Tensor:
        """A k(X′, X), shape (m, d); computed once."""
        if self._matrix is None:
            self._matrix = weighted(self.gram, self.A, self.points.test, self.gram.embedding)
        return self._matrix

    def columns(self, indices: torch.Tensor) -> torch.Tensor:
        """A k(X′, X[indices]), shape (m, k)."""
        return weighted(self.gram, self.A, self.points.test, self.gram.chosen(indices))

    def prior_variance(self) -> torch.Tensor:
        """diag(A k(X′, X′) Aᵀ), shape (m,); computed once."""
        if self._variance is None:
            self._variance = form_diagonal(self.gram, self.A, self.points.test)
        return self._variance.clone()

    def prior_scale(self) -> torch.Tensor:
        """|A| times the standard deviations at the points, shape (m,): what is added and subtracted on the way."""
        spread = self.points.prior_variance().sqrt().double().cpu().numpy()
        return torch.from_numpy(abs(self.A) @ spread).to(self.gram.noise)

    def prior_covariance(self) -> torch.Tensor:
        """A k(X′, X′) Aᵀ, shape (m, m)."""
        return form(self.gram, self.A, self.points.test)

    def error_covariance(self, W: sp.csr_array) -> torch.Tensor:
        """C(W) of sparse weights W (m, d), shape (m, m): that of A f(X′) − W y, one sum over the points of both."""
        used = np.unique(W.indices)
        own = sp.csr_array(W[:, used])
        noise = self.gram.noise[torch.from_numpy(used.astype(np.int64)).to(self.gram.device)].double().cpu().numpy()
        total = form(self.gram, sp.csr_array(sp.hstack([self.A, -own])), _beside(self.points, used.astype(np.int64)))
        return total + torch.from_numpy((own * noise[None, :] @ own.T).toarray()).to(total)

    def rows(self, part: slice | torch.Tensor) -> Functionals:
        """Some of the functionals: a slice, a mask (m,), or indices."""
        chosen = np.arange(self.size)[part if isinstance(part, slice) else part.cpu().numpy()]
        some = Functionals(self.points, sp.csr_array(self.A[chosen]))
        some._matrix = None if self._matrix is None else self._matrix[part]
        some._variance = None if self._variance is None else self._variance[part]
        return some

    def seen_by(self, gram: Gram) -> Functionals:
        """The same functionals for another Gram matrix of the same training points; itself where it is this one."""
        return self if gram is self.gram else Functionals(self.points.seen_by(gram), self.A)

    def portable(self) -> PortablePoints:
        raise InputError(_NO_PLACE)

    def nearest(self, k: int) -> torch.Tensor:
        raise InputError(_NO_PLACE)

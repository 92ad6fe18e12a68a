"""The slopes of f at test points, seen as test points themselves: ∂f/∂x has the covariances ∂k(x, X)/∂x with the data.

What a kernel makes of points is differentiated forwards: a row carries its point, in the coordinates of the kernel, and
how these change along one of the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

import torch
from torch.autograd import forward_ad

from ..errors import InputError
from ..kernels import Embedding, Kernel, embedding_leaves, embedding_size, map_embedding, slice_embedding
from .gram import Cross, Gram, Pair, PortablePoints

_ROWS, _COLUMNS = 256, 2048  # covariances that are computed at once
_LEVEL = Lock()  # torch has one level of dual numbers for the whole process, whatever the thread


class Slopes(Cross):
    """∂f/∂xⱼ at T points with p columns, T p rows, those of a point together: the ``test`` points, each p times.

    ``along`` (coordinates, T p) says how their embedding changes, ``variance`` (T p,) is that under the prior, and
    ``basis`` (T p, q) are the slopes of a trend.
    """

    travels, of_values = False, False

    def __init__(
        self,
        gram: Gram,
        kernel: Kernel,
        test: Embedding,
        along: Embedding,
        variance: torch.Tensor,
        basis: torch.Tensor | None,
    ) -> None:
        super().__init__(gram, kernel, test, basis)
        self._along, self._variance = along, variance

    @classmethod
    def of(cls, points: Cross, slopes: Embedding, basis: torch.Tensor | None) -> tuple[Slopes, torch.Tensor]:
        """Those at ``points`` (T), whose embedding changes by ``slopes`` (coordinates, T, p), in float64.

        And the covariance of the slopes at each point under the prior, shape (T, p, p).
        """
        place = map_embedding(points.test, torch.Tensor.double)
        within = points.kernel.at_itself(place, slopes).second.to(points.gram.noise)
        p = within.shape[1]
        test = map_embedding(points.test, lambda leaf: leaf.repeat_interleave(p, dim=1))
        along = map_embedding(slopes, lambda leaf: leaf.flatten(1).to(points.gram.noise))
        variance = within.diagonal(dim1=1, dim2=2).flatten()
        cast = None if basis is None else basis.to(points.gram.noise)
        return cls(points.gram, points.kernel, test, along, variance, cast), within

    @property
    def matrix(self) -> torch.Tensor:
        if self._matrix is None:
            self._matrix = self._between(self.gram.embedding)
        return self._matrix

    def columns(self, indices: torch.Tensor) -> torch.Tensor:
        return self._between(self.gram.chosen(indices))

    def _between(self, train: Embedding) -> torch.Tensor:
        """The covariances with training points, tile by tile, shape (T p, n)."""
        n = embedding_size(train)
        out = torch.empty(self.size, n, dtype=self.gram.dtype, device=self.gram.device)
        for top in range(0, self.size, _ROWS):
            test, along = (slice_embedding(each, top, top + _ROWS) for each in (self.test, self._along))
            for left in range(0, n, _COLUMNS):
                right = slice_embedding(train, left, left + _COLUMNS)
                out[top : top + _ROWS, left : left + _COLUMNS] = _changes(self.kernel, test, along, right)
        return out

    @contextmanager
    def systems(self, rows: torch.Tensor, indices: torch.Tensor) -> Iterator[Pair]:
        test, along = (map_embedding(each, lambda leaf: leaf[:, rows]) for each in (self.test, self._along))
        with self.gram.blocks(indices) as G:
            yield G, _changes(self.kernel, test, along, self.gram.chosen(indices))

    def prior_variance(self) -> torch.Tensor:
        return self._variance.clone()

    def rows(self, part: slice | torch.Tensor) -> Slopes:
        test, along = (map_embedding(each, lambda leaf: leaf[:, part]) for each in (self.test, self._along))
        basis = None if self.basis is None else self.basis[part]
        return Slopes(self.gram, self.kernel, test, along, self._variance[part], basis)

    def seen_by(self, gram: Gram) -> Slopes:
        if gram is self.gram:
            return self
        test, along = (map_embedding(each, lambda leaf: leaf.to(gram.noise)) for each in (self.test, self._along))
        basis = None if self.basis is None else self.basis.to(gram.noise)
        return Slopes(gram, self.kernel, test, along, self._variance.to(gram.noise), basis)

    def prior_covariance(self) -> torch.Tensor:
        raise InputError("the covariance between slopes at different points is not computed; that at each point is")

    def portable(self) -> PortablePoints:
        raise InputError("slopes are not sent to workers")


def slopes_of_embedding(embed: Callable[[torch.Tensor], Embedding], X: torch.Tensor) -> Embedding:
    """How the embedding of points (T, p) changes along each of their columns, (coordinates, T, p)."""
    columns = []
    for j in range(X.shape[1]):
        along = torch.zeros_like(X)
        along[:, j] = 1.0
        with _LEVEL, forward_ad.dual_level():
            columns.append(map_embedding(embed(forward_ad.make_dual(X, along)), _tangent))
    others = iter(zip(*map(embedding_leaves, columns), strict=True))
    return map_embedding(columns[0], lambda leaf: torch.stack(next(others), dim=2))


def _tangent(leaf: torch.Tensor) -> torch.Tensor:
    value, change = forward_ad.unpack_dual(leaf)
    return torch.zeros_like(value) if change is None else change


def _changes(kernel: Kernel, test: Embedding, along: Embedding, train: Embedding) -> torch.Tensor:
    """How k(test, train) changes where the test points move ``along``: the derivative, of the same shape."""
    # in double precision, because single has no number small enough to keep roots of distances from zero
    test, along, exact = (map_embedding(each, torch.Tensor.double) for each in (test, along, train))
    with _LEVEL, forward_ad.dual_level():
        moving = iter(embedding_leaves(along))
        block = kernel.evaluate(map_embedding(test, lambda leaf: forward_ad.make_dual(leaf, next(moving))), exact)
        return _tangent(block).to(embedding_leaves(train)[0])

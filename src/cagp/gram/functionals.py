"""Linear functionals of f seen as test points: averages, differences, integrals over points X′.

For weights A (m, T) the functionals A f(X′) have the covariances A k(X′, X) with the training points, A k(X′, X′) Aᵀ
with each other, and the basis A h(X′) of a trend. That is all that a solver and a posterior ask of test points, so m of
them cost m right-hand sides, however many points there are. The covariances cost T d and T²/2 kernel values.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import scipy.sparse as sp
import torch

from ..errors import InputError
from ..kernels import Embedding, embedding_leaves, map_embedding
from .gram import Cross, Gram, PortablePoints
from .weighted import form, form_diagonal, weighted


class Functionals(Cross):
    """Functionals with weights A (m, T) of f at the test points of another ``Cross``, which are ``points``.

    Points that no functional has a weight on are left out.
    """

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
        some = torch.from_numpy(used.astype(np.int64)).to(self.gram.device)
        own = sp.csr_array(W[:, used])
        noise = self.gram.noise[some].double().cpu().numpy()
        both = _side_by_side(self.points.test, self.gram.chosen(some))
        total = form(self.gram, sp.csr_array(sp.hstack([self.A, -own])), both)
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

    def at(self, points: Cross) -> Functionals:
        """The same functionals of the same points, about which a solver has found out more."""
        same = Functionals(points, self.A)
        same._matrix, same._variance = self._matrix, self._variance
        return same

    def portable(self) -> PortablePoints:
        """Refused: functionals are solved where they are."""
        return self._refuse()

    def nearest(self, k: int) -> torch.Tensor:
        """Refused: what is near to a functional is for the solver to say."""
        return self._refuse()

    def _refuse(self) -> NoReturn:
        raise InputError("an average is not a place: it has no neighbours and is not sent to workers; ask its points")


def _side_by_side(first: Embedding, second: Embedding) -> Embedding:
    """The points of one embedding, then those of another."""
    others = iter(embedding_leaves(second))
    return map_embedding(first, lambda leaf: torch.cat([leaf, next(others)], dim=1))

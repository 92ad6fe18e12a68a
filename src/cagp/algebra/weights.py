"""The kriging weights W: what every solver computes, and all that a posterior needs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch

from ..gram import Cross, Gram


@dataclass(frozen=True)
class Weights:
    """An approximation W of the exact kriging weights W* = G⁻¹ k(X, X′), one row per test point.

    ``values`` has shape (T, d), or (T, k) where the weights touch only the training points ``indices``, (k,) for all
    test points or (T, k) for each its own; zeros fill up a row. Where the solver works in an ``order`` (d,) of its own,
    column i of its values belongs to training point ``order[i]``. ``reduction`` (T,) is what they take off the prior
    variance: 2 diag(V W) − diag(Wᵀ G W). ``iteration`` counts what the solver calls an iteration, ``passes`` how often
    the whole of G was read. ``upper`` (T,) is a guaranteed and close bound on the computational variance, where the
    solver knows one. ``shift`` is what makes the weights unbiased for a trend: D (T, q) and S (q, d), in the order that
    the solver was given, whose product D S belongs to the weights too.
    """

    values: torch.Tensor
    reduction: torch.Tensor
    iteration: int
    passes: float
    size: int
    indices: torch.Tensor | None = None
    upper: torch.Tensor | None = None
    order: torch.Tensor | None = None
    shift: tuple[torch.Tensor, torch.Tensor] | None = None

    def apply(self, b: torch.Tensor) -> torch.Tensor:
        """Wᵀ b for b (d,) or (d, n), shape (T,) or (T, n)."""
        own = b if self.order is None else b[self.order]
        if self.indices is None:
            product = self.values @ own
        elif self.indices.ndim == 1:
            product = self.values @ own[self.indices]
        elif b.ndim == 1:
            product = torch.einsum("tk,tk->t", self.values, own[self.indices])
        else:
            product = weighted_sums(self.indices, self.values, own)
        if self.shift is not None:
            D, S = self.shift
            product = product + D @ (S @ b)
        return product

    def absolute(self) -> Weights:
        """At least the absolute values of the weights; the other fields as they are."""
        shift = None if self.shift is None else (self.shift[0].abs(), self.shift[1].abs())
        return replace(self, values=self.values.abs(), shift=shift)

    def dense(self) -> torch.Tensor:
        """W as rows in the order that the solver was given, shape (T, d)."""
        return self.in_order(None)

    def in_order(self, order: torch.Tensor | None) -> torch.Tensor:
        """W as rows (T, d) in that order of the training points; None is the order that the solver was given."""
        full = self.values
        if self.indices is not None:
            full = torch.zeros(self.values.shape[0], self.size, dtype=self.values.dtype, device=self.values.device)
            full.scatter_add_(1, self.indices.expand_as(self.values), self.values)  # what fills up a row is zero
        if order is self.order and self.shift is None:
            return full
        full = in_given_order(full, self.order)
        if self.shift is not None:
            full = torch.addmm(full, *self.shift)
        return in_order(full, order)

    @property
    def nbytes(self) -> int:
        """What keeping them takes."""
        held = [self.values, self.reduction, self.indices, *(self.shift or ())[:1]]
        return sum(each.nbytes for each in held if each is not None)

    @property
    def is_sparse(self) -> bool:
        """Whether they touch some of the training points only."""
        return self.indices is not None and self.shift is None

    def sparse(self) -> sp.csr_array:
        """W as sparse rows (T, d) in the order that the solver was given, where the weights are sparse."""
        assert self.indices is not None
        indices = self.indices.expand(self.values.shape)
        indices = indices if self.order is None else self.order[indices]
        values, where = self.values.double().cpu().numpy(), indices.cpu().numpy()
        starts = np.arange(len(values) + 1) * values.shape[1]
        rows = sp.csr_array((values.ravel(), where.ravel(), starts), shape=(len(values), self.size), copy=True)
        rows.sum_duplicates()  # what fills up a row is zero
        rows.eliminate_zeros()
        return rows

    def rows(self, part: slice | torch.Tensor) -> Weights:
        """The weights of some of the test points: a slice, or a mask (T,)."""
        indices = self.indices if self.indices is None or self.indices.ndim == 1 else self.indices[part]
        shift = None if self.shift is None else (self.shift[0][part], self.shift[1])
        values, reduction = self.values[part], self.reduction[part]
        return replace(self, values=values, reduction=reduction, indices=indices, upper=None, shift=shift)

    def frozen(self) -> Weights:
        """A copy that the solver's next iteration does not touch."""
        return replace(self, values=self.values.clone(), reduction=self.reduction.clone())


def weighted_sums(index: torch.Tensor, weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    """Σₖ weights[i, k] rows[index[i, k]] for each i, shape (m, n); index and weights (m, k), rows (d, n)."""
    found: torch.Tensor = torch.nn.functional.embedding_bag(index, rows, per_sample_weights=weights, mode="sum")
    return found


def in_order(rows: torch.Tensor, order: torch.Tensor | None) -> torch.Tensor:
    """Rows (T, d) with their columns in another order; as they are where it is None."""
    return rows if order is None else rows[:, order]


def in_given_order(rows: torch.Tensor, order: torch.Tensor | None) -> torch.Tensor:
    """Rows (T, d) whose columns are in that order, put back; as they are where it is None."""
    return rows if order is None else torch.empty_like(rows).index_copy_(1, order, rows)


def certified(values: torch.Tensor, cross: Cross) -> Weights:
    """Weights from any rows W (T, d) with the variance reduction that they really achieve: one product with G."""
    residual = cross.matrix - cross.gram.matmul(values)
    reduction = (values * (cross.matrix + residual)).sum(dim=1)
    return Weights(values, reduction, 0, 1.0, cross.gram.size)


def zero_weights(T: int, gram: Gram) -> Weights:
    """W = 0: the prior itself, iteration 0. Touches no training point and takes no memory."""
    none = torch.empty(0, dtype=torch.int64, device=gram.device)
    return Weights(gram.noise.new_zeros(T, 0), gram.noise.new_zeros(T), 0, 0.0, gram.size, none)

"""The kriging weights W: what every solver computes, and all that a posterior needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from ..gram import Cross


@dataclass(frozen=True)
class Weights:
    """An approximation W of the exact kriging weights W* = G⁻¹ k(X, X′), one row per test point.

    ``values`` has shape (T, d), or (T, k) where the weights touch only the training points ``indices``, (k,) for all
    test points or (T, k) for each its own. ``reduction`` (T,) is what they take off the prior variance:
    2 diag(V W) − diag(Wᵀ G W). ``iteration`` counts what the solver calls an iteration, ``passes`` how often the
    whole of G was read. ``upper`` (T,) is a guaranteed and close bound on the
    computational variance, where the solver knows one without further work.
    """

    values: torch.Tensor
    reduction: torch.Tensor
    iteration: int
    passes: float
    size: int
    indices: torch.Tensor | None = None
    upper: torch.Tensor | None = None

    def apply(self, b: torch.Tensor) -> torch.Tensor:
        """Wᵀ b for b (d,), shape (T,)."""
        if self.indices is None:
            return self.values @ b
        return (self.values * b[self.indices]).sum(dim=1)

    def dense(self) -> torch.Tensor:
        """W as rows, shape (T, d)."""
        if self.indices is None:
            return self.values
        full = torch.zeros(self.values.shape[0], self.size, dtype=self.values.dtype, device=self.values.device)
        return full.scatter_(1, self.indices.expand_as(self.values), self.values)

    def rows(self, part: slice | torch.Tensor) -> Weights:
        """The weights of some of the test points: a slice, or a mask (T,)."""
        indices = self.indices if self.indices is None or self.indices.ndim == 1 else self.indices[part]
        return replace(self, values=self.values[part], reduction=self.reduction[part], indices=indices, upper=None)

    def frozen(self) -> Weights:
        """A copy that the solver's next iteration does not touch."""
        return replace(self, values=self.values.clone(), reduction=self.reduction.clone())


def certified(values: torch.Tensor, cross: Cross) -> Weights:
    """Weights from any rows W (T, d) with the variance reduction that they really achieve: one product with G."""
    residual = cross.matrix - cross.gram.matmul(values)
    reduction = (values * (cross.matrix + residual)).sum(dim=1)
    return Weights(values, reduction, 0, 1.0, cross.gram.size)


def zero_weights(T: int, d: int, like: torch.Tensor) -> Weights:
    """W = 0: the prior itself, iteration 0. Touches no training point and takes no memory."""
    none = torch.empty(0, dtype=torch.int64, device=like.device)
    return Weights(like.new_zeros(T, 0), like.new_zeros(T), 0, 0.0, d, none)

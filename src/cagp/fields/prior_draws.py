"""Joint draws from the prior at many points: what every way of drawing them is, and the dense one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch

from ..kernels import Embedding, Kernel, embedding_leaves
from ..support.positive_definite import any_root

_SAME = 1e-10  # points are the same where their coordinates differ by less than this part of the largest


class PriorDraws(ABC):
    """A linear map from white noise to joint draws of f, without its mean, at N points.

    One draw takes ``noises`` standard normal numbers. ``how`` says in words which way this is and how good; ``exact``
    is whether the covariance of the draws is that of the prior, but for rounding.
    """

    noises: int
    how: str
    exact: bool
    method: str

    @abstractmethod
    def __call__(self, noise: torch.Tensor) -> torch.Tensor:
        """Draws (n, N) from ``noise`` (n, noises), float64."""


class DenseDraws(PriorDraws):
    """The factor of the whole covariance matrix."""

    exact, method = True, "dense"

    def __init__(self, kernel: Kernel, embedding: Embedding) -> None:
        remedy = "check that the kernel is positive semidefinite"
        self._root, _ = any_root(kernel.matrix(embedding, embedding), "the prior covariance", remedy)
        self.noises = len(self._root)
        self.how = f"from the factor of the whole covariance matrix of {len(self._root):,} points, exact"

    def __call__(self, noise: torch.Tensor) -> torch.Tensor:
        return noise @ self._root.T


class ChangedDraws(PriorDraws):
    """Draws of another way, each of which ``change`` makes (n, N) from (n, U)."""

    def __init__(self, inner: PriorDraws, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self._inner, self._change = inner, change
        self.noises, self.how, self.exact, self.method = inner.noises, inner.how, inner.exact, inner.method

    def __call__(self, noise: torch.Tensor) -> torch.Tensor:
        return self._change(self._inner(noise))


def distinct(embedding: Embedding) -> tuple[torch.Tensor, torch.Tensor]:
    """The first of each set of points that are the same to the kernel (U,), and for each point which set (N,)."""
    every = torch.cat(embedding_leaves(embedding)).double()
    unit = _SAME * every.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny / _SAME)
    whole = (every / unit).round().to(torch.int64)
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(2**62, (len(whole),), generator=generator).to(whole.device) * 2 + 1
    # one number for each point, which wraps around: different points agree with probability 2⁻⁶⁴
    _, label = (whole * factors[:, None]).sum(dim=0).unique(return_inverse=True)
    index = torch.arange(len(label), device=label.device)
    first = torch.full_like(index[: int(label.max()) + 1], len(label)).scatter_reduce_(0, label, index, "amin")
    # numbered as they come, so that nothing depends on the numbers above
    first, order = first.sort()
    return first, order.argsort()[label]

"""Joint draws from the prior at many points: what every way of drawing them is, and the dense one."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from ..errors import NotPositiveDefiniteError
from ..kernels import Embedding, Kernel, embedding_leaves

_SAME = 1e-10
"""Points are the same where their coordinates differ by less than this part of the largest."""


class PriorDraws(ABC):
    """A linear map from white noise to joint draws of f, without its mean, at N points.

    ``noises`` is how many standard normal numbers one draw takes. ``how`` says in words which way this is and how good;
    ``exact`` is whether the covariance of the draws is that of the prior, but for rounding.
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
        covariance = kernel.evaluate(embedding, embedding)
        factor, info = torch.linalg.cholesky_ex(covariance)
        if int(info):  # singular, as for smooth kernels: eigenvalues that rounding made negative are zero
            values, vectors = torch.linalg.eigh(covariance)
            if float(values[0]) < -100 * len(values) * torch.finfo(values.dtype).eps * float(values[-1]):
                raise NotPositiveDefiniteError(
                    f"the prior covariance has the eigenvalue {float(values[0]):.3g}, beyond rounding; check that the "
                    "kernel is positive semidefinite"
                )
            factor = vectors * values.clamp_min(0).sqrt()
        self._root = factor
        self.noises = len(factor)
        self.how = f"from the factor of the whole covariance matrix of {len(factor):,} points, exact"

    def __call__(self, noise: torch.Tensor) -> torch.Tensor:
        return noise @ self._root.T


class RepeatedDraws(PriorDraws):
    """Draws at distinct points, told for every point: ``place`` (N,) says which of the distinct ones it is."""

    def __init__(self, inner: PriorDraws, place: torch.Tensor) -> None:
        self._inner, self._place = inner, place
        self.noises, self.how, self.exact, self.method = inner.noises, inner.how, inner.exact, inner.method

    def __call__(self, noise: torch.Tensor) -> torch.Tensor:
        return self._inner(noise)[:, self._place]


class ScaledDraws(PriorDraws):
    """Draws times an ``amplitude`` (N,) at each point."""

    def __init__(self, inner: PriorDraws, amplitude: torch.Tensor) -> None:
        self._inner, self._amplitude = inner, amplitude
        self.noises, self.how, self.exact, self.method = inner.noises, inner.how, inner.exact, inner.method

    def __call__(self, noise: torch.Tensor) -> torch.Tensor:
        return self._inner(noise).mul_(self._amplitude)


def distinct(embedding: Embedding) -> tuple[torch.Tensor, torch.Tensor]:
    """The first of each set of points that are the same to the kernel (U,), and for each point which set (N,).

    Test points may be training points, and a pole has as many copies as there are longitudes.
    """
    every = torch.cat(embedding_leaves(embedding)).double()
    unit = _SAME * every.abs().amax(dim=1, keepdim=True).clamp_min(torch.finfo(torch.float64).tiny / _SAME)
    whole = (every / unit).round().to(torch.int64)
    generator = torch.Generator().manual_seed(0)
    factors = torch.randint(2**62, (len(whole),), generator=generator).to(whole.device) * 2 + 1
    # one number for each point, which wraps around: different points agree with probability 2⁻⁶⁴
    _, label = (whole * factors[:, None]).sum(dim=0).unique(return_inverse=True)
    count = int(label.max()) + 1
    index = torch.arange(len(label), device=label.device)
    first = torch.full((count,), len(label), device=label.device).scatter_reduce_(0, label, index, "amin")
    # numbered as they come, so that nothing depends on the numbers above
    first, order = first.sort()
    rank = torch.empty_like(order)
    rank[order] = torch.arange(count, device=label.device)
    return first, rank[label]

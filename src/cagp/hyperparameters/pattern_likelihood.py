"""The nearest-neighbour likelihood of an amplitude s and a noise pattern t that vary with the inputs.

A term is that of G = S C S + v T², with the covariance C of a point and its neighbours. Its derivatives in log s and
log t take two products with S C S: C is computed once, and hundreds of values may be free.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..gram.covariances import Covariances
from ..gram.previous_neighbours import NONE
from ..kernels import Kernel
from .observations import Observations
from .vecchia import block_factors, conditional_terms

_BATCH = 1500


@dataclass(frozen=True)
class ScaledBlocks:
    """Covariances C (m, k+1, k+1) of points with their neighbours, ``members`` (m, k+1), and what is observed there."""

    covariances: torch.Tensor
    members: torch.Tensor
    real: torch.Tensor
    b: torch.Tensor

    @classmethod
    def of(
        cls, kernel: Kernel, data: Observations, members: torch.Tensor, b: torch.Tensor, origin: torch.Tensor
    ) -> ScaledBlocks:
        real = members != NONE
        here, found = torch.where(real, members, 0), members.new_zeros(*members.shape, members.shape[1], dtype=b.dtype)
        all_of = Covariances(kernel, kernel.embed(data.X, origin), data.X.new_zeros(data.size))
        all_of.expect(found.numel())
        for some, there, out in zip(*(each.split(_BATCH) for each in (here, real, found)), strict=True):
            with all_of.blocks(some) as lower:
                both = there[:, :, None] & there[:, None, :]
                out.copy_(torch.where(both, lower.tril() + lower.tril(-1).mT, 0.0))
        return cls(found, here, real, b)

    def log_likelihood(
        self, amplitude: torch.Tensor, noise: torch.Tensor, fixed: torch.Tensor
    ) -> tuple[float, torch.Tensor]:
        """log p(b) but for a constant, and its slopes (n, 2) in the logarithms of amplitude and noise pattern."""
        total, slopes = 0.0, torch.zeros(len(amplitude), 2, dtype=torch.float64, device=amplitude.device)
        for members, value, pair in self._terms(amplitude, noise, fixed):
            total += value
            slopes.index_add_(0, members.reshape(-1), pair.reshape(-1, 2))
        return total, slopes

    def information(
        self, shares: torch.Tensor, amplitude: torch.Tensor, noise: torch.Tensor, fixed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The slopes (2c,) in the values at c centres, the amplitude's first, which have ``shares`` (n, c) in the logs.

        And how much they vary (2c, 2c), by the sum of their squares over the terms: none is foreseen by the others.
        """
        c = shares.shape[1]
        gradient, squares = shares.new_zeros(2 * c), shares.new_zeros(2 * c, 2 * c)
        for members, _, pair in self._terms(amplitude, noise, fixed):
            each = (pair.mT @ shares[members]).reshape(len(pair), 2 * c)
            gradient += each.sum(dim=0)
            squares += each.T @ each
        return gradient, squares

    def _terms(
        self, amplitude: torch.Tensor, noise: torch.Tensor, fixed: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, float, torch.Tensor]]:
        """A few terms at a time: their members (B, k+1), their sum, and the slopes at each member (B, k+1, 2)."""
        batches = (each.split(_BATCH) for each in (self.members, self.real, self.covariances))
        for members, real, C in zip(*batches, strict=True):
            s, v = (torch.where(real, each[members], 0.0) for each in (amplitude, noise))
            K = C * s[:, :, None] * s[:, None, :]
            factor = block_factors(K, real, v + fixed[members])
            observed = torch.where(real[:, :, None], self.b[members], 0.0)
            values, r, u = conditional_terms(factor, observed, observed.shape[2])
            products = K @ torch.stack([u, r], dim=2)
            slopes = [r * products[:, :, 0] + u * products[:, :, 1], 2 * r * u * v]
            yield members, float(values.sum()), torch.stack(slopes, dim=2)

"""The nearest-neighbour likelihood of an amplitude and a noise level that vary with the inputs.

With the covariance C of a point and its neighbours under a kernel, an amplitude s and a noise pattern t, a term of the
likelihood is that of G = S C S + v T². Its derivatives in log s and log t at each of the points take two products with
S C S and no differentiation of the kernel, so that C is computed once and hundreds of values may be free.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch

from ..kernels import Kernel, map_embedding
from .observations import Observations
from .previous_neighbours import NONE
from .vecchia import block_not_positive_definite

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
        here = torch.where(real, members, 0)
        parts = []
        for some in here.split(_BATCH):
            flat = kernel.embed(data.X[some.reshape(-1)], origin)
            embedding = map_embedding(flat, partial(torch.Tensor.reshape, shape=(-1, *some.shape)))
            parts.append(torch.func.vmap(kernel.evaluate, in_dims=1)(embedding, embedding))
        both = real[:, :, None] & real[:, None, :]
        return cls(torch.where(both, torch.cat(parts), 0.0), here, real, b)

    def log_likelihood(
        self, amplitude: torch.Tensor, noise: torch.Tensor, fixed: torch.Tensor
    ) -> tuple[float, torch.Tensor]:
        """log p(b) but for a constant, and its derivatives (n, 2) in the logarithms of amplitude and noise pattern.

        Each of ``amplitude``, ``noise`` and noise that is ``fixed`` is (n,).
        """
        total, slopes = 0.0, torch.zeros(len(amplitude), 2, dtype=torch.float64, device=amplitude.device)
        for members, value, pair in self._terms(amplitude, noise, fixed):
            total += value
            slopes.index_add_(0, members.reshape(-1), pair.reshape(-1, 2))
        return total, slopes

    def information(
        self, shares: torch.Tensor, amplitude: torch.Tensor, noise: torch.Tensor, fixed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The derivatives (2c,) in the values at c centres, which have ``shares`` (n, c) in the logarithms, those of
        the amplitude first; and how much they vary (2c, 2c), by the sum of their squares over the terms, of which none
        is foreseen by the others.
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
        for start in range(0, len(self.members), _BATCH):
            some = slice(start, start + _BATCH)
            members, real = self.members[some], self.real[some]
            s, v = (torch.where(real, each[members], 0.0) for each in (amplitude, noise))
            K = self.covariances[some] * s[:, :, None] * s[:, None, :]
            G = K.clone()
            G.diagonal(dim1=1, dim2=2).add_(torch.where(real, v + fixed[members], 1.0))
            factor, info = torch.linalg.cholesky_ex(G)
            if bool(info.any()):
                raise block_not_positive_definite(G.shape[1] - 1, int(info.max()))
            z = torch.linalg.solve_triangular(factor, torch.where(real[:, :, None], self.b[members], 0.0), upper=False)
            last, outputs = z[:, -1].clone(), z.shape[2]
            value = -float((0.5 * last.square().sum(dim=1) + outputs * factor[:, -1, -1].log()).sum())
            # as in the likelihood of ``vecchia``: the derivative in G is ½ (r uᵀ + u rᵀ)
            both = torch.cat([z, torch.zeros_like(z[:, :, :1])], dim=2)
            both[:, -1, :-1], both[:, -1, -1] = 0.0, 1.0
            solved = torch.linalg.solve_triangular(factor.mT, both, upper=True)
            a, u = solved[:, :, :-1], solved[:, :, -1]
            r = (a @ last[:, :, None])[:, :, 0] + 0.5 * (last.square().sum(dim=1) - outputs)[:, None] * u
            products = K @ torch.stack([u, r], dim=2)
            yield members, value, torch.stack([r * products[:, :, 0] + u * products[:, :, 1], 2 * r * u * v], dim=2)

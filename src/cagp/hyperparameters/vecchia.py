"""The nearest-neighbour (Vecchia) likelihood, for as many points as there are.

    log p(y) ≈ Σᵢ log p(yᵢ | y of the k nearest points before i),     points in random order

It is the exact likelihood of a Gaussian model, and the exact one of ours where k = n − 1. Each term needs one
(k+1) × (k+1) Cholesky factor L of the neighbours' and then the point's covariance. With z = L⁻¹b, u = L⁻ᵀe_last and
a = L⁻ᵀ(z without its last entry), the term is −½ z_last² − log L_last,last − ½ log 2π, and its derivative with
respect to that covariance is ½ (z_last (a uᵀ + u aᵀ) + (z_last² − 1) u uᵀ): no differentiation through factors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch

from ..errors import NotPositiveDefiniteError
from ..kernels import Kernel, map_embedding
from ..support.memory import require
from .likelihood import Evaluation, Likelihood, Trend, fit_trend, integrated_out, log_det
from .observations import Observations
from .previous_neighbours import NONE
from .search_space import Space
from .terms import Terms

_BATCH_BYTES = {"cpu": 4 * 2**20, "cuda": 256 * 2**20}
"""Of one (points, k+1, k+1) array: what stays in the cache, or keeps an accelerator busy."""

_COPIES = 24
"""Such arrays that are alive at once, besides four per coordinate."""


@dataclass(frozen=True)
class _Batch:
    """Blocks of neighbours and, last, the point itself: indices ``members`` (B, k+1), ``real`` where there is one.

    ``weights`` (B,) are those of the terms.
    """

    members: torch.Tensor
    real: torch.Tensor
    weights: torch.Tensor


def block_not_positive_definite(neighbours: int, row: int) -> NotPositiveDefiniteError:
    """The error where the covariance of a point and its neighbours has no factor."""
    return NotPositiveDefiniteError(
        f"the covariance of a point and its {neighbours} neighbours is not positive definite to working precision: the "
        f"factorisation failed at row {row}; a larger noise_variance helps, and so does removing near-duplicate points"
    )


@dataclass(frozen=True)
class _Right:
    """Right-hand sides: ``columns`` (n, outputs + q), and what else depends on hyperparameters but not on the batch.

    The first columns are those of the ``outputs``; the others count in the derivative alone, see ``integrated_out``.
    ``diagonal`` (n,) is the noise, ``slopes`` (n,) its derivative in the noise level; ``gain`` is what integrating the
    coefficients of the trend out adds.
    """

    columns: torch.Tensor
    outputs: int
    diagonal: torch.Tensor
    slopes: torch.Tensor
    trend: Trend | None
    gain: float


class VecchiaLikelihood(Likelihood):
    """O(n k³) time, memory for some thousand blocks at a time.

    The points of ``data`` are in their random order; the ``terms`` say which neighbours each has, and which count.
    They stay the same while the hyperparameters change, so that the likelihood is smooth.
    """

    def __init__(self, space: Space, data: Observations, terms: Terms, budget: int) -> None:
        super().__init__(space, data)
        self.terms = terms
        self._own, self._local = terms.compact(data)
        self._basis_log_det = 0.0 if data.basis is None else log_det(data.basis)
        k = terms.neighbours.shape[1]
        block_bytes = (k + 1) ** 2 * 8
        per_point = block_bytes * (_COPIES + 4 * data.X.shape[1])
        what = f"one point with {k} neighbours"
        require(per_point, budget, what, "take fewer n_neighbours or a larger memory_budget")
        quick = _BATCH_BYTES["cpu" if data.y.device.type == "cpu" else "cuda"] // block_bytes
        self._batch = min(data.size, max(1, quick), budget // per_point)

    def _batches(self) -> Iterator[_Batch]:
        terms, place = self._own, self.data.y.device
        for members, weights in zip(terms.members.split(self._batch), terms.weights.split(self._batch), strict=True):
            here = members.to(place)
            real = here != NONE
            yield _Batch(torch.where(real, here, 0), real, weights.to(place))

    def _covariance(self, kernel: Kernel, batch: _Batch) -> torch.Tensor:
        """k within each block, shape (B, k+1, k+1), differentiable; what belongs to no point is not meant."""
        count, size = batch.members.shape
        embedding = kernel.embed(self._local.X[batch.members.reshape(-1)], self.data.X.mean(dim=0))
        blocks = map_embedding(embedding, lambda part: part.reshape(-1, count, size))
        return torch.func.vmap(kernel.evaluate, in_dims=1)(blocks, blocks)

    def _factor(self, covariance: torch.Tensor, batch: _Batch, diagonal: torch.Tensor) -> torch.Tensor:
        """Cholesky factors of the blocks of G, shape (B, k+1, k+1); missing neighbours are independent of all."""
        both = batch.real[:, :, None] & batch.real[:, None, :]
        matrix = torch.where(both, covariance, 0.0)
        matrix.diagonal(dim1=1, dim2=2).add_(torch.where(batch.real, diagonal[batch.members], 1.0))
        factor, info = torch.linalg.cholesky_ex(matrix)
        if bool(info.any()):
            raise block_not_positive_definite(matrix.shape[1] - 1, int(info.max()))
        return factor

    def _whitened(self, kernel: Kernel, diagonal: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        """What neighbours do not predict of ``columns`` (n, q), in standard deviations, times √weight: (terms, q)."""
        parts = []
        for batch in self._batches():
            factor = self._factor(self._covariance(kernel, batch), batch, diagonal)
            right = torch.where(batch.real[:, :, None], columns[batch.members], 0.0)
            whitened = torch.linalg.solve_triangular(factor, right, upper=False)[:, -1]
            parts.append(whitened * batch.weights.sqrt()[:, None])
        return torch.cat(parts)

    @property
    def computed(self) -> int:
        return len(self.terms.places)

    def __call__(self, log_values: np.ndarray) -> Evaluation:
        right = self._right(log_values)
        leaves = self.leaves(log_values)
        total = torch.zeros(2, dtype=torch.float64, device=self.data.y.device)
        for batch in self._batches():
            total += self._add(batch, leaves, right)
        log_likelihood, noise_gradient = total.tolist()
        log_likelihood += right.gain - 0.5 * right.outputs * float(self.terms.weights.sum()) * math.log(2 * math.pi)
        if not math.isfinite(log_likelihood):
            raise NotPositiveDefiniteError("the log-likelihood is not finite: G is singular to working precision")
        return Evaluation(log_likelihood, self.gradient(log_values, leaves, noise_gradient), right.trend)

    def _right(self, log_values: np.ndarray) -> _Right:
        """What the factors are applied to, after the trend was found."""
        data, values = self._local, self.space.values(log_values)
        diagonal = data.diagonal(self.space.noise(values))
        b, trend = data.y - data.mean, None
        gain, further = 0.0, data.X.new_empty(data.size, 0)
        if data.basis is not None:
            columns = torch.column_stack([data.basis, data.y])
            whitened = self._whitened(self.space.kernel(values), diagonal, columns)
            q = data.basis.shape[1]
            trend = fit_trend(whitened[:, :q], whitened[:, q:].reshape(len(whitened), *data.y.shape[1:]))
            b = data.y - data.basis @ trend.coefficients
            if data.restricted:
                gain, further = integrated_out(data, trend, self._basis_log_det)
        b = b.reshape(data.size, -1)
        return _Right(torch.column_stack([b, further]), b.shape[1], diagonal, data.noise_slopes, trend, gain)

    def _add(self, batch: _Batch, leaves: list[torch.Tensor], right: _Right) -> torch.Tensor:
        """The batch's log-likelihood, without log 2π, and derivative in the noise (2,); leaves collect the others."""
        outputs = right.outputs
        covariance = self._covariance(self.space.kernel(leaves), batch)
        factor = self._factor(covariance.detach(), batch, right.diagonal)
        near = torch.where(batch.real[:, :, None], right.columns[batch.members], 0.0)
        z = torch.linalg.solve_triangular(factor, near, upper=False)
        last = z[:, -1].clone()
        squares = last.square().sum(dim=1)
        terms = -0.5 * last[:, :outputs].square().sum(dim=1) - outputs * factor[:, -1, -1].log()
        # (a, u) in one solve: the last unit vector beside z without its last entry
        both = torch.cat([z, torch.zeros_like(z[:, :, :1])], dim=2)
        both[:, -1, :-1], both[:, -1, -1] = 0.0, 1.0
        solved = torch.linalg.solve_triangular(factor.mT, both, upper=True)
        a, u = solved[:, :, :-1], solved[:, :, -1]
        # ½ (z (a uᵀ + u aᵀ) + (z² − 1) u uᵀ) = ½ (s uᵀ + u sᵀ) with s = z a + ½ (z² − 1) u, summed over the outputs
        s = (a @ last[:, :, None])[:, :, 0] + 0.5 * (squares - outputs)[:, None] * u
        s *= batch.weights[:, None]
        if covariance.requires_grad:
            weight = s[:, :, None] * u[:, None, :]  # the kernel is symmetric: half of the sum with its transpose is it
            (weight * covariance).sum().backward()  # type: ignore[no-untyped-call]
        return torch.stack([(batch.weights * terms).sum(), (s * u * right.slopes[batch.members]).sum()])

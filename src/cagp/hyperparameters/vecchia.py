"""The nearest-neighbour (Vecchia) likelihood, for as many points as there are.

    log p(y) ≈ Σᵢ log p(yᵢ | y of the k nearest points before i),     points in random order

Exact where k = n − 1. Each term needs one Cholesky factor L of the covariance of the neighbours and then the point.
With z = L⁻¹b, u = L⁻ᵀe_last and a = L⁻ᵀ(z without its last entry), the term is −½ z_last² − log L_last,last − ½ log 2π,
and its derivative in that covariance ½ (z_last (a uᵀ + u aᵀ) + (z_last² − 1) u uᵀ): nothing goes through factors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from ..errors import NotPositiveDefiniteError
from ..gram.previous_neighbours import NONE, previous_neighbours
from ..kernels import Kernel, Varying, map_embedding
from ..support.memory import require
from ..support.threads import share_out
from .likelihood import Evaluation, Likelihood, finite
from .observations import Observations
from .radial_plan import RadialPlan, compiled_plan
from .search_space import Space
from .terms import GivenTerms, Sample, Terms
from .trend_columns import TrendColumns, TrendEstimate

if TYPE_CHECKING:
    from .compiled_terms import Sums

_BATCH_BYTES = {"cpu": 4 * 2**20, "cuda": 256 * 2**20}  # of a (points, k+1, k+1) array: what suits cache or device
_COPIES = 24  # such arrays that are alive at once, besides four per coordinate
_SETTLED = 0.01  # neighbours are chosen anew until fewer than this fraction of them change (ties on grids always may)
_COMPARED = 10_000  # about so many points tell whether all distances change alike
_CHUNK = 512  # terms that a thread computes at a time; sums are added in order: the same on all machines


class _Batch(NamedTuple):
    """Terms with ``weights`` (B,): neighbours and, last, the point, ``members`` (B, k+1), if ``real``."""

    members: torch.Tensor
    real: torch.Tensor
    weights: torch.Tensor


def block_not_positive_definite(neighbours: int, row: int) -> NotPositiveDefiniteError:
    """The error where the covariance of a point and its neighbours has no factor."""
    return NotPositiveDefiniteError(
        f"the covariance of a point and its {neighbours} neighbours is not positive definite to working precision: the "
        f"factorisation failed at row {row}; a larger noise_variance helps, and so does removing near-duplicate points"
    )


def block_factors(covariances: torch.Tensor, real: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Cholesky factors of blocks of G (B, k+1, k+1), with ``noise`` (B, k+1); what is not ``real`` is independent."""
    matrix = torch.where(real[:, :, None] & real[:, None, :], covariances, 0.0)
    matrix.diagonal(dim1=1, dim2=2).add_(torch.where(real, noise, 1.0))
    factor, info = torch.linalg.cholesky_ex(matrix)
    if bool(info.any()):
        raise block_not_positive_definite(matrix.shape[1] - 1, int(info.max()))
    return factor


def conditional_terms(factor: torch.Tensor, right: torch.Tensor, outputs: int) -> tuple[torch.Tensor, ...]:
    """Terms (B,) of the first ``outputs`` columns, without log 2π, and s, u (B, k+1): slopes are ½ (s uᵀ + u sᵀ)."""
    z = torch.linalg.solve_triangular(factor, right, upper=False)
    last = z[:, -1].clone()
    terms = -0.5 * last[:, :outputs].square().sum(dim=1) - outputs * factor[:, -1, -1].log()
    # (a, u) in one solve: the last unit vector beside z without its last entry
    both = torch.cat([z, torch.zeros_like(z[:, :, :1])], dim=2)
    both[:, -1, :-1], both[:, -1, -1] = 0.0, 1.0
    solved = torch.linalg.solve_triangular(factor.mT, both, upper=True)
    a, u = solved[:, :, :-1], solved[:, :, -1]
    # ½ (z (a uᵀ + u aᵀ) + (z² − 1) u uᵀ) = ½ (s uᵀ + u sᵀ) with s = z a + ½ (z² − 1) u, summed over the columns
    return terms, (a @ last[:, :, None])[:, :, 0] + 0.5 * (last.square().sum(dim=1) - outputs)[:, None] * u, u


class NeighbourLikelihood(Likelihood):
    """Points of ``data`` are in a random order; ``terms``, which are held, say which count, and their neighbours.

    ``trend`` is that of the data, which likelihoods with other terms share; it is made where there is none.
    """

    def __init__(self, space: Space, data: Observations, terms: Terms, trend: TrendColumns | None) -> None:
        super().__init__(space, data)
        self.terms = terms
        self.own, used = terms.compact(data.size)  # about the rows in use
        self.local = data if used is None else data.rows(used)
        self._trend = trend or TrendColumns(data)
        self._columns = self._trend.of(used)

    @property
    def computed(self) -> int:
        return len(self.terms.places)

    def _value(self, terms: float, gain: float) -> float:
        """The log-likelihood from the sum of its ``terms`` without log 2π, and what integrating a trend out adds."""
        size = self._trend.outputs * float(self.terms.weights.sum())
        return finite(gain + terms - 0.5 * size * math.log(2 * math.pi))


class VecchiaLikelihood(NeighbourLikelihood):
    """By torch, for any kernel: memory for some thousand blocks at a time."""

    def __init__(
        self, space: Space, data: Observations, terms: Terms, budget: int, trend: TrendColumns | None = None
    ) -> None:
        super().__init__(space, data, terms, trend)
        k = terms.neighbours.shape[1]
        block_bytes = (k + 1) ** 2 * 8
        per_point = block_bytes * (_COPIES + 4 * data.X.shape[1])
        remedy = "take fewer n_neighbours or a larger memory_budget"
        require(per_point, budget, f"one point with {k} neighbours", remedy)
        quick = _BATCH_BYTES["cpu" if data.y.device.type == "cpu" else "cuda"] // block_bytes
        self._batch = min(data.size, max(1, quick), budget // per_point)

    def _batches(self) -> Iterator[_Batch]:
        terms, place = self.own, self.data.y.device
        for members, weights in zip(terms.members.split(self._batch), terms.weights.split(self._batch), strict=True):
            here = members.to(place)
            real = here != NONE
            yield _Batch(torch.where(real, here, 0), real, weights.to(place))

    def __call__(self, log_values: np.ndarray) -> Evaluation:
        values, outputs = self.space.values(log_values), self._trend.outputs
        noise = self.local.diagonal(self.space.noise(values))
        combined = self._trend.from_whitened(self._whitened(self.space.kernel(values), noise))
        columns, leaves = self._columns @ combined.parts, self.leaves(log_values)
        total, noise_slopes = noise.new_zeros(()), torch.zeros_like(noise)
        for batch in self._batches():
            covariance = self._covariance(self.space.kernel(leaves), batch)
            factor = block_factors(covariance.detach(), batch.real, noise[batch.members])
            near = torch.where(batch.real[:, :, None], columns[batch.members], 0.0)
            terms, s, u = conditional_terms(factor, near, outputs)
            s *= batch.weights[:, None]
            if covariance.requires_grad:  # symmetric: half of the sum with its transpose is it
                (s[:, :, None] * u[:, None, :] * covariance).sum().backward()  # type: ignore[no-untyped-call]
            noise_slopes.index_add_(0, batch.members.flatten(), torch.where(batch.real, s * u, 0.0).flatten())
            total += (batch.weights * terms).sum()
        gradient = self.gradient(log_values, leaves, noise_slopes, self.local)
        return Evaluation(self._value(float(total), combined.gain), gradient, combined.trend)

    def trend(self, log_values: np.ndarray) -> TrendEstimate | None:
        """The unknown coefficients of the mean at ``log_values`` (q,); None where there are none."""
        values = self.space.values(log_values)
        noise = self.local.diagonal(self.space.noise(values))
        return self._trend.from_whitened(self._whitened(self.space.kernel(values), noise)).trend

    def _covariance(self, kernel: Kernel, batch: _Batch) -> torch.Tensor:
        """k within each block, shape (B, k+1, k+1), differentiable; what belongs to no point is not meant."""
        count, size = batch.members.shape
        embedding = kernel.embed(self.local.X[batch.members.reshape(-1)], self.data.X.mean(dim=0))
        blocks = map_embedding(embedding, lambda part: part.reshape(-1, count, size))
        return torch.func.vmap(kernel.evaluate, in_dims=1)(blocks, blocks)

    def _whitened(self, kernel: Kernel, noise: torch.Tensor) -> torch.Tensor:
        """What neighbours do not predict of the columns, in standard deviations, times √weight: (terms, columns)."""
        parts = [self._columns[:0]]
        for batch in self._batches() if self._trend.q else ():
            factor = block_factors(self._covariance(kernel, batch), batch.real, noise[batch.members])
            right = torch.where(batch.real[:, :, None], self._columns[batch.members], 0.0)
            whitened = torch.linalg.solve_triangular(factor, right, upper=False)[:, -1]
            parts.append(whitened * batch.weights.sqrt()[:, None])
        return torch.cat(parts)


class CompiledVecchiaLikelihood(NeighbourLikelihood):
    """The same by compiled code on a CPU, in a fraction of the time: value, gradient and information in one pass."""

    informed = True

    def __init__(
        self, space: Space, data: Observations, terms: Terms, plan: RadialPlan, trend: TrendColumns | None = None
    ) -> None:
        super().__init__(space, data, terms, trend)
        self._plan = plan
        # with an amplitude s, y/s has the kernel without it, and noise over s²
        self._amplitude = data.X.new_ones(self.local.size)
        if isinstance(space.prior.kernel, Varying):
            self._amplitude = space.prior.kernel.amplitude.at(self.local.X)
        self._log_slope = float(self.own.weights @ self._amplitude.log()[self.own.places])
        self._scaled = np.ascontiguousarray((self._columns / self._amplitude[:, None]).numpy())

    def __call__(self, log_values: np.ndarray) -> Evaluation:
        values, outputs = self.space.values(log_values), self._trend.outputs
        kernel = self.space.kernel(values)
        sums = self._sums(kernel, self.space.noise(values))
        combined = self._trend.from_squares(torch.from_numpy(sums.normal))
        parts = combined.parts.numpy()
        residuals = parts[:, :outputs]
        quadratic = float(np.einsum("ao,ab,bo->", residuals, sums.normal, residuals))
        terms = -0.5 * quadratic - outputs * (float(sums.half_log_det[0]) + self._log_slope)
        effects = self._plan.changes(kernel, values)
        slopes = 0.5 * (np.einsum("ao,pab,bo->p", parts, sums.slope_normal, parts) - outputs * sums.slope_det)
        lower = np.tril(sums.information)
        information = effects.T @ (lower + np.tril(lower, -1).T) @ effects * outputs
        return Evaluation(self._value(terms, combined.gain), slopes @ effects, combined.trend, information)

    def _sums(self, kernel: Kernel, level: float | np.ndarray) -> Sums:
        """The sums over all terms, with the noise at its ``level``."""
        from .compiled_terms import Points, Sums, sum_terms

        data, squares = self.local, self._amplitude.square()
        coordinates, plan = self._plan.at(kernel, kernel.embed(data.X, self.data.X.mean(dim=0)))
        noise = (data.diagonal(level) / squares).numpy(), (data.noise_slopes / squares).numpy()
        points = Points(coordinates.T.contiguous().numpy(), self._scaled, *noise)
        members, weights = self.own.members.numpy(), self.own.weights.numpy()
        parts = [Sums.zeros(self._scaled.shape[1], self._plan.size) for _ in range(0, len(members), _CHUNK)]

        def work(number: int) -> None:
            chunk = slice(number * _CHUNK, (number + 1) * _CHUNK)
            failed = sum_terms(points, members[chunk], weights[chunk], plan, self._plan.slots, parts[number])
            if failed >= 0:
                raise block_not_positive_definite(members.shape[1] - 1, failed + 1)

        share_out(work, range(len(parts)), self.data.y.device, large=True)
        return Sums(*(np.sum(each, axis=0) for each in zip(*parts, strict=True)))


@dataclass(frozen=True)
class NeighbourSetting:
    """``data`` in a random order, a ``sample`` of terms and ``k`` neighbours: who is near changes, all else stays."""

    space: Space
    data: Observations
    sample: Sample
    k: int
    budget: int

    def likelihood(self, log_values: np.ndarray) -> NeighbourLikelihood:
        """The plain sum, with the neighbours that are nearest under the kernel at ``log_values`` (q,)."""
        places, k = torch.from_numpy(self.sample.places), min(self.k, self.data.size - 1)
        return self._of(Terms.all_of(previous_neighbours(self._kernel(log_values), self.data.X, k, places), places))

    def given(self, terms: GivenTerms) -> NeighbourLikelihood:
        """The sum of terms with these neighbours, whatever the hyperparameters are."""
        return self._of(Terms.all_of(torch.from_numpy(terms.neighbours), torch.from_numpy(terms.rows)))

    def estimate(self, likelihood: NeighbourLikelihood) -> NeighbourLikelihood:
        """The unbiased estimate of the likelihood of all observations, from the same terms."""
        if len(self.sample.places) == self.data.size:
            return likelihood
        return self._of(replace(likelihood.terms, weights=torch.from_numpy(self.sample.weights)))

    def _of(self, terms: Terms) -> NeighbourLikelihood:
        """By compiled code where there is some for this kernel on this device, by torch elsewhere."""
        plan = compiled_plan(self.space, self.data.X)
        if plan is not None:
            return CompiledVecchiaLikelihood(self.space, self.data, terms, plan, self._trend)
        return VecchiaLikelihood(self.space, self.data, terms, self.budget, self._trend)

    @cached_property
    def _trend(self) -> TrendColumns:
        return TrendColumns(self.data)

    def refreshed(self, before: NeighbourLikelihood, then: np.ndarray, now: np.ndarray) -> NeighbourLikelihood | None:
        """The likelihood with neighbours chosen anew, ``now`` (q,); None where hardly any changes since ``then``."""
        if self._similar(then, now):
            return None
        fresh = self.likelihood(now)
        pairs = zip(before.terms.neighbours.split(4096), fresh.terms.neighbours.split(4096), strict=True)
        kept = sum(int((new[:, :, None] == old[:, None, :]).any(dim=2).sum()) for old, new in pairs)
        return None if 1 - kept / max(1, fresh.terms.neighbours.numel()) < _SETTLED else fresh

    def _kernel(self, log_values: np.ndarray) -> Kernel:
        return self.space.kernel(self.space.values(log_values))

    def _similar(self, then: np.ndarray, now: np.ndarray) -> bool:
        """Whether all distances under one kernel are the same multiple of those under the other."""
        kernels, X = (self._kernel(then), self._kernel(now)), self.data.X[:: max(1, self.data.size // _COMPARED)]
        a, b = (kernel.embed(X, X.mean(dim=0)) if kernel.radial else None for kernel in kernels)
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            return False
        return torch.allclose(a / a.norm(), b / b.norm(), rtol=1e-9, atol=1e-12)

"""The nearest-neighbour likelihood on a CPU by compiled code: value, gradient and expected information in one pass.

The trend needs no pass of its own. The pass sums the normal equations of observations and basis functions together with
their derivatives; what the coefficients of the trend are, and what integrating them out changes, follows from these
small matrices. The basis is orthonormal and y is without its least-squares trend before that, so that squaring in the
normal equations loses nothing that matters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from ..errors import NotPositiveDefiniteError
from ..kernels import Varying
from ..support.threads import share_out
from .likelihood import Evaluation, Likelihood, Trend, not_determined, orthonormal
from .observations import Observations
from .radial_plan import RadialPlan, compiled_module
from .search_space import Space
from .terms import Terms
from .vecchia import block_not_positive_definite

_CHUNK = 512
"""Terms that one thread computes at a time. Their sums are added in order: the result is the same on all machines."""


@dataclass(frozen=True)
class _Sums:
    """Sums over terms; see ``compiled_terms``."""

    half_log_det: np.ndarray
    normal: np.ndarray
    slope_det: np.ndarray
    slope_normal: np.ndarray
    information: np.ndarray

    @classmethod
    def zeros(cls, columns: int, slots: int) -> _Sums:
        shapes = (1,), (columns, columns), (slots,), (slots, columns, columns), (slots, slots)
        return cls(*map(np.zeros, shapes))

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        return self.half_log_det, self.normal, self.slope_det, self.slope_normal, self.information

    def add(self, other: _Sums) -> None:
        for mine, its in zip(self.arrays, other.arrays, strict=True):
            mine += its


class CompiledVecchiaLikelihood(Likelihood):
    """The same as ``VecchiaLikelihood``, to rounding, in a fraction of its time; nothing is kept of a term."""

    informed: ClassVar[bool] = True

    def __init__(self, space: Space, data: Observations, terms: Terms, plan: RadialPlan) -> None:
        super().__init__(space, data)
        self.terms = terms
        self._plan = plan
        self._compiled = compiled_module("compiled_terms")
        self._own, self._local = terms.compact(data)
        y = (self._local.y - self._local.mean).reshape(self._local.size, -1)
        self._outputs = y.shape[1]
        self._q = 0
        if data.basis is not None:
            assert self._local.basis is not None
            self._q = data.basis.shape[1]
            # H = Q R / √n, and y without its least-squares trend
            Q, R = orthonormal(data.basis)
            self._to_coefficients = torch.linalg.inv(R) * math.sqrt(data.size)
            whole = data.y.reshape(data.size, -1)
            self._plain = torch.linalg.inv(R) @ (Q.T @ whole)
            own = self._local.y.reshape(self._local.size, -1) - self._local.basis @ self._plain
            y = torch.column_stack([self._local.basis @ self._to_coefficients, own])
        # with an amplitude s, y/s has the kernel without it, and noise over s²
        self._amplitude = y.new_ones(len(y))
        if isinstance(space.prior.kernel, Varying):
            self._amplitude = space.prior.kernel.amplitude.at(self._local.X)
        self._log_slope = float(self._own.weights @ self._amplitude.log()[self._own.places])
        self._columns = np.ascontiguousarray((y / self._amplitude[:, None]).numpy())

    @property
    def computed(self) -> int:
        return len(self.terms.places)

    def __call__(self, log_values: np.ndarray) -> Evaluation:
        sums, noise = self._pass(log_values)
        contrasts, trend, gain, covariance = self._without_trend(sums.normal)
        quadratic = float(np.einsum("ao,ab,bo->", contrasts, sums.normal, contrasts))
        constant = 0.5 * float(self.terms.weights.sum()) * math.log(2 * math.pi) + self._log_slope
        log_likelihood = gain - 0.5 * quadratic - self._outputs * (float(sums.half_log_det[0]) + constant)
        if not math.isfinite(log_likelihood):
            raise NotPositiveDefiniteError("the log-likelihood is not finite: G is singular to working precision")
        values = self.space.values(log_values)
        effects = self._plan.changes(noise, self.space.kernel(values), values)
        gradient = self._slopes(sums, contrasts, covariance) @ effects
        lower = np.tril(sums.information)
        information = effects.T @ (lower + np.tril(lower, -1).T) @ effects * self._outputs
        return Evaluation(log_likelihood, gradient, trend, information)

    def _pass(self, log_values: np.ndarray) -> tuple[_Sums, float]:
        """The sums over all terms, and the noise variance."""
        values, plan, data = self.space.values(log_values), self._plan, self._local
        kernel, level = self.space.kernel(values), self.space.noise(values)
        coordinates, variances, alpha = plan.numbers(kernel, kernel.embed(data.X, self.data.X.mean(dim=0)))
        squares = self._amplitude.square()
        diagonal, slope = (data.diagonal(level) / squares).numpy(), (data.noise_slopes / squares).numpy()
        members, weights = self._own.members.numpy(), self._own.weights.numpy()
        starts = range(0, len(members), _CHUNK)
        parts = [_Sums.zeros(self._columns.shape[1], plan.slots) for _ in starts]

        def work(number: int) -> None:
            chunk = slice(number * _CHUNK, (number + 1) * _CHUNK)
            failed = self._compiled.sum_terms(
                coordinates, self._columns, diagonal, slope, members[chunk], weights[chunk],
                plan.term_factors, variances, plan.term_slot, plan.kind, plan.first, plan.last, alpha,
                plan.alpha_slot, plan.coordinate_slot, plan.pair_first, plan.pair_second, plan.pair_slot,
                plan.noise_slot, plan.slots, *parts[number].arrays,
            )  # fmt: skip
            if failed >= 0:
                raise block_not_positive_definite(members.shape[1] - 1, failed + 1)

        share_out(work, range(len(parts)), self.data.y.device)
        total = _Sums.zeros(self._columns.shape[1], plan.slots)
        for part in parts:
            total.add(part)
        return total, 0.0 if np.ndim(level) else float(level)

    def _without_trend(self, normal: np.ndarray) -> tuple[np.ndarray, Trend | None, float, np.ndarray]:
        """From the normal equations (m, m): how columns combine to y − Hβ (m, outputs), and the trend.

        Also what integrating the coefficients out adds, and their covariance (q, q), zero where they are not.
        """
        q, outputs = self._q, self._outputs
        contrasts = np.zeros((q + outputs, outputs))
        contrasts[q:] = np.eye(outputs)
        if self.data.basis is None:
            return contrasts, None, 0.0, np.zeros((0, 0))
        factor, info = torch.linalg.cholesky_ex(torch.from_numpy(normal[:q, :q].copy()))
        if int(info):
            raise not_determined(q, self.data.size)
        inverse = torch.linalg.inv(factor)
        slopes = inverse.T @ (inverse @ torch.from_numpy(normal[:q, q:]))
        contrasts[:q] = -slopes.numpy()
        half = self._to_coefficients @ inverse.T
        coefficients = (self._plain + self._to_coefficients @ slopes).reshape(q, *self.data.y.shape[1:])
        trend = Trend(coefficients, half @ half.T, half)
        if not self.data.restricted:
            return contrasts, trend, 0.0, np.zeros((q, q))
        spread = q * math.log(self.data.size * 2 * math.pi) - 2 * float(factor.diagonal().log().sum())
        return contrasts, trend, 0.5 * outputs * spread, outputs * (inverse.T @ inverse).numpy()

    def _slopes(self, sums: _Sums, contrasts: np.ndarray, covariance: np.ndarray) -> np.ndarray:
        """The derivative of the log-likelihood in every slot (slots,)."""
        quadratic = np.einsum("ao,pab,bo->p", contrasts, sums.slope_normal, contrasts)
        q = len(covariance)
        quadratic += np.einsum("ab,pab->p", covariance, sums.slope_normal[:, :q, :q])
        return 0.5 * (quadratic - self._outputs * sums.slope_det)

"""Observations and the basis functions of their trend, as the columns that every likelihood whitens.

With a basis H of unknown coefficients the columns are [Q √n, y − Hβ₀]: H = Q R with orthonormal Q, and β₀ of least
squares, so that nothing is lost in the squares of whitened columns. Estimating or integrating the coefficients out only
changes how the columns are combined.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ..support.orthonormal import not_determined, orthonormal
from .observations import Observations


@dataclass(frozen=True)
class TrendEstimate:
    """Coefficients (q,) or (q, outputs) of a mean, and their covariance (q, q) given the hyperparameters."""

    coefficients: torch.Tensor
    covariance: torch.Tensor


@dataclass(frozen=True)
class Combination:
    """How columns combine, ``parts`` (columns, outputs + q), to residuals y − Hβ and, with β integrated out, to H C^½.

    Integrating β out adds −½ log det(HᵀG⁻¹H) + ½ log det(HᵀH) + (q/2) log 2π for each output to the log-likelihood,
    the ``gain``, the same for every basis of the same functions. With C = (HᵀG⁻¹H)⁻¹ its derivative is that of
    −½ ‖L⁻¹H C^½‖² where C is held: H C^½ counts like further observations in the quadratic form alone.
    """

    parts: torch.Tensor
    trend: TrendEstimate | None
    gain: float


class TrendColumns:
    """The columns of ``data``, ``q`` + ``outputs`` of them; without a basis, of y without its known mean."""

    def __init__(self, data: Observations) -> None:
        self._data, self.q = data, 0
        self._Q, whole = data.y.new_empty(data.size, 0), data.y.reshape(data.size, -1)
        self.outputs = whole.shape[1]
        if data.basis is None:
            self._residuals = whole - data.mean.reshape(data.size, -1)
        else:
            self.q = data.basis.shape[1]
            self._Q, R = orthonormal(data.basis)
            self._back = torch.linalg.inv(R) * math.sqrt(data.size)
            self._plain = torch.linalg.inv(R) @ (self._Q.T @ whole)
            self._residuals = whole - data.basis @ self._plain

    def of(self, rows: torch.Tensor | None = None) -> torch.Tensor:
        """The columns (m, q + outputs) of the observations ``rows`` (m,), or of all."""
        Q, residuals = (each if rows is None else each[rows] for each in (self._Q, self._residuals))
        return torch.column_stack([Q * math.sqrt(self._data.size), residuals])

    def from_whitened(self, whitened: torch.Tensor) -> Combination:
        """From whitened columns L⁻¹[Q √n, y − Hβ₀] (terms, q + outputs), where LLᵀ = G."""
        if not self.q:
            return self._combination(whitened.new_zeros(0, 0), whitened.new_zeros(0, self.outputs))
        Q, R = orthonormal(whitened[:, : self.q])
        return self._combination(R, Q.T @ whitened[:, self.q :])

    def from_squares(self, squares: torch.Tensor) -> Combination:
        """From the products (q + outputs, q + outputs) of whitened columns with each other."""
        L, info = torch.linalg.cholesky_ex(squares[: self.q, : self.q])
        if int(info):
            raise not_determined(self.q, self._data.size)
        return self._combination(L.T, torch.linalg.solve_triangular(L, squares[: self.q, self.q :], upper=False))

    def _combination(self, R: torch.Tensor, right: torch.Tensor) -> Combination:
        """From a triangle R (q, q), whose RᵀR are the normal equations of the basis, and what R β is (q, outputs)."""
        data, q, outputs = self._data, self.q, self.outputs
        if data.basis is None:
            return Combination(torch.eye(outputs, dtype=R.dtype, device=R.device), None, 0.0)
        half = torch.linalg.inv(R)
        slopes, error = half @ right, self._back @ half
        estimate = (self._plain + self._back @ slopes).reshape(q, *data.y.shape[1:])
        further = q if data.restricted else 0
        parts = R.new_zeros(q + outputs, outputs + further)
        parts[:q, :outputs], parts[q:, :outputs] = -slopes, torch.eye(outputs)
        parts[:q, outputs:] = math.sqrt(outputs) * half[:, :further]
        spread = q * math.log(2 * math.pi * data.size) - 2 * float(R.diagonal().abs().log().sum())
        trend = TrendEstimate(estimate, error @ error.T)
        return Combination(parts, trend, 0.5 * outputs * spread if data.restricted else 0.0)

"""The matrix of the exact likelihood, and its derivatives, by compiled code: what ``ExactLikelihood`` does by torch."""

from __future__ import annotations

import numpy as np
import torch

from ..support.positive_definite import positive_definite_factor
from ..support.threads import share_out
from .radial_plan import RadialPlan, compiled_module
from .search_space import Space

_ROWS = 32
"""Rows that a thread takes at a time."""


class CompiledMatrix:
    """G = k(X, X) + diag(noise) of points X (n, p), for hyperparameters that change."""

    def __init__(self, space: Space, X: torch.Tensor, plan: RadialPlan) -> None:
        self._space, self._X, self._plan = space, X, plan
        self._origin = X.mean(dim=0)
        self._compiled = compiled_module("compiled_matrix")
        self._starts = range(0, len(X), _ROWS)

    def _numbers(self, values: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Coordinates (C, n), variances of terms and exponents of factors."""
        kernel = self._space.kernel(values)
        coordinates, variances, alpha = self._plan.numbers(kernel, kernel.embed(self._X, self._origin))
        return np.ascontiguousarray(coordinates.T), variances, alpha

    def factor(self, values: list[float], diagonal: torch.Tensor) -> torch.Tensor:
        """The lower Cholesky factor of G (n, n), with noise ``diagonal`` (n,)."""
        n, plan, noise = len(self._X), self._plan, diagonal.numpy()
        coordinates, variances, alpha = self._numbers(values)
        matrix = torch.zeros(n, n, dtype=torch.float64)
        out = matrix.numpy()

        def work(start: int) -> None:
            self._compiled.fill_rows(
                coordinates, start, min(start + _ROWS, n), noise,
                plan.term_factors, variances, plan.kind, plan.first, plan.last, alpha, out,
            )  # fmt: skip

        share_out(work, self._starts[::-1], self._X.device)  # the last rows are the longest
        return positive_definite_factor(matrix, "the Gram matrix", "a larger noise_variance")

    def gradient(
        self, values: list[float], right: torch.Tensor, inverse: torch.Tensor, noise_gradient: float
    ) -> np.ndarray:
        """½ tr((α αᵀ − G⁻¹) ∂G) for the logarithm of every free hyperparameter (q,); α is ``right`` (n, columns)."""
        n, plan = len(self._X), self._plan
        coordinates, variances, alpha = self._numbers(values)
        rows, lower = np.ascontiguousarray(right.numpy().T), inverse.numpy()
        slopes = np.zeros((len(self._starts), plan.slots))

        def work(start: int) -> None:
            slopes[start // _ROWS] = self._compiled.slope_rows(
                coordinates, start, min(start + _ROWS, n), rows, lower,
                plan.term_factors, variances, plan.term_slot, plan.kind, plan.first, plan.last, alpha,
                plan.alpha_slot, plan.coordinate_slot, plan.slots,
            )  # fmt: skip

        share_out(work, self._starts[::-1], self._X.device)
        total = slopes.sum(axis=0)
        level = self._space.noise(values)
        if plan.noise_slot >= 0:
            total[plan.noise_slot] += noise_gradient
        return total @ plan.changes(float(level) if np.ndim(level) == 0 else 0.0)

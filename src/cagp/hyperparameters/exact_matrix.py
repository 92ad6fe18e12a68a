"""The matrix of the exact likelihood: its inverse, and by compiled code the matrix itself and its derivatives."""

from __future__ import annotations

import numpy as np
import torch

from ..support.positive_definite import positive_definite_factor
from ..support.threads import share_out
from .radial_plan import RadialPlan, compiled_module
from .search_space import Space

_ROWS = 32
"""Rows that a thread takes at a time."""

_BLOCK = 192
"""Columns or rows of an inverse that a thread computes at a time."""


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
                plan.alpha_slot, plan.coordinate_slot, plan.pair_first, plan.pair_second, plan.pair_slot, plan.slots,
            )  # fmt: skip

        share_out(work, self._starts[::-1], self._X.device)
        total = slopes.sum(axis=0)
        level = self._space.noise(values)
        if plan.noise_slot >= 0:
            total[plan.noise_slot] += noise_gradient
        return total @ plan.changes(float(level) if np.ndim(level) == 0 else 0.0, self._space.kernel(values), values)


def inverse_lower(factor: torch.Tensor) -> torch.Tensor:
    """G⁻¹ from its lower Cholesky factor L (n, n), right in the lower triangle. On the CPU it overwrites the factor.

    L⁻¹ in blocks of columns, then L⁻ᵀ L⁻¹ in blocks of rows, as many operations as LAPACK's potri; but each thread has
    blocks of its own. Threads that work on one block together wait for each other all the time, which on a busy machine
    takes many times as long as the work itself.
    """
    if factor.device.type != "cpu":
        return torch.cholesky_inverse(factor)
    n = len(factor)
    inverse = torch.empty_like(factor, memory_format=torch.contiguous_format)

    def invert(start: int) -> None:
        stop = min(start + _BLOCK, n)
        unit = torch.zeros(n - start, stop - start, dtype=factor.dtype)
        unit.diagonal().fill_(1.0)
        inverse[start:, start:stop] = torch.linalg.solve_triangular(factor[start:, start:], unit, upper=False)

    def multiply(start: int) -> None:
        stop = min(start + _BLOCK, n)
        torch.mm(inverse[start:, start:stop].T, inverse[start:, :stop], out=product[start:stop, :stop])

    share_out(invert, range(0, n, _BLOCK), factor.device)
    product = factor if factor.is_contiguous() else factor.T
    share_out(multiply, range(0, n, _BLOCK), factor.device)
    return product

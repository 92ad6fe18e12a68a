"""Radial profiles and their derivatives in compiled code, and how code is compiled here.

Few functions, each for one kind of arguments: compiling takes some seconds, once; later processes find it on disk.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

MATERN12, MATERN32, MATERN52, RBF, RATIONAL_QUADRATIC = range(5)

_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SHIFT = 6755399441055744.0
"""1.5 · 2⁵²: adding it leaves the nearest whole number in the last bits of a float64."""
_BIAS = np.int64(1023) << np.int64(52)
_LOWEST = -708.0
"""exp of less is not a normal number any more."""
_SMALLEST = 1e-300
"""Added to squared distances, so that 1/r is finite where points coincide; r² in front of it is zero there."""


def compiled(function: Callable[..., Any]) -> Any:
    """Compiled, and kept on disk for the next process where there is a folder to write to."""
    # "contract" allows fused multiply-add and nothing else: sums stay in their order, zeros and infinities stay
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder that it may write to
        return numba.njit(**options)(function)


@compiled
def _exponential(x: np.ndarray, n: int, shifted: np.ndarray, bits: np.ndarray, scale: np.ndarray) -> None:
    """exp of the first n of x, all ≤ 0, in place, to the last digit or two: code that a compiler can vectorise.

    2ᵐ · exp(r) with |r| ≤ ½ log 2. ``scale`` and ``bits`` are the same memory, as numbers and as integers.
    """
    for t in range(n):
        x[t] = max(x[t], _LOWEST)
        shifted[t] = x[t] * _LOG2E + _SHIFT
    whole = shifted.view(np.int64)
    for t in range(n):
        bits[t] = (whole[t] << 52) + _BIAS
    for t in range(n):
        m = shifted[t] - _SHIFT
        r = (x[t] - m * _LN2_HIGH) - m * _LN2_LOW
        p = 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        p = p * r + 1.0
        x[t] = p * scale[t]


@compiled
def profile(
    kind: int,
    alpha: float,
    s: np.ndarray,
    n: int,
    value: np.ndarray,
    slope: np.ndarray,
    bend: np.ndarray,
    shifted: np.ndarray,
    bits: np.ndarray,
    scale: np.ndarray,
) -> None:
    """For the first n squared distances s: the profile, its derivative in s, and (rational quadratic) in log α."""
    if kind == RATIONAL_QUADRATIC:
        for t in range(n):
            ratio = 0.5 * s[t] / alpha
            logarithm = math.log1p(ratio)
            value[t] = math.exp(-alpha * logarithm)
            slope[t] = -0.5 * value[t] / (1.0 + ratio)
            bend[t] = alpha * value[t] * (ratio / (1.0 + ratio) - logarithm)
    elif kind == RBF:
        for t in range(n):
            value[t] = -0.5 * s[t]
        _exponential(value, n, shifted, bits, scale)
        for t in range(n):
            slope[t] = -0.5 * value[t]
    else:
        factor = 1.0 if kind == MATERN12 else math.sqrt(3.0) if kind == MATERN32 else math.sqrt(5.0)
        for t in range(n):
            slope[t] = factor * math.sqrt(s[t] + _SMALLEST)
            value[t] = -slope[t]
        _exponential(value, n, shifted, bits, scale)
        if kind == MATERN12:
            for t in range(n):
                slope[t] = -0.5 * value[t] / slope[t]
        elif kind == MATERN32:
            for t in range(n):
                r = slope[t]
                slope[t] = -1.5 * value[t]
                value[t] = (1.0 + r) * value[t]
        else:
            for t in range(n):
                r = slope[t]
                slope[t] = (-5.0 / 6.0) * (1.0 + r) * value[t]
                value[t] = (1.0 + r * (1.0 + r * (1.0 / 3.0))) * value[t]

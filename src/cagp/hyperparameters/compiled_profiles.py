"""Radial profiles and their derivatives in compiled code.

Few functions, each for one kind of arguments: compiling takes some seconds, once; later processes find it on disk.
"""

from __future__ import annotations

import math

import numpy as np

from ..support.compiling import compiled, exponential

MATERN12, MATERN32, MATERN52, RBF, RATIONAL_QUADRATIC = range(5)

_SMALLEST = 1e-300
"""Added to squared distances, so that 1/r is finite where points coincide; r² in front of it is zero there."""


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
        exponential(value, n, shifted, scale)
        for t in range(n):
            slope[t] = -0.5 * value[t]
    else:
        factor = 1.0 if kind == MATERN12 else math.sqrt(3.0) if kind == MATERN32 else math.sqrt(5.0)
        for t in range(n):
            slope[t] = factor * math.sqrt(s[t] + _SMALLEST)
            value[t] = -slope[t]
        exponential(value, n, shifted, scale)
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

"""How code is compiled here, and exponentials that a compiler can vectorise. Needs numba: imported by who has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic

_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SHIFT = 6755399441055744.0
"""1.5 · 2⁵²: adding it leaves the nearest whole number in the last bits of a float64."""
_BIAS = np.int64(1023) << np.int64(52)
_LOWEST = -708.0
"""exp of less is not a normal number any more: zero, here."""


def compiled(function: Callable[..., Any]) -> Any:
    """Compiled, and kept on disk for the next process where there is a folder to write to."""
    # "contract" allows fused multiply-add and nothing else: sums stay in their order, zeros and infinities stay
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder that it may write to
        return numba.njit(**options)(function)


@compiled
def exponential(x: np.ndarray, n: int, shifted: np.ndarray, scale: np.ndarray) -> None:
    """exp of the first n of x, all ≤ 0, in place, to the last digit or two: 2ᵐ · exp(r) with |r| ≤ ½ log 2."""
    whole, bits = shifted.view(np.int64), scale.view(np.int64)
    for t in range(n):
        shifted[t] = max(x[t], _LOWEST) * _LOG2E + _SHIFT
    for t in range(n):
        bits[t] = (whole[t] << 52) + _BIAS
    for t in range(n):
        m = shifted[t] - _SHIFT
        r = (max(x[t], _LOWEST) - m * _LN2_HIGH) - m * _LN2_LOW
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
        x[t] = p * scale[t] if x[t] > _LOWEST else 0.0


def _same_bits(source: Any, target: Any) -> Any:
    """A function for compiled code that reads the bits of a number of one type as those of another."""

    def typed(_context: Any, _number: Any) -> Any:
        def cast(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), cast

    return intrinsic(typed)


_to_bits, _from_bits = _same_bits(numba.float64, numba.int64), _same_bits(numba.int64, numba.float64)


@compiled
def exponential_of(x: float) -> float:
    """exp(x) for x ≤ 0 as ``exponential`` computes it, of one number: a loop around it stays in vector registers."""
    cut = max(x, _LOWEST)
    shifted = cut * _LOG2E + _SHIFT
    scale = _from_bits((_to_bits(shifted) << 52) + _BIAS)
    m = shifted - _SHIFT
    r = (cut - m * _LN2_HIGH) - m * _LN2_LOW
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
    return p * scale if x > _LOWEST else 0.0

"""How code is compiled here, and an exponential that a compiler can vectorise. Needs numba: imported by who has it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba.core import event
from numba.extending import intrinsic

from .progress import say

_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SHIFT = 6755399441055744.0  # 1.5 · 2⁵²: adding it leaves the nearest whole number in the last bits of a float64
_BIAS = np.int64(1023) << np.int64(52)
_LARGEST = 708.0  # exp(−x) of more is not a normal number any more: zero, here

_HIGHEST, *_rest = ((-1.0) ** k / math.factorial(k) for k in range(12, -1, -1))
_OTHERS = tuple(_rest)  # the coefficients of exp(−r), from the highest power on

# "contract" allows fused multiply-add and nothing else: sums stay in their order, zeros and infinities stay
OPTIONS: dict[str, Any] = {"fastmath": {"contract"}, "error_model": "numpy"}
# without counts of who holds an array, which are atomic and cost as much as a dozen covariances in every short row
_UNCOUNTED: dict[str, Any] = {**OPTIONS, "_nrt": False, "no_cfunc_wrapper": True}


class Saying(event.TimingListener):
    """Says once that something of cagp is compiled, and counts the seconds: what is read from disk is no such event."""

    def __init__(self) -> None:
        super().__init__()
        self._said = False

    def on_start(self, event: Any) -> None:
        if _ours(event):
            super().on_start(event)
            if not self._said:
                say("compiling what this step needs, some seconds, kept on this machine for the next time")
            self._said = True

    def on_end(self, event: Any) -> None:
        if _ours(event):
            super().on_end(event)

    @property
    def seconds(self) -> float:
        """What compiling has taken, what is compiled just now included."""
        under_way = time.perf_counter() - self._ts if self._depth else 0.0
        return under_way + (float(self.duration) if self.done else 0.0)


def _ours(event: Any) -> bool:
    return bool(event.data["dispatcher"].py_func.__module__.startswith("cagp."))


SAYING = Saying()
event.register("numba:compile", SAYING)


def compiled(function: Callable[..., Any]) -> Any:
    """Compiled, and kept on disk for the next process where there is a folder to write to.

    It only reads and writes arrays that its caller holds: nobody counts how often they are used.
    """
    return _kept(lambda **how: numba.njit(nogil=True, **how, **_UNCOUNTED)(function))


def compiled_summing(function: Callable[..., Any]) -> Any:
    """The same for a sum whose order is left to the compiler, which adds up several parts side by side."""
    how: dict[str, Any] = {**_UNCOUNTED, "fastmath": {"contract", "reassoc", "nsz"}}
    return _kept(lambda **kept: numba.njit(nogil=True, **kept, **how)(function))


def compiled_within(function: Callable[..., Any]) -> Any:
    """The same for what is called in one place alone: it becomes part of the function there.

    By itself it would be compiled first, and once more inside each function around it.
    """
    return numba.njit(nogil=True, inline="always", **_UNCOUNTED)(function)


def compiled_apart(*kinds: Any) -> Callable[[Callable[..., None]], Any]:
    """The same with an address to be called at, of arguments of these kinds, numbers and pointers.

    It is compiled once, where a function that is called by its name is compiled again inside each that calls it.
    """
    return lambda function: _kept(lambda **how: numba.cfunc(numba.void(*kinds), **how, **OPTIONS)(function))


def _kept(compile: Callable[..., Any]) -> Any:
    try:
        return compile(cache=True)
    except RuntimeError:  # numba found no folder that it may write to
        return compile()


def _same_bits(source: Any, target: Any) -> Any:
    """A function for compiled code that reads the bits of a number of one type as those of another."""

    def typed(_context: Any, _number: Any) -> Any:
        def cast(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], context.get_value_type(target))

        return target(source), cast

    return intrinsic(typed)


_to_bits, _from_bits = _same_bits(numba.float64, numba.int64), _same_bits(numba.int64, numba.float64)


@compiled
def exponential_of_minus(x: float) -> float:
    """exp(−x) for x ≥ 0 to the last digit or two, 2ᵐ · exp(−r) with |r| ≤ ½ log 2: loops stay in vector registers."""
    cut = x if x < _LARGEST else _LARGEST
    shifted = _SHIFT - cut * _LOG2E
    scale = _from_bits((_to_bits(shifted) << 52) + _BIAS)
    m = shifted - _SHIFT
    r = (cut + m * _LN2_HIGH) + m * _LN2_LOW
    p = _HIGHEST
    for coefficient in _OTHERS:
        p = p * r + coefficient
    return p * scale if x < _LARGEST else 0.0


exponential_of_minus(0.0)  # before all others, which call it: somebody who waits is told at once

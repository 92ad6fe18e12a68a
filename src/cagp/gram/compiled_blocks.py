"""Covariances of many small groups of points in one compiled pass, for sums and products of radial kernels.

torch takes ten passes over memory for the values of one kernel, and cannot leave out what lies above the diagonal. Here
a few rows of a block stay in the cache of a core until they are finished, and the loops are written so that a compiler
can use vector units. No lock of Python's is held. Values agree with torch's to the last digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from ..kernels.radial_terms import Terms

_KINDS = ("matern12", "matern32", "matern52", "rbf")
_MATERN12, _MATERN32, _MATERN52, _RBF = range(4)

_AT_ONCE = 512
"""Values that are computed together, a row at the least: enough for vector units, few enough for the cache."""

_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_SHIFT = 6755399441055744.0
"""1.5 · 2⁵²: adding it leaves the nearest whole number in the last bits of a float64."""
_BIAS = np.int64(1023) << np.int64(52)
_LOWEST = -708.0
"""exp of less is not a normal number any more: zero, here."""


class CompiledBlocks:
    """Points (q, d), in the coordinates that the ``terms`` of their kernel count, and their ``noise`` (d,)."""

    def __init__(self, terms: Terms, points: np.ndarray, noise: np.ndarray) -> None:
        self._points, self._noise = np.ascontiguousarray(points.T), np.ascontiguousarray(noise)
        numbered = [(factor, i == len(term) - 1) for term in terms for i, factor in enumerate(term)]
        self._factors = np.array(
            [(_KINDS.index(each.profile), each.first, each.first + each.count, last) for each, last in numbered],
            dtype=np.int64,
        )
        self._variances = np.array([factor.variance for factor, _ in numbered])

    @staticmethod
    def knows(terms: Terms) -> bool:
        """Whether there is code for all of the profiles."""
        return all(factor.profile in _KINDS for term in terms for factor in term)

    def lower(self, indices: np.ndarray, out: np.ndarray) -> None:
        """G[i, i] for every row i of ``indices`` (B, k) into ``out`` (B, k, k), on and below the diagonal only."""
        _lower(self._points, self._noise, indices, self._factors, self._variances, out)

    def cross(self, test: np.ndarray, indices: np.ndarray, out: np.ndarray) -> None:
        """k(test, X[i]) for every row i of ``indices`` (B, k) and test points (q, B, s), into ``out`` (B, s, k)."""
        _cross(test, self._points, indices, self._factors, self._variances, out)


def _compiled(function: Callable[..., Any]) -> Any:
    """Compiled, and kept on disk for the next process where there is a folder to write to."""
    # "contract" allows fused multiply-add and nothing else: sums stay in their order, zeros and infinities stay
    options: dict[str, Any] = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder that it may write to
        return numba.njit(**options)(function)


@_compiled
def _exponential(x: np.ndarray, n: int, shifted: np.ndarray, scale: np.ndarray) -> None:
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


@_compiled
def _profile(kind: int, s: np.ndarray, n: int, value: np.ndarray, work: np.ndarray) -> None:
    """The profile of the first n squared distances s, which are lost, into ``value``; ``work`` is (2, n) or wider."""
    if kind == _RBF:
        for t in range(n):
            value[t] = -0.5 * s[t]
        _exponential(value, n, work[0], work[1])
        return
    factor = 1.0 if kind == _MATERN12 else math.sqrt(3.0) if kind == _MATERN32 else math.sqrt(5.0)
    for t in range(n):
        s[t] = factor * math.sqrt(s[t])
        value[t] = -s[t]
    _exponential(value, n, work[0], work[1])
    if kind == _MATERN32:
        for t in range(n):
            value[t] *= 1.0 + s[t]
    elif kind == _MATERN52:
        for t in range(n):
            value[t] *= 1.0 + s[t] * (1.0 + s[t] * (1.0 / 3.0))


@_compiled
def _block(
    rows: np.ndarray,
    near: np.ndarray,
    lower: bool,
    factors: np.ndarray,
    variances: np.ndarray,
    out: np.ndarray,
    work: np.ndarray,
) -> None:
    """k(rows, near) for points (q, m) and (q, k) into ``out`` (m, k); if ``lower``, on and below the diagonal only."""
    m, k = rows.shape[1], near.shape[1]
    s, value, term, total = work[0], work[1], work[2], work[3]
    start = 0
    while start < m:
        stop, n = start, 0
        while stop < m and (stop == start or n + (stop + 1 if lower else k) <= _AT_ONCE):
            n += stop + 1 if lower else k
            stop += 1
        total[:n] = 0.0
        term[:n] = 1.0
        for f in range(len(factors)):
            kind, first, end, last = factors[f]
            place = 0
            for i in range(start, stop):
                width = i + 1 if lower else k
                row = s[place : place + width]
                at = rows[first, i]
                for t in range(width):
                    difference = at - near[first, t]
                    row[t] = difference * difference
                for c in range(first + 1, end):
                    at = rows[c, i]
                    for t in range(width):
                        difference = at - near[c, t]
                        row[t] += difference * difference
                place += width
            _profile(kind, s, n, value, work[4:])
            for t in range(n):
                term[t] *= variances[f] * value[t]
            if last:
                for t in range(n):
                    total[t] += term[t]
                    term[t] = 1.0
        place = 0
        for i in range(start, stop):
            width = i + 1 if lower else k
            out[i, :width] = total[place : place + width]
            place += width
        start = stop


@_compiled
def _gather(points: np.ndarray, indices: np.ndarray, near: np.ndarray) -> None:
    for t in range(len(indices)):
        for c in range(len(near)):
            near[c, t] = points[indices[t], c]


@_compiled
def _lower(
    points: np.ndarray,
    noise: np.ndarray,
    indices: np.ndarray,
    factors: np.ndarray,
    variances: np.ndarray,
    out: np.ndarray,
) -> None:
    B, k = indices.shape
    near, work = np.empty((points.shape[1], k)), np.empty((6, max(k, _AT_ONCE)))
    for b in range(B):
        _gather(points, indices[b], near)
        _block(near, near, True, factors, variances, out[b], work)
        for i in range(k):
            out[b, i, i] += noise[indices[b, i]]


@_compiled
def _cross(
    test: np.ndarray,
    points: np.ndarray,
    indices: np.ndarray,
    factors: np.ndarray,
    variances: np.ndarray,
    out: np.ndarray,
) -> None:
    B, k = indices.shape
    near, work = np.empty((points.shape[1], k)), np.empty((6, max(k, _AT_ONCE)))
    rows = np.empty((len(test), test.shape[2]))
    for b in range(B):
        _gather(points, indices[b], near)
        rows[:] = test[:, b]
        _block(rows, near, False, factors, variances, out[b], work)

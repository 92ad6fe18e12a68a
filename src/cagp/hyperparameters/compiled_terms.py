"""Nearest-neighbour terms of a likelihood in one compiled pass: values, derivatives and expected information.

For a term with the covariance G = L Lᵀ of its neighbours and, last, its own point (k+1 of them), the columns R
(k+1, m) of observations and basis functions, and a hyperparameter θ,

    Z = L⁻¹ R,   u = L⁻ᵀ e_last,   w = L⁻¹ (∂G/∂θ) u,   z = the last row of Z,   v = Z without its last row, times w

the pass sums, with the weights of the terms, what every likelihood of that data is made of:

    log L_last,last                   half of the log-determinant
    z zᵀ                              the normal equations of observations and basis functions, (m, m)
    w_last                            the derivative of the log-determinant
    z vᵀ + v zᵀ + w_last z zᵀ         minus the derivative of z zᵀ, (m, m)
    wᵀw′ − ½ w_last w′_last           the expected information of two hyperparameters (Guinness 2021)

Several terms are computed side by side, one in each of ``LANES`` lanes, which is what vector units are made for; every
inner loop runs over lanes (their number is read off an array: a constant would be unrolled, and then not vectorised).
Nothing is kept of a term. The functions hold no lock of Python's, so plain threads share
out the work: no thread waits for another before all are done, and a busy machine makes it slower, not stuck.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

LANES = 32
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


def _compiled(function: Callable[..., Any]) -> Any:
    """Compiled, and kept on disk for the next process where there is a folder to write to."""
    # "contract" allows fused multiply-add and nothing else: sums stay in their order, zeros and infinities stay
    options = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no folder that it may write to
        return numba.njit(**options)(function)


@_compiled
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


@_compiled
def _profile(
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


@_compiled
def _factorise(K: np.ndarray, size: int, acc: np.ndarray) -> int:
    """Cholesky factors in place of the packed lower triangles K (entries, lanes); the row that failed, or −1."""
    lanes = len(acc)
    for i in range(size):
        row = i * (i + 1) // 2
        for j in range(i + 1):
            other = j * (j + 1) // 2
            for l in range(lanes):
                acc[l] = K[row + j, l]
            for m in range(0, j - 3, 4):
                for l in range(lanes):
                    acc[l] -= (
                        K[row + m, l] * K[other + m, l]
                        + K[row + m + 1, l] * K[other + m + 1, l]
                        + K[row + m + 2, l] * K[other + m + 2, l]
                        + K[row + m + 3, l] * K[other + m + 3, l]
                    )
            for m in range(j - j % 4, j):
                for l in range(lanes):
                    acc[l] -= K[row + m, l] * K[other + m, l]
            if j < i:
                for l in range(lanes):
                    K[row + j, l] = acc[l] * K[other + j, l]
            else:
                for l in range(lanes):
                    if not acc[l] > 0.0:
                        return i
                for l in range(lanes):
                    K[row + i, l] = 1.0 / math.sqrt(acc[l])  # the diagonal is kept inverted: it only ever divides
    return -1


@_compiled
def _solve(K: np.ndarray, size: int, x: np.ndarray, acc: np.ndarray) -> None:
    """L⁻¹ x in place, x (points, lanes)."""
    lanes = len(acc)
    for i in range(size):
        row = i * (i + 1) // 2
        for l in range(lanes):
            acc[l] = x[i, l]
        for m in range(0, i - 3, 4):
            for l in range(lanes):
                acc[l] -= (
                    K[row + m, l] * x[m, l]
                    + K[row + m + 1, l] * x[m + 1, l]
                    + K[row + m + 2, l] * x[m + 2, l]
                    + K[row + m + 3, l] * x[m + 3, l]
                )
        for m in range(i - i % 4, i):
            for l in range(lanes):
                acc[l] -= K[row + m, l] * x[m, l]
        for l in range(lanes):
            x[i, l] = acc[l] * K[row + i, l]


@_compiled
def sum_terms(
    E: np.ndarray,
    columns: np.ndarray,
    noise: np.ndarray,
    members: np.ndarray,
    weights: np.ndarray,
    term_factors: np.ndarray,
    term_variance: np.ndarray,
    term_slot: np.ndarray,
    kind: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    alpha: np.ndarray,
    alpha_slot: np.ndarray,
    coordinate_slot: np.ndarray,
    noise_slot: int,
    slots: int,
    half_log_det: np.ndarray,
    normal: np.ndarray,
    slope_det: np.ndarray,
    slope_normal: np.ndarray,
    information: np.ndarray,
) -> int:
    """Add the terms ``members`` (terms, k+1), −1 where there is no neighbour, to the sums; −1, or the row that failed.

    E (n, coordinates), ``columns`` (n, m) and ``noise`` (n,) belong to all points. The kernel is a sum of terms, each
    the variance times a product of factors ``term_factors[t]`` … ``term_factors[t + 1]``; a factor is a profile of the
    coordinates ``first`` … ``last``. Slots are the numbers of hyperparameters, −1 for those that are held.

    The sums are ``half_log_det`` (1,), ``normal`` (m, m), ``slope_det`` (slots,), ``slope_normal`` (slots, m, m) and
    ``information`` (slots, slots); all derivatives are in the logarithms of the hyperparameters.
    """
    count, size = members.shape
    C, M, T, F = E.shape[1], columns.shape[1], len(term_variance), len(kind)
    pairs = size * (size + 1) // 2
    wide = size * LANES
    x = np.empty((C, size, LANES))
    real = np.empty((size, LANES))
    own_noise = np.empty((size, LANES))
    Z = np.empty((M, size, LANES))
    K = np.empty((pairs, LANES))
    term_value = np.empty((T, pairs, LANES))
    factor_slope = np.empty((F, pairs, LANES))
    factor_bend = np.empty((F if alpha_slot.max() >= 0 else 0, pairs, LANES))
    value, slope, bend = np.empty((F, wide)), np.empty((F, wide)), np.empty((F, wide))
    s, shifted, bits = np.empty(wide), np.empty(wide), np.empty(wide, np.int64)
    scale = bits.view(np.float64)
    u, w = np.empty((size, LANES)), np.empty((slots, size, LANES))
    acc, square = np.empty(LANES), np.empty(LANES)
    weight = np.empty(LANES)
    v = np.empty((M, LANES))
    end, lanes = size - 1, len(acc)

    for top in range(0, count, lanes):
        for l in range(lanes):
            term = min(top + l, count - 1)
            weight[l] = weights[term] if top + l < count else 0.0
            for i in range(size):
                who = members[term, i]
                if who >= 0:
                    real[i, l] = 1.0
                    own_noise[i, l] = noise[who]
                    for c in range(C):
                        x[c, i, l] = E[who, c]
                    for m in range(M):
                        Z[m, i, l] = columns[who, m]
                else:  # independent of all others, with variance 1 and no influence
                    real[i, l] = 0.0
                    own_noise[i, l] = 0.0
                    for c in range(C):
                        x[c, i, l] = 0.0
                    for m in range(M):
                        Z[m, i, l] = 0.0

        # the covariance of every pair, and its derivatives, row by row
        for i in range(size):
            row, n = i * (i + 1) // 2, i * lanes
            for f in range(F):
                for t in range(n):
                    s[t] = 0.0
                for c in range(first[f], last[f]):
                    for j in range(i):
                        for l in range(lanes):
                            d = x[c, i, l] - x[c, j, l]
                            s[j * lanes + l] += d * d
                _profile(kind[f], alpha[f], s, n, value[f], slope[f], bend[f], shifted, bits, scale)
            for t in range(T):
                begin, stop = term_factors[t], term_factors[t + 1]
                for j in range(i):
                    for l in range(lanes):
                        square[l] = term_variance[t] * real[i, l] * real[j, l]
                    for f in range(begin, stop):
                        for l in range(lanes):
                            acc[l] = square[l]
                        for g in range(begin, stop):
                            if g != f:
                                for l in range(lanes):
                                    acc[l] *= value[g, j * lanes + l]
                        for l in range(lanes):
                            factor_slope[f, row + j, l] = -2.0 * acc[l] * slope[f, j * lanes + l]
                        if alpha_slot[f] >= 0:
                            for l in range(lanes):
                                factor_bend[f, row + j, l] = acc[l] * bend[f, j * lanes + l]
                    for l in range(lanes):
                        term_value[t, row + j, l] = acc[l] * value[stop - 1, j * lanes + l]
                for l in range(lanes):
                    term_value[t, row + i, l] = term_variance[t] * real[i, l]
            for t in range(T):
                for j in range(i + 1):
                    for l in range(lanes):
                        K[row + j, l] = term_value[t, row + j, l] + (K[row + j, l] if t else 0.0)
            for l in range(lanes):
                K[row + i, l] += own_noise[i, l] + 1.0 - real[i, l]

        failed = _factorise(K, size, acc)
        if failed >= 0:
            return failed
        for m in range(M):
            _solve(K, size, Z[m], acc)

        # u = L⁻ᵀ e_last
        for i in range(size):
            for l in range(lanes):
                u[i, l] = 0.0
        for l in range(lanes):
            u[end, l] = 1.0
        for i in range(end, -1, -1):
            row = i * (i + 1) // 2
            for l in range(lanes):
                u[i, l] *= K[row + i, l]
            for j in range(i):
                for l in range(lanes):
                    u[j, l] -= K[row + j, l] * u[i, l]

        # (∂G/∂θ) u for every hyperparameter
        for p in range(slots):
            for i in range(size):
                for l in range(lanes):
                    w[p, i, l] = 0.0
        if noise_slot >= 0:
            for i in range(size):
                for l in range(lanes):
                    w[noise_slot, i, l] = real[i, l] * u[i, l]
        for t in range(T):
            p = term_slot[t]
            if p >= 0:
                for i in range(size):
                    row = i * (i + 1) // 2
                    for l in range(lanes):
                        acc[l] = term_value[t, row + i, l] * u[i, l]
                    for j in range(i):
                        for l in range(lanes):
                            acc[l] += term_value[t, row + j, l] * u[j, l]
                            w[p, j, l] += term_value[t, row + j, l] * u[i, l]
                    for l in range(lanes):
                        w[p, i, l] += acc[l]
        for f in range(F):
            if alpha_slot[f] >= 0:
                p = alpha_slot[f]
                for i in range(size):
                    row = i * (i + 1) // 2
                    for j in range(i):
                        for l in range(lanes):
                            w[p, i, l] += factor_bend[f, row + j, l] * u[j, l]
                            w[p, j, l] += factor_bend[f, row + j, l] * u[i, l]
            for i in range(size):
                row, n = i * (i + 1) // 2, i * lanes
                fresh = True
                for c in range(first[f], last[f]):
                    p = coordinate_slot[c]
                    if p < 0:
                        continue
                    if fresh:
                        for t in range(n):
                            s[t] = 0.0
                        fresh = False
                    for j in range(i):
                        for l in range(lanes):
                            d = x[c, i, l] - x[c, j, l]
                            s[j * lanes + l] += d * d
                    if c + 1 < last[f] and coordinate_slot[c + 1] == p:
                        continue
                    fresh = True
                    for l in range(lanes):
                        acc[l] = 0.0
                    for j in range(i):
                        for l in range(lanes):
                            d = factor_slope[f, row + j, l] * s[j * lanes + l]
                            acc[l] += d * u[j, l]
                            w[p, j, l] += d * u[i, l]
                    for l in range(lanes):
                        w[p, i, l] += acc[l]

        # into the sums
        for l in range(lanes):
            half_log_det[0] -= weight[l] * math.log(K[pairs - 1, l])
        for a in range(M):
            for b in range(M):
                for l in range(lanes):
                    normal[a, b] += weight[l] * Z[a, end, l] * Z[b, end, l]
        for p in range(slots):
            _solve(K, size, w[p], acc)
            for l in range(lanes):
                slope_det[p] += weight[l] * w[p, end, l]
            for a in range(M):
                for l in range(lanes):
                    v[a, l] = 0.5 * w[p, end, l] * Z[a, end, l]
                for i in range(end):
                    for l in range(lanes):
                        v[a, l] += Z[a, i, l] * w[p, i, l]
            for a in range(M):
                for b in range(M):
                    for l in range(lanes):
                        slope_normal[p, a, b] += weight[l] * (Z[a, end, l] * v[b, l] + v[a, l] * Z[b, end, l])
            for o in range(p + 1):
                for l in range(lanes):
                    acc[l] = 0.5 * w[p, end, l] * w[o, end, l]
                for i in range(end):
                    for l in range(lanes):
                        acc[l] += w[p, i, l] * w[o, i, l]
                for l in range(lanes):
                    information[p, o] += weight[l] * acc[l]
    return -1

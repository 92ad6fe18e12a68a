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

import numpy as np

from ..support.compiling import compiled
from .compiled_profiles import profile

LANES = 32
"""Terms side by side: several vectors, so that the checks before a loop are paid for, and blocks that fit the cache."""


@compiled
def _factorise(K: np.ndarray, size: int, acc: np.ndarray) -> int:
    """Cholesky factors in place of the packed lower triangles K (entries, lanes); the row that failed, or −1."""
    lanes = len(acc)
    for i in range(size):
        row = i * (i + 1) // 2
        for j in range(i + 1):
            other = j * (j + 1) // 2
            for e in range(lanes):
                acc[e] = K[row + j, e]
            for m in range(0, j - 3, 4):
                for e in range(lanes):
                    acc[e] -= (
                        K[row + m, e] * K[other + m, e]
                        + K[row + m + 1, e] * K[other + m + 1, e]
                        + K[row + m + 2, e] * K[other + m + 2, e]
                        + K[row + m + 3, e] * K[other + m + 3, e]
                    )
            for m in range(j - j % 4, j):
                for e in range(lanes):
                    acc[e] -= K[row + m, e] * K[other + m, e]
            if j < i:
                for e in range(lanes):
                    K[row + j, e] = acc[e] * K[other + j, e]
            else:
                for e in range(lanes):
                    if not acc[e] > 0.0:
                        return i
                for e in range(lanes):
                    K[row + i, e] = 1.0 / math.sqrt(acc[e])  # the diagonal is kept inverted: it only ever divides
    return -1


@compiled
def _solve(K: np.ndarray, size: int, x: np.ndarray, acc: np.ndarray) -> None:
    """L⁻¹ x in place, x (points, lanes)."""
    lanes = len(acc)
    for i in range(size):
        row = i * (i + 1) // 2
        for e in range(lanes):
            acc[e] = x[i, e]
        for m in range(0, i - 3, 4):
            for e in range(lanes):
                acc[e] -= (
                    K[row + m, e] * x[m, e]
                    + K[row + m + 1, e] * x[m + 1, e]
                    + K[row + m + 2, e] * x[m + 2, e]
                    + K[row + m + 3, e] * x[m + 3, e]
                )
        for m in range(i - i % 4, i):
            for e in range(lanes):
                acc[e] -= K[row + m, e] * x[m, e]
        for e in range(lanes):
            x[i, e] = acc[e] * K[row + i, e]


@compiled
def sum_terms(
    E: np.ndarray,
    columns: np.ndarray,
    noise: np.ndarray,
    noise_slope: np.ndarray,
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
    pair_first: np.ndarray,
    pair_second: np.ndarray,
    pair_slot: np.ndarray,
    noise_slot: int,
    slots: int,
    half_log_det: np.ndarray,
    normal: np.ndarray,
    slope_det: np.ndarray,
    slope_normal: np.ndarray,
    information: np.ndarray,
) -> int:
    """Add the terms ``members`` (terms, k+1), −1 where there is no neighbour, to the sums; −1, or the row that failed.

    E (n, coordinates), ``columns`` (n, m), ``noise`` (n,) and its derivative in its level, ``noise_slope`` (n,), belong
    to all points. The kernel is a sum of terms, each
    the variance times a product of factors ``term_factors[t]`` … ``term_factors[t + 1]``; a factor is a profile of the
    coordinates ``first`` … ``last``. Slots are the numbers of hyperparameters, −1 for those that are held. A pair of
    coordinates has a slot for the product of their differences, which rotations change.

    The sums are ``half_log_det`` (1,), ``normal`` (m, m), ``slope_det`` (slots,), ``slope_normal`` (slots, m, m) and
    ``information`` (slots, slots); all derivatives are in the logarithms of the hyperparameters.
    """
    count, size = members.shape
    C, M, T, F = E.shape[1], columns.shape[1], len(term_variance), len(kind)
    pairs = size * (size + 1) // 2
    wide = size * LANES
    x = np.empty((C, size, LANES))
    real = np.empty((size, LANES))
    own_noise, own_slope = np.empty((size, LANES)), np.empty((size, LANES))
    Z = np.empty((M, size, LANES))
    K = np.empty((pairs, LANES))
    term_value = np.empty((T, pairs, LANES))
    factor_slope = np.empty((F, pairs, LANES))
    factor_bend = np.empty((F if alpha_slot.max() >= 0 else 0, pairs, LANES))
    value, slope, bend = np.empty((F, wide)), np.empty((F, wide)), np.empty((F, wide))
    s, shifted, scale = np.empty(wide), np.empty(wide), np.empty(wide)
    u, w = np.empty((size, LANES)), np.empty((slots, size, LANES))
    acc, square = np.empty(LANES), np.empty(LANES)
    weight = np.empty(LANES)
    v = np.empty((M, LANES))
    end, lanes = size - 1, len(acc)

    for top in range(0, count, lanes):
        for e in range(lanes):
            term = min(top + e, count - 1)
            weight[e] = weights[term] if top + e < count else 0.0
            for i in range(size):
                who = members[term, i]
                if who >= 0:
                    real[i, e] = 1.0
                    own_noise[i, e] = noise[who]
                    own_slope[i, e] = noise_slope[who]
                    for c in range(C):
                        x[c, i, e] = E[who, c]
                    for m in range(M):
                        Z[m, i, e] = columns[who, m]
                else:  # independent of all others, with variance 1 and no influence
                    real[i, e] = 0.0
                    own_noise[i, e] = 0.0
                    own_slope[i, e] = 0.0
                    for c in range(C):
                        x[c, i, e] = 0.0
                    for m in range(M):
                        Z[m, i, e] = 0.0

        # the covariance of every pair, and its derivatives, row by row
        for i in range(size):
            row, n = i * (i + 1) // 2, i * lanes
            for f in range(F):
                for t in range(n):
                    s[t] = 0.0
                for c in range(first[f], last[f]):
                    for j in range(i):
                        for e in range(lanes):
                            d = x[c, i, e] - x[c, j, e]
                            s[j * lanes + e] += d * d
                profile(kind[f], alpha[f], s, n, value[f], slope[f], bend[f], shifted, scale)
            for t in range(T):
                begin, stop = term_factors[t], term_factors[t + 1]
                for j in range(i):
                    for e in range(lanes):
                        square[e] = term_variance[t] * real[i, e] * real[j, e]
                    for f in range(begin, stop):
                        for e in range(lanes):
                            acc[e] = square[e]
                        for g in range(begin, stop):
                            if g != f:
                                for e in range(lanes):
                                    acc[e] *= value[g, j * lanes + e]
                        for e in range(lanes):
                            factor_slope[f, row + j, e] = -2.0 * acc[e] * slope[f, j * lanes + e]
                        if alpha_slot[f] >= 0:
                            for e in range(lanes):
                                factor_bend[f, row + j, e] = acc[e] * bend[f, j * lanes + e]
                    for e in range(lanes):
                        term_value[t, row + j, e] = acc[e] * value[stop - 1, j * lanes + e]
                for e in range(lanes):
                    term_value[t, row + i, e] = term_variance[t] * real[i, e]
            for t in range(T):
                for j in range(i + 1):
                    for e in range(lanes):
                        K[row + j, e] = term_value[t, row + j, e] + (K[row + j, e] if t else 0.0)
            for e in range(lanes):
                K[row + i, e] += own_noise[i, e] + 1.0 - real[i, e]

        failed = _factorise(K, size, acc)
        if failed >= 0:
            return failed
        for m in range(M):
            _solve(K, size, Z[m], acc)

        # u = L⁻ᵀ e_last
        for i in range(size):
            for e in range(lanes):
                u[i, e] = 0.0
        for e in range(lanes):
            u[end, e] = 1.0
        for i in range(end, -1, -1):
            row = i * (i + 1) // 2
            for e in range(lanes):
                u[i, e] *= K[row + i, e]
            for j in range(i):
                for e in range(lanes):
                    u[j, e] -= K[row + j, e] * u[i, e]

        # (∂G/∂θ) u for every hyperparameter
        for p in range(slots):
            for i in range(size):
                for e in range(lanes):
                    w[p, i, e] = 0.0
        if noise_slot >= 0:
            for i in range(size):
                for e in range(lanes):
                    w[noise_slot, i, e] = own_slope[i, e] * u[i, e]
        for t in range(T):
            p = term_slot[t]
            if p >= 0:
                for i in range(size):
                    row = i * (i + 1) // 2
                    for e in range(lanes):
                        acc[e] = term_value[t, row + i, e] * u[i, e]
                    for j in range(i):
                        for e in range(lanes):
                            acc[e] += term_value[t, row + j, e] * u[j, e]
                            w[p, j, e] += term_value[t, row + j, e] * u[i, e]
                    for e in range(lanes):
                        w[p, i, e] += acc[e]
        for f in range(F):
            if alpha_slot[f] >= 0:
                p = alpha_slot[f]
                for i in range(size):
                    row = i * (i + 1) // 2
                    for j in range(i):
                        for e in range(lanes):
                            w[p, i, e] += factor_bend[f, row + j, e] * u[j, e]
                            w[p, j, e] += factor_bend[f, row + j, e] * u[i, e]
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
                        for e in range(lanes):
                            d = x[c, i, e] - x[c, j, e]
                            s[j * lanes + e] += d * d
                    if c + 1 < last[f] and coordinate_slot[c + 1] == p:
                        continue
                    fresh = True
                    for e in range(lanes):
                        acc[e] = 0.0
                    for j in range(i):
                        for e in range(lanes):
                            d = factor_slope[f, row + j, e] * s[j * lanes + e]
                            acc[e] += d * u[j, e]
                            w[p, j, e] += d * u[i, e]
                    for e in range(lanes):
                        w[p, i, e] += acc[e]

            for q in range(len(pair_slot)):
                a, b, p = pair_first[q], pair_second[q], pair_slot[q]
                if a < first[f] or a >= last[f]:
                    continue
                for i in range(size):
                    row = i * (i + 1) // 2
                    for e in range(lanes):
                        acc[e] = 0.0
                    for j in range(i):
                        for e in range(lanes):
                            d = factor_slope[f, row + j, e] * (x[a, i, e] - x[a, j, e]) * (x[b, i, e] - x[b, j, e])
                            acc[e] += d * u[j, e]
                            w[p, j, e] += d * u[i, e]
                    for e in range(lanes):
                        w[p, i, e] += acc[e]

        # into the sums
        for e in range(lanes):
            half_log_det[0] -= weight[e] * math.log(K[pairs - 1, e])
        for a in range(M):
            for b in range(M):
                for e in range(lanes):
                    normal[a, b] += weight[e] * Z[a, end, e] * Z[b, end, e]
        for p in range(slots):
            _solve(K, size, w[p], acc)
            for e in range(lanes):
                slope_det[p] += weight[e] * w[p, end, e]
            for a in range(M):
                for e in range(lanes):
                    v[a, e] = 0.5 * w[p, end, e] * Z[a, end, e]
                for i in range(end):
                    for e in range(lanes):
                        v[a, e] += Z[a, i, e] * w[p, i, e]
            for a in range(M):
                for b in range(M):
                    for e in range(lanes):
                        slope_normal[p, a, b] += weight[e] * (Z[a, end, e] * v[b, e] + v[a, e] * Z[b, end, e])
            for o in range(p + 1):
                for e in range(lanes):
                    acc[e] = 0.5 * w[p, end, e] * w[o, end, e]
                for i in range(end):
                    for e in range(lanes):
                        acc[e] += w[p, i, e] * w[o, i, e]
                for e in range(lanes):
                    information[p, o] += weight[e] * acc[e]
    return -1

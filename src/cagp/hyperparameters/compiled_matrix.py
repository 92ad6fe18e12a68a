"""The whole covariance matrix and the derivatives of the exact likelihood in compiled code, row by row.

A row is cut into pieces that stay in the fastest cache; every inner loop runs along one. ``compiled_terms.sum_terms``
says what the arrays that describe a kernel mean.
"""

from __future__ import annotations

import numpy as np

from ..support.compiling import compiled
from .compiled_profiles import profile

_WIDTH = 256

_STEEPEST = -1e100
"""Slopes below are those at a distance of zero, to which ``compiled_profiles`` adds the smallest of numbers."""


@compiled
def _profiles(
    E: np.ndarray,
    i: int,
    left: int,
    n: int,
    kind: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    alpha: np.ndarray,
    value: np.ndarray,
    slope: np.ndarray,
    bend: np.ndarray,
    s: np.ndarray,
    shifted: np.ndarray,
    scale: np.ndarray,
) -> None:
    """The profile of each factor, and its derivatives, between point i and the n points from ``left``."""
    for f in range(len(kind)):
        for t in range(n):
            s[t] = 0.0
        for c in range(first[f], last[f]):
            own = E[c, i]
            for t in range(n):
                d = own - E[c, left + t]
                s[t] += d * d
        profile(kind[f], alpha[f], s, n, value[f], slope[f], bend[f], shifted, scale)


@compiled
def fill_rows(
    E: np.ndarray,
    start: int,
    stop: int,
    diagonal: np.ndarray,
    term_factors: np.ndarray,
    term_variance: np.ndarray,
    kind: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    alpha: np.ndarray,
    out: np.ndarray,
) -> None:
    """Rows ``start`` … ``stop`` of the lower triangle of G, for points E (coordinates, n), into ``out`` (n, n)."""
    F = len(kind)
    value, slope, bend = np.empty((F, _WIDTH)), np.empty((F, _WIDTH)), np.empty((F, _WIDTH))
    s, shifted, scale = np.empty(_WIDTH), np.empty(_WIDTH), np.empty(_WIDTH)
    for i in range(start, stop):
        for left in range(0, i, _WIDTH):
            n = min(_WIDTH, i - left)
            _profiles(E, i, left, n, kind, first, last, alpha, value, slope, bend, s, shifted, scale)
            for t in range(n):
                out[i, left + t] = 0.0
            for term in range(len(term_variance)):
                for t in range(n):
                    s[t] = term_variance[term]
                for f in range(term_factors[term], term_factors[term + 1]):
                    for t in range(n):
                        s[t] *= value[f, t]
                for t in range(n):
                    out[i, left + t] += s[t]
        out[i, i] = term_variance.sum() + diagonal[i]


@compiled
def slope_rows(
    E: np.ndarray,
    start: int,
    stop: int,
    right: np.ndarray,
    inverse: np.ndarray,
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
    slots: int,
) -> np.ndarray:
    """½ tr((α αᵀ − G⁻¹) ∂K) from rows ``start`` … ``stop``, for every slot (slots,); α is ``right`` (columns, n).

    Lengthscales need Σᵢⱼ Mᵢⱼ (eᵢ − eⱼ)² for every coordinate e, where M is the weight of a pair times the slope of the
    profile. With the sums of its rows and columns that is Σ eᵢ² rᵢ + Σ eⱼ² cⱼ − 2 eᵀM e: one product of matrices. A
    pair of coordinates has the product of its two differences in place of the square.
    """
    F, C, rows = len(kind), len(E), stop - start
    value, slope, bend = np.empty((F, _WIDTH)), np.empty((F, _WIDTH)), np.empty((F, _WIDTH))
    s, shifted, scale = np.empty(_WIDTH), np.empty(_WIDTH), np.empty(_WIDTH)
    weight, rest = np.empty(_WIDTH), np.empty(_WIDTH)
    M, points = np.empty((F, rows, _WIDTH)), np.zeros((_WIDTH, C + 1))
    points[:, C] = 1.0
    total, sums = np.zeros(slots), np.zeros((slots, _WIDTH))
    for left in range(0, stop, _WIDTH):
        M[:] = 0.0
        for t in range(min(_WIDTH, stop - left)):
            for c in range(C):
                points[t, c] = E[c, left + t]
        for i in range(max(start, left + 1), stop):
            n = min(_WIDTH, i - left)
            _profiles(E, i, left, n, kind, first, last, alpha, value, slope, bend, s, shifted, scale)
            for t in range(n):
                weight[t] = -inverse[i, left + t]
            for o in range(len(right)):
                for t in range(n):
                    weight[t] += right[o, i] * right[o, left + t]
            for term in range(len(term_variance)):
                begin, end = term_factors[term], term_factors[term + 1]
                for f in range(begin, end):
                    for t in range(n):
                        rest[t] = weight[t] * term_variance[term]
                    for other in range(begin, end):
                        if other != f:
                            for t in range(n):
                                rest[t] *= value[other, t]
                    if f == begin and term_slot[term] >= 0:
                        for t in range(n):
                            sums[term_slot[term], t] += rest[t] * value[f, t]
                    if alpha_slot[f] >= 0:
                        for t in range(n):
                            sums[alpha_slot[f], t] += rest[t] * bend[f, t]
                    for t in range(n):
                        # an infinite slope is that of points that coincide, whose distance does not change
                        M[f, i - start, t] = -2.0 * rest[t] * slope[f, t] if slope[f, t] > _STEEPEST else 0.0
        for f in range(F):
            product = np.dot(M[f], points)
            for c in range(first[f], last[f]):
                p = coordinate_slot[c]
                if p >= 0:
                    for r in range(rows):
                        own = E[c, start + r]
                        total[p] += own * (own * product[r, C] - 2.0 * product[r, c])
            for q in range(len(pair_slot)):
                a, b, p = pair_first[q], pair_second[q], pair_slot[q]
                if first[f] <= a < last[f]:
                    for r in range(rows):
                        one, two = E[a, start + r], E[b, start + r]
                        total[p] += one * (two * product[r, C] - product[r, b]) - two * product[r, a]
            for t in range(_WIDTH):
                s[t] = 0.0
            for r in range(rows):
                for t in range(_WIDTH):
                    s[t] += M[f, r, t]
            for q in range(len(pair_slot)):
                if first[f] <= pair_first[q] < last[f]:
                    for t in range(_WIDTH):
                        total[pair_slot[q]] += s[t] * points[t, pair_first[q]] * points[t, pair_second[q]]
            for c in range(first[f], last[f]):
                p = coordinate_slot[c]
                if p >= 0:
                    for t in range(_WIDTH):
                        total[p] += s[t] * points[t, c] * points[t, c]
    for i in range(start, stop):
        own = -inverse[i, i]
        for o in range(len(right)):
            own += right[o, i] * right[o, i]
        for term in range(len(term_variance)):
            if term_slot[term] >= 0:
                total[term_slot[term]] += 0.5 * own * term_variance[term]
    return total + sums.sum(axis=1)

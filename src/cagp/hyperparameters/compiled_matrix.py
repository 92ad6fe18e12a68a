"""The derivatives of the exact likelihood in compiled code, row by row.

A row is cut into pieces that stay in the fastest cache; every inner loop runs along one.
"""

from __future__ import annotations

import numpy as np

from ..kernels.compiled import slopes_of, squared_distances
from ..kernels.plan import Plan
from ..support.compiling import compiled
from .radial_plan import Slots

_WIDTH = 256

_STEEPEST = -1e100  # slopes below are those at a distance of zero, to which profiles add the smallest of numbers


@compiled
def slope_rows(
    E: np.ndarray,
    start: int,
    stop: int,
    right: np.ndarray,
    inverse: np.ndarray,
    plan: Plan,
    slots: Slots,
    count: int,
) -> np.ndarray:
    """½ tr((α αᵀ − G⁻¹) ∂K) from rows ``start`` … ``stop`` in every of ``count`` slots; α is ``right`` (columns, n).

    Lengthscales need Σᵢⱼ Mᵢⱼ (eᵢ − eⱼ)² for every coordinate e, where M is the weight of a pair times the slope of the
    profile. With the sums of its rows and columns that is Σ eᵢ² rᵢ + Σ eⱼ² cⱼ − 2 eᵀM e: one product of matrices. A
    pair of coordinates has the product of its two differences in place of the square.
    """
    F, C, rows = len(plan.codes), len(E), stop - start
    profiles, work = np.empty((3, F, _WIDTH)), np.empty((3, _WIDTH))
    M, points = np.empty((F, rows, _WIDTH)), np.zeros((_WIDTH, C + 1))
    points[:, C] = 1.0
    total, sums = np.zeros(count), np.zeros((count, _WIDTH))
    for left in range(0, stop, _WIDTH):
        M[:] = 0.0
        for t in range(min(_WIDTH, stop - left)):
            for c in range(C):
                points[t, c] = E[c, left + t]
        for i in range(max(start, left + 1), stop):
            _add_row(E, i, left, right, inverse, plan, slots, M, i - start, sums, profiles, work)
        for f in range(F):
            _add_products(M[f], points, E[:, start:stop], plan.first[f], plan.last[f], slots, total)
    for i in range(start, stop):
        own = -inverse[i, i]
        for o in range(len(right)):
            own += right[o, i] * right[o, i]
        for term in range(len(plan.variances)):
            if slots.term[term] >= 0:
                total[slots.term[term]] += 0.5 * own * plan.variances[term]
    return total + sums.sum(axis=1)


@compiled
def _add_row(
    E: np.ndarray,
    i: int,
    left: int,
    right: np.ndarray,
    inverse: np.ndarray,
    plan: Plan,
    slots: Slots,
    M: np.ndarray,
    row: int,
    sums: np.ndarray,
    profiles: np.ndarray,
    work: np.ndarray,
) -> None:
    """Point i with those from ``left`` on before it, into a ``row`` of M (F, rows, n) and into ``sums`` (slots, n)."""
    value, slope, bend = profiles[0], profiles[1], profiles[2]
    s, weight, rest = work[0], work[1], work[2]
    n = min(_WIDTH, i - left)
    for f in range(len(plan.codes)):
        squared_distances(E, i, E, left, plan.first[f], plan.last[f], s, n)
        slopes_of(plan.codes[f], plan.parameters[f], s, n, value[f], slope[f], bend[f])
    for t in range(n):
        weight[t] = -inverse[i, left + t]
    for o in range(len(right)):
        for t in range(n):
            weight[t] += right[o, i] * right[o, left + t]
    for term in range(len(plan.variances)):
        begin, end = plan.ends[term], plan.ends[term + 1]
        for f in range(begin, end):
            for t in range(n):
                rest[t] = weight[t] * plan.variances[term]
            for other in range(begin, end):
                if other != f:
                    for t in range(n):
                        rest[t] *= value[other, t]
            if f == begin and slots.term[term] >= 0:
                for t in range(n):
                    sums[slots.term[term], t] += rest[t] * value[f, t]
            if slots.parameter[f] >= 0:
                for t in range(n):
                    sums[slots.parameter[f], t] += rest[t] * bend[f, t]
            for t in range(n):
                # an infinite slope is that of points that coincide, whose distance does not change
                M[f, row, t] = -2.0 * rest[t] * slope[f, t] if slope[f, t] > _STEEPEST else 0.0


@compiled
def _add_products(
    M: np.ndarray, points: np.ndarray, own: np.ndarray, first: int, last: int, slots: Slots, total: np.ndarray
) -> None:
    """Σ Mᵢⱼ (aᵢ − aⱼ) (bᵢ − bⱼ) for the slots of the coordinates ``first`` … ``last`` and of pairs of them."""
    product, C = np.dot(M, points), len(own)
    sums = np.zeros(M.shape[1])
    for r in range(len(M)):
        for t in range(M.shape[1]):
            sums[t] += M[r, t]
    for q in range(last - first + len(slots.pair)):
        alone = q < last - first
        a = first + q if alone else slots.pair_first[q - last + first]
        b = a if alone else slots.pair_second[q - last + first]
        p = slots.coordinate[a] if alone else slots.pair[q - last + first]
        if p < 0 or a < first or a >= last:
            continue
        for r in range(len(M)):
            one, two = own[a, r], own[b, r]
            total[p] += one * (two * product[r, C] - product[r, b]) - two * product[r, a]
        for t in range(M.shape[1]):
            total[p] += sums[t] * points[t, a] * points[t, b]

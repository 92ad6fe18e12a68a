"""The derivatives of the exact likelihood in compiled code, row by row, and what its average information is made of.

A row is cut into pieces that stay in the fastest cache; every inner loop runs along one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels.compiled import slopes_of, squared_distances
from ..kernels.plan import Plan
from ..support.compiling import compiled
from .radial_plan import Slots

_WIDTH, _ROWS = 256, 32

_STEEPEST = -1e100  # slopes below are those at a distance of zero, to which profiles add the smallest of numbers


class Derivatives(NamedTuple):
    """What pairs of points add up to, with weights α αᵀ − G⁻¹ and with the first column a of α.

    ``slopes`` (slots,) is ½ tr((α αᵀ − G⁻¹) ∂K); ``terms`` (T, n) is K_t a for every term of the kernel, ``bends``
    (F, n) the same with the derivative in a factor's parameter, and ``moments`` (F, n, W) with that in its squared
    distances, times the columns of ``moment_columns``.
    """

    slopes: np.ndarray
    terms: np.ndarray
    bends: np.ndarray
    moments: np.ndarray

    @classmethod
    def zeros(cls, slots: int, terms: int, right: np.ndarray) -> Derivatives:
        """Nothing added yet, for ``right`` (F, n, W)."""
        F, n, _ = right.shape
        return cls(np.zeros(slots), np.zeros((terms, n)), np.zeros((F, n)), np.zeros_like(right))


@compiled
def add_pairs(
    E: np.ndarray,
    start: int,
    stop: int,
    alpha: np.ndarray,
    inverse: np.ndarray,
    right: np.ndarray,
    plan: Plan,
    slots: Slots,
    found: Derivatives,
) -> None:
    """Add the points ``start`` … ``stop`` with all before them; α is (columns, n), ``right`` (F, n, W).

    Lengthscales need Σᵢⱼ Mᵢⱼ (eᵢ − eⱼ)² for every coordinate e, where M is the weight of a pair times the slope of the
    profile. With the sums of its rows and columns that is Σ eᵢ² rᵢ + Σ eⱼ² cⱼ − 2 eᵀM e: one product of matrices. A
    pair of coordinates has the product of its two differences in place of the square.
    """
    F, C = len(plan.codes), len(E)
    profiles, work = np.empty((3, F, _WIDTH)), np.empty((4, _WIDTH))
    weighted, plain = np.empty((F, _ROWS, _WIDTH)), np.empty((F, _ROWS, _WIDTH))
    points, near = np.zeros((_WIDTH, C + 1)), np.zeros((_WIDTH, right.shape[2]))
    points[:, C] = 1.0
    sums = np.zeros((len(found.slopes), _WIDTH))
    for top in range(start, stop, _ROWS):
        bottom = min(top + _ROWS, stop)
        for left in range(0, bottom, _WIDTH):
            n = min(_WIDTH, bottom - left)
            weighted[:] = 0.0
            plain[:] = 0.0
            for t in range(n):
                for c in range(C):
                    points[t, c] = E[c, left + t]
            for i in range(max(top, left + 1), bottom):
                _add_row(E, i, left, alpha, inverse, plan, slots, weighted, plain, i - top, sums, found, profiles, work)
            for f in range(F):
                own, rows = E[:, top:bottom], bottom - top
                _add_products(weighted[f, :rows], points, own, plan.first[f], plan.last[f], slots, found.slopes)
                near[:n] = right[f, left : left + n]
                found.moments[f, top:bottom] += np.dot(plain[f, :rows], near)
                found.moments[f, left : left + n] += np.dot(plain[f, :rows].T, right[f, top:bottom])[:n]
    for i in range(start, stop):
        own = -inverse[i, i]
        for o in range(len(alpha)):
            own += alpha[o, i] * alpha[o, i]
        for term in range(len(plan.variances)):
            found.terms[term, i] += plan.variances[term] * alpha[0, i]
            if slots.term[term] >= 0:
                found.slopes[slots.term[term]] += 0.5 * own * plan.variances[term]
    for p in range(len(sums)):
        found.slopes[p] += sums[p].sum()


@compiled
def _add_row(
    E: np.ndarray,
    i: int,
    left: int,
    alpha: np.ndarray,
    inverse: np.ndarray,
    plan: Plan,
    slots: Slots,
    weighted: np.ndarray,
    plain: np.ndarray,
    row: int,
    sums: np.ndarray,
    found: Derivatives,
    profiles: np.ndarray,
    work: np.ndarray,
) -> None:
    """Point i with those from ``left`` on before it: a ``row`` of the derivatives in squared distances (F, rows, n),
    ``weighted`` and ``plain``, the sums over pairs (slots, n), and products with the first column of α.
    """
    value, slope, bend = profiles[0], profiles[1], profiles[2]
    s, weight, rest, part = work[0], work[1], work[2], work[3]
    n = min(_WIDTH, i - left)
    for f in range(len(plan.codes)):
        squared_distances(E, i, E, left, plan.first[f], plan.last[f], s, n)
        slopes_of(plan.codes[f], plan.parameters[f], s, n, value[f], slope[f], bend[f])
    for t in range(n):
        weight[t] = -inverse[i, left + t]
    for o in range(len(alpha)):
        for t in range(n):
            weight[t] += alpha[o, i] * alpha[o, left + t]
    for term in range(len(plan.variances)):
        begin, end = plan.ends[term], plan.ends[term + 1]
        for f in range(begin, end):
            for t in range(n):
                rest[t] = plan.variances[term]
            for other in range(begin, end):
                if other != f:
                    for t in range(n):
                        rest[t] *= value[other, t]
            if f == begin:
                for t in range(n):
                    part[t] = rest[t] * value[f, t]
                _add_part(part, weight, i, left, n, alpha[0], slots.term[term], sums, found.terms[term])
            if slots.parameter[f] >= 0:
                for t in range(n):
                    part[t] = rest[t] * bend[f, t]
                _add_part(part, weight, i, left, n, alpha[0], slots.parameter[f], sums, found.bends[f])
            for t in range(n):
                # an infinite slope is that of points that coincide, whose distance does not change
                plain[f, row, t] = -2.0 * rest[t] * slope[f, t] if slope[f, t] > _STEEPEST else 0.0
                weighted[f, row, t] = weight[t] * plain[f, row, t]


@compiled
def _add_part(
    part: np.ndarray,
    weight: np.ndarray,
    i: int,
    left: int,
    n: int,
    a: np.ndarray,
    slot: int,
    sums: np.ndarray,
    product: np.ndarray,
) -> None:
    """Derivatives ``part`` of the covariances of point i with the n from ``left`` on, into a slot of ``sums`` with
    their weights, and times a into a ``product`` (n,).
    """
    if slot < 0:
        return
    for t in range(n):
        sums[slot, t] += weight[t] * part[t]
        product[left + t] += a[i] * part[t]
    product[i] += np.dot(part[:n], a[left : left + n])


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

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

Terms are computed side by side, one in each of ``_LANES`` lanes, over which every inner loop runs (their number is read
off an array: a constant would be unrolled, and then not vectorised). No lock of Python's is held, so plain threads
share out the work.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..kernels.compiled import slopes_of
from ..kernels.plan import Plan
from ..support.compiling import compiled
from .radial_plan import Slots

_LANES = 32  # terms side by side: several vectors, to pay for the checks before a loop, and blocks that fit the cache


class Points(NamedTuple):
    """Of all points: coordinates E (n, C), columns R (n, m), noise (n,), and its slope in its level (n,)."""

    E: np.ndarray
    columns: np.ndarray
    noise: np.ndarray
    noise_slope: np.ndarray


class Sums(NamedTuple):
    """Over terms: (1,), (m, m), (slots,), (slots, m, m), and the lower triangle of (slots, slots)."""

    half_log_det: np.ndarray
    normal: np.ndarray
    slope_det: np.ndarray
    slope_normal: np.ndarray
    information: np.ndarray

    @classmethod
    def zeros(cls, columns: int, slots: int) -> Sums:
        """Nothing summed yet."""
        shapes = (1,), (columns, columns), (slots,), (slots, columns, columns), (slots, slots)
        return cls(*map(np.zeros, shapes))


class _Block(NamedTuple):
    """Terms side by side, the last axis, with k+1 points each and their packed triangles of pairs."""

    x: np.ndarray  # coordinates (C, k+1)
    real: np.ndarray  # where there is a point at all (k+1)
    noise: np.ndarray
    noise_slope: np.ndarray
    Z: np.ndarray  # (m, k+1)
    K: np.ndarray  # covariances (pairs)
    terms: np.ndarray  # those of each term of the kernel (T, pairs)
    slopes: np.ndarray  # of every factor in squared distances (F, pairs)
    bends: np.ndarray  # and in its parameter
    u: np.ndarray  # (k+1)
    w: np.ndarray  # (slots, k+1)


@compiled
def _subtract(A: np.ndarray, a: int, B: np.ndarray, b: int, count: int, acc: np.ndarray) -> None:
    """Σ A[a + m] B[b + m] over m < ``count`` from the sums ``acc`` (lanes,), four at a time."""
    lanes = len(acc)
    for m in range(0, count - 3, 4):
        for e in range(lanes):
            acc[e] -= (
                A[a + m, e] * B[b + m, e]
                + A[a + m + 1, e] * B[b + m + 1, e]
                + A[a + m + 2, e] * B[b + m + 2, e]
                + A[a + m + 3, e] * B[b + m + 3, e]
            )
    for m in range(count - count % 4, count):
        for e in range(lanes):
            acc[e] -= A[a + m, e] * B[b + m, e]


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
            _subtract(K, row, K, other, j, acc)
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
        _subtract(K, row, x, 0, i, acc)
        for e in range(lanes):
            x[i, e] = acc[e] * K[row + i, e]


@compiled
def _gather(points: Points, members: np.ndarray, top: int, block: _Block) -> None:
    """The terms from ``top`` on into the lanes; the last one again where there are no more."""
    size, lanes = block.real.shape
    for e in range(lanes):
        term = min(top + e, len(members) - 1)
        for i in range(size):
            who = members[term, i]
            there = who >= 0  # otherwise independent of all others, with variance 1 and no influence
            block.real[i, e] = 1.0 if there else 0.0
            block.noise[i, e] = points.noise[who] if there else 0.0
            block.noise_slope[i, e] = points.noise_slope[who] if there else 0.0
            for c in range(len(block.x)):
                block.x[c, i, e] = points.E[who, c] if there else 0.0
            for m in range(len(block.Z)):
                block.Z[m, i, e] = points.columns[who, m] if there else 0.0


@compiled
def _covariances(plan: Plan, bends: bool, block: _Block, profiles: np.ndarray, s: np.ndarray, acc: np.ndarray) -> None:
    """The covariance of every pair, and its derivatives, row by row; ``profiles`` (3, F, values) is room for them."""
    x, real, terms, K = block.x, block.real, block.terms, block.K
    size, lanes = real.shape
    value, slope, bend, square = profiles[0], profiles[1], profiles[2], np.empty(lanes)
    for i in range(size):
        row, n = i * (i + 1) // 2, i * lanes
        for f in range(len(plan.codes)):
            s[:n] = 0.0
            for c in range(plan.first[f], plan.last[f]):
                for j in range(i):
                    for e in range(lanes):
                        d = x[c, i, e] - x[c, j, e]
                        s[j * lanes + e] += d * d
            slopes_of(plan.codes[f], plan.parameters[f], s, n, value[f], slope[f], bend[f])
        for t in range(len(plan.variances)):
            begin, stop = plan.ends[t], plan.ends[t + 1]
            for j in range(i):
                for e in range(lanes):
                    square[e] = plan.variances[t] * real[i, e] * real[j, e]
                for f in range(begin, stop):
                    for e in range(lanes):
                        acc[e] = square[e]
                    for g in range(begin, stop):
                        if g != f:
                            for e in range(lanes):
                                acc[e] *= value[g, j * lanes + e]
                    for e in range(lanes):
                        block.slopes[f, row + j, e] = -2.0 * acc[e] * slope[f, j * lanes + e]
                    if bends:
                        for e in range(lanes):
                            block.bends[f, row + j, e] = acc[e] * bend[f, j * lanes + e]
                for e in range(lanes):
                    terms[t, row + j, e] = acc[e] * value[stop - 1, j * lanes + e]
            for e in range(lanes):
                terms[t, row + i, e] = plan.variances[t] * real[i, e]
        for t in range(len(plan.variances)):
            for j in range(i + 1):
                for e in range(lanes):
                    K[row + j, e] = terms[t, row + j, e] + (K[row + j, e] if t else 0.0)
        for e in range(lanes):
            K[row + i, e] += block.noise[i, e] + 1.0 - real[i, e]


@compiled
def _last_row(K: np.ndarray, u: np.ndarray) -> None:
    """u = L⁻ᵀ e_last."""
    size, lanes = u.shape
    u[:] = 0.0
    u[size - 1] = 1.0
    for i in range(size - 1, -1, -1):
        row = i * (i + 1) // 2
        for e in range(lanes):
            u[i, e] *= K[row + i, e]
        for j in range(i):
            for e in range(lanes):
                u[j, e] -= K[row + j, e] * u[i, e]


@compiled
def _multiply(pairs: np.ndarray, diagonal: bool, u: np.ndarray, w: np.ndarray, acc: np.ndarray) -> None:
    """Add the product of symmetric matrices, packed ``pairs``, with u to w; without their ``diagonal`` if not that."""
    size, lanes = u.shape
    for i in range(size):
        row = i * (i + 1) // 2
        for e in range(lanes):
            acc[e] = pairs[row + i, e] * u[i, e] if diagonal else 0.0
        for j in range(i):
            for e in range(lanes):
                acc[e] += pairs[row + j, e] * u[j, e]
                w[j, e] += pairs[row + j, e] * u[i, e]
        for e in range(lanes):
            w[i, e] += acc[e]


@compiled
def _multiply_products(
    pairs: np.ndarray, one: np.ndarray, other: np.ndarray, u: np.ndarray, w: np.ndarray, acc: np.ndarray, s: np.ndarray
) -> None:
    """The same with ``pairs`` times Σ of products of differences in the coordinates ``one`` and ``other`` (c, k+1)."""
    size, lanes = u.shape
    for i in range(size):
        row = i * (i + 1) // 2
        s[: i * lanes] = 0.0
        for c in range(len(one)):
            for j in range(i):
                for e in range(lanes):
                    s[j * lanes + e] += (one[c, i, e] - one[c, j, e]) * (other[c, i, e] - other[c, j, e])
        acc[:] = 0.0
        for j in range(i):
            for e in range(lanes):
                d = pairs[row + j, e] * s[j * lanes + e]
                acc[e] += d * u[j, e]
                w[j, e] += d * u[i, e]
        for e in range(lanes):
            w[i, e] += acc[e]


@compiled
def _derivatives(plan: Plan, slots: Slots, block: _Block, s: np.ndarray, acc: np.ndarray) -> None:
    """(∂G/∂θ) u for every slot, into w."""
    x, u, w = block.x, block.u, block.w
    w[:] = 0.0
    if slots.noise >= 0:
        for i in range(len(u)):
            for e in range(len(acc)):
                w[slots.noise, i, e] = block.noise_slope[i, e] * u[i, e]
    for t in range(len(plan.variances)):
        if slots.term[t] >= 0:
            _multiply(block.terms[t], True, u, w[slots.term[t]], acc)
    for f in range(len(plan.codes)):
        if slots.parameter[f] >= 0:
            _multiply(block.bends[f], False, u, w[slots.parameter[f]], acc)
        c = plan.first[f]
        while c < plan.last[f]:  # coordinates side by side that share a lengthscale are one
            p, end = slots.coordinate[c], c + 1
            while end < plan.last[f] and slots.coordinate[end] == p:
                end += 1
            if p >= 0:
                _multiply_products(block.slopes[f], x[c:end], x[c:end], u, w[p], acc, s)
            c = end
        for q in range(len(slots.pair)):
            a, b = slots.pair_first[q], slots.pair_second[q]
            if plan.first[f] <= a < plan.last[f]:
                _multiply_products(block.slopes[f], x[a : a + 1], x[b : b + 1], u, w[slots.pair[q]], acc, s)


@compiled
def _add_up(block: _Block, weight: np.ndarray, sums: Sums, v: np.ndarray, acc: np.ndarray) -> None:
    """What the terms are worth into the sums, with their ``weight`` (lanes,)."""
    K, Z, w = block.K, block.Z, block.w
    (size, lanes), M = block.u.shape, len(Z)
    end = size - 1
    for e in range(lanes):
        sums.half_log_det[0] -= weight[e] * math.log(K[len(K) - 1, e])
    for a in range(M):
        for b in range(M):
            for e in range(lanes):
                sums.normal[a, b] += weight[e] * Z[a, end, e] * Z[b, end, e]
    for p in range(len(w)):
        _solve(K, size, w[p], acc)
        for e in range(lanes):
            sums.slope_det[p] += weight[e] * w[p, end, e]
        for a in range(M):
            for e in range(lanes):
                v[a, e] = 0.5 * w[p, end, e] * Z[a, end, e]
            for i in range(end):
                for e in range(lanes):
                    v[a, e] += Z[a, i, e] * w[p, i, e]
        for a in range(M):
            for b in range(M):
                for e in range(lanes):
                    sums.slope_normal[p, a, b] += weight[e] * (Z[a, end, e] * v[b, e] + v[a, e] * Z[b, end, e])
        for o in range(p + 1):
            for e in range(lanes):
                acc[e] = 0.5 * w[p, end, e] * w[o, end, e]
            for i in range(end):
                for e in range(lanes):
                    acc[e] += w[p, i, e] * w[o, i, e]
            for e in range(lanes):
                sums.information[p, o] += weight[e] * acc[e]


@compiled
def sum_terms(points: Points, members: np.ndarray, weights: np.ndarray, plan: Plan, slots: Slots, sums: Sums) -> int:
    """Add terms ``members`` (terms, k+1), −1 for no neighbour, times ``weights`` (terms,); −1, or the failed row."""
    count, size = members.shape
    C, M, T, F = points.E.shape[1], points.columns.shape[1], len(plan.variances), len(plan.codes)
    pairs, bends = size * (size + 1) // 2, slots.parameter.max() >= 0
    x, Z, w = np.empty((C, size, _LANES)), np.empty((M, size, _LANES)), np.empty((len(sums.slope_det), size, _LANES))
    K, terms, slopes = np.empty((pairs, _LANES)), np.empty((T, pairs, _LANES)), np.empty((F, pairs, _LANES))
    bent, single = np.empty((F if bends else 0, pairs, _LANES)), np.empty((4, size, _LANES))
    block = _Block(x, single[0], single[1], single[2], Z, K, terms, slopes, bent, single[3], w)
    profiles, s, acc = np.empty((3, F, size * _LANES)), np.empty(size * _LANES), np.empty(_LANES)
    weight, v = np.empty(_LANES), np.empty((M, _LANES))
    for top in range(0, count, _LANES):
        for e in range(_LANES):
            weight[e] = weights[top + e] if top + e < count else 0.0
        _gather(points, members, top, block)
        _covariances(plan, bends, block, profiles, s, acc)
        failed = _factorise(block.K, size, acc)
        if failed >= 0:
            return failed
        for m in range(M):
            _solve(block.K, size, block.Z[m], acc)
        _last_row(block.K, block.u)
        _derivatives(plan, slots, block, s, acc)
        _add_up(block, weight, sums, v, acc)
    return -1

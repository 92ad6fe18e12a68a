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

Every loop over lanes is a function of its own, which is called at its address: it is compiled once, where a function
that is called by its name is compiled again inside each that calls it. These take pointers to numbers and count in
rows of lanes.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..kernels.compiled import ARRAY, INT, INTS, REAL, call_at, moved
from ..kernels.plan import Plan
from ..support.compiling import compiled, compiled_apart
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


@compiled_apart(ARRAY, INT, ARRAY, INT, INT, ARRAY, INT)
def _subtract(A: Any, a: int, B: Any, b: int, count: int, acc: Any, lanes: int) -> None:
    """Σ A[a + m] B[b + m] over m < ``count`` from the sums ``acc``, four at a time."""
    for m in range(0, count - 3, 4):
        i, j = (a + m) * lanes, (b + m) * lanes
        for e in range(lanes):
            acc[e] -= (
                A[i + e] * B[j + e]
                + A[i + lanes + e] * B[j + lanes + e]
                + A[i + 2 * lanes + e] * B[j + 2 * lanes + e]
                + A[i + 3 * lanes + e] * B[j + 3 * lanes + e]
            )
    for m in range(count - count % 4, count):
        i, j = (a + m) * lanes, (b + m) * lanes
        for e in range(lanes):
            acc[e] -= A[i + e] * B[j + e]


@compiled_apart(ARRAY, INT, ARRAY, INT, INT, ARRAY)
def _factorise(K: Any, size: int, acc: Any, lanes: int, subtract: int, failed: Any) -> None:
    """Cholesky factors in place of packed lower triangles K; the first row that fails, or −1, into ``failed``."""
    failed[0] = -1.0
    for i in range(size):
        row = i * (i + 1) // 2
        for j in range(i + 1):
            other, here = j * (j + 1) // 2, (row + j) * lanes
            for e in range(lanes):
                acc[e] = K[here + e]
            call_at(subtract, K, row, K, other, j, acc, lanes)
            if j < i:
                for e in range(lanes):
                    K[here + e] = acc[e] * K[(other + j) * lanes + e]
            else:
                for e in range(lanes):
                    if not acc[e] > 0.0:
                        failed[0] = i
                        return
                for e in range(lanes):
                    K[here + e] = 1.0 / math.sqrt(acc[e])  # the diagonal is kept inverted: it only ever divides


@compiled_apart(ARRAY, ARRAY, INT, INT, ARRAY, INT, INT)
def _solve(K: Any, x: Any, at: int, size: int, acc: Any, lanes: int, subtract: int) -> None:
    """L⁻¹ x in place, of the points from ``at`` on."""
    for i in range(size):
        row, here = i * (i + 1) // 2, (at + i) * lanes
        for e in range(lanes):
            acc[e] = x[here + e]
        call_at(subtract, K, row, x, at, i, acc, lanes)
        for e in range(lanes):
            x[here + e] = acc[e] * K[(row + i) * lanes + e]


@compiled_apart(ARRAY, INT, INT, INT, INT, INT, ARRAY, INT)
def _differences(x: Any, a: int, b: int, count: int, size: int, i: int, s: Any, lanes: int) -> None:
    """Products of the differences of point i to all before, in coordinates from a and from b on, summed over them."""
    for t in range(i * lanes):
        s[t] = 0.0
    for c in range(count):
        one, two = (a + c) * size * lanes, (b + c) * size * lanes
        for j in range(i):
            for e in range(lanes):
                here, there = i * lanes + e, j * lanes + e
                s[there] += (x[one + here] - x[one + there]) * (x[two + here] - x[two + there])


@compiled_apart(ARRAY, INT, REAL, ARRAY, INT, INT, INT, INT, ARRAY, INT)
def _rest(
    real: Any, i: int, variance: float, value: Any, begin: int, end: int, f: int, size: int, rest: Any, lanes: int
) -> None:
    """A term of the covariances of point i with all before, without its factor f."""
    for j in range(i):
        for e in range(lanes):
            rest[j * lanes + e] = variance * real[i * lanes + e] * real[j * lanes + e]
    for g in range(begin, end):
        if g != f:
            for t in range(i * lanes):
                rest[t] *= value[g * size * lanes + t]


@compiled_apart(REAL, ARRAY, ARRAY, INT, ARRAY, INT, INT, INT)
def _times(factor: float, A: Any, B: Any, b: int, out: Any, to: int, n: int, lanes: int) -> None:
    """``factor`` · A · B[b:] of n points into ``out`` from ``to`` on."""
    for t in range(n * lanes):
        out[to * lanes + t] = factor * A[t] * B[b * lanes + t]


@compiled_apart(ARRAY, INT, INT, ARRAY, INT)
def _add_terms(terms: Any, count: int, pairs: int, K: Any, lanes: int) -> None:
    """The sum of all terms, into K."""
    for t in range(count):
        for k in range(pairs * lanes):
            K[k] = terms[t * pairs * lanes + k] + (K[k] if t else 0.0)


@compiled_apart(ARRAY, ARRAY, INT, INT)
def _last_row(K: Any, u: Any, size: int, lanes: int) -> None:
    """u = L⁻ᵀ e_last."""
    for t in range(size * lanes):
        u[t] = 1.0 if t >= (size - 1) * lanes else 0.0
    for i in range(size - 1, -1, -1):
        row = i * (i + 1) // 2 * lanes
        for e in range(lanes):
            u[i * lanes + e] *= K[row + i * lanes + e]
        for j in range(i):
            for e in range(lanes):
                u[j * lanes + e] -= K[row + j * lanes + e] * u[i * lanes + e]


@compiled_apart(ARRAY, INT, ARRAY, INT, INT, INT, ARRAY, ARRAY, INT, INT, ARRAY, ARRAY, INT, INT)
def _multiply(
    pairs: Any,
    at: int,
    x: Any,
    a: int,
    b: int,
    count: int,
    u: Any,
    w: Any,
    to: int,
    size: int,
    s: Any,
    acc: Any,
    lanes: int,
    differences: int,
) -> None:
    """Add the product of symmetric matrices, packed ``pairs`` from ``at`` on, with u to w from ``to`` on.

    Where ``count`` is not zero they are multiplied by products of so many differences, of coordinates from a and b on.
    """
    for t in range(size * lanes):
        s[t] = 1.0
    for i in range(size):
        row, here = (at + i * (i + 1) // 2) * lanes, i * lanes
        if count:
            call_at(differences, x, a, b, count, size, i, s, lanes)
        for e in range(lanes):
            acc[e] = pairs[row + here + e] * u[here + e]
        for j in range(i):
            for e in range(lanes):
                d = pairs[row + j * lanes + e] * s[j * lanes + e]
                acc[e] += d * u[j * lanes + e]
                w[(to + j) * lanes + e] += d * u[here + e]
        for e in range(lanes):
            w[to * lanes + here + e] += acc[e]


@compiled_apart(ARRAY, INT, ARRAY, INT, INT, ARRAY, INT, INT)
def _dot(A: Any, a: int, B: Any, b: int, size: int, out: Any, to: int, lanes: int) -> None:
    """Σ A[a + i] B[b + i] over points i, the last of them half, into ``out[to]``."""
    for e in range(lanes):
        out[to * lanes + e] = 0.5 * A[(a + size - 1) * lanes + e] * B[(b + size - 1) * lanes + e]
    for i in range(size - 1):
        for e in range(lanes):
            out[to * lanes + e] += A[(a + i) * lanes + e] * B[(b + i) * lanes + e]


@compiled_apart(ARRAY, ARRAY, INT, ARRAY, INT, ARRAY, INT, INT)
def _add_up(weight: Any, A: Any, a: int, B: Any, b: int, total: Any, at: int, lanes: int) -> None:
    """Σ weight A[a] B[b] over terms, to ``total[at]``."""
    for e in range(lanes):
        total[at] += weight[e] * A[a * lanes + e] * B[b * lanes + e]


@compiled_apart(ARRAY, INT, ARRAY, INT, ARRAY, ARRAY, INTS, INT, INT, INT, ARRAY, ARRAY, ARRAY, ARRAY, ARRAY, INT)
def _gather(
    E: Any,
    C: int,
    columns: Any,
    M: int,
    noise: Any,
    noise_slope: Any,
    members: Any,
    count: int,
    top: int,
    size: int,
    x: Any,
    real: Any,
    own_noise: Any,
    own_slope: Any,
    Z: Any,
    lanes: int,
) -> None:
    """The terms from ``top`` on into the lanes; the last one again where there are no more."""
    for e in range(lanes):
        term = top + e if top + e < count else count - 1
        for i in range(size):
            who = members[term * size + i]
            there = 1.0 if who >= 0 else 0.0  # otherwise independent of all, with variance 1 and no influence
            who = who if who >= 0 else 0
            here = i * lanes + e
            real[here] = there
            own_noise[here] = there * noise[who]
            own_slope[here] = there * noise_slope[who]
            for c in range(C):
                x[c * size * lanes + here] = there * E[who * C + c]
            for m in range(M):
                Z[m * size * lanes + here] = there * columns[who * M + m]


@compiled_apart(*[INTS] * 4, ARRAY, ARRAY, *[INT] * 4, *[ARRAY] * 8, INTS)
def _covariances(
    ends: Any,
    codes: Any,
    first: Any,
    last: Any,
    variances: Any,
    parameters: Any,
    T: int,
    bends: int,
    size: int,
    lanes: int,
    x: Any,
    real: Any,
    terms: Any,
    slopes: Any,
    bent: Any,
    K: Any,
    profiles: Any,
    s: Any,
    stages: Any,
) -> None:
    """The covariance of every pair of points, and its derivatives, row by row."""
    F, pairs = ends[T], size * (size + 1) // 2
    rest = moved(s, size * lanes)
    for i in range(size):
        row = i * (i + 1) // 2
        for f in range(F):
            call_at(stages[3], x, first[f], first[f], last[f] - first[f], size, i, s, lanes)
            value, slope = moved(profiles, f * size * lanes), moved(profiles, (F + f) * size * lanes)
            call_at(codes[f], parameters[f], s, i * lanes, value, slope, moved(profiles, (2 * F + f) * size * lanes))
        for t in range(T):
            for f in range(ends[t], ends[t + 1]):
                call_at(stages[4], real, i, variances[t], profiles, ends[t], ends[t + 1], f, size, rest, lanes)
                call_at(stages[5], -2.0, rest, profiles, (F + f) * size, slopes, f * pairs + row, i, lanes)
                if bends:
                    call_at(stages[5], 1.0, rest, profiles, (2 * F + f) * size, bent, f * pairs + row, i, lanes)
                if f == ends[t]:
                    call_at(stages[5], 1.0, rest, profiles, f * size, terms, t * pairs + row, i, lanes)
            for e in range(lanes):
                terms[(t * pairs + row + i) * lanes + e] = variances[t] * real[i * lanes + e]
    call_at(stages[6], terms, T, pairs, K, lanes)


@compiled_apart(*[INTS] * 8, *[INT] * 4, *[ARRAY] * 8, INT, INTS)
def _derivatives(
    term: Any,
    parameter: Any,
    coordinate: Any,
    pair_first: Any,
    pair_second: Any,
    pair: Any,
    first: Any,
    last: Any,
    T: int,
    F: int,
    turns: int,
    size: int,
    terms: Any,
    slopes: Any,
    bends: Any,
    x: Any,
    u: Any,
    w: Any,
    s: Any,
    acc: Any,
    lanes: int,
    stages: Any,
) -> None:
    """(∂G/∂θ) u for every slot but that of the noise, added to w."""
    pairs = size * (size + 1) // 2
    multiply, differences = stages[8], stages[3]
    for t in range(T):
        if term[t] >= 0:
            call_at(multiply, terms, t * pairs, x, 0, 0, 0, u, w, term[t] * size, size, s, acc, lanes, differences)
    for f in range(F):
        at, to = f * pairs, parameter[f] * size
        if to >= 0:
            call_at(multiply, bends, at, x, 0, 0, 0, u, w, to, size, s, acc, lanes, differences)
        c, stop = first[f], last[f]
        for q in range(turns):
            a, b, to = pair_first[q], pair_second[q], pair[q] * size
            if c <= a and a < stop:
                call_at(multiply, slopes, at, x, a, b, 1, u, w, to, size, s, acc, lanes, differences)
        while c < stop:  # coordinates side by side that share a lengthscale are one
            end, to = c + 1, coordinate[c] * size
            while end < stop and coordinate[end] == coordinate[c]:
                end += 1
            if to >= 0:
                call_at(multiply, slopes, at, x, c, c, end - c, u, w, to, size, s, acc, lanes, differences)
            c = end


@compiled_apart(*[ARRAY] * 4, *[INT] * 4, *[ARRAY] * 4, INTS)
def _totals(
    Z: Any,
    w: Any,
    K: Any,
    rows: Any,
    M: int,
    P: int,
    size: int,
    lanes: int,
    normal: Any,
    slope_det: Any,
    slope_normal: Any,
    information: Any,
    stages: Any,
) -> None:
    """What the terms are worth into the sums, with their weights, the first of ``rows``."""
    end, one, acc = size - 1, moved(rows, lanes), moved(rows, 2 * lanes)
    dot, add = stages[9], stages[10]
    for a in range(M):
        for b in range(M):
            call_at(add, rows, Z, a * size + end, Z, b * size + end, normal, a * M + b, lanes)
    for p in range(P):
        call_at(stages[2], K, w, p * size, size, acc, lanes, stages[0])
        call_at(add, rows, w, p * size + end, one, 0, slope_det, p, lanes)
        for a in range(M):
            call_at(dot, Z, a * size, w, p * size, size, rows, 3 + a, lanes)
        for a in range(M):
            for b in range(M):
                at = (p * M + a) * M + b
                call_at(add, rows, Z, a * size + end, rows, 3 + b, slope_normal, at, lanes)
                call_at(add, rows, Z, b * size + end, rows, 3 + a, slope_normal, at, lanes)
        for o in range(p + 1):
            call_at(dot, w, p * size, w, o * size, size, acc, 0, lanes)
            call_at(add, rows, acc, 0, one, 0, information, p * P + o, lanes)


class _Block(NamedTuple):
    """Terms side by side, the last axis, with k+1 points each and their packed triangles of pairs, as flat arrays."""

    x: np.ndarray  # coordinates (C, k+1)
    real: np.ndarray  # where there is a point at all (k+1)
    noise: np.ndarray
    noise_slope: np.ndarray
    Z: np.ndarray  # (m, k+1)
    K: np.ndarray  # covariances (pairs)
    terms: np.ndarray  # those of each term of the kernel (T, pairs)
    slopes: np.ndarray  # of every factor in squared distances (F, pairs)
    bends: np.ndarray  # and in its parameter, (0, pairs) where nobody asks
    u: np.ndarray  # (k+1)
    w: np.ndarray  # (slots, k+1)
    profiles: np.ndarray  # values, slopes and bends of all factors (3 F, k+1)
    s: np.ndarray  # squared distances, and products of them (2, k+1)
    lanes: np.ndarray  # weights, ones, sums and one for each of m (3 + m)

    @classmethod
    def zeros(cls, C: int, M: int, T: int, F: int, bends: bool, slots: int, size: int) -> _Block:
        """Zeros, which stay where nothing is: derivatives of covariances of a point with itself."""
        pairs = size * (size + 1) // 2
        lengths = C * size, size, size, size, M * size, pairs, T * pairs, F * pairs, F * bends * pairs, size
        more = slots * size, 3 * F * size, 2 * size, 3 + M
        return cls(*(np.zeros(length * _LANES) for length in (*lengths, *more)))


def sum_terms(points: Points, members: np.ndarray, weights: np.ndarray, plan: Plan, slots: Slots, sums: Sums) -> int:
    """Add terms ``members`` (terms, k+1), −1 for no neighbour, times ``weights`` (terms,); −1, or the failed row."""
    numbers = points.E.shape[1], points.columns.shape[1], len(plan.variances), len(plan.codes)
    block = _Block.zeros(*numbers, bool((slots.parameter >= 0).any()), len(sums.slope_det), members.shape[1])
    block.lanes[_LANES : 2 * _LANES] = 1.0
    return int(_sum_terms(points, members, weights, plan, slots, Sums(*map(np.ravel, sums)), block, _STAGES, _LANES))


_STAGES = np.array(
    [
        each.address
        for each in (
            _subtract,
            _factorise,
            _solve,
            _differences,
            _rest,
            _times,
            _add_terms,
            _last_row,
            _multiply,
            _dot,
            _add_up,
            _gather,
            _covariances,
            _derivatives,
            _totals,
        )
    ]
)


@compiled
def _sum_terms(
    points: Points,
    members: np.ndarray,
    weights: np.ndarray,
    plan: Plan,
    slots: Slots,
    sums: Sums,
    block: _Block,
    stages: np.ndarray,
    lanes: int,
) -> int:
    """``sum_terms`` with a ``block`` of room, the addresses of ``stages`` and the number of ``lanes``."""
    (E, columns, noise, noise_slope), (ends, variances, codes, first, last, parameters) = points, plan
    x, real, own_noise, own_slope, Z, K, terms, slopes, bends, u, w, profiles, s, rows = block
    count, size = members.shape
    C, M, T, F, P = E.shape[1], columns.shape[1], len(variances), len(codes), len(sums.slope_det)
    acc = rows[2 * lanes :]
    for top in range(0, count, lanes):
        for e in range(lanes):
            rows[e] = weights[top + e] if top + e < count else 0.0
        who = members, count, top, size
        call_at(stages[11], E, C, columns, M, noise, noise_slope, *who, x, real, own_noise, own_slope, Z, lanes)
        how = ends, codes, first, last, variances, parameters, T, len(bends), size, lanes
        call_at(stages[12], *how, x, real, terms, slopes, bends, K, profiles, s, stages)
        for i in range(size):
            for e in range(lanes):
                K[(i * (i + 3) // 2) * lanes + e] += own_noise[i * lanes + e] + 1.0 - real[i * lanes + e]
        call_at(stages[1], K, size, acc, lanes, stages[0], s)
        if s[0] >= 0.0:
            return int(s[0])
        for m in range(M):
            call_at(stages[2], K, Z, m * size, size, acc, lanes, stages[0])
        call_at(stages[7], K, u, size, lanes)
        for t in range(len(w)):
            w[t] = 0.0
        if slots.noise >= 0:
            for t in range(len(u)):
                w[slots.noise * size * lanes + t] = own_slope[t] * u[t]
        where = slots.term, slots.parameter, slots.coordinate, slots.pair_first, slots.pair_second, slots.pair
        call_at(
            stages[13],
            *where,
            first,
            last,
            T,
            F,
            len(slots.pair),
            size,
            terms,
            slopes,
            bends,
            x,
            u,
            w,
            s,
            acc,
            lanes,
            stages,
        )
        call_at(
            stages[14],
            Z,
            w,
            K,
            rows,
            M,
            P,
            size,
            lanes,
            sums.normal,
            sums.slope_det,
            sums.slope_normal,
            sums.information,
            stages,
        )
        for e in range(lanes):
            sums.half_log_det[0] -= rows[e] * math.log(K[len(K) - lanes + e])
    return -1

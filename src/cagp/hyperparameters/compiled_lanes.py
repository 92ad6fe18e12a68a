"""Loops over terms side by side, in lanes, for ``compiled_terms.py``, which says what is computed.

Every loop is a function of its own, which is called at its address: it is compiled once, where a function that is
called by its name is compiled again inside each that calls it. They take pointers to numbers and count in rows of
lanes; ``STAGES`` holds their addresses, at places that have names.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..kernels.compiled import ARRAY, INT, INTS, REAL, call_at, moved
from ..support.compiling import compiled_apart

SUBTRACT, FACTORISE, SOLVE, DIFFERENCES, REST, TIMES, ADD_TERMS, LAST_ROW = range(8)
MULTIPLY, DOT, ADD_UP, GATHER, COVARIANCES, DERIVATIVES, TOTALS = range(8, 15)


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
    pairs: Any, at: int, x: Any, a: int, b: int, count: int, u: Any, w: Any, to: int, size: int, s: Any, acc: Any,
    lanes: int, differences: int
) -> None:  # fmt: skip
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
    E: Any, C: int, columns: Any, M: int, noise: Any, noise_slope: Any, members: Any, count: int, top: int, size:
    int, x: Any, real: Any, own_noise: Any, own_slope: Any, Z: Any, lanes: int
) -> None:  # fmt: skip
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
    ends: Any, codes: Any, first: Any, last: Any, variances: Any, parameters: Any, T: int, bends: int, size: int,
    lanes: int, x: Any, real: Any, terms: Any, slopes: Any, bent: Any, K: Any, profiles: Any, s: Any, stages: Any
) -> None:  # fmt: skip
    """The covariance of every pair of points, and its derivatives, row by row."""
    F, pairs = ends[T], size * (size + 1) // 2
    rest = moved(s, size * lanes)
    for i in range(size):
        row = i * (i + 1) // 2
        for f in range(F):
            call_at(stages[DIFFERENCES], x, first[f], first[f], last[f] - first[f], size, i, s, lanes)
            value, slope = moved(profiles, f * size * lanes), moved(profiles, (F + f) * size * lanes)
            call_at(codes[f], parameters[f], s, i * lanes, value, slope, moved(profiles, (2 * F + f) * size * lanes))
        for t in range(T):
            for f in range(ends[t], ends[t + 1]):
                call_at(stages[REST], real, i, variances[t], profiles, ends[t], ends[t + 1], f, size, rest, lanes)
                call_at(stages[TIMES], -2.0, rest, profiles, (F + f) * size, slopes, f * pairs + row, i, lanes)
                if bends:
                    call_at(stages[TIMES], 1.0, rest, profiles, (2 * F + f) * size, bent, f * pairs + row, i, lanes)
                if f == ends[t]:
                    call_at(stages[TIMES], 1.0, rest, profiles, f * size, terms, t * pairs + row, i, lanes)
            for e in range(lanes):
                terms[(t * pairs + row + i) * lanes + e] = variances[t] * real[i * lanes + e]
    call_at(stages[ADD_TERMS], terms, T, pairs, K, lanes)


@compiled_apart(*[INTS] * 8, *[INT] * 4, *[ARRAY] * 8, INT, INTS)
def _derivatives(
    term: Any, parameter: Any, coordinate: Any, pair_first: Any, pair_second: Any, pair: Any, first: Any, last: Any,
    T: int, F: int, turns: int, size: int, terms: Any, slopes: Any, bends: Any, x: Any, u: Any, w: Any, s: Any, acc:
    Any, lanes: int, stages: Any
) -> None:  # fmt: skip
    """(∂G/∂θ) u for every slot but that of the noise, added to w."""
    pairs = size * (size + 1) // 2
    multiply, differences = stages[MULTIPLY], stages[DIFFERENCES]
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
    Z: Any, w: Any, K: Any, rows: Any, M: int, P: int, size: int, lanes: int, normal: Any, slope_det: Any,
    slope_normal: Any, information: Any, stages: Any
) -> None:  # fmt: skip
    """What the terms are worth into the sums, with their weights, the first of ``rows``."""
    end, one, acc = size - 1, moved(rows, lanes), moved(rows, 2 * lanes)
    dot, add = stages[DOT], stages[ADD_UP]
    for a in range(M):
        for b in range(M):
            call_at(add, rows, Z, a * size + end, Z, b * size + end, normal, a * M + b, lanes)
    for p in range(P):
        call_at(stages[SOLVE], K, w, p * size, size, acc, lanes, stages[SUBTRACT])
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


_first = _subtract, _factorise, _solve, _differences, _rest, _times, _add_terms, _last_row
_second = _multiply, _dot, _add_up, _gather, _covariances, _derivatives, _totals
STAGES = np.array([each.address for each in (*_first, *_second)])

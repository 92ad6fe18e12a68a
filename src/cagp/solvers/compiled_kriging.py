"""Local kriging in one compiled pass over neighbourhoods, for kernels that have a plan. Needs numba.

The rows (G | V | H) of the members of a neighbourhood, with its test points and the basis of a trend, are eliminated as
one matrix: where G was there is U with G = UᵀU, beside it U⁻ᵀV and U⁻ᵀH. No neighbourhood waits for another, or is
filled up to the size of another, and nothing but the weights goes through memory.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..gram.compiled import UPPER, WHOLE, Known, covariances_of, gather, room_for
from ..support.compiling import compiled, compiled_summing, compiled_within

AT_ONCE = 128  # test points of one elimination, at most: a cell with more is factorised again
SOLVED, NOT_POSITIVE, UNDETERMINED = 0, 1, 2  # how a neighbourhood ended


class Asked(NamedTuple):
    """Neighbourhoods n, and test points in an order in which those of one come together."""

    members: np.ndarray  # (n, m), −1 where there is none
    order: np.ndarray  # (T,)
    starts: np.ndarray  # (n + 1,): those of neighbourhood c are order[starts[c]] … order[starts[c + 1] − 1]
    test: np.ndarray  # coordinates (q, all test points)
    basis: np.ndarray  # of the trend at the training points, (d, b), b = 0 where there is none
    h: np.ndarray  # the same at all test points
    anchors: np.ndarray  # (n, a), added where the members do not determine the trend; −1 where there is none


class Found(NamedTuple):
    """Of all test points: weights (T, width) and whose they are, what they take off the variance, how that ended."""

    values: np.ndarray
    indices: np.ndarray
    reduction: np.ndarray
    state: np.ndarray


class _Room(NamedTuple):
    """Memory for one neighbourhood, flat: matrices are as wide as they are, so that loops run along whole rows."""

    chosen: np.ndarray  # the members
    near: np.ndarray  # their coordinates (q, n)
    tests: np.ndarray  # those of some test points (q, s)
    rows: np.ndarray  # (G | V | H), with three rows and columns more
    solved: np.ndarray  # (s, n): of each test point a row of V, then of U⁻ᵀV, then of weights
    Q: np.ndarray  # (b, n): an orthonormal basis of U⁻ᵀH
    R: np.ndarray  # and the factor that leads there
    size: np.ndarray
    right: np.ndarray
    work: np.ndarray


@compiled_within
def _take_off(A: np.ndarray, p: int, i: int) -> None:
    """The pivot rows p … p + 3 off rows i … i + 3 of A, from column i on: sixteen products for each eight loads."""
    p0, p1, p2, p3 = A[p, i:], A[p + 1, i:], A[p + 2, i:], A[p + 3, i:]
    r0, r1, r2, r3 = A[i, i:], A[i + 1, i:], A[i + 2, i:], A[i + 3, i:]
    u0, u1, u2, u3 = p0[0], p1[0], p2[0], p3[0]
    v0, v1, v2, v3 = p0[1], p1[1], p2[1], p3[1]
    w0, w1, w2, w3 = p0[2], p1[2], p2[2], p3[2]
    x0, x1, x2, x3 = p0[3], p1[3], p2[3], p3[3]
    for j in range(len(r0)):
        a, b, c, d = p0[j], p1[j], p2[j], p3[j]
        r0[j] -= (u0 * a + u1 * b) + (u2 * c + u3 * d)
        r1[j] -= (v0 * a + v1 * b) + (v2 * c + v3 * d)
        r2[j] -= (w0 * a + w1 * b) + (w2 * c + w3 * d)
        r3[j] -= (x0 * a + x1 * b) + (x2 * c + x3 * d)


@compiled
def _add_times(factor: float, source: np.ndarray, target: np.ndarray) -> None:
    for j in range(len(target)):
        target[j] += factor * source[j]


@compiled
def _multiply(factor: float, row: np.ndarray) -> None:
    for j in range(len(row)):
        row[j] *= factor


@compiled
def _eliminate(A: np.ndarray, n: int) -> bool:
    """Cholesky's factor U in place of the upper half of the first n columns of A, and U⁻ᵀ times the others."""
    A[n:] = 0.0  # rows and columns beyond are there so that rows come in fours
    for p in range(0, n, 4):
        for i in range(p, min(p + 4, n)):
            for b in range(p, i):
                _add_times(-A[b, i], A[b, i:], A[i, i:])
            if not A[i, i] > 0.0:
                return False
            _multiply(1.0 / math.sqrt(A[i, i]), A[i, i:])
        for i in range(p + 4, n, 4):
            _take_off(A, p, i)
    return True


@compiled_summing
def _dot(a: np.ndarray, b: np.ndarray) -> float:
    total = 0.0
    for j in range(len(a)):
        total += a[j] * b[j]
    return total


@compiled
def _orthonormal(Q: np.ndarray, R: np.ndarray, size: np.ndarray, limit: float) -> bool:
    """Q diag(size)⁻¹ R⁻¹ of rows Q (b, n) in their place, by Gram and Schmidt, each twice; False where it has none."""
    for c in range(len(Q)):
        size[c] = math.sqrt(_dot(Q[c], Q[c]))
        if not size[c] > 0.0:
            return False
        _multiply(1.0 / size[c], Q[c])
        R[:, c] = 0.0
        for _ in range(2):
            for b in range(c):
                r = _dot(Q[b], Q[c])
                R[b, c] += r
                _add_times(-r, Q[b], Q[c])
        R[c, c] = math.sqrt(_dot(Q[c], Q[c]))
        if not R[c, c] > limit:
            return False
        _multiply(1.0 / R[c, c], Q[c])
    return True


@compiled
def _constrain(room: _Room, Q: np.ndarray, half: np.ndarray, h: np.ndarray) -> float:
    """Make U w = ``half`` (n,) unbiased for a trend that is ``h`` (b,) at the test point; what that costs."""
    R, right, cost = room.R, room.right, 0.0
    for c in range(len(Q)):
        right[c] = h[c] / room.size[c]
        for b in range(c):
            right[c] -= R[b, c] * right[b]
        right[c] /= R[c, c]
    for c in range(len(Q)):
        right[c] -= _dot(Q[c], half)
        cost += right[c] * right[c]
    for c in range(len(Q)):
        _add_times(right[c], Q[c], half)
    return cost


@compiled_within
def _solve(known: Known, asked: Asked, rows: np.ndarray, n: int, limit: float, room: _Room, found: Found) -> int:
    """The weights of the test points ``rows`` (s,) on the first n of ``room.chosen``."""
    s, q, b = len(rows), len(asked.test), asked.basis.shape[1]
    near, tests = room.near[: q * n].reshape((q, n)), room.tests[: q * s].reshape((q, s))
    solved, width = room.solved[: s * n].reshape((s, n)), n + s + b + 3
    A, Q = room.rows[: (n + 3) * width].reshape((n + 3, width)), room.Q[: b * n].reshape((b, n))
    gather(known.points, room.chosen[:n], near)
    for t in range(s):
        for c in range(q):
            tests[c, t] = asked.test[c, rows[t]]
    for which in (UPPER, WHOLE):  # one call, since each is compiled by itself
        upper = which == UPPER
        covariances_of(known, near if upper else tests, near, which, A if upper else solved, room.work)
    for i in range(n):
        A[i, i] += known.noise[room.chosen[i]]
        for t in range(s):
            A[i, n + t] = solved[t, i]
        for c in range(b):
            A[i, n + s + c] = asked.basis[room.chosen[i], c]
    if not _eliminate(A, n):
        return NOT_POSITIVE
    for t in range(s):
        for i in range(n):
            solved[t, i] = A[i, n + t]
        found.reduction[rows[t]] = _dot(solved[t], solved[t])
    if b:
        for c in range(b):
            for i in range(n):
                Q[c, i] = A[i, n + s + c]
        if n < b or not _orthonormal(Q, room.R, room.size, limit):
            return UNDETERMINED
        for t in range(s):
            found.reduction[rows[t]] -= _constrain(room, Q, solved[t], asked.h[rows[t]])
    for i in range(n - 1, -1, -1):
        beyond, scale = A[i, i + 1 : n], 1.0 / A[i, i]
        for t in range(s):
            solved[t, i] = (solved[t, i] - _dot(beyond, solved[t, i + 1 :])) * scale
    for t in range(s):
        for i in range(n):
            found.values[rows[t], i] = solved[t, i]
            found.indices[rows[t], i] = room.chosen[i]
    return SOLVED


@compiled
def _add(more: np.ndarray, chosen: np.ndarray, n: int) -> int:
    """Put those of ``more`` that are there, and not among the first n of ``chosen``, behind these; how many it has."""
    total = n
    for who in more:
        fresh = who >= 0
        for i in range(n):
            fresh = fresh and chosen[i] != who
        if fresh:
            chosen[total] = who
            total += 1
    return total


@compiled
def _krige(known: Known, asked: Asked, start: int, stop: int, limit: float, room: _Room, found: Found) -> None:
    for c in range(start, stop):
        alone = _add(asked.members[c], room.chosen, 0 * c)
        for top in range(asked.starts[c], asked.starts[c + 1], AT_ONCE):
            rows = asked.order[top : min(top + AT_ONCE, asked.starts[c + 1])]
            n, state = alone, UNDETERMINED
            for attempt in range(2):  # without anchors, and with them; one call, since each is compiled by itself
                if state == UNDETERMINED:
                    n = _add(asked.anchors[c], room.chosen, alone) if attempt else alone
                    state = _solve(known, asked, rows, n, limit, room, found)
            for row in rows:
                found.state[row] = state
                for i in range(n if state == SOLVED else 0, found.values.shape[1]):
                    found.values[row, i], found.indices[row, i] = 0.0, 0


def krige(known: Known, asked: Asked, start: int, stop: int, limit: float, found: Found) -> None:
    """Solve neighbourhoods ``start`` … ``stop − 1``; zeros fill up rows of ``found``, all of those that failed."""
    b, q = asked.basis.shape[1], len(asked.test)
    most = asked.members.shape[1] + asked.anchors.shape[1]
    s = min(AT_ONCE, max(1, int(np.diff(asked.starts[start : stop + 1]).max())))
    room = _Room(
        np.empty(most, dtype=np.int64),
        np.empty(q * most),
        np.empty(q * s),
        np.empty((most + 3) * (most + s + b + 3)),
        np.empty(s * most),
        np.empty(b * most),
        np.empty((b, b)),
        np.empty(b),
        np.empty(b),
        room_for(most),
    )
    _krige(known, asked, start, stop, limit, room, found)

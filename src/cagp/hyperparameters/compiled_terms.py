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

from ..kernels.compiled import call_at
from ..kernels.plan import Plan
from ..support.compiling import compiled
from .compiled_lanes import COVARIANCES, DERIVATIVES, FACTORISE, GATHER, LAST_ROW, SOLVE, STAGES, SUBTRACT, TOTALS
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
    return int(_sum_terms(points, members, weights, plan, slots, Sums(*map(np.ravel, sums)), block, STAGES, _LANES))


@compiled
def _sum_terms(
    points: Points, members: np.ndarray, weights: np.ndarray, plan: Plan, slots: Slots, sums: Sums, block: _Block,
    stages: np.ndarray, lanes: int
) -> int:  # fmt: skip
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
        call_at(stages[GATHER], E, C, columns, M, noise, noise_slope, *who, x, real, own_noise, own_slope, Z, lanes)
        how = ends, codes, first, last, variances, parameters, T, len(bends), size, lanes
        call_at(stages[COVARIANCES], *how, x, real, terms, slopes, bends, K, profiles, s, stages)
        for i in range(size):
            for e in range(lanes):
                K[(i * (i + 3) // 2) * lanes + e] += own_noise[i * lanes + e] + 1.0 - real[i * lanes + e]
        call_at(stages[FACTORISE], K, size, acc, lanes, stages[SUBTRACT], s)
        if s[0] >= 0.0:
            return int(s[0])
        for m in range(M):
            call_at(stages[SOLVE], K, Z, m * size, size, acc, lanes, stages[SUBTRACT])
        call_at(stages[LAST_ROW], K, u, size, lanes)
        for t in range(len(w)):
            w[t] = 0.0
        if slots.noise >= 0:
            for t in range(len(u)):
                w[slots.noise * size * lanes + t] = own_slope[t] * u[t]
        where = slots.term, slots.parameter, slots.coordinate, slots.pair_first, slots.pair_second, slots.pair
        call_at(
            stages[DERIVATIVES], *where, first, last, T, F, len(slots.pair), size, terms, slopes, bends, x, u, w, s,
            acc, lanes, stages
        )  # fmt: skip
        call_at(
            stages[TOTALS], Z, w, K, rows, M, P, size, lanes, sums.normal, sums.slope_det, sums.slope_normal,
            sums.information, stages
        )  # fmt: skip
        for e in range(lanes):
            sums.half_log_det[0] -= rows[e] * math.log(K[len(K) - lanes + e])
    return -1

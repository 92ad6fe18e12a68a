"""Covariances of many small groups of points in one compiled pass, for sums and products of radial kernels.

torch takes ten passes over memory for the values of one kernel, and cannot leave out what lies above the diagonal. Here
a few rows of a block stay in the cache of a core until they are finished, and the loops are written so that a compiler
can use vector units. No lock of Python's is held. Values agree with torch's to the last digits.
"""

from __future__ import annotations

import numpy as np

from ..kernels.radial_terms import Terms
from ..support.compiling import compiled
from .compiled_tiles import factor_table, profile

_AT_ONCE = 512
"""Values that are computed together, a row at the least: enough for vector units, few enough for the cache."""


class CompiledBlocks:
    """Points (q, d), in the coordinates that the ``terms`` of their kernel count, and their ``noise`` (d,)."""

    def __init__(self, terms: Terms, points: np.ndarray, noise: np.ndarray) -> None:
        self._points, self._noise = np.ascontiguousarray(points.T), np.ascontiguousarray(noise)
        self._factors, self._variances = factor_table(terms)

    def lower(self, indices: np.ndarray, out: np.ndarray) -> None:
        """G[i, i] for every row i of ``indices`` (B, k) into ``out`` (B, k, k), on and below the diagonal only."""
        _lower(self._points, self._noise, indices, self._factors, self._variances, out)

    def cross(self, test: np.ndarray, indices: np.ndarray, out: np.ndarray) -> None:
        """k(test, X[i]) for every row i of ``indices`` (B, k) and test points (q, B, s), into ``out`` (B, s, k)."""
        _cross(test, self._points, indices, self._factors, self._variances, out)


@compiled
def _block(
    rows: np.ndarray,
    near: np.ndarray,
    lower: bool,
    factors: np.ndarray,
    variances: np.ndarray,
    out: np.ndarray,
    work: np.ndarray,
) -> None:
    """k(rows, near) for points (q, m) and (q, k) into ``out`` (m, k); if ``lower``, on and below the diagonal only."""
    m, k = rows.shape[1], near.shape[1]
    s, value, term, total = work[0], work[1], work[2], work[3]
    start = 0
    while start < m:
        stop, n = start, 0
        while stop < m and (stop == start or n + (stop + 1 if lower else k) <= _AT_ONCE):
            n += stop + 1 if lower else k
            stop += 1
        total[:n] = 0.0
        term[:n] = 1.0
        for f in range(len(factors)):
            kind, first, end, last = factors[f]
            place = 0
            for i in range(start, stop):
                width = i + 1 if lower else k
                row = s[place : place + width]
                at = rows[first, i]
                for t in range(width):
                    difference = at - near[first, t]
                    row[t] = difference * difference
                for c in range(first + 1, end):
                    at = rows[c, i]
                    for t in range(width):
                        difference = at - near[c, t]
                        row[t] += difference * difference
                place += width
            profile(kind, variances[f], s, n, value)
            for t in range(n):
                term[t] *= value[t]
            if last:
                for t in range(n):
                    total[t] += term[t]
                    term[t] = 1.0
        place = 0
        for i in range(start, stop):
            width = i + 1 if lower else k
            out[i, :width] = total[place : place + width]
            place += width
        start = stop


@compiled
def _gather(points: np.ndarray, indices: np.ndarray, near: np.ndarray) -> None:
    for t in range(len(indices)):
        for c in range(len(near)):
            near[c, t] = points[indices[t], c]


@compiled
def _lower(
    points: np.ndarray,
    noise: np.ndarray,
    indices: np.ndarray,
    factors: np.ndarray,
    variances: np.ndarray,
    out: np.ndarray,
) -> None:
    B, k = indices.shape
    near, work = np.empty((points.shape[1], k)), np.empty((4, max(k, _AT_ONCE)))
    for b in range(B):
        _gather(points, indices[b], near)
        _block(near, near, True, factors, variances, out[b], work)
        for i in range(k):
            out[b, i, i] += noise[indices[b, i]]


@compiled
def _cross(
    test: np.ndarray,
    points: np.ndarray,
    indices: np.ndarray,
    factors: np.ndarray,
    variances: np.ndarray,
    out: np.ndarray,
) -> None:
    B, k = indices.shape
    near, work = np.empty((points.shape[1], k)), np.empty((4, max(k, _AT_ONCE)))
    rows = np.empty((len(test), test.shape[2]))
    for b in range(B):
        _gather(points, indices[b], near)
        rows[:] = test[:, b]
        _block(rows, near, False, factors, variances, out[b], work)

"""Covariances in one compiled pass, in tiles and in blocks of neighbours, for sums and products of radial kernels.

torch takes ten passes over memory for the values of one kernel; here a piece of a row stays in the innermost cache
until it is finished. Values agree with torch's to the last digits; all arithmetic is in float64.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numba.extending import overload

from ..kernels import Embedding, Kernel, embedding_leaves
from ..kernels.compiled import ARRAY, INT, INTS, call_at, moved, plan_of, squared_distances
from ..kernels.plan import Plan
from ..kernels.varying import without_amplitude
from ..support.compiling import compiled, compiled_apart
from ..support.threads import share_out

_AT_ONCE = 512  # values that are computed together: enough for vector units, few enough for the innermost cache
# So many values are worth a thread of their own: in the time that it takes to start, half as many are computed.
_THREAD_VALUES = 2**18


class CompiledCovariances:
    """Covariances by a ``plan``, times amplitudes where they vary; points are (q, n), the amplitude last, if any."""

    def __init__(self, plan: Plan, varies: bool, embedding: Embedding) -> None:
        self._plan, self._varies, self._embedding = plan, varies, embedding

    @classmethod
    def of(cls, kernel: Kernel, embedding: Embedding) -> CompiledCovariances | None:
        """The code for a kernel and points X; None where there is none."""
        inner, coordinates, amplitude = without_amplitude(kernel, embedding)
        terms = inner.radial_terms(coordinates)
        return None if terms is None else cls(plan_of(terms, slopes=False), amplitude is not None, embedding)

    @staticmethod
    def coordinates(embedding: Embedding) -> np.ndarray:
        """Points as compiled code takes them."""
        leaves = embedding_leaves(embedding)
        return (leaves[0] if len(leaves) == 1 else torch.cat(leaves)).double().contiguous().numpy()

    @cached_property
    def X(self) -> np.ndarray:
        """The points X (q, d)."""
        return self.coordinates(self._embedding)

    @cached_property
    def _by_point(self) -> np.ndarray:
        """The same (d, q): what belongs to a point is near each other."""
        return np.ascontiguousarray(self.X.T)

    def fill(self, rows: np.ndarray, top: int, columns: np.ndarray, left: int, out: torch.Tensor) -> None:
        """k(rows[:, top:], columns[:, left:]), as much as fits into ``out`` (m, n) with rows that are contiguous."""
        m, n = out.shape
        if not m * n:
            return
        # one kind of array for whole matrices and for parts of them, whose rows are further apart than they are long
        pitch = out.stride(0)
        flat = torch.as_strided(out, ((m - 1) * pitch + n,), (1,)).numpy()
        height = -(-m // max(1, min(torch.get_num_threads(), m * n // _THREAD_VALUES)))

        def piece(start: int) -> None:
            where, work = (start * pitch, pitch, min(height, m - start), n), np.empty((4, _AT_ONCE))
            _fill(self._plan, self._varies, rows, top + start, columns, left, flat, *where, work, *_LOOPS)

        share_out(piece, range(0, m, height), out.device)

    def lower(self, noise: np.ndarray, indices: np.ndarray, out: np.ndarray) -> None:
        """k(X[i], X[i]) + diag(noise[i]) for rows i of ``indices`` (B, k) into ``out`` (B, k, k), lower half."""
        self._blocks(np.empty((len(self.X), 0, indices.shape[1])), noise, indices, out)

    def cross(self, test: np.ndarray, indices: np.ndarray, out: np.ndarray) -> None:
        """k(test, X[i]) for rows i of ``indices`` (B, k) and test points (q, B, s), into ``out`` (B, s, k)."""
        self._blocks(test, np.empty(0), indices, out)

    def _blocks(self, test: np.ndarray, noise: np.ndarray, indices: np.ndarray, out: np.ndarray) -> None:
        near, rows = np.empty((len(self.X), indices.shape[1])), np.empty((len(self.X), test.shape[2]))
        work = np.empty((4, max(indices.shape[1], _AT_ONCE)))
        _blocks(self._plan, self._varies, test, self._by_point, noise, indices, out, near, rows, work, *_LOOPS)


@compiled_apart(INTS, INTS, ARRAY, ARRAY, INT, INT, INT, ARRAY, INT, ARRAY)
def _add_factor(
    ends: Any, codes: Any, variances: Any, parameters: Any, term: int, f: int, n: int, work: Any, pitch: int, total: Any
) -> None:
    """Take factor f of ``term``, at squared distances ``work``, into covariances ``total`` (n,)."""
    product, value = total if term == 0 else moved(work, pitch), moved(work, 2 * pitch)
    if f == ends[term]:
        call_at(codes[f], variances[term], parameters[f], work, n, product)
    else:
        call_at(codes[f], 1.0, parameters[f], work, n, value)
        for t in range(n):
            product[t] *= value[t]
    if term and f + 1 == ends[term + 1]:
        for t in range(n):
            total[t] += product[t]


_LOOPS = squared_distances.address, _add_factor.address


@compiled
def _fill(
    plan: Plan, varies: bool, rows: np.ndarray, top: int, columns: np.ndarray, left: int, out: np.ndarray, offset:
    int, pitch: int, m: int, n: int, work: np.ndarray, distances: int, add_factor: int
) -> None:  # fmt: skip
    """m × n covariances; row i of them goes to ``out[offset + i · pitch :]``."""
    ends, variances, codes, first, last, parameters = plan
    points, others, room = rows.shape[1], columns.shape[1], work.shape[1]
    for start in range(left, left + n, _AT_ONCE):
        width = _AT_ONCE if left + n - start > _AT_ONCE else left + n - start
        for i in range(m):
            place = offset + i * pitch + start - left
            row = out[place : place + width]
            total, term = _in_place(row, work[3]), 0
            for f in range(len(codes)):
                if f == ends[term + 1]:
                    term += 1
                call_at(distances, rows, top + i, points, columns, start, others, first[f], last[f], work, width)
                call_at(add_factor, ends, codes, variances, parameters, term, f, width, work, room, total)
            if varies:
                for t in range(width):
                    total[t] *= rows[-1, top + i] * columns[-1, start + t]
            if row.itemsize < total.itemsize:
                for t in range(width):
                    row[t] = total[t]


def _in_place(row: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Where float64 numbers for ``row`` are computed: there, or in the ``room`` beside it where it has others."""
    return row if row.dtype == np.float64 else room


@overload(_in_place)
def _(row, room):  # type: ignore[no-untyped-def]
    return (lambda row, room: row) if row == room else (lambda row, room: room)


@compiled
def _blocks(
    plan: Plan, varies: bool, test: np.ndarray, points: np.ndarray, noise: np.ndarray, indices: np.ndarray, out:
    np.ndarray, near: np.ndarray, rows: np.ndarray, work: np.ndarray, distances: int, add_factor: int
) -> None:  # fmt: skip
    """``cross``, or ``lower`` where there is ``noise``, with room for ``near`` (q, k) and ``rows`` (q, s or k)."""
    ends, variances, codes, first, last, parameters = plan
    lower, (q, k), m, total, room = len(noise) > 0, near.shape, rows.shape[1], work[3], work.shape[1]
    for b in range(len(indices)):
        for c in range(q):
            for t in range(k):
                near[c, t] = points[indices[b, t], c]
            for t in range(m):
                rows[c, t] = near[c, t] if lower else test[c, b, t]
        start = 0
        while start < m:  # as many rows at once as there is room for
            stop, n = start, 0
            while stop < m and (stop == start or n + (stop + 1 if lower else k) <= _AT_ONCE):
                n += stop + 1 if lower else k
                stop += 1
            term = 0
            for f in range(len(codes)):
                if f == ends[term + 1]:
                    term += 1
                place = 0
                for i in range(start, stop):
                    width = i + 1 if lower else k
                    s = work[0, place:]
                    call_at(distances, rows, i, m, near, 0, k, first[f], last[f], s, width)
                    place += width
                call_at(add_factor, ends, codes, variances, parameters, term, f, n, work, room, total)
            place = 0
            for i in range(start, stop):
                width = i + 1 if lower else k
                for t in range(width):
                    out[b, i, t] = total[place + t] * (rows[-1, i] * near[-1, t] if varies else 1.0)
                place += width
            start = stop
        for i in range(m if lower else 0):
            out[b, i, i] += noise[indices[b, i]]

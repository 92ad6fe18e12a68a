"""Covariances in one compiled pass, in tiles and in blocks of neighbours, for sums and products of radial kernels.

torch takes ten passes over memory for the values of one kernel; here a piece of a row stays in the innermost cache
until it is finished. Values agree with torch's to the last digits; all arithmetic is in float64.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numba.extending import overload

from ..kernels import Embedding, Kernel, embedding_leaves
from ..kernels.compiled import ARRAY, INT, INTS, call_at, moved, plan_of, squared_distances
from ..kernels.plan import Plan
from ..kernels.varying import without_amplitude
from ..support.compiling import compiled, compiled_apart
from ..support.threads import share_out, threads_allowed

_AT_ONCE = 512  # values that are computed together: enough for vector units, few enough for the innermost cache
# So many values are worth a thread of their own: in the time that it takes to start, half as many are computed.
_THREAD_VALUES = 2**18
Part = tuple[np.ndarray, int]  # points (q, n), and the first of them that is meant
Where = tuple[int, ...]
WHOLE, LOWER, UPPER = 0, 1, 2  # what is wanted of a matrix: all of it, or one half with the diagonal


class Known(NamedTuple):
    """Training points as compiled code takes them: the plan of the kernel, whether its amplitude varies, coordinates
    (d, q), noise (d,), and where the loops are.
    """

    plan: Plan
    varies: bool
    points: np.ndarray
    noise: np.ndarray
    distances: int
    add_factor: int


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
        height = -(-m // max(1, min(threads_allowed(), m * n // _THREAD_VALUES)))

        def piece(start: int) -> None:
            where, work = (start * pitch, pitch, min(height, m - start), n), np.empty((4, _AT_ONCE))
            _fill(self._plan, self._varies, (rows, top + start), (columns, left), flat, where, work, _LOOPS)

        share_out(piece, range(0, m, height), out.device, large=True)

    def known(self, noise: torch.Tensor) -> Known:
        """The points with their noise (d,)."""
        return Known(self._plan, self._varies, self._by_point, noise.numpy(), *_LOOPS)

    def lower(self, noise: torch.Tensor, indices: np.ndarray, out: np.ndarray) -> None:
        """k(X[i], X[i]) + diag(noise[i]) for rows i of ``indices`` (B, k) into ``out`` (B, k, k), lower half."""
        k = indices.shape[1]
        _lower(self.known(noise), indices, out, np.empty((len(self.X), k)), room_for(k))


def room_for(k: int) -> np.ndarray:
    """Where ``covariances_of`` up to k points works."""
    return np.empty((4, max(k, _AT_ONCE)))


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
    plan: Plan, varies: bool, above: Part, beside: Part, out: np.ndarray, where: Where, work: np.ndarray, loops: Where
) -> None:
    """m × n covariances of points from a place on; row i of them goes to ``out[offset + i · pitch :]``."""
    ends, variances, codes, first, last, parameters = plan
    (rows, top), (columns, left), (offset, pitch, m, n), (distances, add_factor) = above, beside, where, loops
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
def covariances_of(
    known: Known, rows: np.ndarray, near: np.ndarray, which: int, out: np.ndarray, work: np.ndarray
) -> None:
    """k(rows, near) for points (q, m) and (q, k) into ``out`` (m, k), or one half of it; see ``room_for``."""
    ends, variances, codes, first, last, parameters = known.plan
    m, k, total, room, start = rows.shape[1], near.shape[1], work[3], work.shape[1], 0
    while start < m:  # as many rows at once as there is room for
        stop, n = start, 0
        while stop < m and (stop == start or n + _width(stop, k, which) <= _AT_ONCE):
            n += _width(stop, k, which)
            stop += 1
        term = 0
        for f in range(len(codes)):
            if f == ends[term + 1]:
                term += 1
            place = 0
            for i in range(start, stop):
                s, left, width = work[0, place:], i if which == UPPER else 0, _width(i, k, which)
                call_at(known.distances, rows, i, m, near, left, k, first[f], last[f], s, width)
                place += width
            call_at(known.add_factor, ends, codes, variances, parameters, term, f, n, work, room, total)
        place = 0
        for i in range(start, stop):
            left, width = i if which == UPPER else 0, _width(i, k, which)
            for t in range(width):
                out[i, left + t] = total[place + t] * (rows[-1, i] * near[-1, left + t] if known.varies else 1.0)
            place += width
        start = stop


@compiled
def _width(i: int, k: int, which: int) -> int:
    """How many of k columns are wanted of row i."""
    return k - i if which == UPPER else i + 1 if which == LOWER else k


@compiled
def gather(points: np.ndarray, indices: np.ndarray, near: np.ndarray) -> None:
    """The coordinates of ``points`` (d, q) chosen by ``indices`` (k,) into ``near`` (q, k)."""
    for t in range(len(indices)):
        for c in range(len(near)):
            near[c, t] = points[indices[t], c]


@compiled
def _lower(known: Known, indices: np.ndarray, out: np.ndarray, near: np.ndarray, work: np.ndarray) -> None:
    for b in range(len(indices)):
        gather(known.points, indices[b], near)
        covariances_of(known, near, near, LOWER, out[b], work)
        for i in range(indices.shape[1]):
            out[b, i, i] += known.noise[indices[b, i]]

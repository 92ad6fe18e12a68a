"""Covariances in one compiled pass, in tiles and in blocks of neighbours, for sums and products of radial kernels.

torch takes ten passes over memory for the values of one kernel; here a piece of a row stays in the innermost cache
until it is finished. Values agree with torch's to the last digits; all arithmetic is in float64.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numba.extending import overload

from ..kernels import Embedding, Kernel, embedding_leaves
from ..kernels.compiled import add_factor, plan_of, squared_distances
from ..kernels.plan import Plan
from ..kernels.varying import without_amplitude
from ..support.compiling import compiled, compiled_borrowing, compiled_inside, compiled_into_callers
from ..support.threads import share_out

_AT_ONCE = 512  # values that are computed together: enough for vector units, few enough for the innermost cache
# So many values are worth a thread of their own: in the time that it takes to start, half as many are computed.
_THREAD_VALUES = 2**18
LOWER, UPPER = 0, 1  # the half of a matrix that is wanted, with the diagonal


class Known(NamedTuple):
    """Training points as compiled code takes them: their coordinates (d, q), noise (d,), and the kernel."""

    plan: Plan
    varies: bool
    points: np.ndarray
    noise: np.ndarray


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

    def known(self, noise: torch.Tensor) -> Known:
        """The points with their noise (d,)."""
        return Known(self._plan, self._varies, self._by_point, noise.numpy())

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
            _fill(self._plan, self._varies, rows, top + start, columns, left, flat, *where, work)

        share_out(piece, range(0, m, height), out.device)

    def lower(self, noise: torch.Tensor, indices: np.ndarray, out: np.ndarray) -> None:
        """k(X[i], X[i]) + diag(noise[i]) for rows i of ``indices`` (B, k) into ``out`` (B, k, k), lower half."""
        _lower(self.known(noise), indices, out)


@compiled_borrowing
def _fill(
    plan: Plan,
    varies: bool,
    rows: np.ndarray,
    top: int,
    columns: np.ndarray,
    left: int,
    out: np.ndarray,
    offset: int,
    pitch: int,
    m: int,
    n: int,
    work: np.ndarray,
) -> None:
    """m × n covariances; row i of them goes to ``out[offset + i · pitch :]``."""
    for start in range(left, left + n, _AT_ONCE):
        width = min(_AT_ONCE, left + n - start)
        for i in range(m):
            place = offset + i * pitch + start - left
            row = out[place : place + width]
            total, term = _in_place(row, work[3]), 0
            for f in range(len(plan.codes)):
                squared_distances(rows, top + i, columns, start, plan.first[f], plan.last[f], work[0], width)
                term = add_factor(plan, term, f, width, work, total)
            if row.itemsize < total.itemsize:
                _put(varies, total[:width], rows, top + i, columns, start, row)
            elif varies:
                _times_amplitudes(total[:width], rows, top + i, columns, start)


def _in_place(row: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Where float64 numbers for ``row`` are computed: there, or in the ``room`` beside it where it has others."""
    return row if row.dtype == np.float64 else room


@overload(_in_place)
def _(row, room):  # type: ignore[no-untyped-def]
    return (lambda row, room: row) if row == room else (lambda row, room: room)


@compiled_into_callers
def _put(
    varies: bool, total: np.ndarray, rows: np.ndarray, i: int, columns: np.ndarray, left: int, out: np.ndarray
) -> None:
    """Covariances ``total`` (n,) of point i with those from ``left`` on, times their amplitudes, into ``out`` (n,)."""
    if varies:
        _times_amplitudes(total, rows, i, columns, left)
    for t in range(len(out)):
        out[t] = total[t]


@compiled_into_callers
def _times_amplitudes(total: np.ndarray, rows: np.ndarray, i: int, columns: np.ndarray, left: int) -> None:
    amplitude, others = rows[-1, i], columns[-1, left : left + len(total)]
    for t in range(len(total)):
        total[t] *= amplitude * others[t]


@compiled_into_callers
def _part(i: int, k: int, which: int) -> tuple[int, int]:
    """The first of k columns that are wanted of row i, and how many."""
    return (i, k - i) if which == UPPER else (0, i + 1)


@compiled_inside
def covariances_of(
    known: Known, rows: np.ndarray, m: int, near: np.ndarray, which: int, out: np.ndarray, work: np.ndarray
) -> None:
    """k(rows, near) for m points (q, m) and (q, k) into one half of ``out`` (m, k); see ``room_for``."""
    plan, k = known.plan, near.shape[1]
    start, total = 0, work[3]
    while start < m:
        stop, n = start, 0
        while stop < m and (stop == start or n + _part(stop, k, which)[1] <= _AT_ONCE):
            n += _part(stop, k, which)[1]
            stop += 1
        term = 0
        for f in range(len(plan.codes)):
            place = 0
            for i in range(start, stop):
                left, width = _part(i, k, which)
                s = work[0, place : place + width]
                squared_distances(rows, i, near, left, plan.first[f], plan.last[f], s, width)
                place += width
            term = add_factor(plan, term, f, n, work, total)
        place = 0
        for i in range(start, stop):
            left, width = _part(i, k, which)
            _put(known.varies, total[place : place + width], rows, i, near, left, out[i, left : left + width])
            place += width
        start = stop


@compiled_into_callers
def room_for(k: int) -> np.ndarray:
    """Where ``covariances_of`` up to k points works."""
    return np.empty((4, max(k, _AT_ONCE)))


@compiled_inside
def gather(points: np.ndarray, indices: np.ndarray, near: np.ndarray) -> None:
    """The coordinates of ``points`` (d, q) chosen by ``indices`` (k,) into ``near`` (q, k)."""
    for t in range(len(indices)):
        for c in range(len(near)):
            near[c, t] = points[indices[t], c]


@compiled
def _lower(known: Known, indices: np.ndarray, out: np.ndarray) -> None:
    B, k = indices.shape
    near, work = np.empty((known.points.shape[1], k)), room_for(k)
    for b in range(B):
        gather(known.points, indices[b], near)
        covariances_of(known, near, k, near, LOWER, out[b], work)
        for i in range(k):
            out[b, i, i] += known.noise[indices[b, i]]

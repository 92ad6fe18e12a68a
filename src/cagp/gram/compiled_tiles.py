"""Tiles of covariances in one compiled pass, for sums and products of radial kernels.

torch takes ten passes over memory for the values of one kernel. Here a piece of a row stays in the innermost cache
until it is finished, and a profile, with its root and its exponential, is one loop in vector registers. No lock of
Python's is held. Values agree with torch's to the last digits; all arithmetic is in float64, also where the values are
kept in float32.
"""

from __future__ import annotations

import math
from typing import TypeGuard

import numpy as np
import torch

from ..kernels import Embedding, Kernel, embedding_leaves
from ..kernels.radial_terms import Terms
from ..kernels.varying import without_amplitude
from ..support.compiling import compiled, exponential_of
from ..support.threads import share_out

KINDS = ("matern12", "matern32", "matern52", "rbf")
"""The profiles that there is code for."""
_MATERN12, _MATERN32, _MATERN52, _RBF = range(4)

_WIDTH = 512
"""Values of a row that are computed together: enough for vector units, few enough for the innermost cache."""

_THREAD_VALUES = 2**18
"""So many values are worth a thread of their own: in the time that it takes to start, half as many are computed."""


def has_code(terms: Terms | None) -> TypeGuard[Terms]:
    """Whether there is compiled code for all of the profiles of a kernel."""
    return terms is not None and all(factor.profile in KINDS for term in terms for factor in term)


def factor_table(terms: Terms) -> tuple[np.ndarray, np.ndarray]:
    """For each factor its kind, its first coordinate, the one after its last, whether it ends a term; and variances."""
    numbered = [(factor, i == len(term) - 1) for term in terms for i, factor in enumerate(term)]
    table = [(KINDS.index(each.profile), each.first, each.first + each.count, last) for each, last in numbered]
    return np.array(table, dtype=np.int64), np.array([factor.variance for factor, _ in numbered])


class CompiledTiles:
    """The covariances of a kernel, a sum of products of ``factors``, times amplitudes where it ``varies``."""

    def __init__(self, factors: np.ndarray, variances: np.ndarray, varies: bool) -> None:
        self._factors, self._variances, self._varies = factors, variances, varies

    @classmethod
    def of(cls, kernel: Kernel, embedding: Embedding) -> CompiledTiles | None:
        """The code for a kernel, given the embedding of any points; None where there is none."""
        inner, coordinates, amplitude = without_amplitude(kernel, embedding)
        terms = inner.radial_terms(coordinates)
        return cls(*factor_table(terms), amplitude is not None) if has_code(terms) else None

    @staticmethod
    def coordinates(embedding: Embedding) -> np.ndarray:
        """Points as ``fill`` takes them, shape (q, n): all coordinates, and the amplitude last where there is one."""
        leaves = embedding_leaves(embedding)
        return (leaves[0] if len(leaves) == 1 else torch.cat(leaves)).double().contiguous().numpy()

    def fill(self, rows: np.ndarray, top: int, columns: np.ndarray, left: int, out: torch.Tensor) -> None:
        """k(rows[:, top:], columns[:, left:]), as much as fits into ``out`` (m, n) with rows that are contiguous."""
        m, n = out.shape
        if not m * n:
            return
        # one kind of array for whole matrices and for parts of them, whose rows are further apart than they are long
        pitch = out.stride(0)
        flat = torch.as_strided(out, ((m - 1) * pitch + n,), (1,)).numpy()
        pieces = max(1, min(torch.get_num_threads(), m * n // _THREAD_VALUES))
        height = -(-m // pieces)

        def piece(start: int) -> None:
            stop = min(start + height, m)
            where = start * pitch, pitch, stop - start, n
            _fill(rows, top + start, columns, left, self._factors, self._variances, self._varies, flat, *where)

        share_out(piece, range(0, m, height), out.device)


@compiled
def profile(kind: int, variance: float, s: np.ndarray, n: int, value: np.ndarray) -> None:
    """variance · profile of the first n squared distances s, into ``value``."""
    if kind == _RBF:
        for t in range(n):
            value[t] = variance * exponential_of(-0.5 * s[t])
    elif kind == _MATERN12:
        for t in range(n):
            value[t] = variance * exponential_of(-math.sqrt(s[t]))
    elif kind == _MATERN32:
        for t in range(n):
            r = math.sqrt(3.0) * math.sqrt(s[t])
            value[t] = variance * (1.0 + r) * exponential_of(-r)
    else:
        for t in range(n):
            r = math.sqrt(5.0) * math.sqrt(s[t])
            value[t] = variance * (1.0 + r * (1.0 + r * (1.0 / 3.0))) * exponential_of(-r)


@compiled
def _squared_distances(
    rows: np.ndarray, i: int, columns: np.ndarray, left: int, first: int, end: int, s: np.ndarray, n: int
) -> None:
    """|rows[:, i] − columns[:, left + t]|² over the coordinates first … end − 1 for the first n of t, into ``s``."""
    at, near = rows[first, i], columns[first, left : left + n]
    for t in range(n):
        difference = at - near[t]
        s[t] = difference * difference
    c = first + 1
    while c + 1 < end:  # two at a time: half as often through s
        at, near = rows[c, i], columns[c, left : left + n]
        also_at, also_near = rows[c + 1, i], columns[c + 1, left : left + n]
        for t in range(n):
            difference, other = at - near[t], also_at - also_near[t]
            s[t] += difference * difference + other * other
        c += 2
    if c < end:
        at, near = rows[c, i], columns[c, left : left + n]
        for t in range(n):
            difference = at - near[t]
            s[t] += difference * difference


@compiled
def _fill(
    rows: np.ndarray,
    top: int,
    columns: np.ndarray,
    left: int,
    factors: np.ndarray,
    variances: np.ndarray,
    varies: bool,
    out: np.ndarray,
    offset: int,
    pitch: int,
    m: int,
    n: int,
) -> None:
    """m × n covariances; row i of them goes to ``out[offset + i · pitch :]``."""
    work = np.empty((4, _WIDTH))
    s, value, term, total = work[0], work[1], work[2], work[3]
    for start in range(0, n, _WIDTH):
        width = min(_WIDTH, n - start)
        for i in range(m):
            place = offset + i * pitch + start
            row = out[place : place + width]
            if len(factors) == 1:
                _squared_distances(rows, top + i, columns, left + start, factors[0, 1], factors[0, 2], s, width)
                profile(factors[0, 0], variances[0], s, width, row)
            else:
                total[:] = 0.0
                for f in range(len(factors)):
                    kind, first, end, last = factors[f]
                    _squared_distances(rows, top + i, columns, left + start, first, end, s, width)
                    if f == 0 or factors[f - 1, 3]:
                        profile(kind, variances[f], s, width, term)
                    else:
                        profile(kind, variances[f], s, width, value)
                        for t in range(width):
                            term[t] *= value[t]
                    if last:
                        for t in range(width):
                            total[t] += term[t]
                for t in range(width):
                    row[t] = total[t]
            if varies:
                amplitude, others = rows[-1, top + i], columns[-1, left + start : left + start + width]
                for t in range(width):
                    row[t] *= amplitude * others[t]

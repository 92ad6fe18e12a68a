"""The covariances of the exact likelihood and their derivatives in compiled code, a few rows at a time.

Sums over pairs of points are left to products of matrices: less is compiled, which every new environment waits for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels.compiled import call_at, squared_distances
from ..kernels.plan import Plan
from ..support.compiling import compiled

_WIDTH = 256  # pairs side by side, whose numbers stay in the fastest cache
_DISTANCES = squared_distances.address

_STEEPEST = -1e100  # slopes below are those at a distance of zero, to which profiles add the smallest of numbers


class Rows(NamedTuple):
    """Of some points with all before them: the covariances of each term of the kernel (T, rows, n), and of each factor
    the derivatives in minus half of its squared distances (F, rows, n) and in its parameter (F or 0, rows, n).
    """

    terms: np.ndarray
    slopes: np.ndarray
    bends: np.ndarray

    @classmethod
    def zeros(cls, plan: Plan, bends: bool, rows: int, n: int) -> Rows:
        """Room for so many: zeros, which stay on and above the diagonal if later rows follow earlier ones."""
        T, F = len(plan.variances), len(plan.codes)
        return cls(np.zeros((T, rows, n)), np.zeros((F, rows, n)), np.zeros((F if bends else 0, rows, n)))

    def fill(self, E: np.ndarray, plan: Plan, top: int, bottom: int) -> None:
        """The points ``top`` … ``bottom`` − 1 of E (C, n) into the first rows."""
        _fill_rows(E, top, bottom, *plan, *self, np.empty((3 * len(plan.codes) + 2, _WIDTH)), _DISTANCES)


@compiled
def _fill_rows(
    E: np.ndarray, top: int, bottom: int, ends: np.ndarray, variances: np.ndarray, codes: np.ndarray, first:
    np.ndarray, last: np.ndarray, parameters: np.ndarray, terms: np.ndarray, slopes: np.ndarray, bends: np.ndarray,
    work: np.ndarray, distances: int
) -> None:  # fmt: skip
    """``Rows.fill`` with the fields of a plan one by one, which is compiled sooner than the whole."""
    F = len(codes)
    s, rest = work[3 * F], work[3 * F + 1]
    for i in range(top, bottom):
        for left in range(0, i, _WIDTH):
            n = _WIDTH if i - left > _WIDTH else i - left
            for f in range(F):
                call_at(distances, E, i, E.shape[1], E, left, E.shape[1], first[f], last[f], s, n)
                call_at(codes[f], parameters[f], s, n, work[f], work[F + f], work[2 * F + f])
            for term in range(len(variances)):
                for f in range(ends[term], ends[term + 1]):
                    for t in range(n):
                        rest[t] = variances[term]
                    for other in range(ends[term], ends[term + 1]):
                        if other != f:
                            for t in range(n):
                                rest[t] *= work[other, t]
                    if f == ends[term]:
                        for t in range(n):
                            terms[term, i - top, left + t] = rest[t] * work[f, t]
                    for t in range(n):
                        # an infinite slope is that of points that coincide, whose distance does not change
                        slope = work[F + f, t]
                        slopes[f, i - top, left + t] = -2.0 * rest[t] * slope if slope > _STEEPEST else 0.0
                    if len(bends):
                        for t in range(n):
                            bends[f, i - top, left + t] = rest[t] * work[2 * F + f, t]

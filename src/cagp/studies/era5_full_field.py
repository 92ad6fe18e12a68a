"""The whole ERA5 field, or every n-th row and column of it: points to learn from, to hold out, and to map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..datasets import era5
from .problem import Problem, generator

_STEP = 0.25
_ROWS, _COLUMNS = 721, 1440


@dataclass(frozen=True, eq=False)
class FullField:
    """All distinct points X (n, 2) in degrees with temperatures y (n,), row by row from the north pole to the south.

    ``latitude`` and ``longitude`` are the axes of the map, on which each pole is a row of copies of one point.
    """

    X: np.ndarray
    y: np.ndarray
    latitude: np.ndarray
    longitude: np.ndarray

    def on_map(self, values: np.ndarray) -> np.ndarray:
        """Values at the points, (n,), as a map (rows, columns)."""
        columns = len(self.longitude)
        inner = values[1:-1].reshape(-1, columns)
        return np.vstack([np.full(columns, values[0]), inner, np.full(columns, values[-1])])

    def held_out(self, n: int, seed: int) -> np.ndarray:
        """Indices of n points, drawn uniformly without repetition; a larger n begins with those of a smaller one."""
        return generator(seed, 0).permutation(len(self.y))[:n]

    def without(self, indices: np.ndarray, tested: np.ndarray) -> Problem:
        """All points but those of ``indices`` to learn from, those of ``tested`` to predict."""
        kept = np.ones(len(self.y), dtype=bool)
        kept[indices] = False
        return Problem(self.X[kept], self.y[kept], self.X[tested], self.y[tested])

    def windows(self, n: int, side: int, seed: int) -> np.ndarray:
        """Indices of the points of n windows of side × side neighbouring points, the poles apart, each point once.

        A random subset of the points would be a coarse one; windows show the field at its full resolution.
        """
        rows, columns = len(self.latitude), len(self.longitude)
        rng = generator(seed, 1)
        top, left = rng.integers(1, rows - side, n), rng.integers(0, columns, n)
        row = top[:, None, None] + np.arange(side)[:, None]
        column = (left[:, None, None] + np.arange(side)) % columns
        return np.unique(1 + (row - 1) * columns + column)


def points_of(thin: int) -> int:
    """How many distinct points there are with every ``thin``-th row and column, without reading them."""
    return ((_ROWS - 1) // thin - 1) * (_COLUMNS // thin) + 2


def map_axes(thin: int) -> tuple[np.ndarray, np.ndarray]:
    """Latitudes from north to south and longitudes from 0° eastwards, of every ``thin``-th row and column."""
    return 90 - _STEP * np.arange(0, _ROWS, thin), _STEP * np.arange(0, _COLUMNS, thin)


def full_field(thin: int) -> FullField:
    """Every ``thin``-th row and column of the 0.25° field, both poles among them: ``thin`` divides 720."""
    whole = era5()
    row, column = (np.round(each / _STEP).astype(int) for each in (90 - whole.X[:, 0], whole.X[:, 1]))
    kept = (row % thin == 0) & (column % thin == 0)
    return FullField(whole.X[kept], whole.y[kept], *map_axes(thin))

"""Which columns make a map, and what every map shares: its ends, its shape, coastlines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels import Kernel, geographic_columns
from ..kernels.geographic import smallest_arc
from .names import Names
from .page import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Ends = list[tuple[float, float]]  # the first and last value across, then down

COASTLINES = Path(__file__).with_name("coastlines.npy")
_END = -32768  # after each line
_ROUND = 300.0  # data that span so many degrees go round the globe


@dataclass(frozen=True)
class Map:
    """The columns drawn ``across`` and ``down`` a map; ``geographic`` where they are longitude and latitude."""

    across: int
    down: int
    geographic: bool

    def ends(self, X: np.ndarray) -> Ends:
        """From where to where a map of points X (n, p) goes."""
        x, y = X[:, self.across], X[:, self.down]
        ends = [(float(x.min()), float(x.max())), (float(y.min()), float(y.max()))]
        if self.geographic:
            ends[0] = smallest_arc(x)
            if ends[0][1] - ends[0][0] > _ROUND:  # round the globe: no gap at the seam
                first = -180.0 if x.min() < 0 else 0.0 if x.max() <= 360 else float(x.min())
                ends[0] = (first, first + 360.0)
        return [(low, high) if high > low else (low - 0.5, high + 0.5) for low, high in ends]

    def places(self, X: np.ndarray, ends: Ends) -> tuple[np.ndarray, np.ndarray]:
        """Where points X (n, p) lie across and down a map with these ends, longitudes in its turn, (n,) each."""
        x = X[:, self.across]
        return x + 360 * np.ceil((ends[0][0] - x) / 360) if self.geographic else x, X[:, self.down]

    def shape(self, ends: Ends) -> float:
        """How many times as wide as high a map is drawn."""
        width, height = (high - low for low, high in ends)
        return float(np.clip(width / height, 0.4, 2.5)) if self.geographic else 1.3

    def grid(self, X: np.ndarray, cells: int, shape: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The middles of about so many cells of a map of X (n, p), ``shape`` times as many across as down.

        Across (a,), down (b,), and as points (b a, p), row by row; all other columns are at their medians.
        """
        across = max(2, round(float(np.sqrt(cells * shape))))
        counts = (across, max(2, cells // across))
        middles = [
            low + (np.arange(n) + 0.5) * ((high - low) / n) for (low, high), n in zip(self.ends(X), counts, strict=True)
        ]
        points = np.tile(np.median(X, axis=0), (counts[0] * counts[1], 1))
        points[:, self.across], points[:, self.down] = (each.ravel() for each in np.meshgrid(*middles))
        return middles[0], middles[1], points

    def frame(self, ax: Axes, ends: Ends, names: Names, colour: str) -> None:
        """Labels and ends; on the globe coastlines, degrees of equal size, and marks at round numbers."""
        ax.set(xlabel=names.label(self.across), ylabel=names.label(self.down), xlim=ends[0], ylim=ends[1])
        if not self.geographic:
            return
        from matplotlib.collections import LineCollection
        from matplotlib.ticker import MultipleLocator

        first, last = ends[0]
        lines: Any = wrapped(coastlines(), first) if last > 180 else coastlines()
        ax.add_collection(LineCollection(lines, colors=colour, linewidths=0.6), autolim=False)
        ax.set_aspect("equal")
        if last - first > _ROUND:
            ax.xaxis.set_major_locator(MultipleLocator(60))
            ax.yaxis.set_major_locator(MultipleLocator(30))


def map_of(kernel: Kernel, columns: int) -> Map | None:
    """The map that points with so many ``columns`` have under this kernel; None where there is none."""
    places = geographic_columns(kernel, range(columns))
    if places:
        latitude, longitude = places[0]
        return Map(longitude, latitude, geographic=True)
    return Map(0, 1, geographic=False) if columns == 2 else None


def two_maps(place: Map, ends: Ends) -> tuple[Figure, np.ndarray]:
    """A figure for two maps, beside each other or, where they are wide, one above the other; and its axes."""
    shape = place.shape(ends)
    stacked = place.geographic and shape > 1.4
    height = 4.6 if not place.geographic else (7.5 / shape if stacked else 4.6 / shape) + 0.9
    return new_figure(*((2, 1, 9.5) if stacked else (1, 2, 6.0)), float(np.clip(height, 3.2, 8.0)))


def coastlines() -> list[np.ndarray]:
    """Lines of (longitude, latitude) in degrees, each (n, 2), longitudes in −180…180.

    Natural Earth's land at 1:110m, which is in the public domain; ``docs/make_coastlines.py`` made the file.
    """
    rows = np.load(COASTLINES)
    ends = np.flatnonzero(rows[:, 0] == _END)
    return [line / 100 for line in np.split(rows, np.sort([*ends, *ends + 1]))[::2] if len(line)]


def wrapped(lines: list[np.ndarray], first: float = 0.0) -> list[np.ndarray]:
    """The same lines with longitudes from the meridian ``first`` on, 0…360 for 0, cut where they cross it."""
    pieces = []
    for line in lines:
        east = np.column_stack([(line[:, 0] - first) % 360 + first, line[:, 1]])
        jumps = np.flatnonzero(np.abs(np.diff(east[:, 0])) > 180) + 1
        pieces += [piece for piece in np.split(east, jumps) if len(piece) > 1]
    return pieces

"""Which columns make a map, and what every map shares: its ends, its shape, coastlines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..kernels import Kernel, geographic_columns
from .coastlines import coastlines, wrapped
from .pictures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Ends = list[tuple[float, float]]
"""The first and last value across, then down."""

_ROUND = 300.0
"""Data that span so many degrees go round the globe."""


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
        if self.geographic and np.ptp(x) > _ROUND:  # round the globe: no gap at the seam
            ends[0] = (-180.0, 180.0) if x.min() < 0 else (0.0, 360.0)
        return [(low, high) if high > low else (low - 0.5, high + 0.5) for low, high in ends]

    def shape(self, ends: Ends) -> float:
        """How many times as wide as high a map is drawn."""
        width, height = (high - low for low, high in ends)
        return float(np.clip(width / height, 0.4, 2.5)) if self.geographic else 1.3


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


def on_the_globe(ax: Axes, colour: str) -> None:
    """Coastlines, degrees of equal size, and marks at round numbers, on a map of longitude and latitude."""
    from matplotlib.collections import LineCollection
    from matplotlib.ticker import MultipleLocator

    lines: Any = coastlines()
    first, last = ax.get_xlim()
    if last > 180:
        lines = wrapped(lines)
    ax.add_collection(LineCollection(lines, colors=colour, linewidths=0.6), autolim=False)
    ax.set_aspect("equal")
    if last - first > _ROUND:
        ax.xaxis.set_major_locator(MultipleLocator(60))
        ax.yaxis.set_major_locator(MultipleLocator(30))

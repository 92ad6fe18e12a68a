"""Maps of posterior means: equirectangular panels with one colour scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .coastlines import coastlines, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_INCHES = (2.7, 1.55)
_COLOURS = "viridis"


@dataclass(frozen=True)
class Panel:
    """A field of temperatures (n_lat, n_lon) in kelvin with a title."""

    title: str
    field: np.ndarray


def maps(
    rows: Sequence[Sequence[Panel | None]],
    labels: Sequence[str],
    latitude: np.ndarray,
    longitude: np.ndarray,
    limits: tuple[float, float],
) -> Figure:
    """A table of maps, None for an empty place; ``labels`` are those of the rows.

    ``latitude`` (n_lat,) and ``longitude`` (n_lon,) in degrees; colours go from limits[0] to limits[1] kelvin in all
    panels, and what lies beyond is drawn in the last colour.
    """
    from matplotlib.figure import Figure

    columns = len(rows[0])
    width, height = _PANEL_INCHES
    figure = Figure(figsize=(width * columns + 1.2, height * len(rows) + 0.3), layout="constrained")
    axes = figure.subplots(len(rows), columns, squeeze=False, sharex=True, sharey=True)
    lines = wrapped(coastlines())
    for row, panels, label in zip(axes, rows, labels, strict=True):
        for ax, panel in zip(row, panels, strict=True):
            if panel is None:
                ax.set_axis_off()
                continue
            mesh = ax.pcolormesh(
                longitude,
                latitude,
                panel.field,
                shading="nearest",
                cmap=_COLOURS,
                vmin=limits[0],
                vmax=limits[1],
                rasterized=True,  # tens of thousands of cells as one picture inside the PDF
            )
            globe(ax, lines)
            ax.set_title(panel.title, fontsize=9)
        row[0].set_ylabel(f"{label.replace(', ', chr(10))}\nlatitude (°N)", fontsize=9)
    for ax in axes[-1]:
        if ax.axison:
            ax.set_xlabel("longitude (°E)", fontsize=9)
    figure.colorbar(mesh, ax=list(axes.flat), label="2 metre temperature (K)", extend="both", shrink=0.85, pad=0.01)
    return figure


def globe(ax: Axes, lines: list[np.ndarray]) -> None:
    """Coastlines, and axes in degrees for the whole globe."""
    from matplotlib.collections import LineCollection

    ax.add_collection(LineCollection(lines, colors="white", linewidths=0.5), autolim=False)
    ax.set(xlim=(0, 360), ylim=(-90, 90), aspect="equal", xticks=(0, 90, 180, 270, 360), yticks=(-60, 0, 60))
    ax.tick_params(labelsize=8)

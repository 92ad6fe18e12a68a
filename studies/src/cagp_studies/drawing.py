"""How the studies draw: one colour, line and marker per solver, readable in grey and for the colour-blind; curves of a
score against the iterations; maps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cagp.reports.maps import coastlines, wrapped
from cagp.solvers import NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Look:
    """The label of a solver, its colour (Okabe and Ito's palette), line and marker."""

    label: str
    color: str
    linestyle: Any
    marker: str

    def line(self) -> dict[str, Any]:
        """Keyword arguments for ``Axes.plot``."""
        return {"label": self.label, "color": self.color, "linestyle": self.linestyle, "marker": self.marker}


def hybrid_name(sweeps: int) -> str:
    """The name of the method that goes over from Gauss-Seidel to CG after so many sweeps."""
    return f"hybrid-{sweeps}"


LOOKS = {
    "gauss-seidel": Look("CAGP-GS", "#0072B2", "-", "o"),
    "gauss-seidel-natural": Look("CAGP-GS, natural order", "#0072B2", "-", "o"),
    "gauss-seidel-random": Look("CAGP-GS, random order", "#56B4E9", (0, (5, 1)), "v"),
    "conjugate-gradient": Look("CAGP-CG", "#D55E00", "--", "s"),
    hybrid_name(2): Look("GS to 2, then CG", "#56B4E9", (0, (5, 1)), "v"),
    hybrid_name(5): Look("GS to 5, then CG", "#E69F00", (0, (3, 1, 1, 1)), "P"),
    hybrid_name(10): Look("GS to 10, then CG", "#CC79A7", ":", "D"),
    hybrid_name(20): Look("GS to 20, then CG", "#882255", (0, (2, 1)), "*"),
    "calibrated-cg": Look("calibrated CG", "#E69F00", (0, (3, 1, 1, 1)), "P"),
    "random-directions": Look("CAGP-Rand", "#009E73", "-.", "^"),
    "subset": Look("subset GP", "#CC79A7", ":", "D"),
    "cholesky": Look("exact GP", "#000000", (0, (1, 1)), ""),
}
_SPARE = (("#E69F00", (0, (3, 1, 1, 1)), "P"), ("#999999", (0, (5, 3)), "X"), ("#882255", (0, (2, 1)), "*"))
LOOKS |= {
    name: Look(name, *_SPARE[i % len(_SPARE)]) for i, name in enumerate(name for name in NAMES if name not in LOOKS)
}
"""By name of a solver or, where its order matters, of a method. Solvers without a look of their own get a spare one."""


def band(ax: Axes, x: np.ndarray, mean: np.ndarray, error: np.ndarray, solver: str) -> None:
    """A curve through ``mean`` (n,) with a band of one standard ``error`` (n,) to either side."""
    look = LOOKS[solver]
    # ten markers at most, evenly spaced on a logarithmic axis, so that they tell the curves apart but do not hide them
    marked = np.unique(np.geomspace(1, len(x), min(10, len(x))).round().astype(int) - 1)
    ax.plot(x, mean, markevery=list(marked), markersize=4.5, linewidth=1.4, **look.line())
    ax.fill_between(x, mean - error, mean + error, color=look.color, alpha=0.22, linewidth=0)


def level(ax: Axes, mean: float, error: float, solver: str) -> None:
    """A horizontal line for a solver that does not iterate, with a band of one standard error."""
    look = LOOKS[solver]
    ax.axhline(mean, label=look.label, color=look.color, linestyle=look.linestyle, linewidth=1.4)
    ax.axhspan(mean - error, mean + error, color=look.color, alpha=0.15, linewidth=0)


def plain_ticks(axis: Axis, steps: Sequence[float] = (1, 2, 5)) -> None:
    """Give a logarithmic axis ticks at ``steps`` times a power of ten, written as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def legend(figure: Figure) -> None:
    """One legend for all panels, below them, with the solvers in their usual order."""
    found = dict(zip(*reversed(figure.axes[0].get_legend_handles_labels()), strict=True))
    labels = [look.label for look in LOOKS.values() if look.label in found]
    figure.legend(
        [found[label] for label in labels], labels, loc="outside lower center", ncols=len(labels), frameon=False
    )


def score_panels(
    table: pd.DataFrame,
    score: str,
    *,
    case: str,
    titles: Mapping[str, str],
    solvers: Sequence[str],
    ylabel: str,
    log: bool,
    share: bool = True,
) -> Figure:
    """``score`` against m for each of ``solvers``, with bands of one standard error over runs; one panel for each of
    ``titles``, whose keys are values of the column ``case``. Other solvers in the table do not iterate: levels.

    ``log`` is for the vertical axis; ``share`` gives all panels the same.
    """
    from matplotlib.figure import Figure

    summary = table.groupby([case, "solver", "m"], sort=False)[score].agg(["mean", "sem"]).fillna({"sem": 0.0})
    figure = Figure(figsize=(3.9 * len(titles), 3.6), layout="constrained")
    axes = figure.subplots(1, len(titles), sharey=share, squeeze=False)[0]
    for ax, (key, title) in zip(axes, titles.items(), strict=True):
        of_case = summary.loc[key]
        for solver in solvers:
            rows = of_case.loc[solver]
            band(ax, rows.index.to_numpy(), rows["mean"].to_numpy(), rows["sem"].to_numpy(), solver)
        for solver in of_case.index.get_level_values("solver").unique().difference(solvers):
            once = of_case.loc[solver].iloc[0]
            level(ax, once["mean"], once["sem"], solver)
        ax.set(xscale="log", xlabel="iterations m", title=title)
        plain_ticks(ax.xaxis)
        if log:
            ax.set_yscale("log")
            plain_ticks(ax.yaxis)
        ax.grid(alpha=0.25, which="both", linewidth=0.5)
    axes[0].set_ylabel(ylabel)
    legend(figure)
    return figure


# --- maps -------------------------------------------------------------------------------------------------------------


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

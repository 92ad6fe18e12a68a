"""Where error bars hold, and what a recalibration changes, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from ..calibration import plots
from .coverage_by_place import LEVELS, Division
from .held_out import HeldOut
from .maps import Map, on_the_globe, two_maps
from .names import Names
from .pictures import BLUE, ORANGE, new_figure, png
from .unseen import Unseen

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_GREY = "#BBBBBB"
_MARKERS = ("o", "s", "^")
_EACH_CELL = 40
"""So many observations should lie in a cell of a map."""

_FEWEST_IN_CELL = 15
_FEWEST_ON_MAP = 300
MAPPED = 0.8
"""The level of the intervals on a map: high enough to be asked for, low enough to be told from few observations."""


def _both(unseen: Unseen) -> list[tuple[HeldOut, str, str]]:
    """The observations, a label and a colour: as they are, and recalibrated."""
    shown = [(unseen.plain, "as the model says", ORANGE)]
    if unseen.recalibrated is not None:
        shown.append((unseen.recalibrated, "recalibrated", BLUE))
    return shown


def by_place(unseen: Unseen, divided: list[Division]) -> bytes:
    """The spread of z and the coverage, by roughness and by distance."""
    figure, axes = new_figure(len(divided), 2, 5.2, 3.4)
    for (left, right), division in zip(axes, divided, strict=True):
        x = np.arange(len(division.parts))
        spreads, coverages = [0.8, 1.25], [45.0]  # chance alone must not look like much
        for found, _, colour in _both(unseen):
            spread = [part.spread(found) for part in division.parts]
            spreads += spread
            left.plot(x, spread, marker="o", color=colour)
            for level, marker in zip(LEVELS, _MARKERS, strict=True):
                held = [100 * part.coverage(found, level) for part in division.parts]
                coverages += held
                right.plot(x, held, marker=marker, color=colour, linewidth=1.2)
        n = min(int(part.chosen.sum()) for part in division.parts)
        _promised(left, 1.0, 1.96 / (2 * n) ** 0.5)
        for level in LEVELS:
            _promised(right, 100 * level, 196 * (level * (1 - level) / n) ** 0.5)
        left.set(ylabel="rms of z: 1 if right", ylim=(0.93 * min(spreads), 1.07 * max(spreads)))
        if max(spreads) > 4 * min(spreads):
            _logarithmic(left)
        right.set(ylabel="coverage [%]", ylim=(min(coverages) - 4, 102), yticks=[100 * level for level in LEVELS])
        for ax in (left, right):
            ax.set_xlabel(division.label)
            ax.set_xticks(x, [part.label for part in division.parts], fontsize="small")
            ax.margins(x=0.12)
    levels = zip(LEVELS, _MARKERS, strict=True)
    marks = [_line("0.3", f"{100 * level:g}% intervals", marker=marker, linestyle="") for level, marker in levels]
    _legend(figure, [*_colours(unseen), *marks])
    return png(figure)


def _colours(unseen: Unseen) -> list[Line2D]:
    return [_line(colour, label) for _, label, colour in _both(unseen)]


def _line(colour: str, label: str, **style: str) -> Line2D:
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, label=label, **style)  # type: ignore[arg-type]


def _legend(figure: Figure, handles: list[Line2D]) -> None:
    from matplotlib.patches import Patch

    band = Patch(color=_GREY, alpha=0.6, label="what chance does")
    figure.legend(handles=[*handles, band], loc="outside upper center", ncols=len(handles) + 1, frameon=False)


def _promised(ax: Axes, value: float, chance: float) -> None:
    """A dashed line at what is promised, with a band of what chance does, 95% of the time."""
    ax.axhspan(value - chance, value + chance, color=_GREY, alpha=0.6, linewidth=0)
    ax.axhline(value, color="black", linestyle="--", linewidth=1)


def _logarithmic(ax: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(NullFormatter())


def before_and_after(unseen: Unseen) -> bytes:
    """Coverage curves and histograms of the PIT, before and after the recalibration."""
    figure, axes = new_figure(1, 2, 5.2, 3.9)
    left, right = axes[0]
    assert unseen.recalibrated is not None
    bins = int(np.clip(len(unseen.plain) // 10, 4, 20))
    plots.coverage_curve(unseen.recalibrated.scores.pit, ax=left)
    plots.pit_histogram(unseen.recalibrated.scores.pit, bins=bins, ax=right)
    before = unseen.plain.scores.pit
    levels = np.linspace(0, 1, 201)
    needed = np.sort(np.abs(2 * before - 1))
    left.plot(levels, np.searchsorted(needed, levels, side="right") / len(needed), color=ORANGE, linewidth=1.5)
    counts, edges = np.histogram(before, np.linspace(0, 1, bins + 1))
    right.stairs(counts, edges, color=ORANGE, linewidth=1.5)
    right.set_ylim(0, max(right.get_ylim()[1], 1.1 * counts.max()))
    left.set_title("do intervals hold what they promise?", fontsize="medium")
    right.set_title("PIT, flat if right", fontsize="medium")
    for ax in (left, right):
        legend = ax.get_legend()
        if legend is not None:
            legend.remove()
    _legend(figure, _colours(unseen))
    return png(figure)


def coverage_map(unseen: Unseen, place: Map, names: Names) -> bytes | None:
    """How many of the observations lie in their intervals, cell by cell of a map; None with too few observations."""
    shown = _both(unseen)
    X = unseen.plain.X
    if len(X) < _FEWEST_ON_MAP:
        return None
    ends = place.ends(X)
    figure, axes = two_maps(place, ends) if len(shown) > 1 else new_figure(1, 1, 8.0, 4.8)
    cells = max(2.0, len(X) / _EACH_CELL)
    across = round(float(np.sqrt(cells * place.shape(ends))))
    grid = (across, max(2, round(cells / across)))
    x, y = X[:, place.across], X[:, place.down]
    for ax, (found, label, _) in zip(axes.flat, shown, strict=True):
        held = np.abs(found.z) <= ndtri((1 + MAPPED) / 2)
        total, *edges = np.histogram2d(x, y, bins=grid, range=ends)
        inside, *_ = np.histogram2d(x[held], y[held], bins=grid, range=ends)
        share = np.where(total >= _FEWEST_IN_CELL, 100 * inside / np.maximum(total, 1), np.nan)
        mesh = ax.pcolormesh(*edges, share.T, cmap="RdBu", vmin=60, vmax=100, rasterized=True)
        ax.set(xlabel=names.label(place.across), ylabel=names.label(place.down), xlim=ends[0], ylim=ends[1])
        ax.set_title(label, fontsize="medium")
        ax.set_facecolor("0.8")  # white is as promised
        if place.geographic:
            on_the_globe(ax, "black")
        bar = figure.colorbar(mesh, ax=ax, extend="min", shrink=0.9, ticks=[60, 70, 80, 90, 100])
        bar.set_label(f"in {100 * MAPPED:g}% intervals [%]")
    return png(figure)

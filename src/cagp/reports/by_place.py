"""Error bars drawn: do they hold, where (by roughness, by distance, on a map), and what a recalibration changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..calibration import plots
from ..predicting.conditioned import Conditioned
from ..support.convert import array
from ..support.numbers import coverage_percent, number
from .distances import readable
from .held_out import BeforeAndAfter, HeldOut
from .maps import Map, two_maps
from .names import Names, with_brackets
from .page import BLUE, ORANGE, PageTable, new_figure, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEVELS = (0.5, 0.8, 0.95)
MAPPED = 0.8  # the level on a map: high enough to be asked for, low enough to be told from few observations

WORDS = (
    "The roughness of a place is the standard deviation of the ten training observations nearest to it, without the "
    "one that is predicted. The distance is that to the nearest observation that predicts. The root mean square (rms) "
    "of z, or of error / std, the error over the predicted standard deviation, is 1 if the error bars are right."
)

_FEWEST, _FEWEST_ON_MAP, _FEWEST_IN_CELL = 100, 300, 15  # fewer are not divided, on no map, a grey cell of it
_FEW_POINTS = 10  # fewer values than this make no histogram
_EACH_CELL = 40  # so many observations should lie in a cell of a map
_QUESTION = "do intervals hold what they promise?"
_GREY = "#BBBBBB"
_MARKERS = ("o", "s", "^")
_BESIDE = (-0.11, 0.0, 0.11)  # the levels beside each other: with few observations what chance does would overlap


@dataclass(frozen=True, eq=False)
class Division:
    """Observations ``by`` something: ``quarters`` from least of it to most, each in words and which they are, (n,)."""

    by: str
    label: str
    quarters: list[tuple[str, np.ndarray]]

    def table(self, found: BeforeAndAfter) -> PageTable:
        """Spread of errors and coverage in each part; where there is a recalibration, before it and after it."""
        both = [each for each, _, _ in _shown(found)]
        rows = []
        for label, chosen in self.quarters:
            spread = " → ".join(number(_spread(each, chosen), 2) for each in both)
            shares = ([coverage_percent(each.inside(level)[chosen].mean()) for each in both] for level in LEVELS)
            rows.append((label, f"{int(chosen.sum()):,}", spread, *map(" → ".join, shares)))
        caption = f"By {self.by}, from least to most.{' Before → after the recalibration.' if len(both) > 1 else ''}"
        heads = (
            self.label,
            "points",
            f"rms of {found.before.relative_is}",
            *(f"{100 * level:g}% intervals hold" for level in LEVELS),
        )
        return PageTable(caption, heads, rows, f"by-{self.by}")


def _spread(found: HeldOut, chosen: np.ndarray) -> float:
    """The root mean square of errors over what is promised: above 1 the error bars are too narrow."""
    return float(np.sqrt(np.square(found.relative[chosen]).mean()))


def divisions(found: HeldOut, component: Conditioned, names: Names) -> list[Division]:
    """By quarters of roughness and of distance; none where there are few observations, or no difference.

    ``component`` is the one that they are left out of.
    """
    if len(found) < _FEWEST:
        return []
    distance, unit = readable(found.distance, component, names)
    given = (("roughness", names.target_unit, found.roughness), ("distance", unit, distance))
    made = (Division(by, with_brackets(by, unit), _quarters(v)) for by, unit, v in given if v is not None)
    return [each for each in made if len(each.quarters) > 1]


def _quarters(values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Quarters of the observations by their ``values`` (n,); fewer parts where many are the same."""
    values = np.round(values, 12)  # distances on a grid differ by rounding
    edges = np.unique(np.quantile(values, (0.25, 0.5, 0.75), method="lower"))
    number_of = np.searchsorted(edges, values, side="left")
    parts = []
    for each in np.unique(number_of):
        chosen = number_of == each
        low, high = (number(float(end), 2) for end in (values[chosen].min(), values[chosen].max()))
        parts.append((low if low == high else f"{low} to {high}", chosen))
    return parts


def _shown(found: BeforeAndAfter) -> list[tuple[HeldOut, str, str]]:
    """The observations, a label and a colour: as they are, and recalibrated."""
    after = [] if found.after is None else [(found.after, "recalibrated", BLUE)]
    return [(found.before, "without recalibration", ORANGE), *after]


def quarters(found: BeforeAndAfter, divided: list[Division]) -> bytes:
    """The spread of errors and the coverage, by roughness and by distance."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure, axes = new_figure(len(divided), 2, 5.2, 3.4)
    each_worth = found.judged.worth / len(found.judged)  # of the values that these are
    for (left, right), division in zip(axes, divided, strict=True):
        labels, parts = zip(*division.quarters, strict=True)
        x, n = np.arange(len(parts)), each_worth * np.array([chosen.sum() for chosen in parts])
        spreads, coverages = [0.8, 1.25], [45.0]  # chance alone must not look like much
        for each, _, colour in _shown(found):
            spread = [_spread(each, chosen) for chosen in parts]
            spreads += spread
            left.plot(x, spread, marker="o", color=colour)
            for level, marker, shift in zip(LEVELS, _MARKERS, _BESIDE, strict=True):
                held = [100 * each.inside(level)[chosen].mean() for chosen in parts]
                coverages += held
                right.plot(x + shift, held, marker=marker, color=colour, linewidth=1.2)
        _promised(left, x, 1.0, 1.96 / (2 * n) ** 0.5)
        for level, shift in zip(LEVELS, _BESIDE, strict=True):
            _promised(right, x + shift, 100 * level, 196 * (level * (1 - level) / n) ** 0.5)
        left.set(
            ylabel=f"rms of {found.before.relative_is}: 1 if right", ylim=(0.93 * min(spreads), 1.07 * max(spreads))
        )
        if max(spreads) > 4 * min(spreads):
            left.set_yscale("log")
            left.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            left.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            left.yaxis.set_minor_formatter(NullFormatter())
        right.set(ylabel="coverage [%]", ylim=(min(coverages) - 4, 102), yticks=[100 * level for level in LEVELS])
        for ax in (left, right):
            ax.set_xlabel(division.label)
            ax.set_xticks(x, labels, fontsize="small")
            ax.margins(x=0.12)
    _legend(figure, found, dict(zip(_MARKERS, LEVELS, strict=True)))
    return png(figure)


def _legend(figure: Figure, found: BeforeAndAfter, marks: dict[str, float]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Line2D([], [], color=colour, label=label) for _, label, colour in _shown(found)]
    named = [(marker, f"{100 * level:g}% intervals") for marker, level in marks.items()]
    handles += [Line2D([], [], color="0.3", label=label, marker=marker, linestyle="") for marker, label in named]
    handles.append(Patch(color=_GREY, alpha=0.6, label="what chance does"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False)


def _promised(ax: Axes, x: np.ndarray, value: float, chance: np.ndarray) -> None:
    """A dashed line at what is promised, with a bar of what chance does (n,) at each of x (n,), 95% of the time."""
    ax.vlines(x, value - chance, value + chance, color=_GREY, alpha=0.8, linewidth=9, zorder=0)
    ax.axhline(value, color="black", linestyle="--", linewidth=1, zorder=0.5)


def pit_bins(n: int) -> int:
    """How many bins a histogram of n values of the PIT has."""
    return int(np.clip(n // 10, 4, 20))


def calibration(held_out: HeldOut, names: Names) -> bytes | None:
    """Predicted against observed, coverage, PIT and z-scores; None with too few values."""
    if len(held_out) < _FEW_POINTS:
        return None
    pit, bins = held_out.scores.pit, pit_bins(len(held_out))
    figure, axes = new_figure(2, 2, 4.9, 3.7)
    first, second, third, fourth = axes.flat
    _predicted_against_observed(first, held_out, names)
    worth = held_out.worth
    plots.coverage_curve(pit, independent=worth, ax=second)
    plots.pit_histogram(pit, bins=bins, independent=worth, ax=third)
    plots.z_histogram(held_out.z, bins=max(8, bins), independent=worth, ax=fourth)
    titles = ("predictions and observations", _QUESTION, "flat if right", "normal if right")
    for ax, title in zip(axes.flat, titles, strict=True):
        ax.set_title(title, fontsize="medium")
    return png(figure)


def simulated(t: np.ndarray, z: np.ndarray) -> bytes:
    """Coverage, PIT and z-scores of simulations under the prior."""
    figure, ((left, middle, right),) = new_figure(1, 3, 4.2, 3.5)
    plots.coverage_curve(t, ax=left)
    plots.pit_histogram(t, ax=middle)
    middle.set_xlabel("PIT value, t = Φ(z)")
    plots.z_histogram(z, ax=right)
    return png(figure)


def _predicted_against_observed(ax: Axes, held_out: HeldOut, names: Names) -> None:
    n = min(len(held_out), 300)  # error bars of more would hide each other
    shown = np.sort(np.random.default_rng(0).choice(len(held_out), n, replace=False))
    mean, ends_of = array(held_out.prediction.mean), held_out.prediction.interval(0.95)
    lower, upper = (np.where(np.isfinite(end), end, np.nan)[shown] for end in map(array, ends_of))
    low, high = (end(end(each[shown]) for each in (held_out.truth, mean)) for end in (min, max))
    margin = 0.04 * (high - low) or 1.0
    ends = (low - margin, high + margin)
    error = np.maximum([mean[shown] - lower, upper - mean[shown]], 0.0)
    style: dict[str, Any] = {"color": BLUE, "fmt": "o", "markersize": 3, "elinewidth": 0.6, "alpha": 0.5}
    ax.errorbar(held_out.truth[shown], mean[shown], yerr=error, label=f"{n} points, 95% intervals", **style)
    ax.plot(ends, ends, "k--", linewidth=1, label="equal")
    ax.set(xlabel=f"observed {names.target_label}", ylabel=f"predicted {names.target_label}")
    ax.set(xlim=ends, ylim=(ends[0], ends[1] + 0.25 * (high - low)))
    ax.legend(loc="upper left", fontsize="small", framealpha=0.9)


def changes(found: BeforeAndAfter) -> bytes:
    """Coverage curves and histograms of the PIT, before and after the recalibration."""
    figure, ((left, right),) = new_figure(1, 2, 5.2, 3.9)
    assert found.after is not None
    before, after, bins = found.before.scores, found.after.scores.pit, pit_bins(len(found.before))
    plots.coverage_curve(after, independent=found.after.worth, ax=left)
    plots.pit_histogram(after, bins=bins, independent=found.after.worth, ax=right)
    levels = np.linspace(0, 1, 201)
    left.plot(levels, before.coverage(levels), color=ORANGE, linewidth=1.5)
    counts, edges = np.histogram(before.pit, np.linspace(0, 1, bins + 1))
    right.stairs(counts, edges, color=ORANGE, linewidth=1.5)
    right.set_ylim(0, max(right.get_ylim()[1], 1.1 * counts.max()))
    for ax, title in ((left, _QUESTION), (right, "PIT, flat if right")):
        ax.set_title(title, fontsize="medium")
        ax.get_legend().remove()
    _legend(figure, found, {})
    return png(figure)


def coverage_map(found: BeforeAndAfter, place: Map, names: Names) -> bytes | None:
    """How many of the observations lie in their intervals, cell by cell of a map; None with too few observations."""
    shown, X = _shown(found), found.before.X
    if len(X) < _FEWEST_ON_MAP:
        return None
    ends = place.ends(X)
    figure, axes = two_maps(place, ends) if len(shown) > 1 else new_figure(1, 1, 8.0, 4.8)
    cells = max(2.0, len(X) / _EACH_CELL)
    across = round(float(np.sqrt(cells * place.shape(ends))))
    grid = (across, max(2, round(cells / across)))
    x, y = place.places(X, ends)
    for ax, (each, label, _) in zip(axes.flat, shown, strict=True):
        held = each.inside(MAPPED)
        total, *edges = np.histogram2d(x, y, bins=grid, range=ends)
        inside, *_ = np.histogram2d(x[held], y[held], bins=grid, range=ends)
        share = np.where(total >= _FEWEST_IN_CELL, 100 * inside / np.maximum(total, 1), np.nan)
        mesh = ax.pcolormesh(*edges, share.T, cmap="RdBu", vmin=60, vmax=100, rasterized=True)
        place.frame(ax, ends, names, "black")
        ax.set_title(label, fontsize="medium")
        ax.set_facecolor("0.8")  # white is as promised
        bar = figure.colorbar(mesh, ax=ax, extend="min", shrink=0.9, ticks=[60, 70, 80, 90, 100])
        bar.set_label(f"in {100 * MAPPED:g}% intervals [%]")
    return png(figure)

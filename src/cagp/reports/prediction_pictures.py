"""What the model predicts, drawn: a curve, a map, or slices through the middle of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..support.numbers import datum, duration, with_unit
from .maps import Map, map_of, on_the_globe, two_maps
from .names import Names
from .pictures import BLUE, new_figure, png
from .refits import LOCAL, array, refit, seconds, working

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..model import Model
    from ..recalibration import LayeredModel

    Whole = Model | LayeredModel

_CURVE = 300
_SLICE = 80
_RANKING = 9
_SLICES = 6
_MOST_RANKED = 60
_MAP_CELLS = 8000
_DOTS = 1500
_LIMIT_SECONDS = 6.0


Picture = tuple[str, bytes, str]
"""The name of its file, the PNG, and the caption."""


def draw(model: Whole, names: Names, seed: int) -> list[Picture]:
    """A curve for one column; a map for two or for points on the globe; slices along all other columns."""
    columns = model.plain.X.shape[1]
    place = map_of(model.plain.prior.kernel, columns)
    if columns == 1:
        return [_curve(model, names, seed)]
    pictures = [] if place is None else [_map(model, names, place, seed)]
    others = [c for c in range(columns) if place is None or c not in (place.across, place.down)]
    return pictures + ([_slices(model, names, others)] if others else [])


@dataclass(frozen=True)
class _Predictions:
    """Of f: mean, standard deviation and 95% interval, and the interval of a new observation; each (T,)."""

    mean: np.ndarray
    std: np.ndarray
    interval: tuple[np.ndarray, np.ndarray]
    observed: tuple[np.ndarray, np.ndarray]
    note: str = ""

    def part(self, start: int, stop: int) -> _Predictions:
        """Those from ``start`` to ``stop``."""
        (low, high), (lowest, highest) = self.interval, self.observed
        here = slice(start, stop)
        return _Predictions(self.mean[here], self.std[here], (low[here], high[here]), (lowest[here], highest[here]))


def _predict(whole: Whole, where: np.ndarray) -> _Predictions:
    """What the model says at ``where`` (T, p), with a local solver where its own takes minutes."""
    model = whole.plain
    solver = working(model)
    expected = seconds(model, solver, len(model.y), len(where))
    note = ""
    if expected > _LIMIT_SECONDS and seconds(model, LOCAL, len(model.y), len(where)) < expected:
        note = (
            f" Drawn with {LOCAL!r} in place of {solver!r}, which would take about {duration(expected)} for these "
            f"{len(where):,} points."
        )
        model = refit(model, LOCAL)
    test = torch.from_numpy(where).to(model.X.device)
    found = whole.over(model.predict(test, progress=False), test)
    noise = model.prior.noise_variance
    observed = found.observed(float(np.mean(noise)) if np.ndim(noise) else None)
    low, high = (array(end) for end in found.interval(0.95))
    lowest, highest = (array(end) for end in observed.interval(0.95))
    return _Predictions(array(found.mean), array(found.std), (low, high), (lowest, highest), note)


def _some(model: Whole, seed: int) -> np.ndarray:
    size = len(model.plain.y)
    return np.sort(np.random.default_rng(seed).choice(size, min(size, _DOTS), replace=False))


# --- one column -------------------------------------------------------------------------------------------------------


def _curve(model: Whole, names: Names, seed: int) -> Picture:
    X, y = array(model.plain.X)[:, 0], array(model.plain.y)
    low, high = X.min(), X.max()
    margin = 0.05 * (high - low) or 1.0
    x = np.linspace(low - margin, high + margin, _CURVE)
    found = _predict(model, x[:, None])
    figure, axes = new_figure(1, 1, 9.0, 4.2)
    ax = axes[0, 0]
    shown = _some(model, seed)
    ax.scatter(X[shown], y[shown], s=9, color="black", alpha=0.4, linewidths=0, label=f"{len(shown):,} observations")
    _band(ax, x, found)
    ax.set(xlabel=names.label(0), ylabel=names.target_label, xlim=(x[0], x[-1]))
    ax.legend(fontsize="small", loc="best")
    caption = (
        f"The predicted {names.target} with 95% intervals of the function (dark) and of a new observation (light)."
    )
    return "prediction", png(figure), caption + found.note


def _intervals(
    found: _Predictions, light: float, dark: float
) -> list[tuple[tuple[np.ndarray, np.ndarray], float, str]]:
    """The two intervals that are drawn, the wider one first, each with how dark it is and its label."""
    return [(found.observed, light, "95% of new observations"), (found.interval, dark, "95% of the function")]


def _band(ax: Axes, x: np.ndarray, found: _Predictions) -> None:
    for (low, high), alpha, label in _intervals(found, 0.13, 0.35):
        ax.fill_between(x, low, high, color=BLUE, alpha=alpha, linewidth=0, label=label)
    ax.plot(x, found.mean, color=BLUE, linewidth=1.6, label="mean")


# --- two columns ------------------------------------------------------------------------------------------------------


def _map(model: Whole, names: Names, place: Map, seed: int) -> Picture:
    X = array(model.plain.X)
    x, y = X[:, place.across], X[:, place.down]
    ends = place.ends(X)
    shape = place.shape(ends)
    across = round(float(np.sqrt(_MAP_CELLS * shape)))
    down = max(2, _MAP_CELLS // across)
    grid = [np.linspace(low, high, n) for (low, high), n in zip(ends, (across, down), strict=True)]
    where = np.tile(np.median(X, axis=0), (across * down, 1))
    first, second = np.meshgrid(*grid)
    where[:, place.across], where[:, place.down] = first.ravel(), second.ravel()
    found = _predict(model, where)
    figure, axes = two_maps(place, ends)
    dots = _some(model, seed)
    unit = f" [{names.target_unit}]" if names.target_unit else ""
    fields = (
        (found.mean, "viridis", names.target_label, "mean"),
        (found.std, "cividis", f"standard deviation{unit}", "standard deviation of the function"),
    )
    for ax, (field, colour_map, label, title) in zip(axes.flat, fields, strict=True):
        mesh = ax.pcolormesh(*grid, field.reshape(down, across), shading="nearest", cmap=colour_map, rasterized=True)
        figure.colorbar(mesh, ax=ax, label=label, shrink=0.9)
        ax.set_title(title, fontsize="medium")
        ax.set(xlabel=names.label(place.across), ylabel=names.label(place.down), xlim=ends[0], ylim=ends[1])
        if place.geographic:
            on_the_globe(ax, "white")
    # where the data are explains where the error bars are narrow
    axes.flat[1].scatter(x[dots], y[dots], s=3, color="white", alpha=0.8, linewidths=0)
    rest = [c for c in range(X.shape[1]) if c not in (place.across, place.down)]
    held = f" All other columns are at their medians ({_medians(X, rest, names)})." if rest else ""
    caption = (
        f"The predicted {names.target} and its standard deviation. Dots: {len(dots):,} of {len(x):,} observations."
    )
    return "map", png(figure), caption + held + found.note


def _medians(X: np.ndarray, columns: list[int], names: Names) -> str:
    shown = columns[:12]
    parts = [f"{names.name(c)} {with_unit(datum(float(np.median(X[:, c]))), names.unit(c))}" for c in shown]
    return ", ".join(parts) + (", …" if len(columns) > len(shown) else "")


# --- many columns -----------------------------------------------------------------------------------------------------


def _slices(model: Whole, names: Names, columns: list[int]) -> Picture:
    """One slice through the median point for each of the columns along which the prediction moves most."""
    X = array(model.plain.X)
    middle = np.median(X, axis=0)
    ranges = [_along(X[:, c], _RANKING) for c in columns[:_MOST_RANKED]]
    ranked = _predict(model, np.concatenate([_moved(middle, c, v) for c, v in zip(columns, ranges, strict=False)]))
    cuts = np.cumsum([len(v) for v in ranges])[:-1]
    moves = [float(np.ptp(part)) for part in np.split(ranked.mean, cuts)]
    best = sorted(range(len(moves)), key=lambda i: -moves[i])[:_SLICES]
    chosen = [columns[i] for i in best]
    values = [_along(X[:, c], _SLICE) for c in chosen]
    found = _predict(model, np.concatenate([_moved(middle, c, v) for c, v in zip(chosen, values, strict=True)]))
    across = min(len(chosen), 3)
    figure, axes = new_figure(-(-len(chosen) // across), across, 3.9, 3.1)
    ends = np.cumsum([0, *(len(v) for v in values)])
    low, high = found.observed[0].min(), found.observed[1].max()
    low, high = low - 0.06 * (high - low), high + 0.06 * (high - low)
    for ax, column, v, start, stop in zip(axes.flat, chosen, values, ends[:-1], ends[1:], strict=False):
        part = found.part(start, stop)
        if _discrete(X[:, column]) is not None:
            _bars(ax, v, part)
            margin = 0.5 * float(np.diff(v).min())
            ax.set(xlim=(v[0] - margin, v[-1] + margin), xticks=v if len(v) <= 8 else v[::2])
        else:
            _band(ax, v, part)
            ax.plot(X[:, column], np.full(len(X), low), "|", color="black", alpha=0.15, markersize=6)
        ax.axvline(middle[column], color="black", linestyle=":", linewidth=0.9)
        ax.set(xlabel=names.label(column), ylim=(low, high))
    for ax in axes[:, 0]:
        ax.set_ylabel(names.target_label)
    for ax in axes.flat[len(chosen) :]:
        ax.set_axis_off()
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize="small", frameon=False)
    some = " all columns,"
    if len(chosen) < len(columns):
        some = f" the {len(chosen)} of {len(columns)} columns that matter most,"
    caption = (
        f"The predicted {names.target} along{some} largest effect first, with the other columns at their medians "
        f"(dotted lines: {_medians(X, chosen, names)}). Bands: 95% of the function (dark) and of new observations "
        "(light). Ticks at the bottom: the observations. A slice passes through places where there may be no data."
    )
    if len(columns) > _MOST_RANKED:
        caption += f" The first {_MOST_RANKED} columns were compared."
    return "slices", png(figure), caption + (found.note or ranked.note)


def _along(values: np.ndarray, n: int) -> np.ndarray:
    """Values along a column: its own where it has few, evenly spaced ones between its ends otherwise."""
    own = _discrete(values)
    if own is not None:
        return own
    low, high = values.min(), values.max()
    return np.linspace(low, high, n) if high > low else np.linspace(low - 0.5, high + 0.5, n)


def _discrete(values: np.ndarray, limit: int = 15) -> np.ndarray | None:
    """The distinct values of a column with few of them, about evenly spaced, sorted; None for any other column."""
    distinct = np.unique(values)
    if not 1 < len(distinct) <= limit or np.diff(distinct).min() < np.ptp(distinct) / (2 * limit):
        return None
    return distinct


def _moved(middle: np.ndarray, column: int, values: np.ndarray) -> np.ndarray:
    """The point ``middle`` (p,) with ``column`` at each of ``values`` (n,), shape (n, p)."""
    where = np.tile(middle, (len(values), 1))
    where[:, column] = values
    return where


def _bars(ax: Axes, x: np.ndarray, found: _Predictions) -> None:
    for (low, high), alpha, label in _intervals(found, 0.25, 0.6):
        ax.vlines(x, low, high, color=BLUE, alpha=alpha, linewidth=5, label=label)
    ax.plot(x, found.mean, "_", color="black", markersize=9, label="mean")

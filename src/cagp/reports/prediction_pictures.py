"""What the model predicts, drawn: a curve, a map, or slices through the middle of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..model import Model
from ..support.convert import array
from ..support.numbers import duration
from .inputs import LOCAL, refit, seconds, working
from .map_page import map_page
from .maps import Map, map_of, two_maps
from .names import Names, medians, with_brackets
from .page import BLUE, new_figure, png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..prediction import Prediction

_CURVE, _SLICE, _RANKING = 300, 80, 9  # points of a curve, of a slice, and of one that is only compared
_SLICES, _MOST_RANKED = 6, 60
_MAP_CELLS, _DOTS = 8000, 1500
_SPREADS = 1.5  # standard deviations of y: one of a prediction that is larger says no more
_LIMIT_SECONDS = 6.0

Picture = tuple[str, bytes, str]  # the name of its file, the PNG, and the caption


def draw(model: Model, names: Names, seed: int) -> tuple[list[Picture], str]:
    """A curve for one column; a map for two or for points on the globe; slices along all other columns.

    And the page of the map, "" where there is none.
    """
    columns = model.X.shape[1]
    if columns == 1:
        return [_curve(model, names, seed)], ""
    place = map_of(model.prior.kernel, columns)
    picture, page = (None, "") if place is None else _map(model, names, place, seed)
    pictures = [] if picture is None else [picture]
    others = [c for c in range(columns) if place is None or c not in (place.across, place.down)]
    return pictures + ([_slices(model, names, others)] if others else []), page


class _Predictions(NamedTuple):
    """Of f: mean, standard deviation and 95% interval, and the interval of a new observation; each (T,) or (2, T)."""

    mean: np.ndarray
    std: np.ndarray
    interval: np.ndarray
    observed: np.ndarray


def _predict(model: Model, where: np.ndarray) -> tuple[_Predictions, str]:
    """What the model says at ``where`` (T, p), and a note, see ``_quick``."""
    model, note = _quick(model, len(where))
    return _read(model, model.predict(where, progress=False)), note


def _quick(model: Model, points: int) -> tuple[Model, str]:
    """The model with a local solver where its own takes minutes for so many points, and a note of that."""
    solver, size = working(model), len(model.y)
    expected = seconds(model, solver, size, points)
    if expected <= _LIMIT_SECONDS or seconds(model, LOCAL, size, points) >= expected:
        return model, ""
    note = f" Drawn with {LOCAL!r} in place of {solver!r}, which would take about {duration(expected)} for these "
    return refit(model, LOCAL), f"{note}{points:,} points."


def _read(model: Model, found: Prediction) -> _Predictions:
    noise = model.prior.noise_variance
    observed = found.observed(float(np.mean(noise)) if np.ndim(noise) else None)
    inner, outer = (np.stack([array(end) for end in each.interval(0.95)]) for each in (found, observed))
    return _Predictions(array(found.mean), array(found.std), inner, outer)


def _some(model: Model, seed: int) -> np.ndarray:
    size = len(model.y)
    return np.sort(np.random.default_rng(seed).choice(size, min(size, _DOTS), replace=False))


def _curve(model: Model, names: Names, seed: int) -> Picture:
    X, y = array(model.X)[:, 0], array(model.y)
    margin = 0.05 * np.ptp(X) or 1.0
    x = np.linspace(X.min() - margin, X.max() + margin, _CURVE)
    found, note = _predict(model, x[:, None])
    figure, ((ax,),) = new_figure(1, 1, 9.0, 4.2)
    shown = _some(model, seed)
    ax.scatter(X[shown], y[shown], s=9, color="black", alpha=0.4, linewidths=0, label=f"{len(shown):,} observations")
    _band(ax, x, found)
    ax.set(xlabel=names.label(0), ylabel=names.target_label, xlim=(x[0], x[-1]))
    ax.legend(fontsize="small", loc="best")
    text = f"The predicted {names.target} with 95% intervals of the function (dark) and of a new observation (light)."
    return "prediction", png(figure), text + note


def _band(ax: Axes, x: np.ndarray, found: _Predictions, bars: bool = False) -> None:
    """The mean and both intervals, the wider one first; as ``bars`` where x has few values."""
    light, dark = (0.25, 0.6) if bars else (0.13, 0.35)
    draw_band, width = (ax.vlines, 5) if bars else (ax.fill_between, 0)
    for ends, alpha, of in ((found.observed, light, "new observations"), (found.interval, dark, "the function")):
        draw_band(x, *ends, color=BLUE, alpha=alpha, linewidth=width, label=f"95% of {of}")
    style: dict[str, Any] = {"color": BLUE, "linewidth": 1.6}
    if bars:
        style = {"color": "black", "marker": "_", "markersize": 9, "linestyle": ""}
    ax.plot(x, found.mean, label="mean", **style)


def _map(model: Model, names: Names, place: Map, seed: int) -> tuple[Picture, str]:
    """The picture of a map, and the page."""
    X = array(model.X)
    ends = place.ends(X)
    x, y = place.places(X, ends)
    *grid, where = place.grid(X, _MAP_CELLS, place.shape(ends))
    quick, note = _quick(model, len(where))
    plain = quick.replace(transform=None)
    base = plain.predict(where, progress=False)
    page = map_page(quick, place, (grid[0], grid[1]), X, plain.prior_at(where), base, names, note=note)
    found = _read(quick, base.carried_back(quick.transform, quick.reach))
    figure, axes = two_maps(place, ends)
    dots = _some(model, seed)
    of_std, title_of_std = with_brackets("standard deviation", names.target_unit), "standard deviation of the function"
    fields = ((found.mean, "viridis", names.target_label, "mean"), (found.std, "cividis", of_std, title_of_std))
    # far from the data a transform or a trend may multiply what is not known: the colours are for where data are
    seen = array(model.y)
    ends_of = ((seen.min() - 0.2 * np.ptp(seen), seen.max() + 0.2 * np.ptp(seen)), (0.0, _SPREADS * seen.std()))
    beyond = False
    for ax, (field, colour_map, label, title), (least, most) in zip(axes.flat, fields, ends_of, strict=True):
        low, high = bool((field < least).any()), bool((field > most).any()) and most > least
        beyond |= low or high
        limits = {"vmin": least if low else None, "vmax": most if high else None}
        style: dict[str, Any] = {"shading": "nearest", "cmap": colour_map, "rasterized": True, **limits}
        mesh = ax.pcolormesh(*grid, field.reshape(len(grid[1]), len(grid[0])), **style)
        extend = "both" if low and high else "min" if low else "max" if high else "neither"
        figure.colorbar(mesh, ax=ax, label=label, shrink=0.9, extend=extend)
        ax.set_title(title, fontsize="medium")
        place.frame(ax, ends, names, "white")
    # where the data are explains where the error bars are narrow
    axes.flat[1].scatter(x[dots], y[dots], s=3, color="white", alpha=0.8, linewidths=0)
    rest = [c for c in range(X.shape[1]) if c not in (place.across, place.down)]
    held = f" All other columns are at their medians ({medians(X, rest, names)})." if rest else ""
    text = f"The predicted {names.target} and its standard deviation. Dots: {len(dots):,} of {len(x):,} observations."
    text += " Colours end where they would hide the rest: the predictions go on, as the arrow says." if beyond else ""
    return ("map", png(figure), text + held + note), page


def _slices(model: Model, names: Names, columns: list[int]) -> Picture:
    """One slice through the median point for each of the columns along which the prediction moves most."""
    X = array(model.X)
    middle = np.median(X, axis=0)
    ranked, first_note = _predict_along(model, X, middle, columns[:_MOST_RANKED], _RANKING)
    by_effect = sorted(ranked, key=lambda each: -float(np.ptp(each[2].mean)))
    chosen = [column for column, _, _ in by_effect[:_SLICES]]
    found, note = _predict_along(model, X, middle, chosen, _SLICE)
    across = min(len(chosen), 3)
    figure, axes = new_figure(-(-len(chosen) // across), across, 3.9, 3.1)
    ends = [end([end(part.observed) for _, _, part in found]) for end in (np.min, np.max)]
    low, high = _in_sight(array(model.y), np.concatenate([part.mean for _, _, part in found]), *ends)
    beyond = [low, high] != ends
    low, high = low - 0.06 * (high - low), high + 0.06 * (high - low)
    for ax, (column, v, part) in zip(axes.flat, found, strict=False):
        if _discrete(X[:, column]) is not None:
            _band(ax, v, part, bars=True)
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
    columns_of = 1 if across == 1 else len(labels)  # one panel is too narrow for all of them side by side
    figure.legend(handles, labels, loc="outside lower center", ncols=columns_of, fontsize="small", frameon=False)
    most = f"the {len(chosen)} of {len(columns)} columns that matter most"
    some = "all columns" if len(chosen) == len(columns) else most
    caption = (
        f"The predicted {names.target} along {some}, largest effect first, with the other columns at their medians "
        f"(dotted lines: {medians(X, chosen, names)}). Bands: 95% of the function (dark) and of new observations "
        "(light). Ticks at the bottom: the observations. A slice passes through places where there may be no data."
    )
    caption += " Bands are cut off where they would hide the rest." if beyond else ""
    if len(columns) > _MOST_RANKED:
        caption += f" The first {_MOST_RANKED} columns were compared."
    return "slices", png(figure), caption + (note or first_note)


def _in_sight(y: np.ndarray, mean: np.ndarray, low: float, high: float) -> list[float]:
    """The ends of an axis for predictions between ``low`` and ``high``: far from data these may hide all the rest, so
    that almost all observations and the means have to do.
    """
    seen = np.concatenate([np.quantile(y, (0.005, 0.995)), mean])
    room = 0.2 * float(np.ptp(seen))
    return [max(low, float(seen.min()) - room), min(high, float(seen.max()) + room)]


def _predict_along(
    model: Model, X: np.ndarray, middle: np.ndarray, columns: list[int], n: int
) -> tuple[list[tuple[int, np.ndarray, _Predictions]], str]:
    """For each column some n values of it, and predictions at the point ``middle`` (p,) with the column at these."""
    values = []
    for v in X.T[columns]:  # its own values where there are few, evenly spaced ones between its ends otherwise
        own, margin = _discrete(v), 0.0 if np.ptp(v) else 0.5
        values.append(np.linspace(v.min() - margin, v.max() + margin, n) if own is None else own)
    of = np.repeat(np.arange(len(columns)), [len(v) for v in values])
    where = np.tile(middle, (len(of), 1))
    where[np.arange(len(of)), np.asarray(columns)[of]] = np.concatenate(values)
    found, note = _predict(model, where)
    parts = [_Predictions(*(each[..., of == i] for each in found)) for i in range(len(columns))]
    return list(zip(columns, values, parts, strict=True)), note


def _discrete(values: np.ndarray, limit: int = 15) -> np.ndarray | None:
    """The distinct values of a column with few of them, about evenly spaced, sorted; None for any other column."""
    distinct = np.unique(values)
    few = 1 < len(distinct) <= limit and np.diff(distinct).min() >= np.ptp(distinct) / (2 * limit)
    return distinct if few else None

"""The competition's figures: the field with its gaps, errors and error bars as maps, coverage by distance, time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from .drawing import plain_ticks
from .heaton_results import REST, TITLES, thinned_in_words
from .study import Drawing, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GAP = "0.88"
_BINS = 10
_ROOM = {0.5: (30, 70), 0.95: (80, 100)}
"""Of the axes of coverage, in per cent, where nothing lies beyond."""

_LOOKS: dict[float, dict[str, Any]] = {
    0.5: {"color": "#D55E00", "marker": "s"},
    0.95: {"color": "#0072B2", "marker": "o"},
}


class _Grid:
    """Points of a regular grid as pictures."""

    def __init__(self, own: Tables) -> None:
        self._own = own
        both = pd.concat([own["given"][["Lon", "Lat"]], own["gaps"][["Lon", "Lat"]]])
        self.longitude, self.latitude = (np.unique(both[name].to_numpy()) for name in ("Lon", "Lat"))

    def field(self, **values: np.ndarray) -> np.ndarray:
        """Values at the points of the tables of that name, NaN elsewhere; shape (n_lat, n_lon)."""
        found = np.full((len(self.latitude), len(self.longitude)), np.nan)
        for table, column in values.items():
            places = self._own[table]
            rows = np.searchsorted(self.latitude, places["Lat"].to_numpy())
            found[rows, np.searchsorted(self.longitude, places["Lon"].to_numpy())] = column
        return found

    def draw(self, ax: Axes, field: np.ndarray, title: str, colours: str, limits: tuple[float, float]) -> Any:
        """A map with degrees of equal length on both axes, as the model sees them."""
        mesh = ax.pcolormesh(
            self.longitude,
            self.latitude,
            field,
            shading="nearest",
            cmap=colours,
            vmin=limits[0],
            vmax=limits[1],
            rasterized=True,
        )
        ax.set_facecolor(_GAP)
        ax.set(aspect="equal", xlabel="longitude (°E)")
        ax.set_title(title, fontsize=10)
        ax.locator_params(nbins=5)
        ax.tick_params(labelsize=8)
        return mesh


def _panels() -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.6, 2.9), layout="constrained")
    axes = list(figure.subplots(1, 3, sharex=True, sharey=True))
    axes[0].set_ylabel("latitude (°N)")
    return figure, axes


def _bar(figure: Figure, ax: Axes, mesh: Any, label: str, extend: str) -> None:
    """A bar of the colours, as high as its map."""
    bar = figure.colorbar(mesh, cax=ax.inset_axes((1.02, 0, 0.03, 1)), label=label, extend=extend)
    bar.ax.tick_params(labelsize=8)


def _which(own: Tables, every: int) -> str:
    """The start of a caption."""
    name = TITLES[own["table"].iloc[0].data]
    return name if every == 1 else f"QUICK, not the competition ({thinned_in_words(every)}). {name}"


def _tagged(figure: Figure, every: int) -> Figure:
    """The figure, with a line on it where it is not about the whole field."""
    if every > 1:
        figure.set_figheight(figure.get_figheight() + 0.4)
        figure.suptitle(f"QUICK, {thinned_in_words(every)}: not the competition", fontsize=9, color="#A02000")
    return figure


def fields(own: Tables, every: int) -> Drawing:
    """What is given, what is predicted, and the truth, in the same colours."""
    grid, gaps = _Grid(own), own["gaps"]
    seen, truth = own["given"]["temperature"].to_numpy(), gaps["truth"].to_numpy()
    everything = np.concatenate([seen, truth[np.isfinite(truth)]])
    limits = (float(np.quantile(everything, 0.001)), float(np.quantile(everything, 0.999)))
    figure, axes = _panels()
    pictures = {
        f"given: {len(seen):,} observations": grid.field(given=seen),
        f"predicted in the gaps: {len(gaps):,} places": grid.field(given=seen, gaps=gaps["mean"].to_numpy()),
        "the truth, for scoring only": grid.field(given=seen, gaps=truth),
    }
    for ax, (title, field) in zip(axes, pictures.items(), strict=True):
        mesh = grid.draw(ax, field, title, "viridis", limits)
    _bar(figure, axes[-1], mesh, "temperature (°C)", "both")
    return Drawing(
        _tagged(figure, every),
        f"{_which(own, every)}: the field as given, with its gaps (grey); with the predicted means in the gaps; and as "
        "it is. One colour scale for all three. Means are smoother than the field, as they must be.",
    )


def errors(own: Tables, every: int) -> Drawing:
    """Errors, error bars, and one divided by the other."""
    grid, gaps = _Grid(own), own["gaps"]
    error = (gaps["mean"] - gaps["truth"]).to_numpy()
    std = gaps["std"].to_numpy()
    most = float(np.nanquantile(np.abs(error), 0.995))
    figure, axes = _panels()
    pictures = (
        ("error: predicted − true", error, "RdBu_r", (-most, most), "°C", "both"),
        ("error bar: predicted std", std, "plasma", (float(std.min()), float(std.max())), "°C", "neither"),
        ("error in units of its error bar", error / std, "RdBu_r", (-3.0, 3.0), "standard deviations", "both"),
    )
    for ax, (title, values, colours, limits, unit, extend) in zip(axes, pictures, strict=True):
        mesh = grid.draw(ax, grid.field(gaps=values), title, colours, limits)
        _bar(figure, ax, mesh, unit, extend)
    return Drawing(
        _tagged(figure, every),
        f"{_which(own, every)}: errors in the gaps, the predicted standard deviation of an observation there, and the "
        "first divided by the second. Observed places are grey.",
    )


def by_distance(own: Tables, every: int) -> Drawing:
    """What the intervals hold, and how large errors are, by the distance to the nearest datum."""
    from matplotlib.figure import Figure

    table = binned(own["gaps"])
    distance = table["distance"].to_numpy()
    figure = Figure(figsize=(12.6, 3.4), layout="constrained")
    *covers, size = figure.subplots(1, 3)
    for cover, (level, look) in zip(covers, _LOOKS.items(), strict=True):
        points = table["points"].to_numpy()
        low, high = (100 * each / points for each in binom.interval(0.95, points, level))
        cover.axhline(100 * level, color="0.4", linewidth=0.8, linestyle=":")
        cover.fill_between(
            distance, low, high, color=look["color"], alpha=0.2, linewidth=0, label="exact intervals, by chance"
        )
        found = 100 * table[f"holds_{100 * level:g}"].to_numpy()
        cover.plot(distance, found, label="found", **look)
        cover.set(ylabel="hold the truth (%)")
        cover.set_title(f"central {100 * level:g}% intervals", fontsize=10)
        shown = np.array([*_ROOM[level], found.min(), found.max()]) / 5
        cover.set_yticks(np.arange(5 * np.floor(shown.min()), 5 * np.ceil(shown.max()) + 1, 5))
    size.plot(distance, table["rmse"], color="#000000", marker="D", label="RMSE")
    size.plot(distance, table["std"], color="#009E73", marker="^", linestyle="--", label="rms of the predicted std")
    size.set(ylabel="°C")
    size.set_title("errors and error bars", fontsize=10)
    size.set_ylim(bottom=0)
    for ax in (*covers, size):
        ax.set(xlabel="distance to the nearest datum (°)", xscale="log")
        plain_ticks(ax.xaxis)
        ax.grid(alpha=0.25, which="both", linewidth=0.5)
        ax.legend(frameon=False, fontsize=8)
    return Drawing(
        _tagged(figure, every),
        f"{_which(own, every)}: test places in {len(table)} groups by their distance to the nearest datum. Left and "
        "middle: what central 50% and 95% intervals hold; shaded is where 95% of such shares lie for exact intervals "
        "and independent errors. Errors of places in one gap go together, so that shares vary by much more than that. "
        "Right: the errors, and what the error bars say of them.",
    )


def binned(gaps: pd.DataFrame) -> pd.DataFrame:
    """Coverages, RMSE and rms of the std in groups of about equal size by distance, where the truth is known."""
    known = gaps[np.isfinite(gaps["truth"])]
    group = pd.qcut(known["distance"], min(_BINS, len(known)), labels=False, duplicates="drop")
    square = {"rmse": (known["mean"] - known["truth"]) ** 2, "std": known["std"] ** 2}
    held = {
        f"holds_{p}": (known["truth"] >= known[f"lower_{p}"]) & (known["truth"] <= known[f"upper_{p}"])
        for p in ("50", "95")
    }
    grouped = known.assign(points=1, **square, **held).groupby(group)
    found = grouped[["distance", "rmse", "std", *held]].mean()
    return found.assign(rmse=np.sqrt(found["rmse"]), std=np.sqrt(found["std"]), points=grouped["points"].sum())


def stages(own: Tables) -> Drawing:
    """Where the time went."""
    from matplotlib.figure import Figure

    facts, table = own["table"].iloc[0], own["stages"]
    seconds = table["seconds"].to_numpy()
    figure = Figure(figsize=(8.4, 0.9 + 0.32 * len(table)), layout="constrained")
    ax = figure.subplots()
    colours = [{"fit": "#0072B2", "predict": "#009E73"}.get(of, "#999999") for of in table["of"]]
    bars = ax.barh(range(len(table)), seconds, color=colours, height=0.7)
    ax.bar_label(bars, [f"{each:.1f}" for each in seconds], padding=3, fontsize=8)
    ax.set_yticks(range(len(table)), list(table["stage"]), fontsize=8)
    ax.invert_yaxis()
    ax.margins(x=0.1)
    ax.set(xlabel="seconds")
    ax.spines[["top", "right"]].set_visible(False)
    return Drawing(
        _tagged(figure, int(facts.every)),
        f"{_which(own, int(facts.every))}: seconds of each stage on {facts.threads} "
        f"core{'s' if facts.threads > 1 else ''}; blue is cagp.fit, {facts.fit_seconds:.0f} s, green predict. '{REST}' "
        "is all that cagp.fit does beside fitting candidates: to see whether a transform is needed, to find what "
        "varies, to weigh the candidates, to hold the error bars against left-out observations, and the standard "
        "errors.",
    )

"""The figures of the study of all ERA5 points, each with its caption."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cagp.calibration import assess, plots
from cagp.reports.maps import coastlines, wrapped
from cagp.solvers import NearestNeighbours

from .drawing import LOOKS, globe, plain_ticks
from .era5_full_setting import (
    BOUNDED,
    COARSE,
    FITTED,
    FREE,
    HELD_OUT,
    ITERATED,
    MORE,
    PRIOR_WORDS,
    FullConfig,
    map_axes,
    rows_of,
    z_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Captioned = tuple["Figure", str]

_BINS = 20
_LINES: dict[str, dict[str, Any]] = {
    FITTED: {"color": "#0072B2", "linestyle": "-", "marker": "o"},
    COARSE: {"color": "#D55E00", "linestyle": "--", "marker": "s"},
    FREE: {"color": "#009E73", "linestyle": ":", "marker": "^"},
}
_FIELDS = (("mean", "viridis", "posterior mean (K)"), ("std", "cividis", "posterior std of the latent f (K)"))
_CLOSE = 24
"""Degrees across the closer view at full resolution."""

_FAR = 3.0
"""Beyond so many standard deviations a held-out point is marked as missed."""


def map_figure(config: FullConfig, field: pd.DataFrame, predictions: pd.DataFrame) -> Captioned:
    """Mean and latent std on the whole grid, and closer around one of the held-out points."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    latitude, longitude = map_axes(config.thin)
    half = longitude[1] / 2
    extent = (-half, longitude[-1] + half, latitude[-1] - half, latitude[0] + half)
    lines = wrapped(coastlines())
    hidden = rows_of(predictions, FITTED, NearestNeighbours.name, HELD_OUT, config.neighbours[-1])
    roughest = hidden.loc[hidden["spread"].idxmax()]
    across = _CLOSE * config.thin
    left = np.clip(roughest["longitude"] - across / 2, 0, 360 - across)
    bottom = np.clip(roughest["latitude"] - across / 2, -90, 90 - across)
    near_rows = (latitude >= bottom) & (latitude <= bottom + across)
    near_columns = (longitude >= left) & (longitude <= left + across)
    figure = Figure(figsize=(15, 8.4), layout="constrained")
    for row, (name, colours, label) in zip(figure.subplots(2, 2, width_ratios=(2, 1)), _FIELDS, strict=True):
        values = field[name].to_numpy().reshape(len(latitude), len(longitude))
        for ax, part in zip(row, (values, values[np.ix_(near_rows, near_columns)]), strict=True):
            picture = ax.imshow(
                values, extent=extent, cmap=colours, vmin=part.min(), vmax=part.max(), interpolation="nearest"
            )
            globe(ax, lines)
            ax.set(xlabel="longitude (°E)", ylabel="latitude (°N)")
            figure.colorbar(picture, ax=ax, label=label, shrink=0.9, pad=0.01)
        row[1].set(xlim=(left, left + across), ylim=(bottom, bottom + across))
        row[1].xaxis.set_major_locator(MaxNLocator(5))
        row[1].yaxis.set_major_locator(MaxNLocator(5))
        row[1].plot(hidden["longitude"], hidden["latitude"], "o", fillstyle="none", color="white", markersize=11)
    return figure, (
        f"Mean and std at all {len(field):,} points of the map from the {config.map_neighbours} nearest of "
        f"{config.d:,} training points. Right: closer, around the held-out point with the roughest surroundings, each "
        "with its own colours; white circles are points held out, all others are training points. `map.csv` has the "
        "numbers, row by row from 90° N and 0° E."
    )


def neighbours_figure(config: FullConfig, table: pd.DataFrame) -> Captioned:
    """What more neighbours bring."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.2, 3.9), layout="constrained")
    excess, rmse = figure.subplots(1, 2)
    for name in config.names:
        rows = rows_of(table, name, NearestNeighbours.name, MORE).sort_values("k")
        k, variance = rows["k"].to_numpy(), rows["mean_variance"].to_numpy()
        excess.plot(k[:-1], variance[:-1] / variance[-1] - 1, label=PRIOR_WORDS[name], **_LINES[name])
        rmse.plot(k, rows["rmse"], label=PRIOR_WORDS[name], **_LINES[name])
    excess.set(ylabel=f"mean variance relative to k = {config.neighbours[-1]}, minus 1")
    rmse.set(ylabel="RMSE of the field (K)")
    for ax in (excess, rmse):
        ax.set(xscale="log", yscale="log", xlabel="nearest neighbours k")
        ax.set_xticks(config.neighbours, [str(k) for k in config.neighbours], minor=False)
        ax.set_xticks([], minor=True)
        ax.grid(alpha=0.25, which="both", linewidth=0.5)
    plain_ticks(rmse.yaxis, steps=(1, 2, 3, 4, 6))
    figure.legend(*excess.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure, (
        f"Nearest neighbours at {config.more:,} held-out points. Left: by how much the variance of the latent f is "
        f"larger than with k = {config.neighbours[-1]}; since every such variance is at least the exact one, this is "
        "a lower bound on what is left to gain. Right: error of the mean."
    )


def calibration_figure(config: FullConfig, predictions: pd.DataFrame) -> Captioned:
    """PIT histograms: above nearest neighbours on the larger sample, below all methods on the smaller one."""
    from matplotlib.figure import Figure

    k, last = config.neighbours[-1], config.sizes.recorded[-1]
    above = [
        (f"{k} neighbours, {config.more:,} points\n{PRIOR_WORDS[name]}", name, NearestNeighbours.name, MORE, k, 0)
        for name in config.names
    ]
    below = [(f"{k} neighbours\n{PRIOR_WORDS[FITTED]}", FITTED, NearestNeighbours.name, HELD_OUT, k, 0)]
    for each in ITERATED:
        if each in set(predictions["solver"]):
            title = f"{LOOKS[each].label}, m = {last}\n{PRIOR_WORDS[config.iterated[0]]}"
            below.append((title, config.iterated[0], each, HELD_OUT, 0, last))
    if len(below) == 1:  # without iterative methods, the other hyperparameters
        below += [
            (f"{k} neighbours\n{PRIOR_WORDS[n]}", n, NearestNeighbours.name, HELD_OUT, k, 0) for n in config.names[1:]
        ]
    figure = Figure(figsize=(11, 7), layout="constrained")
    for row, cells in zip(figure.subplots(2, 3, sharey="row"), (above, below), strict=True):
        for ax, (title, name, solver, sample, k, m) in zip(row, cells, strict=True):
            result = assess(z_of(config, name, rows_of(predictions, name, solver, sample, k, m)))
            plots.pit_histogram(result.t, bins=_BINS if sample == MORE else _BINS // 2, ax=ax)
            if sample == HELD_OUT:
                title = title.replace("\n", f", {config.held_out} points\n")
            ax.set_title(f"{title}\nstd of z {result.z_std:.2f}, KS p-value {result.p_value:.2g}", fontsize=9.5)
            ax.set_xlabel("t = Φ(z), std of an observation")
            ax.label_outer(remove_inner_ticks=False)
            ax.get_legend().remove()
        row[0].set_ylim(0, max(ax.dataLim.y1 for ax in row) * 1.05)
    handles, labels = ax.get_legend_handles_labels()
    named = ["held-out points" if "values" in label else label for label in labels]
    figure.legend(handles, named, loc="outside lower center", ncols=3, frameon=False)
    return figure, (
        "t = Φ((mean − truth) / std) at held-out points, the noise included, with the band that all bins of a uniform "
        "sample stay in with probability 95%. A hump is a conservative posterior, a U an overconfident one, a hump "
        "with high ends one that is too wide at most points and too narrow at some."
    )


def z_figure(config: FullConfig, predictions: pd.DataFrame) -> Captioned:
    """Where on the globe the held-out points are missed."""
    from matplotlib.figure import Figure

    k = config.neighbours[-1]
    rows = rows_of(predictions, FITTED, NearestNeighbours.name, MORE, k)
    z = np.abs(z_of(config, FITTED, rows))
    figure = Figure(figsize=(10, 5), layout="constrained")
    ax = figure.subplots()
    order = np.argsort(z)
    dots = ax.scatter(
        rows["longitude"].to_numpy()[order],
        rows["latitude"].to_numpy()[order],
        c=z[order],
        s=np.where(z[order] > _FAR, 26, 12),
        cmap="cividis",
        vmin=0,
        vmax=_FAR,
        linewidths=0,
    )
    globe(ax, [])
    for line in wrapped(coastlines()):
        ax.plot(*line.T, color="#888888", linewidth=0.5, zorder=0)
    ax.set(xlabel="longitude (°E)", ylabel="latitude (°N)")
    figure.colorbar(dots, ax=ax, label="|mean − truth| / std of an observation", extend="max", shrink=0.9, pad=0.01)
    return figure, (
        f"The {config.more:,} held-out points, {k} nearest neighbours, {PRIOR_WORDS[FITTED]}. Large dots: more than "
        f"{_FAR:g} std from the truth, {int((z > _FAR).sum())} points; {len(z) * 0.0027:.1f} are expected of a "
        "calibrated posterior."
    )


def convergence_figure(config: FullConfig, table: pd.DataFrame) -> Captioned:
    """Certified variance and computational share after each recorded iteration."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 3.9 * len(config.iterated)), layout="constrained")
    axes = figure.subplots(len(config.iterated), 2, squeeze=False, sharex=True)
    for (left, right), name in zip(axes, config.iterated, strict=True):
        for solver in ITERATED:
            rows = rows_of(table, name, solver, HELD_OUT).sort_values("m")
            left.plot(rows["m"], rows["mean_variance"], **LOOKS[solver].line())
            right.plot(rows["m"], rows["share_upper"], **LOOKS[solver].line())
            right.fill_between(
                rows["m"], rows["share_lower"], rows["share_upper"], color=LOOKS[solver].color, alpha=0.2
            )
        for k, shade in zip((config.neighbours[0], config.neighbours[-1]), ("#999999", "#000000"), strict=True):
            bounded = rows_of(table, name, BOUNDED, HELD_OUT, k).iloc[0]
            line = {"color": shade, "linestyle": (0, (1, 1)), "label": f"{k} nearest neighbours"}
            left.axhline(bounded["mean_variance"], **line)
            right.axhline(bounded["share_upper"], **line)
        left.set(ylabel="mean variance of the latent f (K²)", title=PRIOR_WORDS[name])
        right.set(ylabel="computational share of the variance", title=PRIOR_WORDS[name])
        for ax in (left, right):
            ax.set_yscale("log")
            ax.set(xlabel="iterations m", xticks=(0, *config.sizes.recorded))
            ax.grid(alpha=0.25, which="both", linewidth=0.5)
        plain_ticks(left.yaxis)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure, (
        f"{config.held_out} held-out points, {config.d:,} training points. Left: certified variance; it is the exact "
        "one plus the computational one, so lower is closer to exact. Right: the share of the variance that more "
        "computation would remove, between its guaranteed bounds (line: upper bound)."
    )

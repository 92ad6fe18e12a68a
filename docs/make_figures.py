"""Figures into ``docs/figures``, and the table of the first map, ``docs/temperatures.csv``.

``CAGP_DATA=... python docs/make_figures.py [FIGURE ...]`` makes all, or those that are named, in the root of a clone.
The figures of the front page are made here; those of other pages are drawn from what the program of the page found.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from matplotlib.figure import Figure

import cagp
from cagp.reports.maps import coastlines

FIGURES = Path(__file__).parent / "figures"
BLUE, ORANGE, BLACK = "#0072B2", "#E69F00", "#000000"  # Okabe and Ito's


def budget() -> None:
    """The paper's synthetic problem along a line: error bars after 1, 5 and 40 iterations, and the exact ones."""
    rng = np.random.default_rng(0)
    X = rng.random((400, 2))
    x = np.linspace(0, 1, 200)
    line = np.column_stack([x, np.full_like(x, 0.5)])
    prior = cagp.Prior(cagp.Matern32(lengthscale=0.2), noise_variance=0.01)
    covariance = prior.kernel(np.concatenate([X, line])) + 1e-9 * np.eye(600)
    f = np.linalg.cholesky(covariance) @ rng.standard_normal(600)
    y = f[:400] + 0.1 * rng.standard_normal(400)

    exact = prior.condition(X, y, cagp.Cholesky()).predict(line)
    low, high = exact.interval(0.95)
    figure = Figure(figsize=(9.6, 3.4), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for ax, m in zip(axes, (1, 5, 40), strict=True):
        post = prior.condition(X, y, cagp.GaussSeidel(iterations=m)).predict(line)
        ax.fill_between(x, *post.interval(0.95), color=BLUE, alpha=0.25, linewidth=0, label="95% interval")
        ax.plot(x, post.mean, color=BLUE, linewidth=1.6, label="mean")
        ax.plot(x, low, color=ORANGE, linewidth=1.1, linestyle="--", label="exact 95% interval")
        ax.plot(x, high, color=ORANGE, linewidth=1.1, linestyle="--")
        ax.plot(x, f[400:], color=BLACK, linewidth=1.1, linestyle=":", label="truth")
        share = 1 - exact.variance.mean() / post.variance.mean()
        iterations = "1 iteration" if m == 1 else f"{m} iterations"
        ax.set_title(f"{iterations}\n{share:.0%} of the variance is computational", fontsize=10)
        ax.set(xlabel="position", xlim=(0, 1))
    axes[0].set_ylabel("f")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(FIGURES / "budget.png", dpi=110)


def temperature() -> None:
    """The ERA5 temperature field from 2,000 of its points: mean and standard deviation."""
    stations = cagp.datasets.era5_grid(2, 2).held_out(2000, seed=0)
    weights = np.cos(np.deg2rad(stations.X[:, 0]))  # as many to the area at the poles as at the equator
    kept = np.random.default_rng(0).random(2000) < weights
    X, y = stations.X[kept], stations.y[kept]
    start = cagp.Prior(cagp.Geographic(cagp.Matern32(0.3, variance=150.0)), mean=cagp.Constant(), noise_variance=2.0)
    prior = start.fit(X, y, subset=600, n_restarts=0)
    latitude, longitude = np.arange(-89.5, 90.0), np.arange(-179.5, 180.0)
    globe = np.stack(np.meshgrid(latitude, longitude, indexing="ij"), axis=-1).reshape(-1, 2)
    post = prior.condition(X, y - 273.15, cagp.NearestNeighbours(100)).predict(globe)

    figure = Figure(figsize=(9.6, 2.8), layout="constrained")
    fields = (post.mean, "RdYlBu_r", "temperature, °C"), (post.std, "cividis", "standard deviation, °C")
    for ax, (field, colours, label) in zip(figure.subplots(1, 2, sharey=True), fields, strict=True):
        shape = len(latitude), len(longitude)
        mesh = ax.pcolormesh(longitude, latitude, field.reshape(shape), cmap=colours, shading="nearest")
        for line in coastlines():
            ax.plot(*line.T, color="black" if colours != "cividis" else "white", linewidth=0.6)
        ax.plot((X[:, 1] + 180) % 360 - 180, X[:, 0], ".", color="0.25", markersize=1.5, alpha=0.6)
        ax.set(xlabel="longitude, °E", xlim=(-180, 180), ylim=(-90, 90), aspect="equal")
        ax.set(xticks=range(-180, 181, 60), yticks=range(-60, 61, 30))
        ax.set_title(label, fontsize=10)
        figure.colorbar(mesh, ax=ax, shrink=0.85, pad=0.02)
    figure.axes[0].set_ylabel("latitude, °N")
    figure.savefig(FIGURES / "era5.png", dpi=82)
    print(f"{len(y)} points, {prior.kernel!r}, noise std {prior.noise_variance**0.5:.2f} K")


def table() -> None:
    """500 places in Europe with the temperature of the same field, drawn evenly by area, in random order."""
    field = cagp.datasets.era5()
    latitude, longitude = field.X.T
    east = np.where(longitude > 180, longitude - 360, longitude)
    inside = np.flatnonzero((latitude >= 36) & (latitude <= 60) & (east >= -10) & (east <= 30))
    area = np.cos(np.deg2rad(latitude[inside]))
    drawn = np.random.default_rng(0).choice(inside, 500, replace=False, p=area / area.sum())
    rows = np.column_stack([east[drawn], latitude[drawn], field.y[drawn] - 273.15])
    path = FIGURES.parent / "temperatures.csv"
    np.savetxt(path, rows, fmt="%.2f", delimiter=",", header="lon,lat,temperature", comments="")


def found_by(page: str) -> SimpleNamespace:
    """What the Python of a page leaves behind."""
    names: dict[str, object] = {"__name__": page}
    text = (FIGURES.parent / page).read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, page, "exec"), names)
    return SimpleNamespace(**names)


def averages() -> None:
    """The errors of the means of 36 boxes, with three kinds of error bars."""
    found = found_by("averages.md")
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    kinds = {
        "the error bar of the mean": found.boxes.std,
        "error bars averaged": found.as_one,
        "as if independent": found.as_many,
    }
    for axis, (title, std) in zip(axes, kinds.items(), strict=True):
        outside = np.abs(found.error) > 1.96 * std
        axis.errorbar(np.arange(36), found.error, 1.96 * std, fmt="none", ecolor="0.6", elinewidth=1.5)
        axis.scatter(np.arange(36), found.error, s=14, c=np.where(outside, "tab:red", "tab:blue"), zorder=3)
        axis.axhline(0.0, color="k", linewidth=0.8)
        axis.set(title=title, xlabel="box, from south to north")
    axes[0].set_ylabel("error of the mean (K), with its 95% interval")
    figure.savefig(FIGURES / "averages.png", dpi=130)


def slopes() -> None:
    """The mean with arrows of its slopes, and the probability that it is warmer further north."""
    page = found_by("slopes.md")
    north, east = np.arange(36.0, 60.5, 1.0), np.arange(-9.0, 30.0, 1.0)
    grid = np.array([(a, b) for a in north for b in east])
    found, shape = page.model.gradient(grid), (len(north), len(east))
    colder = found.exceedance(0.0)[:, 0].reshape(shape)
    mean = page.model.predict_mean(grid).reshape(shape)

    figure = Figure(figsize=(11, 4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    extent = (-9.5, 29.5, 35.5, 60.5)
    image = axes[0].imshow(mean, origin="lower", extent=extent, aspect="auto", cmap="coolwarm")
    some = (slice(None, None, 3), slice(None, None, 3))
    a, b = (each.reshape(shape)[some] for each in grid.T)
    up, right = (found.mean[:, j].reshape(shape)[some] for j in (0, 1))
    axes[0].quiver(b, a, right, up, angles="xy", width=0.003)
    figure.colorbar(image, ax=axes[0], label="temperature (°C)")
    axes[0].set(title="mean, and its slopes", xlabel="longitude", ylabel="latitude")
    image = axes[1].imshow(colder, origin="lower", extent=extent, aspect="auto", vmin=0, vmax=1, cmap="PuOr")
    axes[1].plot(page.X[:, 1], page.X[:, 0], "k.", markersize=2)
    figure.colorbar(image, ax=axes[1], label="probability")
    axes[1].set(title="is it warmer further north?", xlabel="longitude", xlim=extent[:2], ylim=extent[2:])
    figure.savefig(FIGURES / "slopes.png", dpi=130)


def design() -> None:
    """The standard deviation now and with twelve new stations, and how the average falls."""
    found = found_by("design.md")
    stds = [
        np.sqrt(each).reshape(24, 39) for each in (found.model.predict(found.region).variance, found.design.variance)
    ]
    figure = Figure(figsize=(13, 3.9), layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=(1, 1, 0.85))
    for axis, std, title in zip(axes[:2], stds, ("now", "with the 12 that were chosen"), strict=True):
        extent = (-9.5, 29.5, 35.5, 59.5)
        image = axis.imshow(std, origin="lower", extent=extent, vmin=0, vmax=stds[0].max(), aspect="auto")
        axis.plot(found.X[:, 1], found.X[:, 0], "w.", markersize=4)
        axis.set(title=title, xlabel="longitude", xlim=(-9.5, 29.5), ylim=(35.5, 59.5))
    axes[0].set_ylabel("latitude")
    axes[0].plot(found.candidates[:, 1], found.candidates[:, 0], "k.", markersize=1)
    for rank, (a, b) in enumerate(found.candidates[found.design.chosen], start=1):
        axes[1].text(b, a, rank, color="tab:red", ha="center", va="center", fontweight="bold")
    figure.colorbar(image, ax=axes[:2], label="standard deviation (K)")
    average = np.sqrt(found.design.average_variance)
    axes[2].plot(range(13), average, "o-", color="tab:red", markersize=4, label="chosen")
    axes[2].axhline(np.sqrt(found.drawn[:, 0].mean()), color="0.5", label="12 at random")
    axes[2].set(title="the region on average", xlabel="new stations", ylabel="root of the average variance (K)")
    axes[2].legend()
    figure.savefig(FIGURES / "design.png", dpi=130)


def simulation() -> None:
    """The truth, the posterior mean and two fields over Europe."""
    found = found_by("simulation.md")
    X, truth, drawn = found.X_all[found.europe], found.y_all[found.europe], found.drawn
    north, east = np.unique(X[:, 0]), np.unique(X[:, 1])
    panels = {
        "truth": truth,
        "posterior mean": drawn.prediction.mean,
        "one field": drawn.fields[0],
        "another field": drawn.fields[1],
    }
    figure = Figure(figsize=(12, 3.2), layout="constrained")
    axes = figure.subplots(1, 4, sharey=True)
    limits = {"cmap": "RdYlBu_r", "vmin": -25, "vmax": 25, "rasterized": True}
    for axis, (title, values) in zip(axes, panels.items(), strict=True):
        image = axis.pcolormesh(east, north[::-1], values.reshape(len(north), -1) - 273.15, **limits)
        axis.set(title=title, xlabel="longitude, degrees east")
    axes[0].set_ylabel("latitude, degrees north")
    figure.colorbar(image, ax=axes, label="temperature, °C")
    figure.savefig(FIGURES / "simulation-fields.png", dpi=120)


if __name__ == "__main__":
    FIGURES.mkdir(exist_ok=True)
    all_of_them = {each.__name__: each for each in (budget, temperature, table, averages, slopes, design, simulation)}
    for name in sys.argv[1:] or all_of_them:
        all_of_them[name]()

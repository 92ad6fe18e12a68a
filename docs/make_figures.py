"""The two figures of the front page, into ``docs/figures``, and the table of the first map, ``docs/temperatures.csv``.

``CAGP_DATA=... python docs/make_figures.py``
"""

from __future__ import annotations

from pathlib import Path

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


if __name__ == "__main__":
    FIGURES.mkdir(exist_ok=True)
    budget()
    temperature()
    table()

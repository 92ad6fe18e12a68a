"""Averages: how long a mean over many cells takes, and how well means of left-out blocks of real data hold.

    python benchmarks/averages.py [--cells 10000] [--data 100000] [--device cuda] [--threads 2]
    CAGP_DATA=... python benchmarks/averages.py --blocks 60 [--seed 1]

Seconds of processors stand beside those of the clock, which say little on a busy machine.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from scipy.stats import norm

import cagp

RADIUS = 1000 / 6371
"""Of a left-out block, in Earth radii."""


def square(side: float, cells: int) -> np.ndarray:
    """The cells of a square around the middle of the unit square, (cells, 2)."""
    axis = np.linspace(0.5 - side / 2, 0.5 + side / 2, round(cells**0.5))
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def times(data: int, cells: int, device: str | None) -> None:
    """The mean over a square in the middle of scattered data, and over all of them."""
    rng = np.random.default_rng(0)
    X = rng.random((data, 2))
    y = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.1 * rng.normal(size=data)
    prior = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01)
    solvers: tuple[cagp.Solver, ...] = (cagp.NearestNeighbours(100), cagp.Auto())
    for side in (0.3, 1.0):
        for solver in solvers:
            model = prior.condition(X, y, solver, device=device)
            for what in ("first", "again"):
                wall, cpu = time.perf_counter(), time.process_time()
                found = model.average(square(side, cells), progress=False)
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                used = np.count_nonzero(found.weights)
                print(
                    f"{cells:,} cells on {side:.0%} of the side, {used:,} of {data:,} data, {solver!r}, {what}: "
                    f"{wall:.1f} s ({cpu:.1f} s of processors), {found.mean[0]:.5f} ± {found.std[0]:.5f}",
                    flush=True,
                )


def unit_vectors(X: np.ndarray) -> np.ndarray:
    """Places (n, 2) in degrees as points of the unit sphere, (n, 3)."""
    a, b = np.deg2rad(X).T
    return np.column_stack([np.cos(a) * np.cos(b), np.cos(a) * np.sin(b), np.sin(a)])


def blocks(number: int, seed: int) -> None:
    """Means of left-out blocks of ERA5 by four kinds of error bars; everything is learned without the block.

    Rare are all events "warmer than", for thresholds half a kelvin apart, that were promised with 1 to 10%.
    """
    train = cagp.datasets.era5_grid(36, 72)
    prior = cagp.Prior(cagp.Geographic(cagp.Matern32(0.24, 125.0)), mean=cagp.Constant(), noise_variance=3.0)
    model = prior.condition(train.X, train.y, cagp.NearestNeighbours(60))
    places = np.random.default_rng(seed).normal(size=(number, 3))
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    names = ("average", "recalibrated average", "error bars of points, averaged", "as if independent")
    found = []
    for place in places:
        inside = np.linalg.norm(unit_vectors(train.X) - place, axis=1) < RADIUS
        others, X = cagp.Model([model.components[0].rebuilt(np.flatnonzero(~inside))]), train.X[inside]
        area = np.cos(np.deg2rad(X[:, 0]))
        area /= area.sum()
        mean, points = others.average(X, area).observed(), others.predict(X).observed()
        scaled = others.recalibrated(like=X, progress=False).average(X, area).observed()
        found.append(
            (
                train.y[inside] @ area,
                mean.mean[0],
                mean.std[0],
                scaled.std[0],
                area @ points.std,
                np.sqrt(area**2 @ points.variance),
            )
        )
    truth, predicted, *stds = np.array(found).T
    thresholds = np.arange(225.0, 315.0, 0.5)[:, None]
    for name, std in zip(names, stds, strict=True):
        z = (truth - predicted) / std
        promised = norm.sf(thresholds, predicted, std)
        rare = (promised > 0.01) & (promised < 0.1)
        held = [np.mean(np.abs(z) < score) for score in (1.96, 0.6745)]
        print(
            f"{name:31s} mean std {std.mean():.2f} K, rms of z {np.sqrt(np.mean(z**2)):.2f}, "
            f"95% hold {held[0]:.0%}, 50% hold {held[1]:.0%}, rare: promised {promised[rare].mean():.1%}, "
            f"happened {(truth > thresholds)[rare].mean():.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=10_000)
    parser.add_argument("--data", type=int, default=100_000)
    parser.add_argument("--device")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--blocks", type=int, help="judge so many left-out blocks instead")
    parser.add_argument("--seed", type=int, default=0, help="of the places of blocks")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.blocks:
        blocks(options.blocks, options.seed)
    else:
        times(options.data, options.cells, options.device)


if __name__ == "__main__":
    main()

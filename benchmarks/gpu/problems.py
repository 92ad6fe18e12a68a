"""The ERA5 grid of 180 × 360 training points that the GPU benchmarks share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import cagp

Problem = tuple[cagp.Prior, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def era5_prior() -> cagp.Prior:
    """Maximum-likelihood hyperparameters of the 72 × 144 grid."""
    kernel = cagp.Geographic(cagp.Matern32(0.174, 11.1**2))
    return cagp.Prior(kernel, mean=cagp.Constant(), noise_variance=1.17**2)


def era5_grid(folder: Path) -> Problem:
    """Prior, training points and values (64,800), and 100 held-out points with their values."""
    table = np.load(folder / "era5.npz")
    X, y = table["X"].astype(np.float64), table["y"]
    latitude, longitude = np.round(X[:, 0] * 4).astype(int), np.round(X[:, 1] * 4).astype(int)
    field = np.full((721, 1440), np.nan)
    field[360 - latitude, longitude] = y
    field[0], field[720] = np.nanmax(field[0]), np.nanmax(field[720])  # each pole is one point
    rows = np.round(np.linspace(5, 715, 180)).astype(int)
    columns = np.round(np.arange(360) * 1440 / 360).astype(int)
    train = np.zeros((721, 1440), bool)
    train[np.ix_(rows, columns)] = True
    grid = np.stack(np.meshgrid(90 - np.arange(721) / 4, np.arange(1440) / 4, indexing="ij"), axis=-1)
    others = np.flatnonzero(~train[5:716].ravel())
    chosen = np.random.default_rng(0).choice(others, 100, replace=False)
    return era5_prior(), grid[train], field[train], grid[5:716].reshape(-1, 2)[chosen], field[5:716].ravel()[chosen]

"""Nearest neighbours: test points that share those of their cell against test points that each have their own.

Whole predictions from the same model settings, in turn: search, kernel matrices, factorisation, mean and variance.
The variance with shared neighbours is smaller on average; the tables say how much.

    python benchmarks/neighbours.py [--quick]
"""

from __future__ import annotations

import functools

import numpy as np
from record import Table, options, table, write
from timing import medians

import cagp


def cells(rows: int, columns: int) -> np.ndarray:
    """The cells of a grid in the unit square, (rows · columns, 2)."""
    axes = np.meshgrid(np.linspace(0, 1, columns), np.linspace(0, 1, rows))
    return np.stack(axes, axis=-1).reshape(-1, 2)


def clouds(points: np.ndarray, share: float) -> np.ndarray:
    """Which points (n, 2) are hidden, (n,): discs of all sizes until they hide that share of them."""
    rng, hidden = np.random.default_rng(1), np.zeros(len(points), dtype=bool)
    while hidden.mean() < share:
        centre, radius = rng.random(2), 0.01 + 0.08 * rng.random() ** 2
        hidden |= np.square(points - centre).sum(axis=1) < radius**2
    return hidden


def row(name: str, X: np.ndarray, X_test: np.ndarray, k: int, rounds: int) -> list[str]:
    prior = cagp.Prior(cagp.Matern32(0.05), noise_variance=0.01)
    solvers = [cagp.NearestNeighbours(k, shared=together) for together in (True, False)]
    shared, own = (prior.condition(X, X[:, 0], solver, storage="tiles") for solver in solvers)
    for model in (shared, own):
        model.predict(X_test[:1], progress=False)  # the search tree
    models = {"own": own, "shared": shared}
    calls = {each: functools.partial(model.predict, X_test, progress=False) for each, model in models.items()}
    seconds = medians(calls, rounds, warm_up=False)
    less = 1 - shared.predict(X_test[:4000]).variance.mean() / own.predict(X_test[:4000]).variance.mean()
    ratio = seconds["own"] / seconds["shared"]
    sizes = [f"{len(X):,}", f"{len(X_test):,}", f"{k}"]
    return [name, *sizes, f"{seconds['own']:.2f}", f"{seconds['shared']:.2f}", f"{ratio:.1f}", f"{100 * less:.2g}%"]


def tables(scale: int, rounds: int, many: int) -> list[Table]:
    rng = np.random.default_rng(0)
    grid = cells(300 // scale, 500 // scale)
    hidden = clouds(grid, 0.28)
    scattered = rng.random((100_000 // scale**2, 2))
    side = many // scale
    rows = [
        row("gaps of a grid", grid[~hidden], grid[hidden], 200 // scale, rounds),
        row("a grid among scattered points", scattered, cells(200 // scale, 210 // scale), 200 // scale, rounds),
        row("a fine grid among scattered points", scattered, cells(side, side), 50, 1),
        row("scattered points", scattered, rng.random((20_000 // scale**2, 2)), 50, 3 * rounds),
    ]
    return [
        table(
            "NearestNeighbours(k): each test point with its own neighbours, or with those of its cell",
            ["test points", "d", "T", "k", "own, s", "shared, s", "own / shared", "mean variance less by"],
            rows,
            f"Whole predictions. Medians of {rounds} rounds in which the two take turns, one for the fine grid.",
        )
    ]


def main() -> None:
    arguments = options(__doc__).parse_args()
    found = tables(20, 1, 400) if arguments.quick else tables(1, 3, 1000)
    write(arguments.out, "neighbours", "Shared neighbourhoods", found, arguments.quick)


if __name__ == "__main__":
    main()

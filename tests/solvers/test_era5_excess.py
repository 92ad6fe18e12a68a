"""On a grid the order of Gauss-Seidel changes everything: excess variances on ERA5 with fixed hyperparameters.

Excess = mean(variance − exact variance) / mean(exact variance) at held-out points.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve, solve_triangular

import cagp
from cagp.datasets import Dataset, era5_grid
from cagp.kernels.geographic import unit_sphere
from cagp.support.validation import as_float64
from problems import Problem

AMPLITUDE, LENGTHSCALE, NOISE = 11.1, 0.174, 1.17
ITERATIONS = (1, 5, 10)


def prior() -> cagp.Prior:
    kernel = cagp.Geographic(cagp.Matern32(LENGTHSCALE, AMPLITUDE**2))
    return cagp.Prior(kernel, noise_variance=NOISE**2)


def mean_variances(grid: Dataset, test: Dataset, order: str) -> dict[int, float]:
    """By iteration, from the library."""
    solver = cagp.GaussSeidel(ITERATIONS[-1], order=order)
    iterates = prior().condition(grid.X, grid.y, solver, storage="dense").iterate(test.X)
    return {m: float(p.variance.mean()) for m, p in enumerate(iterates, start=1) if m in ITERATIONS}


def test_small_grid_against_dense_algebra(data_folder: Path) -> None:
    """36 × 72 points, all of it once more in NumPy and SciPy, for the natural order."""
    grid = era5_grid(36, 72)
    test = grid.held_out(25, seed=0)
    sphere = [unit_sphere(as_float64(X, "X")).numpy() for X in (grid.X, test.X)]
    problem = Problem(sphere[0], grid.y, sphere[1], NOISE**2, LENGTHSCALE, AMPLITUDE**2)
    G, V = problem.G, problem.V
    exact = AMPLITUDE**2 - float(np.mean(np.sum(V.T * cho_solve(cho_factor(G), V.T), axis=0)))
    found = {order: mean_variances(grid, test, order) for order in ("natural", "random")}
    W = np.zeros_like(V.T)
    for m in range(1, ITERATIONS[-1] + 1):
        W = solve_triangular(np.triu(G), V.T - np.tril(G, -1) @ W)
        if m in ITERATIONS:
            own = AMPLITUDE**2 - 2 * np.sum(V.T * W, axis=0) + np.sum(W * (G @ W), axis=0)
            assert found["natural"][m] == pytest.approx(own.mean(), rel=1e-9)
    excess = {order: [found[order][m] / exact - 1 for m in ITERATIONS] for order in found}
    assert excess["natural"] == pytest.approx([29.28, 9.81, 3.11], rel=0.01)
    assert excess["random"] == pytest.approx([3.91, 1.24, 0.724], rel=0.01)


@pytest.mark.slow
def test_ten_thousand_points(data_folder: Path) -> None:
    """72 × 144 = 10,368 points; the exact variance by Cholesky."""
    grid = era5_grid(72, 144)
    test = grid.held_out(25, seed=0)
    exact = float(prior().condition(grid.X, grid.y, cagp.Cholesky()).predict(test.X).variance.mean())
    excess = {
        order: [variance / exact - 1 for variance in mean_variances(grid, test, order).values()]
        for order in ("natural", "random")
    }
    natural, random = excess["natural"], excess["random"]
    assert natural == sorted(natural, reverse=True)
    assert random == sorted(random, reverse=True)
    assert natural[1] > 10 * random[1]
    assert natural == pytest.approx([131.7, 65.9, 25.6], rel=0.02)
    assert random == pytest.approx([8.60, 3.61, 2.52], rel=0.02)


def test_other_random_orders_are_as_good(data_folder: Path) -> None:
    """The advantage is that of any random order, not of one lucky seed."""
    grid = era5_grid(36, 72)
    test = grid.held_out(25, seed=0)
    after_five = []
    for seed in range(5):
        solver = cagp.GaussSeidel(5, order="random", seed=seed)
        after_five.append(float(prior().condition(grid.X, grid.y, solver).predict(test.X).variance.mean()))
    assert max(after_five) < 1.25 * min(after_five)
    assert mean_variances(grid, test, "natural")[5] > 3 * max(after_five)

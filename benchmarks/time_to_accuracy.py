"""Time until the error bars are within 1% of the exact ones: ERA5, d = 20,000, T = 100, against a Cholesky solve.

A 100 × 200 grid of the temperature field and 100 held-out points, Matérn 3/2 in chordal distance with the parameters of
the ERA5 studies. Every time is that of all the work, preparation included. Excess is
mean(variance − exact variance) / mean(exact variance), the exact one from the Cholesky solve.

    CAGP_DATA=... python benchmarks/time_to_accuracy.py [--quick]
"""

from __future__ import annotations

import statistics
import time

import numpy as np
from record import options, table, write

import cagp
from cagp_studies.era5_hyperparameters import KNOWN


def problem(quick: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training points (latitude, longitude), temperatures, test points; random ones for a quick run."""
    if quick:
        rng = np.random.default_rng(0)
        latitude, longitude = np.degrees(np.arcsin(rng.uniform(-1, 1, 420))), rng.uniform(0, 360, 420)
        X = np.column_stack([latitude, longitude])
        return X[20:], np.cos(np.radians(X[20:, 0])), X[:20]
    grid = cagp.datasets.era5_grid(100, 200)
    return grid.X, grid.y, grid.held_out(100).X


def main() -> None:
    arguments = options(__doc__).parse_args()
    X, y, X_test = problem(arguments.quick)
    solvers: dict[cagp.Solver, int] = {
        cagp.Cholesky(): 1,
        cagp.NearestNeighbours(50): 5,
        cagp.NearestNeighbours(100): 5,
        cagp.NearestNeighbours(200): 5,
        cagp.CalibratedCG(5, cagp.Nystrom(1000), start=cagp.NearestNeighbours(50)): 1,
        cagp.CalibratedCG(12, cagp.Nystrom(1000)): 1,
    }
    prior = KNOWN.prior()
    prior.condition(X[:300], y[:300], cagp.Cholesky()).predict(X_test)  # load the libraries
    seconds, variances = {}, {}
    for solver, rounds in solvers.items():
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            variances[solver] = prior.condition(X, y, solver).predict(X_test, progress=False).variance
            times.append(time.perf_counter() - start)
        seconds[solver] = statistics.median(times)
    exact, cholesky = variances[cagp.Cholesky()], seconds[cagp.Cholesky()]
    rows = [
        [
            f"`{solver!r}`",
            f"{100 * (variances[solver] - exact).mean() / exact.mean():.2f}%",
            f"{value:.3g}",
            f"{cholesky / value:.0f}",
        ]
        for solver, value in seconds.items()
    ]
    tables = [
        table(
            f"Excess variance and time, d = {len(X):,}, T = {len(X_test)}",
            ["solver", "excess", "seconds", "times faster than Cholesky"],
            rows,
            "From the data to mean and variance, search trees and preconditioners included. Medians of five for "
            "neighbours, one run of the others.",
        )
    ]
    write(arguments.out, "time_to_accuracy", "Time to error bars within 1%", tables, arguments.quick)


if __name__ == "__main__":
    main()

"""What simulation-based calibration costs, in units of one solve: python benchmarks/sbc.py

The synthetic problem of the paper: 400 training points, a 21 × 21 grid, Matérn 3/2, 1,000 simulations. The weights of
Gauss-Seidel do not depend on y, so all simulations together should cost little more than one solve and the sampling.
Everything is measured in turn in one run, after a warm-up; the numbers are medians.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

import cagp
from cagp.calibration import simulation_based_calibration
from cagp.calibration.draws import draw

REPETITIONS = 15
SIMULATIONS = 1000


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((400, 2)), rng.standard_normal(400)
    axis = np.linspace(0, 1, 21)
    X_test = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    prior = cagp.Prior(cagp.Matern32(lengthscale=0.2), noise_variance=0.01)
    solver = cagp.GaussSeidel(iterations=5)
    train, test, w = (torch.from_numpy(array) for array in (X, X_test, rng.standard_normal(len(X_test))))
    work: dict[str, Callable[[], object]] = {
        "one solve (condition, predict)": lambda: prior.condition(X, y, solver).predict(X_test),
        "sampling": lambda: draw(prior, train, test, w, SIMULATIONS, np.random.default_rng(0), 2**32),
        "calibration, all of it": lambda: simulation_based_calibration(prior, X, X_test, solver, SIMULATIONS),
    }
    times: dict[str, list[float]] = {name: [] for name in work}
    for repetition in range(REPETITIONS + 1):
        for name, run in work.items():
            duration = seconds(run)
            if repetition:  # the first is the warm-up
                times[name].append(duration)
    solve, sampling, calibration = (median(times[name]) for name in work)
    print(f"{SIMULATIONS} simulations, {solver!r}, d = {len(X)}, T = {len(X_test)}, {torch.get_num_threads()} threads")
    for name, values in times.items():
        print(f"  {name:<32}{1000 * median(values):8.1f} ms  ({1000 * min(values):.1f} to {1000 * max(values):.1f})")
    print(f"  (calibration − sampling) / solve{(calibration - sampling) / solve:8.2f}     (at most 3)")
    print(f"  calibration / solve             {calibration / solve:8.2f}")


if __name__ == "__main__":
    main()

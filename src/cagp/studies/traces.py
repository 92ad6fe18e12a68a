"""Error and wall time of a solver after each of its iterations."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..prior import Prior
from ..solvers import Solver
from .problem import Problem


def scores(mean: np.ndarray, variance: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """RMSE of the mean, and NLL: the mean negative log density of the latent truth under the marginal posteriors."""
    squared = np.square(mean - truth)
    density = 0.5 * (np.log(2 * math.pi * variance) + squared / variance)
    return {"rmse": float(np.sqrt(squared.mean())), "nll": float(density.mean())}


def trace(prior: Prior, problem: Problem, solver: Solver, iterations: int) -> Iterator[dict[str, Any]]:
    """One row per iteration 1…``iterations``: solver, m, rmse, nll, and seconds since the solver was started.

    The clock stands still while errors are computed. A solver that has nothing left to do before ``iterations``
    is carried forward: its last posterior is what it gives for every later m.
    """
    seconds, m = 0.0, 0
    row: dict[str, Any] = {"solver": solver.name}
    start = time.perf_counter()
    for posterior in prior.condition(problem.X, problem.y, solver).iterate(problem.X_test):
        mean, variance = posterior.mean, posterior.variance
        seconds += time.perf_counter() - start
        m += 1
        row = {**row, "m": m, **scores(mean, variance, problem.truth), "seconds": seconds}
        yield row
        start = time.perf_counter()
    for later in range(m + 1, iterations + 1):
        yield {**row, "m": later}

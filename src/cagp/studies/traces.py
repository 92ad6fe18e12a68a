"""Error and wall time of a solver after each of its iterations."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..calibration import evaluate
from ..posterior import Posterior
from ..prior import Prior
from ..solvers import Solver
from .problem import Problem


def errors(posterior: Posterior, truth: np.ndarray, of: str = "latent") -> dict[str, float]:
    """RMSE of the mean, and NLL: the mean negative log density of the ``truth`` (T,) under the marginals.

    ``of`` says what the truth is: "latent" for values of f, "observed" for noisy observations.
    """
    scores = evaluate(posterior, truth, of)
    return {"rmse": scores.rmse, "nll": scores.nll}


def trace(
    prior: Prior, problem: Problem, solver: Solver, iterations: int, of: str = "latent"
) -> Iterator[dict[str, Any]]:
    """One row per iteration 1…``iterations``: solver, m, rmse, nll, and seconds since the solver was started.

    The clock stands still while errors are computed. A solver that has nothing left to do before ``iterations``
    is carried forward: its last posterior is what it gives for every later m.
    """
    seconds, m = 0.0, 0
    row: dict[str, Any] = {"solver": solver.name}
    start = time.perf_counter()
    for posterior in prior.condition(problem.X, problem.y, solver).iterate(problem.X_test):
        seconds += time.perf_counter() - start
        m += 1
        row = {**row, "m": m, **errors(posterior, problem.truth, of), "seconds": seconds}
        yield row
        start = time.perf_counter()
    for later in range(m + 1, iterations + 1):
        yield {**row, "m": later}

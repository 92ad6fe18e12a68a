"""The paper's synthetic problem (uniform points in the unit square, a regular grid to predict, f from the prior), and
the error and wall time of a solver on a problem after each of its iterations.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cagp import kernels
from cagp.calibration import evaluate
from cagp.prediction import Prediction
from cagp.prior import Prior
from cagp.solvers import Solver
from cagp.support.positive_definite import positive_definite_factor


@dataclass(frozen=True)
class Problem:
    """Training points X (d, 2) with observations y (d,), and test points X_test (T, 2) with the true f there (T,)."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    truth: np.ndarray


def make_prior(kernel: str, lengthscale: float, noise_std: float) -> Prior:
    """A zero-mean prior of variance 1 with the kernel of that name, for example "Matern32"."""
    return Prior(getattr(kernels, kernel)(lengthscale), noise_variance=noise_std**2)


def uniform_points(n: int, rng: np.random.Generator) -> np.ndarray:
    """``n`` independent uniform points in the unit square, shape (n, 2)."""
    return rng.random((n, 2))


def grid(side: int) -> np.ndarray:
    """The regular ``side`` × ``side`` grid on the unit square, shape (side², 2)."""
    axis = np.linspace(0, 1, side)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)


def generator(seed: int, run: int) -> np.random.Generator:
    """Random numbers for one run; runs, and studies with different seeds, are independent of each other."""
    return np.random.default_rng([seed, run])


def draw(prior: Prior, n: int, side: int, rng: np.random.Generator) -> Problem:
    """A problem with ``n`` training points, f drawn jointly at these and at the grid, exactly: no jitter.

    Two priors and equal random numbers give the same points and the same normals behind f and the noise.
    """
    X, X_test = uniform_points(n, rng), grid(side)
    normal = rng.standard_normal(n + len(X_test))
    noise = rng.standard_normal(n) * prior.noise(torch.from_numpy(X)).sqrt().numpy()
    covariance = torch.from_numpy(prior.kernel(np.concatenate([X, X_test])))
    f = positive_definite_factor(covariance, "the prior covariance of a draw", "fewer points").numpy() @ normal
    return Problem(X, f[:n] + noise, X_test, f[n:])


def errors(posterior: Prediction, truth: np.ndarray, of: str = "latent") -> dict[str, float]:
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

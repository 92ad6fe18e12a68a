"""The methods of the study of all ERA5 points at work on held-out points, and the tables of what they found."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.spatial import cKDTree

from cagp.calibration import assess, evaluate
from cagp.model import Model
from cagp.preconditioners import Nystrom
from cagp.predicting.bounds import ComputationalVariance
from cagp.prediction import Prediction
from cagp.prior import Prior
from cagp.solvers import CalibratedCG, GaussSeidel, NearestNeighbours, Solver

from .era5_full_setting import FullSizes
from .machine import default_device
from .problem import Problem
from .study import Tables

_NEAR = 9


@dataclass(frozen=True)
class Found:
    """A posterior after ``m`` iterations or from ``k`` neighbours (0 where there is no such number), and its cost.

    ``seconds`` are those of an iteration (the average since the last one that was recorded), or of the whole
    prediction; ``bounds_seconds`` those of the bounds on the computational variance of the last one;
    ``certificate_seconds`` those of a certificate; ``peak_memory`` is that of the GPU so far, in bytes.
    """

    posterior: Prediction
    k: int
    m: int
    seconds: float
    bounds: ComputationalVariance | None = None
    bounds_seconds: float = np.nan
    certificate_seconds: float = np.nan
    peak_memory: float = np.nan


def with_neighbours(prior: Prior, problem: Problem, k: int) -> Model:
    """Nearest neighbours on the processor, whatever else there is: the search tree makes them fast there."""
    return prior.condition(problem.X, problem.y, NearestNeighbours(k), storage="tiles", device="cpu")


def neighbours(prior: Prior, problem: Problem, many: Sequence[int]) -> Iterator[Found]:
    """The posteriors from ``many`` numbers of nearest neighbours."""
    for k in many:
        start = time.perf_counter()
        posterior = with_neighbours(prior, problem, k).predict(problem.X_test, progress=False)
        yield Found(posterior, k, 0, time.perf_counter() - start)


def bounded_neighbours(prior: Prior, problem: Problem, many: Sequence[int], sizes: FullSizes) -> Iterator[Found]:
    """The same where the iterative methods run, with bounds on the computational variance."""
    found = []
    for k in many:
        start = time.perf_counter()
        model = prior.condition(
            problem.X,
            problem.y,
            NearestNeighbours(k),
            storage="tiles",
            memory_budget=sizes.memory,
            device=default_device(),
        )
        posterior = model.predict(problem.X_test, progress=False)
        found.append(Found(posterior, k, 0, time.perf_counter() - start))
    yield from _bounded(found)


def solver_of(method: str, sizes: FullSizes, seed: int) -> Solver:
    """The solver behind the name of an iterative method."""
    m = sizes.recorded[-1]
    if method == GaussSeidel.name:
        return GaussSeidel(m, order="random", seed=seed, block_size=sizes.block, partition="spatial")
    return CalibratedCG(m, Nystrom(sizes.rank, seed=seed), start=NearestNeighbours(sizes.start))


def iterated(prior: Prior, problem: Problem, method: str, sizes: FullSizes, seed: int) -> Iterator[Found]:
    """The recorded iterations of a method that solves in single precision and is certified in double.

    CG counts from its start: m = 0 are the nearest neighbours it begins with, and the seconds there those of all
    preparations. With Gauss-Seidel the preparations are in the first iteration.
    """
    start = time.perf_counter()
    model = prior.condition(
        problem.X,
        problem.y,
        solver_of(method, sizes, seed),
        storage="tiles",
        memory_budget=sizes.memory,
        dtype="float64",
        solve_dtype="float32",
        device=default_device(),
    )
    certificate = _certificate_seconds(model, problem)
    start += certificate
    first = 0 if method == CalibratedCG.name else 1
    recorded = sorted({first, *sizes.recorded})
    before, found = first - 1, []
    posteriors = model.iterate(problem.X_test, only=[m + 1 - first for m in recorded])
    for m, posterior in zip(recorded, posteriors, strict=True):
        seconds = (time.perf_counter() - start - certificate) / (m - before)
        found.append(Found(posterior, 0, m, seconds, certificate_seconds=certificate))
        start, before = time.perf_counter(), m
    yield from _bounded(found)


def _bounded(found: Sequence[Found]) -> Iterator[Found]:
    """The same with bounds on the computational variance, at the price of three passes in double precision.

    They are computed for the last one. All share the exact variance, so what another one's variance is above the last
    one's is computational.
    """
    start = time.perf_counter()
    last = found[-1].posterior
    bounds = last.computational_variance
    spent = time.perf_counter() - start
    for each in found:
        above = np.square(each.posterior.std) - np.square(last.std)
        own = ComputationalVariance(bounds.lower + above, bounds.estimate + above, bounds.upper + above)
        yield replace(each, bounds=own, bounds_seconds=spent, peak_memory=_peak_gpu_memory())


def _peak_gpu_memory() -> float:
    """The most GPU memory that this process has held, in bytes; nan where there is none."""
    return float(torch.cuda.max_memory_allocated()) if default_device().type == "cuda" else np.nan


def _certificate_seconds(model: Model, problem: Problem) -> float:
    """What it takes to certify any weights: the covariances with the test points and a product with G, in double."""
    start = time.perf_counter()
    nothing = model.posterior(problem.X_test, np.zeros((len(problem.y), len(problem.X_test))))
    assert len(nothing.std)  # which waits for the device
    return time.perf_counter() - start


def tables_of(found: Iterable[Found], problem: Problem, identity: dict[str, Any], *, spread: bool) -> Tables:
    """A row of scores for each posterior, and its predictions; with ``spread``, how rough the data are around them."""
    rows, predictions = [], []
    rough = {"spread": _spread(problem)} if spread else {}
    for each in found:
        size = {"k": each.k, "m": each.m}
        scores = evaluate(each.posterior, problem.truth, "observed")
        judged = assess(scores.z)
        variance = np.square(each.posterior.std)
        rows.append(
            {
                **identity,
                **size,
                "rmse": scores.rmse,
                "nll": scores.nll,
                "mean_variance": variance.mean(),
                "z_std": judged.z_std,
                "p_value": judged.p_value,
                "verdict": judged.verdict,
                "coverage_50": scores.coverage(0.5),
                "coverage_95": scores.coverage(0.95),
                "share_lower": _share(each.bounds, "lower", variance),
                "share_upper": _share(each.bounds, "upper", variance),
                "seconds": each.seconds,
                "bounds_seconds": each.bounds_seconds,
                "certificate_seconds": each.certificate_seconds,
                "peak_memory": each.peak_memory,
            }
        )
        latitude, longitude = problem.X_test.T
        points = {"latitude": latitude, "longitude": longitude, "error": -scores.error, "std": each.posterior.std}
        predictions.append(pd.DataFrame(points | rough).assign(**identity, **size))
    return {"table": pd.DataFrame(rows), "predictions": pd.concat(predictions, ignore_index=True)}


def _share(bounds: ComputationalVariance | None, side: str, variance: np.ndarray) -> float:
    """The computational part of the mean variance. It is never more than the whole: the exact variance is positive."""
    if bounds is None:
        return float("nan")
    return float(np.minimum(getattr(bounds, side), variance).mean() / variance.mean())


def _spread(problem: Problem) -> np.ndarray:
    """The standard deviation of the nine nearest observations around each test point, shape (T,)."""
    _, near = cKDTree(_on_sphere(problem.X)).query(_on_sphere(problem.X_test), k=_NEAR)
    spread: np.ndarray = problem.y[near].std(axis=1)
    return spread


def _on_sphere(X: np.ndarray) -> np.ndarray:
    latitude, longitude = np.radians(X).T
    flat = np.cos(latitude)
    return np.column_stack([flat * np.cos(longitude), flat * np.sin(longitude), np.sin(latitude)])

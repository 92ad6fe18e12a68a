"""The methods of the study of all ERA5 points at work on held-out points, and the tables of what they found."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from ..bounds import ComputationalVariance
from ..calibration import assess, evaluate
from ..model import Model
from ..posterior import Posterior
from ..preconditioners import Nystrom
from ..prior import Prior
from ..solvers import CalibratedCG, GaussSeidel, NearestNeighbours, Solver
from .base import Tables
from .era5_full_config import FullSizes
from .place import place
from .problem import Problem

_NEAR = 9


@dataclass(frozen=True)
class Found:
    """A posterior after ``m`` iterations or from ``k`` neighbours (0 where there is no such number), and its cost.

    ``seconds`` are those of this iteration with its certificate, or of the whole prediction; ``bounds_seconds`` those
    of the bounds on the computational variance; ``certificate_seconds`` those of one certificate alone.
    """

    posterior: Posterior
    k: int
    m: int
    seconds: float
    bounds: ComputationalVariance | None = None
    bounds_seconds: float = np.nan
    certificate_seconds: float = np.nan


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
    for k in many:
        start = time.perf_counter()
        model = prior.condition(
            problem.X, problem.y, NearestNeighbours(k), storage="tiles", memory_budget=sizes.memory, device=place()
        )
        posterior = model.predict(problem.X_test, progress=False)
        middle = time.perf_counter()
        bounds = posterior.computational_variance
        yield Found(posterior, k, 0, middle - start, bounds, time.perf_counter() - middle)


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
        device=place(),
    )
    certificate = _certificate_seconds(model, problem)
    start += certificate
    first = 0 if method == CalibratedCG.name else 1
    for m, posterior in enumerate(model.iterate(problem.X_test), start=first):
        seconds = time.perf_counter() - start
        if m == first or m in sizes.recorded:
            middle = time.perf_counter()
            bounds = posterior.computational_variance
            spent = time.perf_counter() - middle
            yield Found(posterior, 0, m, seconds, bounds, spent, certificate)
        start = time.perf_counter()


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

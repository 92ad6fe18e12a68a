"""The data of the study of recalibration: what to train on, where to predict, and the prior of the plain model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from cagp import datasets
from cagp.hyperparameters import fit
from cagp.kernels import Geographic, Kernel, Matern12, Matern32
from cagp.means import Constant, Mean, Polynomial
from cagp.prior import Prior
from cagp.solvers import NearestNeighbours, Solver

from .problem import Problem

_EXACT = 2000
"""Up to so many training points the model is exact."""

_HOLE = np.deg2rad(5.0)


@dataclass(frozen=True)
class Setting:
    """A problem with the prior and the solver of the plain model; ``points`` (n, q), where it is not X, and ``tests``
    (T, q) are its places in a space where neighbours can be found.
    """

    problem: Problem
    prior: Prior
    solver: Solver
    places: np.ndarray
    tests: np.ndarray


def era5(rows: int | None, rng: np.random.Generator, *, gaps: bool, tests: int) -> Setting:
    """ERA5 temperature: random points held out or, with ``gaps``, points of 60 discs of 5° radius, all held out."""
    data = datasets.era5()
    lat, lon = np.deg2rad(data.X).T
    sphere = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    if gaps:
        centres = sphere[rng.choice(len(data), 60, replace=False)]
        held = (sphere @ centres.T).max(axis=1) > np.cos(_HOLE)
        test = rng.choice(np.flatnonzero(held), tests, replace=False)
    else:
        test = rng.choice(len(data), tests, replace=False)
        held = np.isin(np.arange(len(data)), test)
    train = np.flatnonzero(~held)
    if rows is not None:
        train = np.sort(rng.choice(train, rows, replace=False))
    problem = Problem(data.X[train], data.y[train], data.X[test], data.y[test])
    start = Prior(Geographic(Matern32(lengthscale=0.05, variance=100.0)), mean=Constant(), noise_variance=0.01)
    return Setting(problem, _fitted(start, problem), NearestNeighbours(50), sphere[train], sphere[test])


def heaton(rows: int | None, rng: np.random.Generator, *, tests: int) -> Setting:
    """Heaton's simulated field with its true covariance: all gap points where ``tests`` allows, else some."""
    data = datasets.heaton()
    train = _some(len(data), rows, rng)
    test = _some(len(data.y_gaps), tests, rng)
    kernel = Matern12(lengthscale=1 / 0.75, variance=16.40771)
    problem = Problem(data.X[train], data.y[train], data.X_gaps[test], data.y_gaps[test])
    prior = Prior(kernel, mean=Polynomial(1), noise_variance=0.05)
    return Setting(problem, prior, NearestNeighbours(60, far=30), problem.X, problem.X_test)


def stationary(rows: int | None, rng: np.random.Generator, *, tests: int) -> Setting:
    """A field drawn from the prior of the model itself: nothing to mend."""
    n = (rows or 4000) + tests
    X = rng.random((n, 2))
    prior = Prior(Matern32(lengthscale=0.1), noise_variance=0.01)
    places = torch.from_numpy(X)
    G = prior.kernel(places, places).numpy() + 0.01 * np.eye(n)
    y = np.linalg.cholesky(G) @ rng.standard_normal(n)
    problem = Problem(X[:-tests], y[:-tests], X[-tests:], y[-tests:])
    return Setting(problem, prior, NearestNeighbours(50), problem.X, problem.X_test)


def table(name: str, rows: int | None, rng: np.random.Generator) -> Setting:
    """A table, nine tenths to train and one to test, columns standardised by the training part."""
    data: datasets.Dataset = getattr(datasets, name)()
    chosen = _some(len(data), rows, rng)
    rng.shuffle(chosen)
    test, train = np.split(chosen, [len(chosen) // 10])
    centre, scale = data.X[train].mean(axis=0), data.X[train].std(axis=0)
    scale[scale == 0] = 1.0
    X, X_test = ((data.X[part] - centre) / scale for part in (train, test))
    problem = Problem(X, data.y[train], X_test, data.y[test])
    variance = float(np.var(problem.y))
    kernel: Kernel = Matern32(lengthscale=(X.shape[1] ** 0.5,) * X.shape[1], variance=variance)
    mean: Mean = Constant()
    start = Prior(kernel, mean=mean, noise_variance=0.1 * variance)
    solver: Solver = NearestNeighbours(100)
    return Setting(problem, _fitted(start, problem), solver, X, X_test)


def _some(n: int, wanted: int | None, rng: np.random.Generator) -> np.ndarray:
    return np.arange(n) if wanted is None or wanted >= n else np.sort(rng.choice(n, wanted, replace=False))


def _fitted(start: Prior, problem: Problem) -> Prior:
    """By maximum likelihood: exact for few observations, else from neighbours."""
    kind = "exact" if len(problem.y) <= _EXACT else "nearest-neighbours"
    return fit(start, problem.X, problem.y, likelihood=kind, progress=False).prior

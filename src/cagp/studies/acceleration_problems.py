"""The data sets of the study `acceleration`, each with its prior."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import datasets
from ..datasets import Dataset, era5_grid
from ..hyperparameters import fit
from ..kernels import Matern32
from ..prior import Prior
from .acceleration_methods import Sizes
from .era5_prior import KNOWN
from .place import place
from .problem import Problem, draw, generator, make_prior
from .uci import split

TITLES = {
    "synthetic": "Synthetic",
    "uneven": "Synthetic, uneven noise",
    "concrete": "Concrete",
    "bike": "Bike",
    "kin40k": "kin40k",
    "protein": "Protein",
    "era5": "ERA5",
}
"""The data sets by name."""

TABLES = ("concrete", "bike", "kin40k", "protein")
"""Those that are a loader in ``cagp.datasets``, standardised, with hyperparameters to fit."""

UNITS = {
    "rmse": dict.fromkeys(TABLES, " (std of the target)") | {"era5": " (K)"},
    "nll": dict.fromkeys(TABLES, " (standardised target)") | {"era5": " (temperature in K)"},
}
"""Of a score on a data set, where it has one, for the label of an axis."""

_LENGTHSCALE, _NOISE_STD = 0.2, 0.1
_UNEVEN = (0.1, 3.0)


@dataclass(frozen=True)
class Case:
    """A data set with ``d`` training and ``T`` test points, and the sizes of the solvers.

    For ``synthetic`` and ``uneven``, T is a square number; for ``era5``, d is twice one: the grid is n × 2n.
    Hyperparameters of tables are fitted to ``fit_points``.
    """

    name: str
    d: int
    T: int
    sizes: Sizes
    fit_points: int = 0


@dataclass(frozen=True)
class Posed:
    """A problem with its prior; ``of`` says what the truth in it is: "latent" or "observed" values."""

    prior: Prior
    problem: Problem
    of: str

    def facts(self) -> Mapping[str, Any]:
        """What one must know to compare data sets: sizes, and noise relative to the prior variance of f."""
        d, p = self.problem.X.shape
        variance = float(self.prior.kernel(self.problem.X_test[:1])[0, 0])
        noise = self.prior.noise(d)
        return {
            "d": d,
            "T": len(self.problem.truth),
            "dimension": p,
            "noise": float(noise.mean()) / variance,
            "of": self.of,
        }


def pose(case: Case, seed: int) -> Posed:
    """The problem of a case."""
    rng = generator(seed, list(TITLES).index(case.name))
    if case.name in TABLES:
        return _table(case, rng)
    if case.name == "era5":
        n = round((case.d / 2) ** 0.5)
        grid = era5_grid(n, 2 * n)
        test = grid.held_out(case.T, seed)
        return Posed(KNOWN.prior(), Problem(grid.X, grid.y, test.X, test.y), "observed")
    prior = make_prior("Matern32", _LENGTHSCALE, _NOISE_STD)
    if case.name == "uneven":
        low, high = np.log(_UNEVEN)
        prior = Prior(prior.kernel, noise_variance=np.exp(rng.uniform(low, high, size=case.d)) ** 2)
    return Posed(prior, draw(prior, case.d, round(case.T**0.5), rng), "latent")


def _table(case: Case, rng: np.random.Generator) -> Posed:
    data: Dataset = getattr(datasets, case.name)()
    problem, _ = split(data, round(case.d / 0.9), case.T, rng)
    start = Prior(Matern32((2.0,) * problem.X.shape[1]), noise_variance=0.1)
    fitted = fit(
        start,
        problem.X,
        problem.y,
        subset=min(case.fit_points, len(problem.y)),
        seed=int(rng.integers(2**31)),
        n_restarts=0,
        tolerance=1e-3,
        standard_errors=False,
        device=place(),
        progress=False,
    )
    return Posed(fitted.prior, problem, "observed")

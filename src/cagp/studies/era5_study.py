"""What the ERA5 studies have in common: fitted priors, Gauss-Seidel in both orders beside CG, and where to compute."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, TypeVar

import pandas as pd

from ..model import Model
from ..solvers import Cholesky, ConjugateGradient, GaussSeidel, NearestNeighbours, Solver
from ..support.memory import human, resolve_budget
from .base import AnyStudy, Study, Tables
from .era5_hyperparameters import Era5Hyperparameters, fitted_priors
from .era5_prior import Era5Prior
from .place import place
from .problem import Problem

NATURAL, RANDOM = f"{GaussSeidel.name}-natural", f"{GaussSeidel.name}-random"
ITERATED = (NATURAL, RANDOM, ConjugateGradient.name)
"""The methods of every ERA5 study, by name: on a grid the order of Gauss-Seidel decides how fast it is."""

ORDER_REMARK = (
    "On a grid the order of the unknowns changes everything, at the same cost: `era5-convergence` has the excess "
    "variances. Natural order, row by row from north to south, is what the paper's code does. A likely reason, not "
    "tested here: in natural order all unknowns that were updated before a given one lie on one side of it."
)

CG_REMARK = (
    "CG after many iterations depends on rounding. On the 60 × 120 grid with the quadratic mean the same run gave, at "
    "m = 40, a std of z of 0.38, 0.39 and 0.42 when only the order of summation changed (matrix stored, recomputed, "
    "another process), and four equal digits at m = 35. The directions were conjugate to 1e-14 and the variances those "
    "of the weights to 4e-14, so each run is right about itself; the Krylov space of y amplifies rounding."
)

REFERENCES = (Cholesky.name, NearestNeighbours.name)
"""What the methods are compared with: the exact GP, or what is as good as exact where that does not fit."""

_NEIGHBOURS = 300

Config = TypeVar("Config")
Piece = TypeVar("Piece")


class Era5Study(Study[Config, Piece]):
    """A study with a configuration that has ``priors``, filled in from maximum likelihood on a coarse grid."""

    builds_on: ClassVar[AnyStudy | None] = Era5Hyperparameters()

    def complete(self, config: Any, tables: Tables) -> Any:
        return dataclasses.replace(config, priors=fitted_priors(tables))

    def side_by_side(self, asked: int) -> int:
        return 1 if place().type == "cuda" else asked  # one piece fills a GPU


def method(name: str, iterations: int, seed: int) -> Solver:
    """The solver behind the name of a method; the seed is that of the random order."""
    solvers = {
        NATURAL: GaussSeidel(iterations, order="natural"),
        RANDOM: GaussSeidel(iterations, order="random", seed=seed),
        ConjugateGradient.name: ConjugateGradient(iterations),
        Cholesky.name: Cholesky(),
        NearestNeighbours.name: NearestNeighbours(_NEIGHBOURS),
    }
    return solvers[name]


def condition(prior: Era5Prior, problem: Problem, solver: Solver, storage: str) -> Model:
    """The model on the GPU where there is one, dense there where it fits; else on the processor with ``storage``."""
    device = place()
    where = "auto" if device.type == "cuda" else storage
    return prior.prior().condition(problem.X, problem.y, solver, storage=where, device=device)


def reference(d: int) -> str:
    """The exact GP where d points fit into the memory that is free now, else nearest neighbours."""
    return Cholesky.name if _exact_bytes(d) <= resolve_budget(None, place()) else NearestNeighbours.name


def reference_in(table: pd.DataFrame) -> str:
    """Which of the references a table has."""
    return next(name for name in REFERENCES if name in set(table["solver"]))


def reference_remarks(table: pd.DataFrame, d: int) -> list[str]:
    """A sentence where the reference is not the exact GP itself."""
    if reference_in(table) == Cholesky.name:
        return []
    return [
        f"The exact GP does not fit here: matrix and Cholesky factor of {d:,} points need {human(_exact_bytes(d))}. "
        f"In its place stand {_NEIGHBOURS} nearest neighbours for every test point; on a 60 × 120 grid, where both can "
        "be computed, their mean variance was within 0.1% and their means within 0.2 K of the exact ones."
    ]


def _exact_bytes(d: int) -> int:
    return 2 * 8 * d**2

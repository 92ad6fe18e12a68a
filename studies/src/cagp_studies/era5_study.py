"""What the ERA5 studies have in common: fitted priors, Gauss-Seidel in both orders beside CG, where to compute, and
predictions at held-out points after every iteration.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd

from cagp.calibration import score
from cagp.datasets import era5_grid
from cagp.model import Model
from cagp.solvers import Cholesky, ConjugateGradient, GaussSeidel, NearestNeighbours, Solver
from cagp.support.memory import human, resolve_budget

from .era5_hyperparameters import MEANS, Era5Hyperparameters, Era5Prior, fitted_priors
from .machine import Forecast, default_device, measure
from .problem import Problem, generator
from .study import AnyStudy, Study, Tables

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
        return 1 if default_device().type == "cuda" else asked  # one piece fills a GPU


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
    device = default_device()
    where = "auto" if device.type == "cuda" else storage
    return prior.prior().condition(problem.X, problem.y, solver, storage=where, device=device)


def reference(d: int) -> str:
    """The exact GP where d points fit into the memory that is free now, else nearest neighbours."""
    return Cholesky.name if _exact_bytes(d) <= resolve_budget(None, default_device()) else NearestNeighbours.name


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


# --- predictions at held-out points -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeldOutConfig:
    """A training grid of ``n_lat`` × ``n_lon`` points, ``draws`` independent sets of ``held_out`` test points each,
    1…``iterations`` iterations.

    The predictions themselves are kept after the iterations ``kept``. ``storage`` is that of the Gram matrix where
    there is no GPU. ``priors`` come from the study of hyperparameters.
    """

    n_lat: int
    n_lon: int
    storage: str
    draws: int
    held_out: int = 100
    iterations: int = 40
    kept: tuple[int, ...] = (1, 5, 10, 20, 40)
    priors: tuple[Era5Prior, ...] = ()

    @property
    def d(self) -> int:
        """How many training points there are."""
        return self.n_lat * self.n_lon

    def prior(self, mean: str) -> Era5Prior:
        """The fitted prior with that mean."""
        return next(prior for prior in self.priors if prior.mean == mean)


@dataclass(frozen=True)
class HeldOutPiece:
    """One prior mean and method."""

    mean: str
    method: str


class HeldOutStudy(Era5Study[HeldOutConfig, HeldOutPiece]):
    """Gauss-Seidel in both orders, CG and a reference (the exact GP where it fits); constant and quadratic mean.

    The table has a row per draw and iteration: rmse and nll of the field values, and mean_variance of the latent f.
    The table "predictions" has error = mean − truth and the latent std of every held-out point.
    """

    work = "era5-held-out"
    scales: ClassVar[Mapping[str, HeldOutConfig]] = {
        "quick": HeldOutConfig(48, 96, "dense", draws=4),
        "paper": HeldOutConfig(180, 360, "tiles", draws=1),
    }

    def pieces(self, config: HeldOutConfig) -> Mapping[str, HeldOutPiece]:
        methods = (reference(config.d), *ITERATED)
        return {f"{mean}-{each}": HeldOutPiece(mean, each) for mean in MEANS for each in methods}

    def forecast(self, config: HeldOutConfig, pieces: Sequence[HeldOutPiece]) -> Forecast:
        d, T, m = config.d, config.draws * config.held_out, config.iterations
        rates = measure(T, default_device())
        recompute = config.storage == "tiles" and default_device().type == "cpu"
        seconds, memory = 0.0, 0.0
        for piece in pieces:
            if piece.method in REFERENCES:
                if piece.method == Cholesky.name:
                    seconds, memory = seconds + rates.factor(d), max(memory, 16 * d**2)
                continue
            step = rates.product(d, recompute) if piece.method == ConjugateGradient.name else None
            seconds += m * (rates.sweep(d, T, recompute) if step is None else step) + rates.assemble(d)
            memory = max(memory, 8 * d * (8 * T + m) + (0 if recompute else 8 * d**2))
        return Forecast(seconds, memory)

    def run(self, config: HeldOutConfig, piece: HeldOutPiece, seed: int) -> Tables:
        problem = held_out_problem(config, seed)
        solver = method(piece.method, config.iterations, seed)
        model = condition(config.prior(piece.mean), problem, solver, config.storage)
        identity = {"seed": seed, "mean": piece.mean, "solver": piece.method}
        rows, predictions = [], []
        for m, posterior in enumerate(model.iterate(problem.X_test), start=1):
            seen = posterior.observed()
            columns = (posterior.mean, posterior.std, seen.std, problem.truth)
            for draw, (mean, std, seen_std, truth) in enumerate(
                zip(*(_by_draw(config, c) for c in columns), strict=True)
            ):
                scores = score(mean, seen_std, truth, of="observed")
                found = {"rmse": scores.rmse, "nll": scores.nll, "mean_variance": float(np.square(std).mean())}
                rows.append({**identity, "draw": draw, "m": m, **found})
                if m in config.kept:
                    points = pd.DataFrame({"point": range(len(truth)), "error": mean - truth, "std": std})
                    predictions.append(pd.DataFrame([{**identity, "draw": draw, "m": m}] * len(points)).join(points))
        return {"table": pd.DataFrame(rows), "predictions": pd.concat(predictions, ignore_index=True)}


def held_out_problem(config: HeldOutConfig, seed: int) -> Problem:
    """The training grid and all held-out points, draw by draw; the truth is the field there, an observation like any
    other. All draws are predicted together: no prediction depends on what else is predicted.
    """
    grid = era5_grid(config.n_lat, config.n_lon)
    tests = [grid.held_out(config.held_out, int(generator(seed, draw).integers(2**31))) for draw in range(config.draws)]
    X_test, truth = np.concatenate([test.X for test in tests]), np.concatenate([test.y for test in tests])
    return Problem(grid.X, grid.y, X_test, truth)


def _by_draw(config: HeldOutConfig, values: np.ndarray) -> np.ndarray:
    return values.reshape(config.draws, config.held_out)


def of_method(table: pd.DataFrame, mean: str, solver: str, m: int | None = None) -> pd.DataFrame:
    """The rows of one prior mean and method, and of one iteration where ``m`` is given; a reference has only one."""
    chosen = (table["mean"] == mean) & (table["solver"] == solver)
    if m is not None and solver not in REFERENCES:
        chosen &= table["m"] == m
    return table[chosen]


def sizes_remark(config: HeldOutConfig) -> str:
    """Which points these are."""
    paper = " The paper says 64,700 points; the uniform grid next to that has 64,800." if config.d == 64_800 else ""
    return (
        f"Training points: a uniform {config.n_lat} × {config.n_lon} grid, {config.d:,} points, without the poles."
        f"{paper} Held out: {config.held_out} points of the 0.25° field, drawn uniformly from all others between the "
        f"first and last row, {config.draws} times."
    )

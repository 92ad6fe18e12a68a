"""Predictions at held-out points of ERA5 after every iteration: what `era5-calibration` and `era5-convergence` show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from ..calibration import score
from ..datasets import era5_grid
from ..solvers import Cholesky, ConjugateGradient
from .base import Tables
from .era5_prior import MEANS, Era5Prior
from .era5_study import ITERATED, REFERENCES, Era5Study, condition, method, reference
from .forecast import Forecast, measure
from .place import place
from .problem import Problem, generator


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
        rates = measure(T, place())
        recompute = config.storage == "tiles" and place().type == "cpu"
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

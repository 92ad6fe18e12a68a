"""The paper's maps of posterior means on ERA5 after some iterations, with a constant and with a quadratic mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from cagp.datasets import era5_grid
from cagp.solvers import Cholesky, ConjugateGradient

from .drawing import LOOKS, Panel, maps
from .era5_hyperparameters import IN_WORDS, MEANS, Era5Prior
from .era5_study import (
    CG_REMARK,
    ITERATED,
    NATURAL,
    ORDER_REMARK,
    RANDOM,
    REFERENCES,
    Era5Study,
    condition,
    method,
    reference,
    reference_in,
    reference_remarks,
)
from .machine import Forecast, default_device, measure
from .problem import Problem
from .study import Comparison, Drawing, Presentation, Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MILLIKELVIN = 3


@dataclass(frozen=True)
class MeansConfig:
    """Training and test points are grids of (latitudes, longitudes); ``shown`` are the iterations of the maps.

    ``storage`` is that of the Gram matrix where there is no GPU. ``priors`` come from the study of hyperparameters.
    """

    train: tuple[int, int]
    storage: str
    test: tuple[int, int] = (85, 85)
    shown: tuple[int, ...] = (1, 2, 5, 10, 20, 40)
    priors: tuple[Era5Prior, ...] = ()

    @property
    def d(self) -> int:
        """How many training points there are."""
        return self.train[0] * self.train[1]


@dataclass(frozen=True)
class MeansPiece:
    """One prior and method."""

    prior: Era5Prior
    method: str


class Era5Means(Era5Study[MeansConfig, MeansPiece]):
    """Means alone: a forward sweep on b for Gauss-Seidel, so that no variances have to be paid for."""

    name = "era5-means"
    title = "ERA5: posterior means"
    shows = 'Section "ERA5 Regression" and supplement, the figures of posterior means, also for detrended data'
    scales: ClassVar[Mapping[str, MeansConfig]] = {
        "quick": MeansConfig((60, 120), "dense"),
        "paper": MeansConfig((120, 240), "tiles"),
    }

    def pieces(self, config: MeansConfig) -> Mapping[str, MeansPiece]:
        methods = (reference(config.d), *ITERATED)
        return {f"{prior.mean}-{each}": MeansPiece(prior, each) for prior in config.priors for each in methods}

    def forecast(self, config: MeansConfig, pieces: Sequence[MeansPiece]) -> Forecast:
        d, m = config.d, config.shown[-1]
        T = config.test[0] * config.test[1]
        rates = measure(1, default_device())
        recompute = config.storage == "tiles" and default_device().type == "cpu"
        seconds, memory = 0.0, 0.0
        for piece in pieces:
            if piece.method in REFERENCES:
                if piece.method == Cholesky.name:
                    seconds, memory = seconds + rates.factor(d), max(memory, 16 * d**2 + 8 * d * T)
                continue
            step = rates.product(d, recompute)
            if piece.method != ConjugateGradient.name:
                step = rates.sweep(d, 1, recompute)
            # V is computed again in every iteration where it does not fit beside the rest
            seconds += m * (step + d * T / rates.entries)
            memory = max(memory, 8 * d * (T + m) + (0 if recompute else 8 * d**2))
        return Forecast(seconds, memory)

    def run(self, config: MeansConfig, piece: MeansPiece, seed: int) -> Tables:
        train, test = era5_grid(*config.train), era5_grid(*config.test)
        problem = Problem(train.X, train.y, test.X, test.y)
        new = ~_among(test.X, train.X)
        model = condition(piece.prior, problem, method(piece.method, config.shown[-1], seed), config.storage)
        identity = {"seed": seed, "mean": piece.prior.mean, "solver": piece.method}
        rows, fields = [], []
        once = piece.method in REFERENCES
        means = iter([model.predict_mean(problem.X_test)]) if once else model.iterate_mean(problem.X_test)
        for m, mean in enumerate(means, start=1):
            if m not in config.shown:
                continue
            error = (mean - problem.truth)[new]
            rmse = float(np.sqrt(np.square(error).mean()))
            rows.append({**identity, "m": m, "rmse": rmse, "roughness": roughness(mean, config.test)})
            fields.append(_field({**identity, "m": m}, mean))
        tables = {"table": pd.DataFrame(rows), "means": pd.concat(fields, ignore_index=True)}
        if piece.method == NATURAL and piece.prior == config.priors[0]:
            points = {"latitude": test.X[:, 0], "longitude": test.X[:, 1], "temperature": test.y, "new": new}
            tables["points"] = pd.DataFrame({"point": range(len(new)), **points})
        return tables

    def present(self, config: MeansConfig, tables: Tables) -> Presentation:
        table, points = tables["table"], tables["points"]
        sizes = (
            f"{config.d:,} training points ({config.train[0]} × {config.train[1]} grid), {len(points):,} test points "
            f"({config.test[0]} × {config.test[1]} grid)"
        )
        figures = {}
        for mean in MEANS:
            caption = (
                f"Posterior means after m iterations, {IN_WORDS[mean]}: {sizes}. Gauss-Seidel in both orders above CG; "
                f"on the right the field itself and the posterior mean of the {LOOKS[reference_in(table)].label}. "
                "One colour scale for all panels; what lies beyond the range of the field has its end colours."
            )
            figures[f"means_{mean}"] = Drawing(_maps(config, tables, mean), caption)
        truth = points["temperature"].to_numpy()
        return Presentation(
            figures=figures,
            comparisons=[_numbers(config, table, roughness(truth, config.test))],
            remarks=[
                *(_finding(config, table, mean) for mean in MEANS),
                ORDER_REMARK,
                CG_REMARK,
                "RMSE is about the field at those test points that are not training points, each of the same weight, "
                "so that high latitudes count for more than their area.",
                "Roughness is the root mean square difference between test points next to each other on a parallel.",
                *reference_remarks(table, config.d),
                "Gauss-Seidel's means come from forward sweeps on b = y − m₀, T times cheaper than with variances.",
            ],
        )


def roughness(field: np.ndarray, shape: tuple[int, int]) -> float:
    """The root mean square difference between neighbours on a parallel, around the globe; ``field`` (n,) on a grid."""
    rows = field.reshape(shape)
    return float(np.sqrt(np.square(rows - np.roll(rows, 1, axis=1)).mean()))


def _among(points: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which of ``points`` (n, 2) are among ``others`` (k, 2), boolean (n,)."""
    known = set(map(tuple, others))
    return np.array([tuple(point) in known for point in points])


def _field(identity: dict[str, object], mean: np.ndarray) -> pd.DataFrame:
    values = pd.DataFrame({"point": range(len(mean)), "temperature": np.round(mean, _MILLIKELVIN)})
    return pd.DataFrame([identity] * len(values)).join(values)


def _maps(config: MeansConfig, tables: Tables, mean: str) -> Figure:
    points, means = tables["points"], tables["means"]
    fields = {
        (solver, m): rows["temperature"].to_numpy().reshape(config.test)
        for (solver, m), rows in means[means["mean"] == mean].groupby(["solver", "m"])
    }
    truth = points["temperature"].to_numpy().reshape(config.test)
    exact = reference_in(means)
    beside = [Panel("the field", truth), Panel(LOOKS[exact].label, fields[exact, 1]), None]
    rows = [
        [*(Panel(f"m = {m}", fields[solver, m]) for m in config.shown), last]
        for solver, last in zip(ITERATED, beside, strict=True)
    ]
    latitude, longitude = (np.unique(points[name].to_numpy()) for name in ("latitude", "longitude"))
    labels = [LOOKS[solver].label for solver in ITERATED]
    # latitudes rise in the picture, while the grid goes from north to south
    flipped = [[Panel(p.title, p.field[::-1]) if p else None for p in row] for row in rows]
    return maps(flipped, labels, latitude, longitude, (float(truth.min()), float(truth.max())))


def _numbers(config: MeansConfig, table: pd.DataFrame, of_truth: float) -> Comparison:
    rows = []
    for mean in MEANS:
        own = table[table["mean"] == mean].set_index(["solver", "m"])
        for solver in ITERATED:
            cells = [f"{own.rmse[solver, m]:.2f} / {own.roughness[solver, m]:.2f}" for m in config.shown]
            rows.append([IN_WORDS[mean], LOOKS[solver].label, *cells])
        exact = reference_in(table)
        cell = f"{own.rmse[exact, 1]:.2f} / {own.roughness[exact, 1]:.2f}"
        rows.append([IN_WORDS[mean], LOOKS[exact].label, cell, *["–"] * (len(config.shown) - 1)])
    return Comparison(
        f"RMSE / roughness of the posterior means, both in kelvin; the roughness of the field is {of_truth:.2f}",
        ["prior mean", "solver", *(f"m = {m}" for m in config.shown)],
        rows,
    )


def _finding(config: MeansConfig, table: pd.DataFrame, mean: str) -> str:
    """Whether the means of GS are smoother than those of CG, and for which of the shown iterations."""
    own = table[table["mean"] == mean].set_index(["solver", "m"])
    said = []
    for solver in (NATURAL, RANDOM):
        smoother = [m for m in config.shown if own.roughness[solver, m] < own.roughness[ConjugateGradient.name, m]]
        nearer = [m for m in config.shown if own.rmse[solver, m] < own.rmse[ConjugateGradient.name, m]]
        said.append(
            f"{LOOKS[solver].label} is smoother than CG at {_list(smoother)} and nearer the field at {_list(nearer)}"
        )
    exact = own.roughness[reference_in(table), 1]
    rough = ", ".join(f"{LOOKS[s].label} {own.roughness[s].max():.2f}" for s in ITERATED)
    return (
        f"Found, {IN_WORDS[mean]}: {'; '.join(said)}. The largest roughness on the way: {rough}, and {exact:.2f} in "
        "the end. The paper: GS is considerably smoother than CG."
    )


def _list(iterations: Sequence[int]) -> str:
    return f"m = {', '.join(map(str, iterations))}" if iterations else "no m shown"

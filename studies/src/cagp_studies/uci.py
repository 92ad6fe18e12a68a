"""Solvers by name, with the iterations of a study."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch

from cagp import datasets
from cagp.datasets import Dataset
from cagp.errors import InputError
from cagp.hyperparameters import FitResult, fit
from cagp.kernels import Matern32
from cagp.prior import Prior
from cagp.solvers import NAMES, Cholesky, ConjugateGradient, GaussSeidel, Solver
from cagp.support.validation import choice

from .convergence import Crossing, in_words, overtaken
from .drawing import LOOKS, score_panels
from .machine import Forecast, measure
from .problem import Problem, generator, trace
from .study import Comparison, Drawing, Presentation, Study, Tables


def solver_by_name(name: str, iterations: int, seed: int) -> Solver:
    """The solver of that name with ``iterations`` iterations (for a subset: so many points), otherwise as it comes."""
    solver = NAMES[choice(name, "solvers", list(NAMES))]
    settings = {"iterations": iterations, "size": iterations, "seed": seed}
    known = {field.name for field in dataclasses.fields(solver)}  # type: ignore[arg-type]
    return solver(**{setting: value for setting, value in settings.items() if setting in known})


def check_solver_names(names: tuple[str, ...]) -> None:
    """Refuse names that a study cannot use."""
    for name in names:
        if name == Cholesky.name:
            raise InputError("solvers: the exact GP (cholesky) is always shown where it fits; leave it out")
        try:
            solver_by_name(name, 1, 0)
        except TypeError:  # an argument without a default
            usable = ", ".join(sorted(set(NAMES) - {name, Cholesky.name}))
            raise InputError(f"solvers: {name} needs more than its name to be made; choose from {usable}") from None


TITLES = {"concrete": "Concrete", "bike": "Bike", "road3d": "3D Road"}
"""The paper's data sets, by the name of their loader."""

_ROWS = {"concrete": 1030, "bike": 17_379, "road3d": 5000}
"""How many rows to expect, for the forecast; 3D Road has more where the whole file is there."""

_EVALUATIONS = 60


@dataclass(frozen=True)
class UciCase:
    """A data set, and how many of its rows to draw at random: None for all."""

    name: str
    rows: int | None = None


@dataclass(frozen=True)
class UciConfig:
    """``runs`` random splits of each case: nine tenths to train, one tenth to test, at most ``most_test`` of it.

    Hyperparameters are fitted to at most ``fit_points`` training points. The exact GP is shown for up to
    ``exact_up_to`` training points.
    """

    cases: tuple[UciCase, ...]
    runs: int
    fit_points: int
    iterations: int = 50
    most_test: int = 1000
    exact_up_to: int = 20_000
    solvers: tuple[str, ...] = (GaussSeidel.name, ConjugateGradient.name)


@dataclass(frozen=True)
class UciPiece:
    """One split of one data set."""

    case: UciCase
    run: int


class Uci(Study[UciConfig, UciPiece]):
    """ARD Matérn 3/2, everything standardised, hyperparameters fitted to the training part."""

    name = "uci"
    title = "UCI data sets: convergence"
    shows = 'Section "UCI Benchmark Datasets", the figure of RMSE and NLL'
    scales: ClassVar[Mapping[str, UciConfig]] = {
        "quick": UciConfig(
            (UciCase("concrete"), UciCase("bike", 2000), UciCase("road3d", 2000)), runs=5, fit_points=500
        ),
        "paper": UciConfig((UciCase("concrete"), UciCase("bike"), UciCase("road3d")), runs=5, fit_points=2000),
    }

    def with_solvers(self, config: UciConfig, solvers: tuple[str, ...]) -> UciConfig:
        check_solver_names(solvers)
        return dataclasses.replace(config, solvers=tuple(dict.fromkeys((*config.solvers, *solvers))))

    def pieces(self, config: UciConfig) -> Mapping[str, UciPiece]:
        return {
            f"{case.name}-run-{run:03d}": UciPiece(case, run) for run in range(config.runs) for case in config.cases
        }

    def forecast(self, config: UciConfig, pieces: Sequence[UciPiece]) -> Forecast:
        rates = measure(config.most_test, torch.device("cpu"))
        seconds, memory = 0.0, 0.0
        for piece in pieces:
            n = piece.case.rows or _ROWS[piece.case.name]
            d, T, k = 0.9 * n, min(0.1 * n, config.most_test), min(config.fit_points, 0.9 * n)
            seconds += _EVALUATIONS * (3 * rates.factor(int(k)) + 20 * rates.assemble(int(k)))
            # every solver is counted like Gauss-Seidel, the dearest of the paper's
            seconds += len(config.solvers) * config.iterations * rates.sweep(int(d), int(T), False)
            seconds += rates.factor(int(d)) if d <= config.exact_up_to else 0
            memory = max(memory, 16 * d**2 + 8 * d * 8 * T)
        return Forecast(seconds, memory)

    def run(self, config: UciConfig, piece: UciPiece, seed: int) -> Tables:
        data: Dataset = getattr(datasets, piece.case.name)()
        rng = generator(seed, piece.run)
        problem, rows = split(data, piece.case.rows, config.most_test, rng)
        d = len(problem.y)
        fitted = _fit(problem, min(config.fit_points, d), seed=int(rng.integers(2**31)))
        solver_seed = int(rng.integers(2**31))
        solvers = [solver_by_name(name, config.iterations, solver_seed) for name in config.solvers]
        traces = [trace(fitted.prior, problem, solver, config.iterations, "observed") for solver in solvers]
        if d <= config.exact_up_to:
            traces.append(trace(fitted.prior, problem, Cholesky(), 1, "observed"))
        identity = {"dataset": piece.case.name, "seed": seed, "run": piece.run}
        table = pd.DataFrame([{**identity, **row} for each in traces for row in each])
        facts = {
            **identity,
            "rows": rows,
            "of": len(data),
            "train": d,
            "test": len(problem.truth),
            "fit_points": fitted.size,
            "negative_log_likelihood": fitted.negative_log_likelihood_per_point,
            "complete": data.complete,
            "note": data.note,
            "message": fitted.message,
        }
        values = pd.DataFrame([{**identity, "name": name, "value": value} for name, value in fitted.values.items()])
        return {"table": table, "data": pd.DataFrame([facts]), "hyperparameters": values}

    def present(self, config: UciConfig, tables: Tables) -> Presentation:
        table, facts = tables["table"], tables["data"].groupby("dataset", sort=False).first()
        names = [case.name for case in config.cases]
        titles = {name: f"{TITLES[name]}: d = {facts.train[name]:,}, T = {facts.test[name]:,}" for name in names}
        for name in names:
            if not facts.complete[name]:
                titles[name] += f"\n(from {facts.note[name]})"
            elif facts.rows[name] < facts.of[name]:
                titles[name] += f"\n({facts.rows[name]:,} of {facts.of[name]:,} rows)"
        about = (
            f"Held-out observations; inputs and target standardised by the training part. Mean over {config.runs} "
            "random 90/10 splits; bands are one standard error. "
        )
        about += " ".join(_sentence(name, facts.loc[name]) for name in names)
        panels: dict[str, Any] = {"case": "dataset", "titles": titles, "solvers": config.solvers, "share": False}
        rmse = score_panels(table, "rmse", ylabel="RMSE (std of the target)", log=True, **panels)
        nll = score_panels(table, "nll", ylabel="NLL (standardised target)", log=False, **panels)
        return Presentation(
            figures={"rmse": Drawing(rmse, f"RMSE. {about}"), "nll": Drawing(nll, f"NLL. {about}")},
            comparisons=[_against_text(table, names), _levels(config, table, names)],
            remarks=[
                "RMSE and NLL are about held-out observations y, noise included in the predicted variance. The unit of "
                "the target is its standard deviation over the training part; NLL is that of the standardised target.",
                "The rows are shuffled by the split, so natural and random order of Gauss-Seidel are the same thing.",
                f"ARD Matérn 3/2, zero mean; hyperparameters maximise the exact likelihood of {config.fit_points} "
                "random points of the training part, or of all where there are fewer. The paper does not say how it "
                "chose its hyperparameters, sizes and splits.",
                "Bike without the columns that add up to the target.",
                *(_sentence(name, facts.loc[name]) for name in names if not facts.complete[name]),
            ],
        )


def split(data: Dataset, rows: int | None, most_test: int, rng: np.random.Generator) -> tuple[Problem, int]:
    """Nine tenths of (so many) random rows to train and the rest to test, at most ``most_test``; and how many rows.

    Inputs and target are standardised by mean and standard deviation of the training part; a column that is constant
    there is only centred.
    """
    n = min(rows or len(data), len(data))
    chosen = rng.permutation(len(data))[:n]
    test, train = chosen[: n // 10][:most_test], chosen[n // 10 :]
    X, y = data.X[train], data.y[train]
    scale = X.std(axis=0)
    scale[scale == 0] = 1.0
    problem = Problem(
        (X - X.mean(axis=0)) / scale,
        (y - y.mean()) / y.std(),
        (data.X[test] - X.mean(axis=0)) / scale,
        (data.y[test] - y.mean()) / y.std(),
    )
    return problem, n


def _fit(problem: Problem, points: int, seed: int) -> FitResult:
    start = Prior(Matern32((2.0,) * problem.X.shape[1]), noise_variance=0.1)
    options: dict[str, Any] = {"n_restarts": 0, "tolerance": 1e-3, "standard_errors": False, "progress": False}
    return fit(start, problem.X, problem.y, likelihood="exact", subset=points, seed=seed, **options)


def _sentence(name: str, facts: pd.Series) -> str:
    source = f"{facts.note}" if not facts.complete else f"{facts.of:,} rows"
    return f"{TITLES[name]}: {facts.rows:,} rows from {source}, {facts.train:,} to train, {facts.test:,} to test."


def agreement(by_rmse: Crossing, by_nll: Crossing, longer_said: bool) -> str:
    """Whether CG overtakes GS later in NLL than in RMSE, as said: only where the bootstrap intervals are apart."""
    first, latest, earliest = by_rmse[0], by_rmse[2], by_nll[1]
    if first == 1:
        return "no: GS is never ahead in RMSE"
    if first is None and by_nll[0] is None:
        return "in RMSE yes; in NLL open, as CG overtakes in neither"
    apart = latest is not None and (earliest is None or earliest > latest)
    before = by_nll[2] is not None and by_rmse[1] is not None and by_nll[2] < by_rmse[1]
    if not apart and not before:
        return "in RMSE yes; in NLL undecided, the intervals overlap"
    return "yes" if apart == longer_said else "in RMSE yes; in NLL no"


def _against_text(table: pd.DataFrame, names: Sequence[str]) -> Comparison:
    """Where CG overtakes GS, beside what the paper's text says."""
    rows = []
    for name in names:
        own = table[table["dataset"] == name]
        by_rmse, by_nll = overtaken(own, "rmse"), overtaken(own, "nll")
        longer_said = name != "concrete"
        said = "longer ahead in NLL" if longer_said else "no longer ahead in NLL"
        rows.append([TITLES[name], said, in_words(by_rmse), in_words(by_nll), agreement(by_rmse, by_nll, longer_said)])
    return Comparison(
        "The paper's text: GS is ahead of CG in RMSE first; in NLL it is ahead for longer on Bike and 3D Road, not on "
        "Concrete. Where CG overtakes GS (95% bootstrap interval over runs):",
        ["data", "paper", "in RMSE at", "in NLL at", "agrees"],
        rows,
    )


def _levels(config: UciConfig, table: pd.DataFrame, names: Sequence[str]) -> Comparison:
    means = table.groupby(["dataset", "solver", "m"], sort=False)[["rmse", "nll"]].mean()
    shown = [m for m in (1, 5, 10, 20, 50) if m <= config.iterations]
    rows = []
    for name in names:
        for solver in (*config.solvers, Cholesky.name):
            at = [m for m in shown if (name, solver, m) in means.index]
            cells = [f"{means.rmse[name, solver, m]:.3f} / {means.nll[name, solver, m]:.3f}" for m in at]
            rows.append([TITLES[name], LOOKS[solver].label, *cells, *["–"] * (len(shown) - len(cells))])
    return Comparison("RMSE / NLL, mean over runs", ["data", "solver", *(f"m = {m}" for m in shown)], rows)

"""Error bars that hold on the data: plain models and recalibrated ones on held-out observations."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from cagp.calibration import Scores, evaluate

from . import recalibration_cases as cases
from .problem import generator
from .study import Comparison, Drawing, Presentation, Study, Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS = (0.5, 0.8, 0.95)
_ROUGHNESS = 30
"""The roughness of a test point is the spread of y at so many training points around it."""

TITLES = {
    "era5": "ERA5, scattered",
    "era5-gaps": "ERA5, gaps of 5°",
    "heaton": "Heaton's simulated field",
    "stationary": "a stationary field",
    "concrete": "Concrete",
    "bike": "Bike",
    "kin40k": "kin40k",
    "protein": "protein",
}


@dataclass(frozen=True)
class RecalibrationConfig:
    """``rows`` training points at most (None: all), ``tests`` held-out points of a field, ``runs`` splits of a table,
    one of a field.
    """

    cases: tuple[str, ...]
    rows: int | None
    tests: int
    runs: int


@dataclass(frozen=True)
class RecalibrationPiece:
    """One split of one data set."""

    case: str
    run: int


class RecalibrationStudy(Study[RecalibrationConfig, RecalibrationPiece]):
    """The same weights and means, with error bars from the prior and from left-out predictions."""

    name = "recalibration"
    title = "Recalibration: error bars that hold on the data"
    shows = "nothing in the paper: what its error bars do where the prior does not fit"
    scales: ClassVar[Mapping[str, RecalibrationConfig]] = {
        "quick": RecalibrationConfig(("era5", "heaton", "stationary", "concrete"), rows=20_000, tests=2000, runs=2),
        "paper": RecalibrationConfig(tuple(TITLES), rows=None, tests=2000, runs=5),
    }

    def pieces(self, config: RecalibrationConfig) -> Mapping[str, RecalibrationPiece]:
        return {
            f"{case}-run-{run:03d}": RecalibrationPiece(case, run)
            for case in config.cases
            for run in range(config.runs if case in ("concrete", "bike", "kin40k", "protein") else 1)
        }

    def run(self, config: RecalibrationConfig, piece: RecalibrationPiece, seed: int) -> Tables:
        rng = generator(seed, piece.run)
        setting = _setting(piece.case, config, rng)
        problem = setting.problem
        model = setting.prior.condition(problem.X, problem.y, setting.solver)
        plain = model.predict(problem.X_test, progress=False)
        started = time.perf_counter()
        like = problem.X_test if piece.case in ("era5-gaps", "heaton") else None
        recalibrated = model.recalibrated(like=like, progress=False)
        seconds = time.perf_counter() - started
        _, near = cKDTree(setting.places).query(setting.tests, min(_ROUGHNESS, len(problem.y)))
        roughness = problem.y[near].std(axis=1)
        quarter = np.searchsorted(np.quantile(roughness, (0.25, 0.5, 0.75)), roughness)
        identity = {"case": piece.case, "seed": seed, "run": piece.run, "train": len(problem.y)}
        rows = []
        for what, prediction in (("plain", plain), ("recalibrated", recalibrated.predict(problem.X_test))):
            scores = evaluate(prediction, problem.truth, "observed")
            rows.append({**identity, "what": what, "seconds": seconds, **_numbers(scores, quarter)})
        return {"table": pd.DataFrame(rows)}

    def present(self, config: RecalibrationConfig, tables: Tables) -> Presentation:
        table = tables["table"]
        means = table.groupby(["case", "what"], sort=False).mean(numeric_only=True)
        return Presentation(
            figures={
                "coverage": Drawing(_coverage_figure(means), "What central intervals hold, plain and recalibrated."),
                "quarters": Drawing(
                    _quarters_figure(means),
                    "The root mean square of z in the quarters of the test points from the smoothest surrounding to "
                    "the roughest; 1 where the error bars have the right size.",
                ),
            },
            comparisons=[_scores_table(table, means)],
            remarks=[
                "All scores are about held-out observations, noise included. Hyperparameters were fitted to the "
                "training part by maximum likelihood, but for Heaton's field and the stationary one, which have their "
                "true ones. Nothing was chosen by looking at the test part.",
                f"Roughness is the spread of the observations at the {_ROUGHNESS} training points around a test point.",
                "The gaps to be predicted were given as `like` for ERA5 with gaps and Heaton's field.",
            ],
        )


def _setting(case: str, config: RecalibrationConfig, rng: np.random.Generator) -> cases.Setting:
    if case.startswith("era5"):
        return cases.era5(config.rows, rng, gaps=case == "era5-gaps", tests=config.tests)
    if case == "heaton":
        return cases.heaton(config.rows, rng, tests=config.tests if config.rows else 10**6)
    if case == "stationary":
        return cases.stationary(min(config.rows or 6000, 6000), rng, tests=config.tests)
    return cases.table(case, config.rows, rng)


def _numbers(scores: Scores, quarter: np.ndarray) -> dict[str, Any]:
    numbers = {name: getattr(scores, name) for name in ("rmse", "crps", "nll", "interval_score")}
    numbers |= {f"holds_{100 * level:g}": scores.coverage(level) for level in LEVELS}
    for i in range(4):
        there = scores.z[quarter == i]
        numbers[f"rms_z_{i + 1}"] = float(np.sqrt(np.square(there).mean())) if len(there) else float("nan")
    return numbers


def _scores_table(table: pd.DataFrame, means: pd.DataFrame) -> Comparison:
    rows = []
    for (case, what), row in means.iterrows():
        before = means.loc[(case, "plain")]

        def change(name: str, row: pd.Series = row, before: pd.Series = before) -> str:
            return f"{row[name]:.4g} ({100 * (row[name] / before[name] - 1):+.1f}%)"

        told = what == "recalibrated"
        rows.append(
            (
                f"{TITLES[case]}, n = {row.train:,.0f}",
                what,
                f"{row.nll:.3f}",
                change("crps") if told else f"{row.crps:.4g}",
                change("interval_score") if told else f"{row.interval_score:.4g}",
                " / ".join(f"{100 * row[f'holds_{100 * level:g}']:.1f}" for level in LEVELS),
                " ".join(f"{row[f'rms_z_{i}']:.2f}" for i in range(1, 5)),
                f"{row.seconds:.0f} s" if told else "",
            )
        )
    runs = table.groupby("case").run.nunique().max()
    columns = ("data", "model", "NLL", "CRPS", "interval score", "50/80/95% hold", "rms of z by roughness", "took")
    return Comparison(f"Held-out observations; averages over up to {runs} splits.", columns, rows)


def _coverage_figure(means: pd.DataFrame) -> Figure:
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(means.index.get_level_values("case")))
    figure, axes = plt.subplots(1, len(LEVELS), figsize=(9, 1.2 + 0.35 * len(names)), sharey=True, layout="constrained")
    for ax, level in zip(axes, LEVELS, strict=True):
        for what, marker, colour in (("plain", "o", "#D55E00"), ("recalibrated", "s", "#0072B2")):
            held = [100 * means.loc[(name, what), f"holds_{100 * level:g}"] for name in names]
            ax.plot(held, range(len(names)), marker, color=colour, label=what)
        ax.axvline(100 * level, color="0.6", linewidth=1, zorder=0)
        ax.set_title(f"{100 * level:g}% intervals", fontsize="medium")
        ax.set_xlabel("hold, %")
        ax.margins(x=0.1, y=0.15)
    axes[0].set_yticks(range(len(names)), [TITLES[name] for name in names])
    axes[0].invert_yaxis()
    axes[0].legend(fontsize="small", loc="best")
    return figure


def _quarters_figure(means: pd.DataFrame) -> Figure:
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(means.index.get_level_values("case")))
    columns = min(4, len(names))
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(2.5 * columns, 2.3 * rows), sharey=True, squeeze=False, layout="constrained"
    )
    for ax, name in zip(axes.flat, names, strict=False):
        for what, marker, colour in (("plain", "o", "#D55E00"), ("recalibrated", "s", "#0072B2")):
            values = [means.loc[(name, what), f"rms_z_{i}"] for i in range(1, 5)]
            ax.semilogy(range(1, 5), values, marker=marker, color=colour, label=what)
        ax.axhline(1.0, color="0.6", linewidth=1, zorder=0)
        ax.set_title(TITLES[name], fontsize="medium")
        ax.set_xticks(range(1, 5), ["smooth", "", "", "rough"])
    for ax in axes.flat[len(names) :]:
        ax.set_axis_off()
    axes[0, 0].set_ylabel("rms of z")
    axes[0, 0].legend(fontsize="small")
    return figure

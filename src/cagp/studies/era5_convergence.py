"""The supplement's RMSE and NLL against the number of iterations on ERA5."""

from __future__ import annotations

from functools import partial

import pandas as pd

from ..solvers import ConjugateGradient
from .base import Comparison, Drawing, Presentation, Tables
from .era5_held_out import HeldOutConfig, HeldOutStudy, of_method, sizes_remark
from .era5_prior import IN_WORDS, MEANS
from .era5_study import CG_REMARK, ITERATED, NATURAL, ORDER_REMARK, RANDOM, reference_in, reference_remarks
from .panels import score_panels
from .style import LOOKS

REFERENCE_D = 64_800
REFERENCE_ITERATIONS = (1, 5, 10, 20, 40)
REFERENCE_EXCESS = {
    NATURAL: (445.0, 272.0, 113.0, 37.0, 14.8),
    RANDOM: (12.6, 7.0, 5.5, 4.1, 2.9),
    ConjugateGradient.name: (459.0, 437.0, 413.0, 383.0, 311.0),
}
"""Excess variance at ``REFERENCE_ITERATIONS`` on the 180 × 360 grid, constant mean, from another implementation."""

REFERENCE_EXACT = {"rmse": 1.062, "nll": 1.510}
"""The exact GP there."""


class Era5Convergence(HeldOutStudy):
    """RMSE and NLL of the held-out field values, and how much wider the error bars are than the exact ones."""

    name = "era5-convergence"
    title = "ERA5: convergence"
    shows = "Supplement, ERA5 Regression Problem, the figure of RMSE and NLL"

    def present(self, config: HeldOutConfig, tables: Tables) -> Presentation:
        table = tables["table"]
        about = (
            f"{config.held_out} held-out field values, d = {config.d:,} training points; mean over {config.draws} "
            "draws of the held-out points, bands are one standard error. Left: prior mean constant; right: quadratic "
            "in latitude."
        )
        titles = {mean: IN_WORDS[mean] for mean in MEANS}
        panels = partial(score_panels, table, case="mean", titles=titles, solvers=ITERATED)
        rmse = panels("rmse", ylabel="RMSE of the field (K)", log=True)
        nll = panels("nll", ylabel="NLL of the field (temperature in K)", log=False)
        return Presentation(
            figures={
                "rmse": Drawing(rmse, f"RMSE of the posterior mean. {about}"),
                "nll": Drawing(
                    nll,
                    "NLL: mean negative log density of the field values under the marginal predictions for "
                    f"observations (noise included), temperatures in kelvin. {about}",
                ),
            },
            comparisons=[_scores(config, table), _excess(config, table)],
            remarks=[
                *(_finding(table, mean) for mean in MEANS),
                _orders(config, table),
                ORDER_REMARK,
                CG_REMARK,
                "The paper does not say on which points this figure is; these are the points of `era5-calibration`, "
                "and the two studies share their computations.",
                "NLL is about held-out observations, so the noise variance is added to that of the latent f.",
                sizes_remark(config),
                *reference_remarks(table, config.d),
            ],
        )


def _over_draws(table: pd.DataFrame, mean: str, solver: str) -> pd.DataFrame:
    """Means over draws by m."""
    return of_method(table, mean, solver).groupby("m")[["rmse", "nll", "mean_variance"]].mean()


def _orders(config: HeldOutConfig, table: pd.DataFrame) -> str:
    """How many times the excess variance of random order that of natural order is."""
    said = []
    for mean in MEANS:
        ratios = [excess(table, mean, NATURAL, m) / excess(table, mean, RANDOM, m) for m in config.kept]
        said.append(f"{', '.join(f'{ratio:.1f}' for ratio in ratios)} ({IN_WORDS[mean]})")
    at = ", ".join(map(str, config.kept))
    return f"Excess variance in natural order relative to random order at m = {at}: {'; '.join(said)}."


def _scores(config: HeldOutConfig, table: pd.DataFrame) -> Comparison:
    rows = []
    for mean in MEANS:
        for solver in ITERATED:
            chosen = _over_draws(table, mean, solver).loc[list(config.kept)]
            cells = [f"{row.rmse:.2f} / {row.nll:.2f}" for row in chosen.itertuples()]
            rows.append([IN_WORDS[mean], LOOKS[solver].label, *cells])
        exact = reference_in(table)
        best = _over_draws(table, mean, exact).iloc[0]
        cell = f"{best.rmse:.3f} / {best.nll:.3f}"
        if config.d == REFERENCE_D and mean == "constant":
            cell += f" (exact, from elsewhere: {REFERENCE_EXACT['rmse']:.3f} / {REFERENCE_EXACT['nll']:.3f})"
        rows.append([IN_WORDS[mean], LOOKS[exact].label, cell, *["–"] * (len(config.kept) - 1)])
    return Comparison(
        "RMSE (K) / NLL of the held-out field values, mean over draws. The paper's text: GS ahead of CG in both for "
        "the first iterations; no numbers are printed.",
        ["prior mean", "solver", *(f"m = {m}" for m in config.kept)],
        rows,
    )


def excess(table: pd.DataFrame, mean: str, solver: str, m: int) -> float:
    """mean(variance − exact variance) / mean(exact variance) over the held-out points, of the latent f."""
    ours, exact = (of_method(table, mean, s, m)["mean_variance"].mean() for s in (solver, reference_in(table)))
    return float(ours / exact - 1)


def _excess(config: HeldOutConfig, table: pd.DataFrame) -> Comparison:
    same = config.d == REFERENCE_D
    rows = []
    for mean in MEANS:
        for solver in ITERATED:
            cells = [f"{excess(table, mean, solver, m):.3g}" for m in config.kept]
            if same and mean == "constant":
                reference = dict(zip(REFERENCE_ITERATIONS, REFERENCE_EXCESS[solver], strict=True))
                cells = [f"{cell} ({reference[m]:g})" for cell, m in zip(cells, config.kept, strict=True)]
            rows.append([IN_WORDS[mean], LOOKS[solver].label, *cells])
    beside = (
        ", in brackets that of another implementation with the hyperparameters 11.1 K, 0.174, 1.17 K" if same else ""
    )
    return Comparison(
        f"Excess variance: mean(variance − exact variance) / mean(exact variance){beside}",
        ["prior mean", "solver", *(f"m = {m}" for m in config.kept)],
        rows,
    )


def _finding(table: pd.DataFrame, mean: str) -> str:
    """Up to which iteration GS is ahead of CG, for both orders and scores."""
    scores = {s: _over_draws(table, mean, s) for s in ITERATED}
    said = []
    for solver in (NATURAL, RANDOM):
        for score in ("rmse", "nll"):
            behind = scores[solver][score] >= scores[ConjugateGradient.name][score]
            first, last, count = behind.idxmax(), int(behind.index[-1]), int(behind.sum())
            words = f"ahead of CG at all m to {last}"
            if count:
                words = f"behind CG at {count} of {last} iterations, first at m = {first}"
            said.append(f"{LOOKS[solver].label} is {words} in {score.upper()}")
    return f"Found, {IN_WORDS[mean]}: {'; '.join(said)}. The paper: GS is ahead for the first iterations in both."

"""Two sides of the predictions at held-out points of ERA5: the studies `era5-calibration`, histograms and
Kolmogorov-Smirnov tests of Φ(z), and `era5-convergence`, RMSE and NLL against the number of iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import kurtosis

from cagp.calibration import Assessment, assess, plots
from cagp.solvers import ConjugateGradient

from .drawing import LOOKS, score_panels
from .era5_hyperparameters import IN_WORDS, MEANS
from .era5_study import (
    CG_REMARK,
    ITERATED,
    NATURAL,
    ORDER_REMARK,
    RANDOM,
    REFERENCES,
    HeldOutConfig,
    HeldOutStudy,
    of_method,
    reference_in,
    reference_remarks,
    sizes_remark,
)
from .study import Comparison, Drawing, Presentation, Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BINS = 10
KINDS = {"observed": "std of the observation", "latent": "std of the latent f"}
"""What the error is divided by. A held-out field value is an observation, so its noise belongs to it."""


class Era5Calibration(HeldOutStudy):
    """z = (mean − truth) / std at the held-out points."""

    name = "era5-calibration"
    title = "ERA5: calibration on held-out points"
    shows = 'Section "ERA5 Regression" and supplement, the figures of calibration results, also for detrended data'

    def present(self, config: HeldOutConfig, tables: Tables) -> Presentation:
        predictions, last = tables["predictions"], config.kept[-1]
        methods = (*ITERATED, reference_in(predictions))
        found = (
            f"t = Φ((mean − truth) / std) at {config.held_out} held-out points, the first draw, after m = {last} "
            "iterations, with the "
            "band that all bins of a uniform sample stay in with probability 95%. A hump is a conservative posterior, "
            "a U an overconfident one."
        )
        return Presentation(
            figures={
                "histograms": Drawing(
                    _histograms(config, predictions, methods, "observed"),
                    f"{found} The std is that of an observation: posterior and noise, as the model has it.",
                ),
                "histograms_latent": Drawing(
                    _histograms(config, predictions, methods, "latent"),
                    f"{found} The std is that of the latent f, without the noise: the paper's choice.",
                ),
            },
            comparisons=[_p_values(config, predictions, methods)],
            remarks=[
                *_calibration_found(config, predictions),
                "The paper prints a p-value of 0.4707 for CAGP-GS and of 5.0112e-1 for CAGP-CG and says that this "
                "shows CG to be miscalibrated. As printed, the second is the larger and neither rejects anything: "
                "numbers and text contradict each other (an exponent may have been lost in print).",
                "The paper divides by the posterior std of f. The held-out field values are observations like those in "
                "the training data, so under the model the noise must be added; without it, z is too large wherever "
                "the posterior is narrower than the noise. The table has both.",
                "The paper does not say how many iterations its histograms show; the table has several. The p-value "
                "of one draw of 100 points varies over orders of magnitude from draw to draw, so that a single one, "
                "ours or the paper's, decides little. A large one is no proof of calibration.",
                ORDER_REMARK,
                CG_REMARK,
                sizes_remark(config),
                "Average and polynomial are estimated from the training data and then taken as known.",
                *reference_remarks(predictions, config.d),
            ],
        )


def judged(
    config: HeldOutConfig, predictions: pd.DataFrame, mean: str, solver: str, m: int, kind: str
) -> list[Assessment]:
    """The z-values of one method after m iterations, judged draw by draw; ``kind`` is "observed" or "latent"."""
    noise = config.prior(mean).noise_std if kind == "observed" else 0.0
    draws = of_method(predictions, mean, solver, m).groupby("draw")
    return [assess(rows["error"].to_numpy() / np.hypot(rows["std"].to_numpy(), noise)) for _, rows in draws]


def _histograms(config: HeldOutConfig, predictions: pd.DataFrame, methods: tuple[str, ...], kind: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * len(methods), 3.5 * len(MEANS)), layout="constrained")
    axes = figure.subplots(len(MEANS), len(methods), squeeze=False, sharey=True)
    for row, mean in zip(axes, MEANS, strict=True):
        for ax, solver in zip(row, methods, strict=True):
            result = judged(config, predictions, mean, solver, config.kept[-1], kind)[0]
            plots.pit_histogram(result.t, bins=_BINS, ax=ax)
            m = "" if solver in REFERENCES else f", m = {config.kept[-1]}"
            ax.set_title(f"{LOOKS[solver].label}{m}\n{IN_WORDS[mean]}\nKS p-value {result.p_value:.3g}", fontsize=10)
            ax.set_xlabel(f"t = Φ(z), {KINDS[kind]}")
            ax.label_outer()
            ax.get_legend().remove()  # one below serves all panels and covers none
    axes[0, 0].set_ylim(0, max(ax.dataLim.y1 for ax in axes.flat) * 1.05)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure


def _p_values(config: HeldOutConfig, predictions: pd.DataFrame, methods: tuple[str, ...]) -> Comparison:
    rows = []
    for mean in MEANS:
        for solver in methods:
            once = solver in REFERENCES
            for m in (1,) if once else config.kept:
                observed, latent = (judged(config, predictions, mean, solver, m, kind) for kind in KINDS)
                rows.append(
                    [
                        IN_WORDS[mean],
                        LOOKS[solver].label,
                        "–" if once else str(m),
                        _range([each.p_value for each in observed], ".1g"),
                        _range([each.p_value for each in latent], ".1g"),
                        _range([each.z_std for each in observed], ".2f"),
                        _range([each.z_std for each in latent], ".2f"),
                        f"{rejected(observed)} / {rejected(latent)}",
                    ]
                )
    return Comparison(
        f"KS p-values of {config.held_out} held-out points, d = {config.d:,}, least to greatest of {config.draws} "
        "draws (the paper prints 0.4707 for GS and 5.0112e-1 for CG, with the latent std, and no number of "
        "iterations). A draw is rejected where one of the tests of z (uniformity, mean, std, coverage) rejects at a "
        "joint level of 1%.",
        [
            "prior mean",
            "solver",
            "m",
            "p-value, observed",
            "p-value, latent",
            "std of z, observed",
            "std of z, latent",
            "rejected draws, observed / latent",
        ],
        rows,
    )


def rejected(draws: Sequence[Assessment]) -> int:
    """How many draws are called anything but calibrated."""
    return sum(each.verdict != "calibrated" for each in draws)


def _range(values: Sequence[float], form: str) -> str:
    """Least and greatest: "0.02 to 0.5"."""
    ends = [format(end, form) for end in (min(values), max(values))]
    return ends[0] if len(values) == 1 else " to ".join(ends)


def _calibration_found(config: HeldOutConfig, predictions: pd.DataFrame) -> list[str]:
    """In how many draws each method is rejected, and what the reference says about the model."""
    exact, at = reference_in(predictions), ", ".join(map(str, config.kept))
    said = []
    for mean in MEANS:
        counts = {
            s: [rejected(judged(config, predictions, mean, s, m, "observed")) for m in config.kept] for s in ITERATED
        }
        each = [f"{LOOKS[s].label} {', '.join(map(str, number))}" for s, number in counts.items()]
        last = rejected(judged(config, predictions, mean, exact, 1, "observed"))
        said.append(f"{IN_WORDS[mean]}: {'; '.join(each)}; {LOOKS[exact].label} {last}")
    tails = [
        f"{kurtosis(np.concatenate([a.z for a in judged(config, predictions, mean, exact, 1, 'observed')])):.1f}"
        for mean in MEANS
    ]
    return [
        f"Found, for observations, rejected draws of {config.draws} at m = {at}. {'. '.join(said)}. The paper: GS well "
        "calibrated, CG not.",
        f"The {LOOKS[exact].label} has no computational error. Its z has an excess kurtosis of {' and '.join(tails)} "
        "(constant and quadratic mean; 0 for a normal distribution). Where it is rejected, it is "
        "for the model or because errors at different points are not independent, and the rejection of a solver then "
        "does not tell a wrong computation from that.",
    ]


# --- convergence ------------------------------------------------------------------------------------------------------


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
                *(_convergence_found(table, mean) for mean in MEANS),
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


def _convergence_found(table: pd.DataFrame, mean: str) -> str:
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

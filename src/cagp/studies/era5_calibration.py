"""The paper's calibration on held-out points of ERA5: histograms and Kolmogorov-Smirnov tests of Φ(z)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import kurtosis

from ..calibration import Assessment, assess, plots
from .base import Comparison, Drawing, Presentation, Tables
from .era5_held_out import HeldOutConfig, HeldOutStudy, of_method, sizes_remark
from .era5_prior import IN_WORDS, MEANS
from .era5_study import CG_REMARK, ITERATED, ORDER_REMARK, REFERENCES, reference_in, reference_remarks
from .style import LOOKS

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
                *_finding(config, predictions),
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


def _finding(config: HeldOutConfig, predictions: pd.DataFrame) -> list[str]:
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

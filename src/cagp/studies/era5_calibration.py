"""The paper's calibration on held-out points of ERA5: histograms and Kolmogorov-Smirnov tests of Φ(z)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..calibration import Assessment, assess, plots
from .base import Comparison, Drawing, Presentation, Tables
from .era5_held_out import HeldOutConfig, HeldOutStudy, of_method, sizes_remark
from .era5_prior import IN_WORDS, MEANS
from .era5_study import ITERATED, ORDER_REMARK, REFERENCES, reference_in, reference_remarks
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
            f"t = Φ((mean − truth) / std) at {config.held_out} held-out points after m = {last} iterations, with the "
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
                _finding(config, predictions),
                "The paper prints a p-value of 0.4707 for CAGP-GS and of 5.0112e-1 for CAGP-CG and says that this "
                "shows CG to be miscalibrated. As printed, the second is the larger and neither rejects anything: "
                "numbers and text contradict each other (an exponent may have been lost in print).",
                "The paper divides by the posterior std of f. The held-out field values are observations like those in "
                "the training data, so under the model the noise must be added; without it, z is too large wherever "
                "the posterior is narrower than the noise. Both p-values are in the table, the verdict is about "
                "observations.",
                "The paper does not say how many iterations its histograms show; the table has several. A large KS "
                "p-value is no proof of calibration with 100 points, and the errors of neighbouring points are "
                "correlated.",
                ORDER_REMARK,
                sizes_remark(config),
                "Average and polynomial are estimated from the training data and then taken as known.",
                *reference_remarks(predictions, config.d),
            ],
        )


def judged(config: HeldOutConfig, predictions: pd.DataFrame, mean: str, solver: str, m: int, kind: str) -> Assessment:
    """The z-values of one method after m iterations, judged; ``kind`` is "observed" or "latent"."""
    rows = of_method(predictions, mean, solver, m)
    noise = config.prior(mean).noise_std if kind == "observed" else 0.0
    return assess(rows["error"].to_numpy() / np.hypot(rows["std"].to_numpy(), noise))


def _histograms(config: HeldOutConfig, predictions: pd.DataFrame, methods: tuple[str, ...], kind: str) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.6 * len(methods), 3.5 * len(MEANS)), layout="constrained")
    axes = figure.subplots(len(MEANS), len(methods), squeeze=False, sharey=True)
    for row, mean in zip(axes, MEANS, strict=True):
        for ax, solver in zip(row, methods, strict=True):
            result = judged(config, predictions, mean, solver, config.kept[-1], kind)
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
                        f"{observed.p_value:.3g}",
                        f"{latent.p_value:.3g}",
                        f"{observed.z_std:.3f}",
                        f"{latent.z_std:.3f}",
                        observed.verdict,
                    ]
                )
    return Comparison(
        f"KS p-values of {config.held_out} held-out points, d = {config.d:,} (the paper prints 0.4707 for GS and "
        "5.0112e-1 for CG, with the latent std, and no number of iterations)",
        [
            "prior mean",
            "solver",
            "m",
            "p-value, observed",
            "p-value, latent",
            "std of z, observed",
            "std of z, latent",
            "verdict, observed",
        ],
        rows,
    )


def _finding(config: HeldOutConfig, predictions: pd.DataFrame) -> str:
    """What GS, CG and the reference are called at the last iteration, beside what the paper says."""
    last = config.kept[-1]
    said = []
    for mean in MEANS:
        methods = (*ITERATED, reference_in(predictions))
        verdicts = {s: judged(config, predictions, mean, s, last, "observed") for s in methods}
        each = [f"{LOOKS[s].label} {v.verdict} (std of z {v.z_std:.2f})" for s, v in verdicts.items()]
        said.append(f"{IN_WORDS[mean]}: {'; '.join(each)}")
    return (
        f"Found at m = {last}, for observations. {'. '.join(said)}. The paper: GS well calibrated, CG not. Where the "
        "exact GP is rejected, too, it is the model that does not fit (the field is smooth over sea and rough over "
        "land, so that errors have heavier tails than a normal distribution), and a solver that comes closer to it "
        "is rejected more, not less."
    )

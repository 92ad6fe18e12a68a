"""The paper's section "Synthetic Problem": RMSE and NLL against m at three lengthscales."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pandas as pd

from ..solvers import Cholesky, ConjugateGradient, GaussSeidel
from .base import Comparison, Presentation, Tables
from .convergence import ConvergenceConfig, ConvergenceStudy, both_curves, in_words, overtaken, summarise
from .style import LOOKS

KERNEL = "Matern32"
LENGTHSCALES = (0.1, 0.2, 0.4)
_CASES = tuple((KERNEL, lengthscale) for lengthscale in LENGTHSCALES)

_REFERENCE_RUNS = 50
REFERENCE_ITERATIONS = (1, 5, 10, 20, 50)
REFERENCE_RMSE: dict[tuple[float, str], tuple[float, ...]] = {
    (0.1, GaussSeidel.name): (0.446, 0.336, 0.314, 0.301, 0.291),
    (0.1, ConjugateGradient.name): (0.780, 0.590, 0.479, 0.349, 0.287),
    (0.1, Cholesky.name): (0.286,),
    (0.2, GaussSeidel.name): (0.307, 0.217, 0.192, 0.174, 0.159),
    (0.2, ConjugateGradient.name): (0.737, 0.597, 0.485, 0.307, 0.141),
    (0.2, Cholesky.name): (0.141,),
    (0.4, GaussSeidel.name): (0.207, 0.151, 0.135, 0.121, 0.105),
    (0.4, ConjugateGradient.name): (0.715, 0.452, 0.374, 0.149, 0.077),
    (0.4, Cholesky.name): (0.077,),
}
"""RMSE at ``REFERENCE_ITERATIONS`` over 50 runs of another implementation with other random numbers, by lengthscale
and solver; the standard error of each is about 1–3%."""


class Synthetic(ConvergenceStudy):
    """Matérn 3/2, lengthscales 0.1, 0.2 and 0.4."""

    name = "synthetic"
    title = "Synthetic problem: convergence at three lengthscales"
    shows = 'Section "Synthetic Problem", the figures of RMSE and NLL for the synthetic problem'
    scales: ClassVar[Mapping[str, ConvergenceConfig]] = {
        "quick": ConvergenceConfig(_CASES, runs=10, iterations=50),
        "paper": ConvergenceConfig(_CASES, runs=50),
    }

    def present(self, config: ConvergenceConfig, tables: Tables) -> Presentation:
        table = tables["table"]
        titles = {f"{kernel} {each:g}": f"Matérn 3/2, ℓ = {each:g}" for kernel, each in config.cases}
        return Presentation(
            figures=both_curves(config, table, titles),
            comparisons=[compare_with_reference(table), _compare_with_text(table)],
            remarks=[
                "The paper shows curves and prints no numbers for this study. The reference is an independent "
                "implementation: 50 runs with other random numbers, its own standard error about 1–3%.",
                "RMSE and NLL are about the latent f. RMSE is the root of the mean squared error, not a norm.",
                "The training points are independent and uniform, so Gauss-Seidel in natural order, the paper's, is "
                "used as it is. Random directions are drawn anew in every run.",
                "Within a run the three lengthscales share the training points and the normals behind f and the noise.",
                "Wall times in the table are cumulative and were taken while other pieces ran beside. CG and random "
                "directions prepare all directions before their first posterior, so their times start high. "
                "The study “time” measures time properly.",
            ],
        )


def compare_with_reference(table: pd.DataFrame) -> Comparison:
    """RMSE beside the reference values, with standard errors of the mean over runs."""
    summary = summarise(table)["rmse"]
    runs = table["run"].nunique()
    rows = []
    for (lengthscale, solver), values in REFERENCE_RMSE.items():
        for m, reference in zip(REFERENCE_ITERATIONS, values, strict=False):
            if (KERNEL, lengthscale, solver, m) not in summary.index:
                continue  # a smaller configuration stops earlier
            mean, error = summary.loc[(KERNEL, lengthscale, solver, m)]
            shown = "–" if solver == Cholesky.name else str(m)
            # the reference is a mean over runs as well: what one run varies by is known from ours
            distance = f"{(mean - reference) / (error * (1 + runs / _REFERENCE_RUNS) ** 0.5):+.1f}".replace("-", "−")
            ours = f"{mean:.3f} ± {error:.3f}"
            rows.append([f"{lengthscale:g}", LOOKS[solver].label, shown, f"{reference:.3f}", ours, distance])
    return Comparison(
        "RMSE: reference beside ours (± standard error)",
        ["ℓ", "solver", "m", "reference", "ours", "difference / its standard error"],
        rows,
    )


def _compare_with_text(table: pd.DataFrame) -> Comparison:
    rows = []
    for lengthscale, of_case in table.groupby("lengthscale"):
        by_rmse, by_nll = overtaken(of_case, "rmse"), overtaken(of_case, "nll")
        last = int(of_case["m"].max()) + 1
        first, later = by_rmse[0] or last, by_nll[0] or last
        agrees = 1 < first <= int(of_case["m"].max()) and later > first
        rows.append([f"{lengthscale:g}", in_words(by_rmse), in_words(by_nll), "yes" if agrees else "no"])
    return Comparison(
        "The paper's text: GS is ahead first, CG overtakes it, and later in NLL than in RMSE. "
        "Where CG overtakes GS (95% bootstrap interval over runs):",
        ["ℓ", "in RMSE at", "in NLL at", "agrees"],
        rows,
    )

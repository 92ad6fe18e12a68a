"""RMSE and NLL against the number of iterations: what `synthetic` and `smoothness` have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..solvers import Cholesky, ConjugateGradient, GaussSeidel, RandomDirections
from .base import Drawing, Study, Tables
from .panels import score_panels
from .problem import draw, generator, make_prior
from .traces import trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ITERATED = (GaussSeidel.name, ConjugateGradient.name, RandomDirections.name)
_CASE = ["kernel", "lengthscale"]
_RESAMPLES = 1000


@dataclass(frozen=True)
class ConvergenceConfig:
    """``cases`` are pairs of a kernel and a lengthscale; each gets ``runs`` runs with ``n`` training points, a grid
    of ``side`` × ``side`` test points, noise of standard deviation ``noise_std``, and 1…``iterations`` iterations.
    """

    cases: tuple[tuple[str, float], ...]
    runs: int
    iterations: int = 100
    n: int = 400
    side: int = 21
    noise_std: float = 0.1


@dataclass(frozen=True)
class ConvergencePiece:
    """One run of one case."""

    kernel: str
    lengthscale: float
    run: int


class ConvergenceStudy(Study[ConvergenceConfig, ConvergencePiece]):
    """Gauss-Seidel, conjugate gradients, random directions and the exact GP on the synthetic problem."""

    def pieces(self, config: ConvergenceConfig) -> Mapping[str, ConvergencePiece]:
        return {
            f"{kernel}-{lengthscale:g}-run-{run:03d}": ConvergencePiece(kernel, lengthscale, run)
            for run in range(config.runs)
            for kernel, lengthscale in config.cases
        }

    def run(self, config: ConvergenceConfig, piece: ConvergencePiece, seed: int) -> Tables:
        prior = make_prior(piece.kernel, piece.lengthscale, config.noise_std)
        rng = generator(seed, piece.run)
        problem = draw(prior, config.n, config.side, rng)
        m = config.iterations
        solvers = (
            # the points are independent, so their natural order, which is the paper's, is as good as any
            GaussSeidel(m, order="natural"),
            ConjugateGradient(m),
            RandomDirections(m, seed=int(rng.integers(2**31))),
        )
        rows = [row for solver in solvers for row in trace(prior, problem, solver, m)]
        rows += trace(prior, problem, Cholesky(), 1)
        table = pd.DataFrame(rows)
        for position, (column, value) in enumerate(
            {"kernel": piece.kernel, "lengthscale": piece.lengthscale, "seed": seed, "run": piece.run}.items()
        ):
            table.insert(position, column, value)
        return {"table": table}


def summarise(table: pd.DataFrame) -> pd.DataFrame:
    """Mean and standard error over runs of rmse and nll, by case, solver and m: columns (rmse, mean), (rmse, sem)…"""
    return table.groupby([*_CASE, "solver", "m"], sort=False)[["rmse", "nll"]].agg(["mean", "sem"])


def overtaken(table: pd.DataFrame, score: str) -> tuple[int | None, int | None, int | None]:
    """The first m at which the mean ``score`` of CG is below that of GS, for the rows of one case; None for never.

    With it, the ends of its 95% bootstrap interval over runs.
    """
    wide = table.pivot_table(index="run", columns=["solver", "m"], values=score)
    gap = (wide[ConjugateGradient.name] - wide[GaussSeidel.name]).to_numpy()  # (runs, m)
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(gap), size=(_RESAMPLES, len(gap)))
    firsts = np.sort([_first_negative(gap[rows].mean(axis=0)) for rows in chosen])
    low, high = firsts[int(0.025 * _RESAMPLES)], firsts[int(0.975 * _RESAMPLES)]
    m = [int(i) + 1 if i < gap.shape[1] else None for i in (_first_negative(gap.mean(axis=0)), low, high)]
    return m[0], m[1], m[2]


def _first_negative(values: np.ndarray) -> int:
    below = np.flatnonzero(values < 0)
    return int(below[0]) if len(below) else len(values)


def in_words(crossing: tuple[int | None, int | None, int | None]) -> str:
    """What ``overtaken`` found: "m = 26 (24 to 28)"."""
    m, low, high = ("never" if each is None else str(each) for each in crossing)
    return f"never (from {low})" if m == "never" and low != m else m if m == "never" else f"m = {m} ({low} to {high})"


def curves(table: pd.DataFrame, score: str, ylabel: str, log_score: bool, titles: Mapping[str, str]) -> Figure:
    """One panel per case: ``score`` against m for each solver, with bands of one standard error."""
    case = table["kernel"] + " " + table["lengthscale"].map("{:g}".format)
    return score_panels(
        table.assign(case=case), score, case="case", titles=titles, solvers=ITERATED, ylabel=ylabel, log=log_score
    )


def both_curves(config: ConvergenceConfig, table: pd.DataFrame, titles: Mapping[str, str]) -> dict[str, Drawing]:
    """The two figures of a convergence study, "rmse" and "nll"."""
    runs = f"Mean over {config.runs} runs; bands are one standard error. d = {config.n}, T = {config.side**2}."
    return {
        "rmse": Drawing(
            curves(table, "rmse", "RMSE of the latent mean", True, titles),
            f"RMSE of the posterior mean against the latent truth on the grid. {runs}",
        ),
        "nll": Drawing(
            curves(table, "nll", "NLL of the latent truth", False, titles),
            f"NLL: mean negative log density of the latent truth under the marginal posteriors. {runs}",
        ),
    }

"""Simulation-based calibration on the synthetic problem: what `sbc` and `sbc-iterations` have in common."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from cagp.calibration import plots, simulation_based_calibration
from cagp.solvers import NAMES, GaussSeidel, RandomDirections, Solver

from .drawing import LOOKS
from .problem import generator, grid, make_prior, uniform_points
from .study import Study, Tables

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Case:
    """A solver after ``m`` iterations, simulated on ``runs`` independent sets of training points."""

    solver: str
    m: int
    runs: int

    @property
    def label(self) -> str:
        """For titles and tables: "CAGP-GS, m = 5"."""
        return f"{LOOKS[self.solver].label}, m = {self.m}"


@dataclass(frozen=True)
class SimulatedConfig:
    """``simulations`` for each case and run; ``n`` training points and a grid of ``side`` × ``side`` test points."""

    cases: tuple[Case, ...]
    simulations: int = 1000
    n: int = 400
    side: int = 21
    kernel: str = "Matern32"
    lengthscale: float = 0.2
    noise_std: float = 0.1


@dataclass(frozen=True)
class SimulatedPiece:
    """One run of one case."""

    case: Case
    run: int


class SimulatedStudy(Study[SimulatedConfig, SimulatedPiece]):
    """Algorithm "sbc" for each case. The t-values of the first run are kept: they are the paper's histograms."""

    def pieces(self, config: SimulatedConfig) -> Mapping[str, SimulatedPiece]:
        # the slow ones first, so that no process is left alone with one of them in the end
        longest_first = sorted(config.cases, key=lambda case: (NAMES[case.solver].calibrated, -case.m))
        return {
            f"{case.solver}-{case.m:03d}-run-{run:03d}": SimulatedPiece(case, run)
            for case in longest_first
            for run in range(case.runs)
        }

    def run(self, config: SimulatedConfig, piece: SimulatedPiece, seed: int) -> Tables:
        case = piece.case
        prior = make_prior(config.kernel, config.lengthscale, config.noise_std)
        # all cases of a run share the training points, the test vector and the draws from the prior
        rng = generator(seed, piece.run)
        X, X_test = uniform_points(config.n, rng), grid(config.side)
        simulation_seed, solver_seed = (int(each) for each in rng.integers(2**31, size=2))
        start = time.perf_counter()
        result = simulation_based_calibration(
            prior,
            X,
            X_test,
            solver=_solver(case, solver_seed),
            n_simulations=config.simulations,
            seed=simulation_seed,
            progress=False,
        )
        seconds = time.perf_counter() - start
        identity = {"seed": seed, "run": piece.run, "solver": case.solver, "m": case.m}
        row: dict[str, Any] = {
            **identity,
            "simulations": config.simulations,
            "ks_statistic": result.ks_statistic,
            "p_value": result.p_value,
            "z_mean": result.z_mean,
            "z_std": result.z_std,
            "verdict": result.verdict,
            "seconds": seconds,
        }
        tables = {"table": pd.DataFrame([row])}
        if piece.run == 0:
            values = pd.DataFrame({"simulation": range(config.simulations), "t": result.t})
            tables["t_values"] = pd.DataFrame([identity] * len(values)).join(values)
        return tables


def _solver(case: Case, seed: int) -> Solver:
    if case.solver == GaussSeidel.name:
        return GaussSeidel(case.m, order="natural")  # the paper's order; the points are independent, so any will do
    if case.solver == RandomDirections.name:
        return RandomDirections(case.m, seed=seed)
    return NAMES[case.solver](iterations=case.m)  # type: ignore[call-arg]


def of_case(table: pd.DataFrame, case: Case) -> pd.DataFrame:
    """The rows of one case."""
    return table[(table["solver"] == case.solver) & (table["m"] == case.m)]


def in_words(table: pd.DataFrame, case: Case) -> list[str]:
    """Cells for a comparison: p-value of the first run, p-values over runs, std of z, verdicts."""
    rows = of_case(table, case)
    p, std, verdicts = rows["p_value"], rows["z_std"], rows["verdict"].value_counts()
    over_runs = f"{p.median():.2g} ({p.quantile(0.05):.2g} to {p.quantile(0.95):.2g})"
    spread = f"{std.mean():.3f} ± {std.sem():.3f}" if len(std) > 1 else f"{std.iloc[0]:.3f}"
    shares = ", ".join(f"{verdict} {number} of {len(rows)}" for verdict, number in verdicts.items())
    return [f"{p.iloc[0]:.4g}", over_runs, spread, shares]


IN_WORDS = ["p-value, first run", "p-value over runs: median (5% to 95%)", "std of z", "verdicts"]
"""Column titles for ``in_words``."""


def histograms(tables: Tables, cases: Sequence[Case]) -> Figure:
    """The t-values of the first run, one panel per case, with the band that a uniform sample stays in."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.7 * len(cases), 3.5), layout="constrained")
    axes = figure.subplots(1, len(cases), sharey=True, squeeze=False)[0]
    highest = 0.0
    for ax, case in zip(axes, cases, strict=True):
        plots.pit_histogram(of_case(tables["t_values"], case)["t"].to_numpy(), ax=ax)
        highest = max(highest, ax.dataLim.y1)
        p_value = of_case(tables["table"], case)["p_value"].iloc[0]
        ax.set(xlabel="t = Φ(z)", xticks=(0, 0.5, 1), title=f"{case.label}\nKS p-value {p_value:.3g}")
        ax.label_outer()
        ax.get_legend().remove()  # one below serves all panels and covers none
    axes[0].set_ylim(0, 1.05 * highest)  # the panels share it
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure

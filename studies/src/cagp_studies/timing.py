"""The supplement's RMSE and NLL against wall time: Gauss-Seidel, conjugate gradients and the subset GP."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from cagp.prediction import Prediction
from cagp.prior import Prior
from cagp.solvers import Cholesky, ConjugateGradient, GaussSeidel, Solver, Subset

from .drawing import LOOKS, legend, level, plain_ticks
from .problem import Problem, draw, errors, generator, make_prior
from .study import Comparison, Drawing, Presentation, Study, Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TIMED = (GaussSeidel.name, ConjugateGradient.name, Subset.name)
_NEAR_RMSE = 1.1
_NEAR_NLL = 0.1
_BUSY = 1.2


@dataclass(frozen=True)
class TimeConfig:
    """``runs`` problems with ``n`` training points and a grid of ``side`` × ``side`` test points; each solver is
    timed ``repeats`` times for every number of iterations m (for the subset GP: every subset size).
    """

    runs: int
    repeats: int
    iterations: tuple[int, ...] = (1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50)
    sizes: tuple[int, ...] = (1, 2, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100)
    n: int = 100
    side: int = 5
    kernel: str = "Matern32"
    lengthscale: float = 0.2
    noise_std: float = 0.1


@dataclass(frozen=True)
class TimePiece:
    """One run."""

    run: int


class Time(Study[TimeConfig, TimePiece]):
    """d = 100, T = 25, one thread."""

    name = "time"
    title = "Synthetic problem: error against wall time"
    shows = "Supplement, Further Simulation Results, the figure of RMSE and NLL against time"
    alone = True
    scales: ClassVar[Mapping[str, TimeConfig]] = {
        "quick": TimeConfig(runs=10, repeats=5),
        "paper": TimeConfig(runs=50, repeats=11),
    }

    def pieces(self, config: TimeConfig) -> Mapping[str, TimePiece]:
        return {f"run-{run:03d}": TimePiece(run) for run in range(config.runs)}

    def run(self, config: TimeConfig, piece: TimePiece, seed: int) -> Tables:
        prior = make_prior(config.kernel, config.lengthscale, config.noise_std)
        rng = generator(seed, piece.run)
        problem = draw(prior, config.n, config.side, rng)
        subset_seed = int(rng.integers(2**31))
        cases: list[tuple[Solver, int]] = [(GaussSeidel(m, order="natural"), m) for m in config.iterations]
        cases += [(ConjugateGradient(m), m) for m in config.iterations]
        cases += [(Subset(size, seed=subset_seed), size) for size in config.sizes]
        cases.append((Cholesky(), 1))
        clocks = np.empty((config.repeats, len(cases), 2))
        # solvers take turns, so that a slow moment of the machine does not hit one of them alone
        for repeat in range(config.repeats):
            for i, (solver, _) in enumerate(cases):
                solve(prior, problem, solver)  # the warm-up: what the solver before left in the caches is not counted
                clocks[repeat, i] = timed(prior, problem, solver)
        rows = []
        for (solver, m), (wall, processor) in zip(cases, np.median(clocks, axis=0), strict=True):
            posterior = solve(prior, problem, solver)
            rows.append(
                {"seed": seed, "run": piece.run, "solver": solver.name, "m": m}
                | errors(posterior, problem.truth)
                | {"seconds": wall, "processor_seconds": processor}
            )
        return {"table": pd.DataFrame(rows)}

    def present(self, config: TimeConfig, tables: Tables) -> Presentation:
        from matplotlib.figure import Figure

        summary = _summarise(tables["table"])
        figure = Figure(figsize=(9.2, 3.9), layout="constrained")
        for ax, (score, label) in zip(
            figure.subplots(1, 2),
            {"rmse": "RMSE of the latent mean", "nll": "NLL of the latent truth"}.items(),
            strict=True,
        ):
            _panel(ax, summary, score)
            ax.set_ylabel(label)
        figure.axes[0].set_yscale("log")
        plain_ticks(figure.axes[0].yaxis, steps=(1, 2, 3, 4, 6, 8))
        legend(figure)
        caption = (
            f"Error against wall time for d = {config.n}, T = {config.side**2}, one thread. Each marker is a number "
            f"of iterations m, or a subset size; the smallest and largest are written beside. Time: median over "
            f"{config.runs} runs of the median of {config.repeats} repeats, warm-up excluded. Error: mean over runs, "
            "bars are one standard error."
        )
        return Presentation(
            figures={"time": Drawing(figure, caption)},
            comparisons=[_time_to_reach(summary)],
            remarks=[
                _verdict(summary),
                *busy(tables["table"]),
                "Each time is a complete computation on its own: conditioning on the data and predicting mean and "
                "variance at all test points. An untimed computation of the same kind runs right before each timed one "
                "(warm-up); nothing is compiled.",
                "The paper compiles with jax and uses numpy's Cholesky for the subset; here everything runs in torch. "
                "At d = 100 a good part of each time is the fixed cost of calling, not arithmetic, "
                "so times depend on implementation and machine, as the paper says of its own.",
                "The paper does not say which 25 test points it uses; here they are a regular 5 × 5 grid. The subset "
                f"of all {config.n} points is the exact GP.",
            ],
        )


def solve(prior: Prior, problem: Problem, solver: Solver) -> Prediction:
    """A complete computation: conditioning on the data, and mean and variance at all test points."""
    return prior.condition(problem.X, problem.y, solver).predict(problem.X_test, progress=False)


def timed(prior: Prior, problem: Problem, solver: Solver) -> tuple[float, float]:
    """Seconds on the wall and seconds of the processor."""
    wall, processor = time.perf_counter(), time.process_time()
    solve(prior, problem, solver)
    return time.perf_counter() - wall, time.process_time() - processor


def _summarise(table: pd.DataFrame) -> pd.DataFrame:
    """By solver and m: mean and standard error of rmse and nll over runs, median milliseconds."""
    grouped = table.groupby(["solver", "m"], sort=False)
    summary = grouped[["rmse", "nll"]].agg(["mean", "sem"])
    summary.columns = [f"{score}_{what}" for score, what in summary.columns]
    return summary.assign(milliseconds=1e3 * grouped["seconds"].median())


def _panel(ax: Axes, summary: pd.DataFrame, score: str) -> None:
    for solver in _TIMED:
        of_solver = summary.loc[solver]
        x, y = of_solver["milliseconds"].to_numpy(), of_solver[f"{score}_mean"].to_numpy()
        error = of_solver[f"{score}_sem"].to_numpy()
        ax.errorbar(x, y, yerr=error, markersize=4.5, linewidth=1.3, elinewidth=0.8, **LOOKS[solver].line())
        for i in (0, -1):
            ax.annotate(
                str(of_solver.index[i]),
                (x[i], y[i]),
                xytext=(5, 5),
                textcoords="offset points",
                fontsize=8,
                color=LOOKS[solver].color,
            )
    exact = summary.loc[Cholesky.name].iloc[0]
    level(ax, exact[f"{score}_mean"], exact[f"{score}_sem"], Cholesky.name)
    ax.set(xscale="log", xlabel="wall time (ms)")
    plain_ticks(ax.xaxis)
    ax.grid(alpha=0.25, which="both", linewidth=0.5)


def _time_to_reach(summary: pd.DataFrame) -> Comparison:
    """The first m whose error is near that of the exact GP, and what it costs."""
    exact = summary.loc[Cholesky.name].iloc[0]
    rows = []
    for solver in _TIMED:
        of_solver = summary.loc[solver]
        cells = [LOOKS[solver].label]
        for score, limit in (("rmse", _NEAR_RMSE * exact["rmse_mean"]), ("nll", exact["nll_mean"] + _NEAR_NLL)):
            near = of_solver[of_solver[f"{score}_mean"] <= limit]
            reached = not near.empty
            cells.append(f"{near['milliseconds'].iloc[0]:.2f} ms (m = {near.index[0]})" if reached else "not reached")
        rows.append(cells)
    rows.append([LOOKS[Cholesky.name].label, *[f"{exact['milliseconds']:.2f} ms"] * 2])
    return Comparison(
        "The paper's text: GS and CG converge faster than the subset GP, GS fastest in the first few iterations and "
        "best in NLL. Ours, median time to come near the exact GP:",
        ["solver", f"RMSE ≤ {_NEAR_RMSE:g} × exact", f"NLL ≤ exact + {_NEAR_NLL:g}"],
        rows,
    )


def _verdict(summary: pd.DataFrame) -> str:
    """Whether the paper's order of the solvers is found, in one sentence."""
    gs, cg, exact = (summary.loc[name] for name in (GaussSeidel.name, ConjugateGradient.name, Cholesky.name))
    # at each time of CG, what GS had reached by then
    found = [
        gs.loc[gs["milliseconds"] <= row["milliseconds"], score].min() < row[score]
        for score in ("rmse_mean", "nll_mean")
        for _, row in cg.head(3).iterrows()
    ]
    ahead = "GS is ahead of CG" if all(found) else "GS is not ahead of CG throughout"
    whole, first = exact["milliseconds"].iloc[0], gs["milliseconds"].iloc[0]
    room = "there is room for iterations to pay off, as the paper finds."
    if whole < 2 * first:
        room = "no room for iterations to pay off at this size, so the advantage over the subset GP is not found."
    return (
        f"Agreement: {ahead} in the first few iterations, in RMSE and NLL (the paper: ahead). The exact GP takes "
        f"{whole:.2f} ms here, one iteration of GS {first:.2f} ms: {room}"
    )


def busy(table: pd.DataFrame) -> list[str]:
    """A remark where something else kept the processor from us."""
    ratio = float((table["seconds"] / table["processor_seconds"]).quantile(0.9))
    if ratio < _BUSY:
        return []
    return [
        f"The machine was busy: a tenth of the wall times are more than {ratio:.1f} × the processor time. Repeat this."
    ]

"""The supplement's wall times on ERA5 against the iterations, the training points and the test points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
import torch

from cagp.datasets import era5_grid
from cagp.solvers import ConjugateGradient

from .drawing import LOOKS, legend, plain_ticks
from .era5_hyperparameters import KNOWN
from .era5_study import ITERATED, NATURAL, RANDOM, method
from .machine import Forecast, measure
from .problem import Problem, generator
from .study import Comparison, Drawing, Presentation, Study, Tables
from .timing import busy, solve, timed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GRID = (120, 240)
VARIED = {"m": "iterations m", "d": "training points d", "T": "test points T"}


@dataclass(frozen=True)
class TimingsConfig:
    """Around ``m`` iterations, ``d`` training and ``T`` test points, one of them is varied at a time through
    ``many_m``, ``many_d`` or ``many_T``; every time is the median of ``repeats``.
    """

    m: int
    d: int
    T: int
    many_m: tuple[int, ...]
    many_d: tuple[int, ...]
    many_T: tuple[int, ...]
    repeats: int


@dataclass(frozen=True)
class TimingsPiece:
    """One size: which of the three is ``varied``, and all three."""

    varied: str
    m: int
    d: int
    T: int


class Era5Timings(Study[TimingsConfig, TimingsPiece]):
    """Mean and variance, on the processor with one thread, G stored."""

    name = "era5-timings"
    title = "ERA5: wall time"
    shows = 'Section "ERA5 Regression" and supplement, the figure of timings'
    alone = True
    scales: ClassVar[Mapping[str, TimingsConfig]] = {
        "quick": TimingsConfig(20, 2592, 25, (1, 2, 5, 10, 20, 40), (500, 1000, 2592, 5000), (1, 5, 25, 100, 400), 3),
        "paper": TimingsConfig(
            80, 10_638, 25, (1, 5, 10, 20, 40, 80), (1000, 2500, 5000, 10_638, 20_000), (1, 5, 25, 100, 400), 3
        ),
    }

    def pieces(self, config: TimingsConfig) -> Mapping[str, TimingsPiece]:
        sizes = [TimingsPiece("m", m, config.d, config.T) for m in config.many_m]
        sizes += [TimingsPiece("d", config.m, d, config.T) for d in config.many_d]
        sizes += [TimingsPiece("T", config.m, config.d, T) for T in config.many_T]
        return {f"{each.varied}-{getattr(each, each.varied):05d}": each for each in sizes}

    def forecast(self, config: TimingsConfig, pieces: Sequence[TimingsPiece]) -> Forecast:
        seconds, memory = 0.0, 0.0
        rates = {T: measure(T, torch.device("cpu")) for T in {piece.T for piece in pieces}}
        for piece in pieces:
            of_T = rates[piece.T]
            once = 3 * of_T.assemble(piece.d) + piece.m * of_T.product(piece.d, False)
            once += 2 * piece.m * of_T.sweep(piece.d, piece.T, False)
            # the warm-up does one iteration
            seconds += config.repeats * once + 3 * of_T.assemble(piece.d)
            memory = max(memory, 8 * piece.d * (piece.d + 8 * piece.T + piece.m))
        return Forecast(seconds, memory)

    def run(self, config: TimingsConfig, piece: TimingsPiece, seed: int) -> Tables:
        grid = era5_grid(*_GRID)
        # sorted: their natural order is that of the grid
        chosen = np.sort(generator(seed, 0).choice(len(grid), piece.d, replace=False))
        test = grid.held_out(piece.T, seed)
        problem = Problem(grid.X[chosen], grid.y[chosen], test.X, test.y)
        prior = KNOWN.prior()
        for name in ITERATED:
            solve(prior, problem, method(name, 1, seed))  # the warm-up
        clocks = np.empty((config.repeats, len(ITERATED), 2))
        # methods take turns, so that a slow moment of the machine does not hit one of them alone
        for repeat in range(config.repeats):
            for i, name in enumerate(ITERATED):
                clocks[repeat, i] = timed(prior, problem, method(name, piece.m, seed))
        rows = [
            {"seed": seed, "varied": piece.varied, "m": piece.m, "d": piece.d, "T": piece.T, "solver": name}
            | {"seconds": wall, "processor_seconds": processor}
            for name, (wall, processor) in zip(ITERATED, np.median(clocks, axis=0), strict=True)
        ]
        return {"table": pd.DataFrame(rows)}

    def present(self, config: TimingsConfig, tables: Tables) -> Presentation:
        table = tables["table"]
        return Presentation(
            figures={
                "timings": Drawing(
                    _panels(config, table),
                    f"Wall time of mean and variance, one of m, d, T varied, the others fixed to m = {config.m}, "
                    f"d = {config.d:,}, T = {config.T}. Median of {config.repeats} repeats on one thread, warm-up "
                    "excluded; assembling G is included.",
                )
            },
            comparisons=[_times(table)],
            remarks=[
                *(_finding(table, varied) for varied in VARIED),
                *busy(table),
                "The paper's text: in m both scale alike, GS slightly ahead for many iterations; in d CG is ahead "
                "first and GS later; GS is ahead for small T and CG catches up as T grows towards d. Its times are "
                "from a node with 40 cores and its own code; ours are from one thread.",
                "The order of Gauss-Seidel costs nothing: both orders do the same work. What they reach with it "
                "differs greatly, see `era5-convergence`.",
                f"Training points are drawn at random from the {_GRID[0]} × {_GRID[1]} grid, because no grid of the "
                "usual shape has 10,638 points; hyperparameters are those of the 72 × 144 grid, which do not matter "
                "for the time.",
                "CG does its m products with G once and then pays O(md) for a test point; Gauss-Seidel pays a pass "
                "over G for every iteration with all test points side by side.",
            ],
        )


def _panels(config: TimingsConfig, table: pd.DataFrame) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.4, 3.7), layout="constrained")
    for ax, (varied, label) in zip(figure.subplots(1, len(VARIED), sharey=True), VARIED.items(), strict=True):
        for solver in ITERATED:
            rows = table[(table["varied"] == varied) & (table["solver"] == solver)]
            ax.plot(rows[varied], rows["seconds"], markersize=5, linewidth=1.4, **LOOKS[solver].line())
        fixed = ", ".join(f"{each} = {getattr(config, each):,}" for each in VARIED if each != varied)
        ax.set(xscale="log", yscale="log", xlabel=label, title=fixed)
        plain_ticks(ax.xaxis)
        plain_ticks(ax.yaxis)
        ax.grid(alpha=0.25, which="both", linewidth=0.5)
    figure.axes[0].set_ylabel("wall time (s)")
    legend(figure)
    return figure


def _times(table: pd.DataFrame) -> Comparison:
    rows = []
    for varied in VARIED:
        for value, of_size in table[table["varied"] == varied].groupby(varied):
            seconds = of_size.set_index("solver")["seconds"]
            ratio = seconds[RANDOM] / seconds[ConjugateGradient.name]
            cells = [f"{seconds[solver]:.3g} s" for solver in ITERATED]
            rows.append([f"{varied} = {value:,}", *cells, f"{ratio:.2f}"])
    return Comparison(
        "Wall time, and Gauss-Seidel in random order relative to CG",
        ["size", *(LOOKS[solver].label for solver in ITERATED), "GS / CG"],
        rows,
    )


def _finding(table: pd.DataFrame, varied: str) -> str:
    """The exponents of growth between the last two sizes, and where GS is faster than CG."""
    own = table[table["varied"] == varied].pivot_table(index=varied, columns="solver", values="seconds")
    sizes = own.index.to_numpy(dtype=float)
    growth = {
        solver: np.log(own[solver].iloc[-1] / own[solver].iloc[-2]) / np.log(sizes[-1] / sizes[-2])
        for solver in ITERATED
    }
    faster = [f"{size:,}" for size in own.index if own[NATURAL][size] < own[ConjugateGradient.name][size]]
    where = f"at {varied} = {', '.join(faster)}" if faster else f"at no {varied} shown"
    said = ", ".join(f"{LOOKS[solver].label} {exponent:.2f}" for solver, exponent in growth.items())
    return f"Against {varied}: GS in natural order is faster than CG {where}. Exponent of growth at the end: {said}."

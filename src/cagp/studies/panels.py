"""Curves of a score against the number of iterations, one panel per case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from .style import band, legend, level, plain_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def score_panels(
    table: pd.DataFrame,
    score: str,
    *,
    case: str,
    titles: Mapping[str, str],
    solvers: Sequence[str],
    ylabel: str,
    log: bool,
    share: bool = True,
) -> Figure:
    """``score`` against m for each of ``solvers``, with bands of one standard error over runs; one panel for each of
    ``titles``, whose keys are values of the column ``case``. Other solvers in the table do not iterate: levels.

    ``log`` is for the vertical axis; ``share`` gives all panels the same.
    """
    from matplotlib.figure import Figure

    summary = table.groupby([case, "solver", "m"], sort=False)[score].agg(["mean", "sem"]).fillna({"sem": 0.0})
    figure = Figure(figsize=(3.9 * len(titles), 3.6), layout="constrained")
    axes = figure.subplots(1, len(titles), sharey=share, squeeze=False)[0]
    for ax, (key, title) in zip(axes, titles.items(), strict=True):
        of_case = summary.loc[key]
        for solver in solvers:
            rows = of_case.loc[solver]
            band(ax, rows.index.to_numpy(), rows["mean"].to_numpy(), rows["sem"].to_numpy(), solver)
        for solver in of_case.index.get_level_values("solver").unique().difference(solvers):
            once = of_case.loc[solver].iloc[0]
            level(ax, once["mean"], once["sem"], solver)
        ax.set(xscale="log", xlabel="iterations m", title=title)
        plain_ticks(ax.xaxis)
        if log:
            ax.set_yscale("log")
            plain_ticks(ax.yaxis)
        ax.grid(alpha=0.25, which="both", linewidth=0.5)
    axes[0].set_ylabel(ylabel)
    legend(figure)
    return figure

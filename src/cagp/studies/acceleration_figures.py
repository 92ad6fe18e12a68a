"""The figures of the study `acceleration`: a score against passes over G and against seconds, for each data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .acceleration_methods import METHODS, NEIGHBOURS, SWEEPS, TEST_SIDE
from .acceleration_problems import TITLES, UNITS, Case
from .base import Drawing
from .style import plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GOAL = 0.01
_LEAST_EXCESS = 1e-6
_MOST_NLL = 3.0
"""NLL is shown from a little below the exact GP's to this much above it."""

_TICKS = (0, 1, 2, 5, 10, 20)

_SELECTED = ("gs-random", "gs-blocks", "cg-on-b", "hybrid", "cg-none", "cg-nystrom", "near-nystrom", NEIGHBOURS)
"""Whose RMSE and NLL are drawn; those of the others are in the table."""


def figures(cases: Sequence[Case], table: pd.DataFrame, facts: pd.DataFrame) -> dict[str, Drawing]:
    """For every data set: excess of all methods, and RMSE and NLL of a selection."""
    drawn = {}
    for case in cases:
        rows, of_case = table[table["data"] == case.name], facts.loc[case.name]
        about = f"{TITLES[case.name]}, d = {of_case.d:,}, T = {of_case['T']}"
        drawn[f"excess-{case.name}"] = Drawing(
            _excess(rows),
            f"{about}: excess variance against passes over G (left) and seconds (right). Below the dotted line it is "
            f"under 1%; below {_LEAST_EXCESS:g} lines leave the panel. * is not calibrated.",
        )
        drawn[f"errors-{case.name}"] = Drawing(
            _errors(rows, of_case),
            f"{about}: RMSE and NLL of a selection against passes over G (left) and seconds (right). The dotted line "
            f"is the exact GP; where NLL is more than {_MOST_NLL:g} above it, lines leave the panel. * is not "
            "calibrated.",
        )
    return drawn


def _excess(rows: pd.DataFrame) -> Figure:
    """Above the one group of methods, below the other."""
    from matplotlib.ticker import NullLocator

    groups = {group: [m for m, how in METHODS.items() if how.group == group] for group in (SWEEPS, TEST_SIDE)}
    figure, axes = _panels(rows, [("excess", methods) for methods in groups.values()])
    for pair, group in zip(axes, groups, strict=True):
        for ax in pair:
            ax.set_yscale("log", nonpositive="clip")
            ax.set_ylim(_LEAST_EXCESS, 2 * rows["excess"].max())
            ax.yaxis.set_minor_locator(NullLocator())
            ax.axhline(GOAL, color="#555555", linestyle=":", linewidth=1)
            ax.set(title=group, ylabel="excess variance")
            ax.label_outer()
    return figure


def _errors(rows: pd.DataFrame, facts: pd.Series) -> Figure:
    """Above RMSE, below NLL."""
    figure, axes = _panels(rows, [("rmse", _SELECTED), ("nll", _SELECTED)])
    what = "of held-out observations" if facts.of == "observed" else "of the latent f"
    for pair, score in zip(axes, ("rmse", "nll"), strict=True):
        exact = float(facts[f"exact_{score}"])
        for ax in pair:
            if score == "rmse":
                ax.set_yscale("log")
                plain_ticks(ax.yaxis)
            else:
                low = min(rows.loc[rows["method"].isin(_SELECTED), score].min(), exact)
                ax.set_ylim(low - 0.05 * _MOST_NLL, exact + _MOST_NLL)
            ax.axhline(exact, color="#555555", linestyle=":", linewidth=1)
            ax.set(ylabel=f"{score.upper()} {what}{UNITS[score].get(str(facts.name), '')}")
            ax.label_outer()
    axes[1][1].get_legend().remove()
    return figure


def _panels(rows: pd.DataFrame, shown: Sequence[tuple[str, Sequence[str]]]) -> tuple[Figure, np.ndarray]:
    """A row of panels for each score with its methods: against passes on the left, against seconds on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.5, 8), layout="constrained")
    axes = figure.subplots(2, 2, sharey="row", sharex="col")
    for (left, right), (score, methods) in zip(axes, shown, strict=True):
        for method in methods:
            own = rows[rows["method"] == method]
            _line(left, own, method, "passes", score)
            _line(right, own, method, "seconds", score)
        left.set(xlabel="passes over G")
        right.set(xlabel="seconds, preparation included")
        right.legend(loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
        # a logarithmic axis that has a place for those who read no pass
        left.set_xscale("symlog", linthresh=1, linscale=0.3)
        left.set_xticks(_TICKS, [str(tick) for tick in _TICKS])
        left.set_xlim(-0.1, 1.1 * rows["passes"].max())
        right.set_xscale("log")
        for ax in (left, right):
            ax.grid(alpha=0.3, linewidth=0.5)
    return figure, axes


def _line(ax: Axes, rows: pd.DataFrame, method: str, against: str, score: str) -> None:
    look = METHODS[method].look
    x, y = rows[against].to_numpy(), rows[score].to_numpy()
    order = np.argsort(rows["passes"].to_numpy(), kind="stable")
    # ten markers at most, evenly spaced on a logarithmic axis, so that they tell the curves apart but do not hide them
    marked = np.unique(np.geomspace(1, len(x), 10).round().astype(int) - 1) if len(x) > 10 else range(len(x))
    hollow = "white" if method.startswith("near-") and look.marker != "x" else look.color
    ax.plot(
        x[order],
        y[order],
        markevery=list(marked),
        markersize=5.5,
        linewidth=1.4,
        markerfacecolor=hollow,
        markeredgecolor=look.color,
        **look.line(),
    )

"""The figures, tables and findings of the study `acceleration`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .acceleration_cases import METHODS, NEIGHBOURS, SWEEPS, TEST_SIDE, TITLES, UNITS, Case, calibrated
from .drawing import plain_ticks
from .study import Comparison, Drawing

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
            _excess_figure(rows),
            f"{about}: excess variance against passes over G (left) and seconds (right). Below the dotted line it is "
            f"under 1%; below {_LEAST_EXCESS:g} lines leave the panel. * is not calibrated.",
        )
        drawn[f"errors-{case.name}"] = Drawing(
            _errors_figure(rows, of_case),
            f"{about}: RMSE and NLL of a selection against passes over G (left) and seconds (right). The dotted line "
            f"is the exact GP; where NLL is more than {_MOST_NLL:g} above it, lines leave the panel. * is not "
            "calibrated.",
        )
    return drawn


def _excess_figure(rows: pd.DataFrame) -> Figure:
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


def _errors_figure(rows: pd.DataFrame, facts: pd.Series) -> Figure:
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


# --- tables and findings ----------------------------------------------------------------------------------------------


SHOWN = (1, 5, 10, 20)
"""After how many passes excess is shown in tables."""

GOAL_PASSES = 10


def comparisons(cases: Sequence[Case], table: pd.DataFrame, facts: pd.DataFrame) -> list[Comparison]:
    """The data sets, who gets to 1% at the least cost, and excess after some passes on each data set."""
    return [_data(cases, facts), _cheapest(cases, table), *(_excess_table(case, table, facts) for case in cases)]


def at(rows: pd.DataFrame, passes: float) -> pd.Series | None:
    """The row of a run with the most passes, but at most ``passes``; None where the first has more."""
    within = rows[rows["passes"] <= passes]
    return within.loc[within["passes"].idxmax()] if len(within) else None


def reaching(rows: pd.DataFrame, goal: float = GOAL) -> pd.DataFrame:
    """Per method, the first row (by passes, then time) with an excess of at most ``goal``."""
    good = rows[rows["excess"] <= goal].sort_values(["passes", "seconds"])
    return good.groupby("method", sort=False).first().reset_index()


def _data(cases: Sequence[Case], facts: pd.DataFrame) -> Comparison:
    rows = []
    for case in cases:
        f = facts.loc[case.name]
        scores = f"{f.exact_rmse:.4g} / {f.exact_nll:.4g}"
        rows.append(
            [TITLES[case.name], f"{f.d:,}", str(f["T"]), str(f.dimension), f"{f.noise:.2g}", scores,
             f"{f.exact_seconds:.2g} s"]
        )  # fmt: skip
    return Comparison(
        "The data sets, and the exact GP on them",
        ["data", "d", "T", "dimension", "noise / prior variance", "RMSE / NLL", "time of the exact GP"],
        rows,
    )


def _cheapest(cases: Sequence[Case], table: pd.DataFrame) -> Comparison:
    rows = []
    for case in cases:
        reached = reaching(table[table["data"] == case.name])
        reached = reached[[calibrated(method, case.sizes) for method in reached["method"]]]
        cells = [
            _in_words(reached.sort_values([first, second]).iloc[0]) if len(reached) else "none"
            for first, second in (("passes", "seconds"), ("seconds", "passes"))
        ]
        rows.append([TITLES[case.name], *cells, f"{len(reached)} of {len(METHODS)}"])
    return Comparison(
        f"The calibrated methods that get to {GOAL:.0%} excess at the least cost, and how many get there at all",
        ["data", "fewest passes", "least time", "get there"],
        rows,
    )


def _in_words(row: pd.Series) -> str:
    variant = f", {row.variant}" if row.variant else ""
    return f"{METHODS[row.method].look.label}{variant}: {row.passes:.2g} passes, {row.seconds:.2g} s"


def _excess_table(case: Case, table: pd.DataFrame, facts: pd.DataFrame) -> Comparison:
    own = table[table["data"] == case.name]
    rows = []
    for (method, variant), of_run in own.groupby(["method", "variant"], sort=False):
        found = [at(of_run, passes) for passes in SHOWN]
        last = of_run.loc[of_run["passes"].idxmax()]
        label = METHODS[method].look.label + (f", {variant}" if variant else "")
        cells = ["–" if row is None else f"{row.excess:.2g}" for row in found]
        rows.append([label, *cells, f"{last.seconds:.2g}", f"{last.rmse:.3g} / {last.nll:.3g}"])
    about = f"{TITLES[case.name]}, d = {facts.loc[case.name, 'd']:,}"
    return Comparison(
        f"{about}: excess variance of the last posterior that took at most so many passes over G; seconds, RMSE and "
        "NLL at the end",
        ["method", *(f"{passes} pass{'es' if passes > 1 else ''}" for passes in SHOWN), "seconds", "RMSE / NLL"],
        rows,
    )


def findings(cases: Sequence[Case], table: pd.DataFrame) -> list[str]:
    """Who reaches the goal on every data set, in sentences."""
    reached: dict[str, list[str]] = {}
    for case in cases:
        rows = table[(table["data"] == case.name) & (table["passes"] <= GOAL_PASSES)]
        for method in reaching(rows)["method"]:
            if calibrated(method, case.sizes):
                reached.setdefault(method, []).append(case.name)
    everywhere = [METHODS[method].look.label for method, where in reached.items() if len(where) == len(cases)]
    goal = f"{GOAL:.0%} excess within {GOAL_PASSES} passes"
    if everywhere:
        first = f"Found: {goal} on every data set by: {'; '.join(everywhere)}."
    else:
        first = f"Found: no calibrated method gets to {goal} on every data set."
    missing = [
        f"{METHODS[method].look.label} ({', '.join(TITLES[case.name] for case in cases if case.name in where)})"
        for method, where in reached.items()
        if len(where) < len(cases)
    ]
    return [first, *([f"On some data sets: {'; '.join(missing)}."] if missing else [])]

"""The tables and findings of the study `acceleration`."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from .acceleration_figures import GOAL
from .acceleration_methods import METHODS, calibrated
from .acceleration_problems import TITLES, Case
from .base import Comparison

SHOWN = (1, 5, 10, 20)
"""After how many passes excess is shown in tables."""

GOAL_PASSES = 10


def comparisons(cases: Sequence[Case], table: pd.DataFrame, facts: pd.DataFrame) -> list[Comparison]:
    """The data sets, who gets to 1% at the least cost, and excess after some passes on each data set."""
    return [_data(cases, facts), _cheapest(cases, table), *(_excess(case, table, facts) for case in cases)]


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


def _excess(case: Case, table: pd.DataFrame, facts: pd.DataFrame) -> Comparison:
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

"""The scoreboard's table, who is better where, and the hash of the protocol."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .heaton_data import SATELLITE, SIMULATED
from .heaton_results import PUBLISHED
from .scoreboard_sets import SETS
from .study import Comparison, Drawing, Presentation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS, ORACLE, LINEAR = "cagp.fit", "oracle", "straight line"
LEVELS: Mapping[str, float] = {"holds_50": 0.5, "holds_80": 0.8, "holds_95": 0.95}
AVERAGES: Mapping[str, str] = {
    "crps": "CRPS",
    "rmse": "RMSE",
    "log_score": "NLL",
    "interval_score": "interval score, 95%",
}
"""Scores of which less is better, and what readers call them."""

_EVEN = 0.005  # relative differences up to this are called none
_FAR_OFF = 0.02  # coverage of 95% intervals further from .95 than this is told

BLIND = "cagp 0.2.0, blind"
"""Scored by others before anybody who worked on cagp had the data."""


@dataclass(frozen=True)
class Other:
    """Somebody else's scores on a set; ``crps_of_oracle`` is a CRPS in units of the oracle's."""

    who: str
    scores: Mapping[str, float]
    crps_of_oracle: float | None = None


def _of_the_competition(field: str) -> list[Other]:
    """The rows of the competition's table that have numbers."""
    found = []
    for who, _, *cells, source in PUBLISHED[field]:
        if not source.startswith(("blind", "published")):
            continue
        numbers = dict(zip(("rmse", "crps", "interval_score"), cells[:3], strict=True))
        scores = {name: float(cell) for name, cell in numbers.items() if cell != "–"}
        found.append(Other(BLIND if source.startswith("blind") else who, scores))
    return found


def _space_time(blind: float, gneiting: float) -> list[Other]:
    return [Other(BLIND, {"rmse": blind}), Other("a Gneiting covariance fitted to the same data", {"rmse": gneiting})]


OTHERS: Mapping[str, Sequence[Other]] = {
    "heaton-simulated": _of_the_competition(SIMULATED),
    "heaton-satellite": _of_the_competition(SATELLITE),
    **{name: [Other(BLIND, {}, crps_of_oracle=1.002)] for name in SETS if name.startswith("kaust2021")},
    "kaust2022-1": _space_time(0.702, 0.700),
    "kaust2022-4": _space_time(0.616, 0.615),
    "kaust2022-7": _space_time(0.906, 0.901),
}
"""Published scores, and those of 0.2.0 by strangers; sets that are not here have none with the same split."""


def protocol(table: pd.DataFrame) -> str:
    """Twelve digits of all that decides what is measured: data, splits, seeds, options, scores, what stands beside."""
    own = table[table["what"] == OURS].sort_values(["set", "part"])
    rows = own[["set", "part", "seed", "train", "test", "data", "options"]].to_dict(orient="split")["data"]
    beside = {name: [repr(SETS[name].oracle), SETS[name].neighbours] for name in sorted(set(own["set"]))}
    decisive = [rows, list(AVERAGES), list(LEVELS), beside, LINEAR]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()[:12]


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Averages over parts by set and method, and in columns that end with ``_se`` their standard errors."""
    numbers = [*AVERAGES, *LEVELS, "train", "test", "clock", "processor"]
    groups = table.groupby(["set", "what"], sort=False)
    return groups[numbers].mean().join(groups[numbers].sem().add_suffix("_se")).join(groups.size().rename("parts"))


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Ours beside others, a row a score: ``change`` is how much more ours is than its ``value``, relative to that.

    Of published scores the best of each kind is taken, whoever has it.
    """
    means, rows = summary(table), []
    for name in dict.fromkeys(table["set"]):
        ours = means.loc[(name, OURS)]
        oracle = means.loc[(name, ORACLE)] if (name, ORACLE) in means.index else None
        beside: list[tuple[str, str, float]] = [] if oracle is None else [("crps", ORACLE, oracle["crps"])]
        others = OTHERS.get(name, ())
        for score in AVERAGES:
            known = [(other.scores[score], other.who) for other in others if score in other.scores]
            beside += [(score, who, value) for value, who in known if who == BLIND]
            beside += [(score, who, value) for value, who in sorted(pair for pair in known if pair[1] != BLIND)[:1]]
        if oracle is not None:
            most = [each for each in others if each.crps_of_oracle]
            beside += [("crps", each.who, (each.crps_of_oracle or 1.0) * oracle["crps"]) for each in most]
        for score, who, value in beside:
            change = ours[score] / value - 1
            rows.append((name, score, ours[score], who, value, change, _word(change)))
    return pd.DataFrame(rows, columns=["set", "score", "ours", "who", "value", "change", "verdict"])


def _word(change: float) -> str:
    return "even" if abs(change) <= _EVEN else "better" if change < 0 else "worse"


def presentation(table: pd.DataFrame, sets: Sequence[str], whole: bool) -> Presentation:
    """Table, verdicts, figure and remarks; ``whole`` is False for a part of the data."""
    judged = verdicts(table) if whole else verdicts(table).query("who == @ORACLE")
    comparisons = [scores(table, whole)]
    if len(judged):
        comparisons.append(beside_others(judged))
    if whole:
        comparisons.append(predictors(table))
    caption = (
        "CRPS as a share of the straight line's, smaller is better, with the oracle where the truth is known; what "
        "central intervals hold, dashed what is promised; seconds of the processor for fit and prediction. Bars are "
        "standard errors over folds or masks."
    )
    return Presentation({"scores": Drawing(_figure(table), caption)}, comparisons, remarks(table, sets, whole))


def scores(table: pd.DataFrame, whole: bool) -> Comparison:
    """One line a set."""
    means = summary(table)
    rows = []
    for name in dict.fromkeys(table["set"]):
        ours, line = means.loc[(name, OURS)], means.loc[(name, LINEAR)]
        oracle = f"{means.loc[(name, ORACLE), 'crps']:.4g}" if (name, ORACLE) in means.index else "–"
        told = _parts(name, int(ours["parts"]))
        cells = [_with_error(ours[score], ours[f"{score}_se"]) for score in AVERAGES]
        holds = " ".join(f"{100 * ours[level]:.1f}" for level in LEVELS)
        error = f" (± {100 * ours['holds_95_se']:.1f})" if ours["parts"] > 1 else ""
        size = f"{ours['train']:,.0f} → {ours['test']:,.0f}"
        seconds = f"{ours['processor']:.1f} / {ours['clock']:.1f}"
        rows.append(
            (SETS[name].title, size, told, cells[0], oracle, f"{line['crps']:.4g}", *cells[1:], holds + error, seconds)
        )
    quick = "" if whole else "QUICK, a part of the data, not the scoreboard. "
    columns = (
        "set", "observations → scored", "parts", "CRPS", "oracle's", "straight line's", *list(AVERAGES.values())[1:],
        "50 80 95% intervals hold, %", "seconds: processor / clock",
    )  # fmt: skip
    return Comparison(f"{quick}Protocol {protocol(table)}.", columns, rows)


def _parts(name: str, found: int) -> str:
    of, parts = SETS[name].of, SETS[name].parts
    return "1" if not of else f"{parts} {of}" if found == parts else f"{found} of {parts} {of}"


def _with_error(value: float, error: float) -> str:
    """A number with its standard error, which one part alone does not have."""
    if not np.isfinite(error):
        return f"{value:.4g}"
    digits = max(0, 1 - int(np.floor(np.log10(error)))) if error > 0 else 3
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def beside_others(judged: pd.DataFrame) -> Comparison:
    """Ours beside the oracle, 0.2.0 and the best that is published."""
    rows = [
        (
            SETS[each.set].title,
            AVERAGES[each.score],
            f"{each.ours:.4g}",
            each.who,
            f"{each.value:.4g}",
            f"{100 * each.change:+.1f}%",
            each.verdict,
        )
        for each in judged.itertuples()
    ]
    columns = ("set", "score", "cagp.fit, file at hand", "the other", "its score", "difference", "cagp.fit is")
    return Comparison("Beside others; even is up to 0.5%, and one part is one draw.", columns, rows)


def predictors(table: pd.DataFrame) -> Comparison:
    """What predicted in each part."""
    own = table[table["what"] == OURS]
    rows = [
        (SETS[each.set].title, str(each.part + 1), each.model, f"{each.processor:.1f}", f"{each.budget:.0f}")
        for each in own.assign(order=own["set"].map(list(SETS).index)).sort_values(["order", "part"]).itertuples()
    ]
    columns = ("set", "part", "model", "seconds of the processor", "default budget")
    return Comparison("What cagp.fit took, with weights, and whether the default budget allows it.", columns, rows)


def findings(table: pd.DataFrame) -> list[str]:
    """Where we are best and where not, in sentences."""
    judged = verdicts(table)
    published = judged[~judged["who"].isin([ORACLE, BLIND])]
    groups = (
        ("Better than the best published figure", published[published["verdict"] == "better"]),
        ("Even with the best published figure", published[published["verdict"] == "even"]),
        ("Worse than the best published figure", published[published["verdict"] == "worse"]),
        ("Better than 0.2.0, which was blind", judged[(judged["who"] == BLIND) & (judged["verdict"] == "better")]),
        ("Worse than 0.2.0, which was blind", judged[(judged["who"] == BLIND) & (judged["verdict"] == "worse")]),
        ("Within 0.5% of the oracle's CRPS", judged[(judged["who"] == ORACLE) & (judged["verdict"] == "even")]),
        ("Further from the oracle's CRPS", judged[(judged["who"] == ORACLE) & (judged["verdict"] != "even")]),
    )
    lines = []
    for title, rows in groups:
        told = [
            f"{SETS[each.set].title}, {AVERAGES[each.score]} {each.ours:.4g} "
            f"({each.value:.4g}, {100 * each.change:+.1f}%)"
            for each in rows.itertuples()
        ]
        lines.append(f"**{title}**: {'; '.join(told) or 'nowhere'}.")
    means = summary(table)
    ours = means.xs(OURS, level="what")
    off = ours[(ours["holds_95"] - 0.95).abs() > _FAR_OFF]
    told = [f"{SETS[name].title} ({100 * row['holds_95']:.1f}% of {row['test']:,.0f})" for name, row in off.iterrows()]
    lines.append(f"**95% intervals hold less than 93% or more than 97%**: {', '.join(told) or 'nowhere'}.")
    return lines


def _missing(table: pd.DataFrame, sets: Sequence[str], whole: bool) -> list[str]:
    """Sets without a row and, where all are wanted, those that lack some of their parts."""
    done = table[table["what"] == OURS]["set"].value_counts()
    return [
        SETS[name].title + (f" ({parts - found} of {parts} {SETS[name].of})" if found else "")
        for name in sets
        if (found := done.get(name, 0)) < (parts := SETS[name].parts if whole else 1)
    ]


def remarks(table: pd.DataFrame, sets: Sequence[str], whole: bool) -> list[str]:
    """How to read it; ``sets`` are those that were asked for."""
    own = table[table["what"] == OURS]
    dates = sorted(set(own["date"]))
    when, minutes = " to ".join(dict.fromkeys((dates[0], dates[-1]))), own["processor"].sum() / 60
    found = [
        f"Protocol {protocol(table)}: twelve digits of the data, splits, seeds, options and scores. Another protocol "
        "has others, and its numbers are not comparable with these.",
        f"Measured {when}: {minutes:.0f} minutes of the processor for all fits and predictions. Seconds of the clock "
        "depend on what else the machine does.",
        "cagp.fit has no options but like= where the places to predict lie in gaps, globe= for degrees, the seed, and "
        "so many seconds that no clock decides what is tried. No test value reaches it.",
        "± is a standard error over folds, draws or masks. A set with one part has none: one gap, or one field, is one "
        "draw.",
        f"'{BLIND}' was scored by others before anybody who worked on cagp had the data; since then the files are at "
        "hand. The published figures are of other machines and other years.",
    ]
    late = own[own["processor"] > own["budget"]]
    if over := [f"{SETS[each.set].title}, part {each.part + 1}" for each in late.itertuples()]:
        found.append(f"More seconds of the processor than the default budget of cagp.fit has: {'; '.join(over)}.")
    if missing := _missing(table, sets, whole):
        found.append(f"Not run, or without their files in the folder CAGP_DATA: {'; '.join(missing)}.")
    if not whole:
        found.insert(0, "QUICK: few rows and one part of each set. No number of this run is one of the scoreboard.")
    return found


# --- the figure -------------------------------------------------------------------------------------------------------

_COLOURS = {"holds_50": "#009E73", "holds_80": "#E69F00", "holds_95": "#0072B2"}


def _figure(table: pd.DataFrame) -> Figure:
    from matplotlib.figure import Figure

    means = summary(table)
    names = list(dict.fromkeys(table["set"]))
    figure = Figure(figsize=(10.5, 1.3 + 0.3 * len(names)), layout="constrained")
    left, middle, right = figure.subplots(1, 3, sharey=True, width_ratios=(3, 3, 2))
    _draw_crps(left, means, names)
    _draw_coverage(middle, means, names)
    seconds = [means.loc[(name, OURS), "processor"] for name in names]
    right.plot(seconds, range(len(names)), "o", color="#0072B2", markersize=5)
    right.set(xscale="log", xlabel="seconds of the processor")
    left.set_yticks(range(len(names)), [SETS[name].title for name in names])
    left.invert_yaxis()
    for ax in (left, middle, right):
        ax.grid(axis="y", color="0.92", linewidth=0.8)
        ax.set_axisbelow(True)
    return figure


def _draw_crps(ax: Axes, means: pd.DataFrame, names: Sequence[str]) -> None:
    """CRPS as a share of that of a straight line, the oracle's as an open diamond."""
    line = np.array([means.loc[(name, LINEAR), "crps"] for name in names])
    ours = np.array([means.loc[(name, OURS), "crps"] for name in names])
    error = np.array([means.loc[(name, OURS), "crps_se"] for name in names])
    rows = np.arange(len(names))
    ax.errorbar(ours / line, rows, xerr=np.nan_to_num(error) / line, fmt="o", color="#0072B2", markersize=5, label=OURS)
    known = [i for i, name in enumerate(names) if (name, ORACLE) in means.index]
    oracle = [means.loc[(names[i], ORACLE), "crps"] / line[i] for i in known]
    ax.plot(oracle, known, "D", markerfacecolor="none", color="#D55E00", markersize=8, label=ORACLE)
    ax.axvline(1.0, color="0.6", linewidth=1, linestyle="--")
    ax.set(xscale="log", xlabel="CRPS, as a share of the straight line's")
    ax.legend(fontsize="small", loc="upper left")


def _draw_coverage(ax: Axes, means: pd.DataFrame, names: Sequence[str]) -> None:
    """What intervals hold, and what they promise."""
    rows = np.arange(len(names))
    for level, promised in LEVELS.items():
        held = 100 * np.array([means.loc[(name, OURS), level] for name in names])
        error = 100 * np.nan_to_num([means.loc[(name, OURS), f"{level}_se"] for name in names])
        ax.axvline(100 * promised, color=_COLOURS[level], linewidth=1, linestyle="--")
        ax.errorbar(held, rows, xerr=error, fmt="o", color=_COLOURS[level], markersize=5)
    ax.set(xlabel="intervals that hold, %")

"""Tables for the pages, and the ones that both reports have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .diagnosis import Diagnosis
from .held_out import HeldOut
from .names import Names
from .numbers import coverage_percent, datum, number, with_unit


@dataclass(frozen=True)
class Table:
    """``rows`` of texts under ``columns``; ``headed`` where the first cell of a row names it; ``name`` is its id."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    name: str = ""
    headed: bool = True


def coverage_table(diagnosis: Diagnosis, caption: str, name: str) -> Table:
    """Promised and found coverage, with what chance allows at all levels together."""
    rows = [
        (
            f"{100 * c.level:g}%",
            coverage_percent(c.found),
            f"{coverage_percent(c.lower)} to {coverage_percent(c.upper)}",
            "yes" if c.inside else ("no, too few" if c.found < c.level else "no, too many"),
        )
        for c in diagnosis.coverage
    ]
    return Table(caption, ("interval", "holds", "by chance, if right", "within chance"), rows, name)


def scores_table(held_out: HeldOut, names: Names) -> Table:
    """Accuracy, proper scores and z-values, in words."""
    scores, unit = held_out.scores, names.target_unit
    spread = float(np.std(held_out.truth))
    rows = [
        ("points", f"{len(held_out):,}", ""),
        ("RMSE", with_unit(number(scores.rmse), unit), "typical size of an error"),
        ("spread of the observations", with_unit(number(spread), unit), "the RMSE of predicting their average"),
        ("CRPS", with_unit(number(scores.crps), unit), "proper score, in the unit of the target; smaller is better"),
        ("NLL (log score)", number(scores.nll), "proper score; smaller is better"),
        ("width of the 95% interval", with_unit(number(scores.sharpness), unit), "average"),
        ("mean of z", number(float(scores.z.mean()), 2), "0 if right; z = error / predicted standard deviation"),
    ]
    if len(held_out) > 1:
        rows.append(
            ("spread of z", number(float(scores.z.std(ddof=1))), "1 if right; above: too narrow, below: too wide")
        )
    return Table(f"Scores, {held_out.short}.", ("score", "value", "meaning"), rows, "scores")


def points_table(held_out: HeldOut, names: Names, columns: Sequence[int], most: int = 10) -> Table:
    """The held-out observations one by one, those with the largest |z| first: their row, these columns, and z."""
    scores, unit = held_out.scores, names.target_unit
    order = np.argsort(-np.abs(scores.z), kind="stable")[:most]
    rows = [
        (
            str(held_out.rows[i]),
            *(datum(float(held_out.X[i, c])) for c in columns),
            with_unit(datum(float(held_out.truth[i])), unit),
            f"{number(float(held_out.mean[i]), 4)} ± {with_unit(number(1.96 * float(held_out.std[i]), 2), unit)}",
            number(float(scores.z[i]), 2),
        )
        for i in order
    ]
    which = "observations with the largest |z|" if len(order) < len(held_out) else "observations"
    caption = f"The {which}. Row: the position in the {held_out.rows_of}, the first is 0 (after the header of a file)."
    if len(columns) < held_out.X.shape[1]:
        caption += f" Of {held_out.X.shape[1]} columns, the {len(columns)} that matter most to the kernel are shown."
    heads = names.narrow()
    return Table(
        caption, ("row", *(heads[c] for c in columns), "observed", "predicted, 95%", "z"), rows, "points", headed=False
    )

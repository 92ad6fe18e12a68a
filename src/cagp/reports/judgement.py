"""The section that both reports have: what held-out data say about the error bars, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..recalibration.diagnosis import Diagnosis
from ..support.numbers import coverage_percent, datum, number, with_unit
from . import pictures, place_pictures
from .coverage_by_place import LEVELS, WORDS, divisions, table_of
from .held_out import HeldOut
from .kernel_words import hyperparameters
from .maps import map_of
from .names import Names
from .page import Folder, Table
from .refits import array
from .remedies import remedies_for_data, trial
from .unseen import Unseen

if TYPE_CHECKING:
    from ..model import Model

_COLUMNS = 10
"""More columns make a table that nobody can read."""

_ROWS = 10


def judged(unseen: Unseen, model: Model, names: Names, place: Folder) -> dict[str, Any]:
    """What a template needs to show how a model does on held-out data; ``model`` is the plain one."""
    held_out = unseen.judged
    found = held_out.diagnosis
    content = pictures.calibration(held_out, names)
    caption = (
        f"{held_out.short.capitalize()}: the grey bands hold what chance does to error bars that are right, 95% of the "
        "time, everywhere at once, if the errors are independent."
    )
    return {
        "state": found.state,
        "sentence": " ".join([announced(found), *found.notes]),
        "how": held_out.how,
        "advice": remedies_for_data(unseen, model),
        "pictures": [place.picture("calibration", content, caption)] if content else [],
        "tables": [
            coverage_table(found, f"Coverage, {held_out.short}.", "coverage"),
            _scores_table(held_out, names),
            _points_table(held_out, names, _most_relevant(model, names)),
        ],
        "parts": [part for part in (_where(unseen, model, names, place), _changed(unseen, names, place)) if part],
    }


def _where(unseen: Unseen, model: Model, names: Names, place: Folder) -> dict[str, Any] | None:
    """Coverage by roughness, by distance from the data and on a map."""
    divided = divisions(unseen, names)
    if not divided:
        return None
    drawn = [
        place.picture(
            "by-place",
            place_pictures.by_place(unseen, divided),
            "The spread of z, and how many of the observations lie in their 50, 80 and 95% intervals (dashed: what is "
            "promised; grey: what chance does, 95% of the time), from the least rough and nearest to the roughest and "
            "furthest.",
        )
    ]
    ground = map_of(model.prior.kernel, model.X.shape[1])
    content = None if ground is None else place_pictures.coverage_map(unseen, ground, names)
    if content is not None:
        drawn.append(
            place.picture(
                "coverage-map",
                content,
                f"How many of the observations lie in their {100 * place_pictures.MAPPED:g}% intervals, place by "
                "place: white is as promised, blue is more (the error bars are too wide there), red is less (too "
                "narrow), grey are places with too few observations. Chance alone makes cells differ by about six "
                "percent points.",
            )
        )
    tables = [table_of(each, unseen) for each in divided]
    return {"title": "Where they hold, and where not", "text": WORDS, "pictures": drawn, "tables": tables}


def _changed(unseen: Unseen, names: Names, place: Folder) -> dict[str, Any] | None:
    """What a recalibration changes: before and after."""
    title = "What a recalibration changes"
    if unseen.recalibrated is None:
        return {"title": title, "text": unseen.how, "pictures": [], "tables": []}
    text = (
        f"The model is recalibrated. Without that, {unseen.plain.diagnosis.sentence}."
        if unseen.layered
        else _outcome(unseen)
    )
    return {
        "title": title,
        "text": f"{text} {unseen.how}",
        "pictures": [
            place.picture(
                "recalibration",
                place_pictures.before_and_after(unseen),
                f"{unseen.plain.short.capitalize()}, before and after the recalibration.",
            )
        ],
        "tables": [_changes_table(unseen, names)],
    }


def _outcome(unseen: Unseen) -> str:
    if unseen.plain.diagnosis.state != "right":
        return trial(unseen, "A recalibration was tried, and it")
    assert unseen.recalibrated is not None
    return f"Nothing needs to be mended. With a recalibration, {unseen.recalibrated.diagnosis.sentence}."


def announced(found: Diagnosis, *, start: bool = True) -> str:
    """What was found as a whole sentence, with a capital where one starts."""
    sentence = f"suspicious: {found.sentence}." if found.suspicious else f"{found.sentence}."
    return f"{sentence[:1].upper()}{sentence[1:]}" if start else sentence


# --- tables -----------------------------------------------------------------------------------------------------------


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


def _scores_table(held_out: HeldOut, names: Names) -> Table:
    """Accuracy, proper scores and z-values, in words."""
    scores, unit = held_out.scores, names.target_unit
    spread = float(np.std(held_out.truth))
    rows = [
        ("points", f"{len(held_out):,}", ""),
        ("RMSE", with_unit(number(scores.rmse), unit), "typical size of an error"),
        ("spread of the observations", with_unit(number(spread), unit), "the RMSE of predicting their average"),
        (
            "CRPS",
            with_unit(number(scores.crps), unit),
            "proper score, in the same unit; smaller is better",
        ),
        ("NLL (log score)", number(scores.nll), "proper score; smaller is better"),
        ("width of the 95% interval", with_unit(number(scores.sharpness), unit), "average"),
        ("mean of z", number(float(held_out.z.mean()), 2), "0 if right; z = error / predicted standard deviation"),
    ]
    if len(held_out) > 1:
        rows.append(
            ("spread of z", number(float(held_out.z.std(ddof=1))), "1 if right; above: too narrow, below: too wide")
        )
    return Table(f"Scores, {held_out.short}.", ("score", "value", "meaning"), rows, "scores")


def _points_table(held_out: HeldOut, names: Names, columns: Sequence[int]) -> Table:
    """The held-out observations one by one, those with the largest |z| first: their row, these columns, and z."""
    unit = names.target_unit
    order = np.argsort(-np.abs(held_out.z), kind="stable")[:_ROWS]
    mean, (lower, upper) = array(held_out.prediction.mean), map(array, held_out.prediction.interval(0.95))
    rows = [
        (
            str(held_out.rows[i]),
            *(datum(float(held_out.X[i, c])) for c in columns),
            with_unit(datum(float(held_out.truth[i])), unit),
            f"{_short(mean[i])} ({_short(lower[i])} to {with_unit(_short(upper[i]), unit)})",
            number(float(held_out.z[i]), 2),
        )
        for i in order
    ]
    which = "observations with the largest |z|" if len(order) < len(held_out) else "observations"
    caption = f"The {which}. Row: the position in the {held_out.rows_of}, the first is 0 (after the header of a file)."
    if len(columns) < held_out.X.shape[1]:
        caption += f" Of {held_out.X.shape[1]} columns, the {len(columns)} that matter most to the kernel are shown."
    narrow = names.narrow()
    heads = ("row", *(narrow[c] for c in columns), "observed", "predicted, 95%", "z")
    return Table(caption, heads, rows, "points", headed=False)


def _short(value: float) -> str:
    return datum(float(value)) if np.isfinite(value) else number(float(value))


def _most_relevant(model: Model, names: Names) -> list[int]:
    """All columns where a table has room for them, else the most relevant, in their own order.

    A column is relevant by its spread in units of its own lengthscale, or by its spread alone where no column has one.
    """
    spread = array(model.X.std(dim=0, correction=0))
    if len(spread) <= _COLUMNS:
        return list(range(len(spread)))
    own = np.zeros(len(spread))
    for parameter in hyperparameters(model.prior, names):
        if parameter.kind == "lengthscale" and parameter.column is not None:
            own[parameter.column] = max(own[parameter.column], spread[parameter.column] / parameter.value)
    relevance = own if own.any() else spread
    return sorted(np.argsort(-relevance, kind="stable")[:_COLUMNS].tolist())


def _changes_table(unseen: Unseen, names: Names) -> Table:
    """Scores and coverage before and after the recalibration."""
    assert unseen.recalibrated is not None
    unit, before, after = names.target_unit, unseen.plain.scores, unseen.recalibrated.scores
    rows: list[tuple[str, ...]] = [
        (title, with_unit(number(getattr(before, name)), own), with_unit(number(getattr(after, name)), own), meaning)
        for title, name, own, meaning in (
            ("RMSE", "rmse", unit, "the predictions are the same"),
            ("CRPS", "crps", unit, "smaller is better"),
            ("interval score, 95%", "interval_score", unit, "smaller is better"),
            ("NLL (log score)", "nll", "", "smaller is better"),
            ("width of the 95% interval", "sharpness", unit, "average"),
        )
    ]
    spreads = (number(float(np.sqrt(np.square(each.z).mean()))) for each in (before, after))
    rows.append(("rms of z", *spreads, "1 if right"))
    rows += [
        (f"{100 * level:g}% intervals hold", *(coverage_percent(each.coverage(level)) for each in (before, after)), "")
        for level in LEVELS
    ]
    return Table("Before and after the recalibration.", ("score", "before", "after", "meaning"), rows, "recalibration")

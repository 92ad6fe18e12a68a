"""The section that both reports have: held-out data, and what they say about the error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import pictures
from .advice import for_data
from .diagnosis import Diagnosis
from .folder import Folder
from .held_out import HeldOut
from .names import Names
from .relevance import most_relevant
from .tables import coverage_table, points_table, scores_table

if TYPE_CHECKING:
    from ..model import Model

_COLUMNS = 10
"""More columns make a table that nobody can read."""


def judged(model: Model, held_out: HeldOut, names: Names, place: Folder) -> dict[str, Any]:
    """What a template needs to show how a model does on held-out data."""
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
        "picture": content and place.picture("calibration", content, caption),
        "coverage": coverage_table(found, f"Coverage, {held_out.short}.", "coverage"),
        "scores": scores_table(held_out, names),
        "points": points_table(held_out, names, most_relevant(model, names, _COLUMNS)),
        "advice": for_data(found, model),
    }


def announced(found: Diagnosis, *, start: bool = True) -> str:
    """What was found as a whole sentence, with a capital where one starts."""
    sentence = f"suspicious: {found.sentence}." if found.suspicious else f"{found.sentence}."
    return f"{sentence[:1].upper()}{sentence[1:]}" if start else sentence

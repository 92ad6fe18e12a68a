"""The report of a fit: what was fitted, how sure that is, and how well it predicts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from ..hyperparameters import FitResult
from ..model import Model
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, count
from .computational_share import Computation, measure, shares_picture
from .directions import directions_picture, directions_table, turned_part
from .held_out import predict_held_out
from .inputs import attempt, check_inputs
from .judgement import judgement_on_data
from .model_section import advice, columns_table, facts_table, hyperparameters_table
from .names import Names
from .page import Folder
from .prediction_pictures import draw


@dataclass(frozen=True)
class FitReport:
    """The page at ``path``, for which this may stand, as in ``open(report)``; ``finding`` is what its opening says."""

    path: Path
    finding: str

    def __str__(self) -> str:
        return str(self.path)

    __fspath__ = __str__


def write_fit_report(
    model: Model,
    folder: str | os.PathLike[str],
    *,
    fit: FitResult | None = None,
    holdout: tuple[ArrayLike, ArrayLike] | tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
    like: ArrayLike | None = None,
    names: Names | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> FitReport:
    """Write ``folder``/report.html about a model, with its figures inside and as PNG files beside it.

    It says what was fitted; the hyperparameters with their uncertainty, from ``fit``, and advice; draws predictions;
    judges the error bars on ``holdout`` = (X, y), or on left-out training data where there is none, in the geometry of
    points ``like`` = X_test (T, p); and measures how much of the error bars is computational and what more iterations
    would buy. A recalibrated model is judged with its recalibration. ``names`` are for labels. The same ``seed`` gives
    the same report. ``progress`` shows a bar: None on a terminal only.
    """
    given = check_inputs(model, fit, holdout, like, names)
    heaviest, names = given.heaviest, given.names
    count(seed, "seed")
    place = Folder(folder)
    turned = turned_part((heaviest.prior if fit is None else fit.prior).kernel, names)
    lines = groupby(model.story.splitlines(), lambda line: line.startswith("  "))
    values: dict[str, Any] = {
        "names": names,
        "fit": fit,
        "story": [(aligned, list(some)) for aligned, some in lines],  # those of its table are aligned by blanks
        "facts": facts_table(given.model, names, given.scale),
        "columns": columns_table(heaviest, names),
        "hyperparameters": hyperparameters_table(heaviest, fit, names),
        "advice": advice(heaviest, fit, names, mixed=len(model.components) > 1),
        "directions": None if turned is None else directions_table(*turned, names),
        "directions_picture": None if turned is None else place.picture(*directions_picture(*turned, names)),
        "computation_picture": None,
    }
    with progress_bar("report", 3, progress) as advance:
        drawn, values["predictions_problem"] = attempt(lambda: draw(given.model, names, seed))
        values["predictions"] = [place.picture(*each) for each in drawn or []]
        advance(1)
        found, problem = attempt(lambda: predict_held_out(given, seed))
        advance(1)
        values["held_out_problem"] = problem or "With one observation there is nothing to predict from the others."
        values["held_out"] = None if found is None else judgement_on_data(found, given, place)
        measured, problem = attempt(lambda: measure(heaviest, seed))
        computation = values["computation"] = measured or Computation((f"Not measured: {problem}",))
        if computation.now is not None and computation.later is not None:
            content = shares_picture(computation.now, computation.later, computation.what)
            caption = "The share of the variance that is computational, now and after more work: estimate, and the "
            caption += "range that is guaranteed to hold it."
            values["computation_picture"] = place.picture("computation", content, caption)
        advance(1)
    first = [values["held_out"]["sentence"]] if values["held_out"] else []
    opening = values["opening"] = " ".join([*first, computation.sentences[0]])
    return FitReport(place.write("report.html", values), opening)

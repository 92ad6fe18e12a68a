"""Do the error bars hold on the data? Left-out observations say so, and mend them where they do not."""

from __future__ import annotations

import time

import numpy as np

from ..left_out import left_out
from ..model import Model
from ..recalibration.diagnosis import FEW, diagnose
from ..recalibration.learning import learn, learned_from, ordinary
from ..solvers.exact import EXACT_UP_TO
from ..support.validation import ArrayLike
from .scoring import as_new
from .search import JUDGES, CandidateSearch

_ROUNDING = 1e-12

# Beyond so many observations the error bars are judged by the component with the most weight: all would take long.
_JUDGED_ALONE = 1000
# So many observations, left out alone, say whether error bars hold and whether they differ from place to place.
_ALONE = 10_000
# So many predictions by all components together, of single observations, teach error bars: more take minutes.
_LEARNED = 50_000
# Where time is short, left-out predictions may take so much of what is left of it, if they are no fewer than these: as
# many again may be learned from, and gaps of several widths.
_SHARE, _FEWEST = 0.12, 200


def judge_error_bars(search: CandidateSearch) -> CandidateSearch:
    """The model, with error bars that left-out observations teach where its own do not hold."""
    assert search.model is not None
    asked = search.request.options
    left, size = search.end(1.0) - time.perf_counter(), len(search.y)
    each = search.left_out_seconds * len(_judging(search.model).components)
    most = size if _SHARE * left >= size * each else max(_FEWEST, int(_SHARE * left / each))
    search.model, search.findings["error bars"] = judged(
        search.model, asked.like, asked.recalibrate, asked.seed, most=most
    )
    return search


def judged(
    model: Model,
    like: ArrayLike | None = None,
    recalibrate: bool | str = "auto",
    seed: int = 0,
    progress: bool | None = False,
    most: int | None = None,
) -> tuple[Model, str]:
    """The model, recalibrated where that was asked for, or where "auto" finds that its error bars do not hold; and
    what was found, in words. No more than ``most`` observations are left out at once.
    """
    size, test = len(model.recipe.y), None if like is None else model.test_points(like, "like")[0]
    if recalibrate is False:
        return model, "The error bars were not compared with left-out observations."
    if size < FEW:
        why = "too few to judge error bars by leaving some out"
        return model, f"{size} observations are {why}: they are those of the prior."
    y = model.recipe.y
    if np.ptp(y) <= _ROUNDING * np.abs(y).max():
        return model, "All observations are the same, so that left-out errors say nothing about error bars."
    by = _judging(model)
    enough = min(size, _ALONE if like is None else JUDGES)
    everyone = left_out(by, test, min(enough, most or enough), seed, progress, correlated=True)
    seen = ordinary(everyone, by)
    diagnosis = diagnose(seen.z, seen.correlation)
    near = learned_from(seen, by.components[0], seed).bands if len(seen) >= FEW else ()
    local = any(band.local for band in near)
    predicted = ", predicted by the component with the most weight" if by is not model else ""
    differs = " Their size differs from place to place." if local else ""
    said = (
        f"Left-out observations{predicted}: 50% intervals hold {diagnosis.hold(0.5)}, 95% hold {diagnosis.hold(0.95)}; "
        f"the rms of z is {diagnosis.spread:.3g}.{differs}"
    )
    if len(seen) < len(everyone):
        hold = diagnose(as_new(everyone, by).z).hold(0.95)
        said += f" That is without outliers: with these, predicted like any new observation, 95% hold {hold}."
    if most is not None and most < enough:
        said += f" There was time for {most:,} of them."
    if recalibrate is True or not diagnosis.right or local:
        whole = like is None and len(everyone) == size  # what was learned to judge by is learned already
        n = size if size <= EXACT_UP_TO else min(size, max(_ALONE, _LEARNED // len(by.components)))
        n = min(n, most or n)
        learned = learn(by, test, n, seed, progress, seen if whole else None, near if whole else ())
        said += " The error bars are recalibrated: scaled and shaped by the left-out errors."
        return model.replace(margins=learned), said
    return model, f"{said} The error bars hold and stay as they are under the prior."


def _judging(model: Model) -> Model:
    """The components that judge: all of them, or the heaviest where exact ones of many observations take long."""
    alone = len(model.components) > 1 and EXACT_UP_TO >= len(model.recipe.y) > _JUDGED_ALONE
    return model.replace(components=model.components[:1], weights=[1.0]) if alone else model

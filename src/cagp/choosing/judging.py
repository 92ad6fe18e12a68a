"""Do the error bars hold on the data? Left-out observations say so, and mend them where they do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..left_out import left_out
from ..mixtures import MixtureModel
from ..model import Model
from ..recalibration import RecalibratedModel
from ..recalibration.diagnosis import FEW, diagnose
from ..recalibration.learning import learn, learned_from
from ..support.numbers import coverage_percent
from ..support.validation import ArrayLike, choice
from .integrating import JUDGED_ALONE
from .search import EXACT_UP_TO, SITES

_ROUNDING = 1e-12

_ALONE = 10_000
"""So many observations, left out alone, say whether error bars hold and whether they differ from place to place."""


def recalibration_wanted(recalibrate: bool | str, n: int) -> None:
    """Refuse what cannot be: another word than "auto", or a recalibration by too few observations."""
    if not isinstance(recalibrate, bool):
        choice(recalibrate, "recalibrate", ("auto",))
    if recalibrate is True and n < FEW:
        raise InputError(f'recalibrate=True needs at least {FEW} observations, and there are {n}; "auto" goes without')


@dataclass(frozen=True)
class Judged:
    """A ``model`` with error bars that hold, and what was found about those that it had, in words."""

    model: Model | MixtureModel | RecalibratedModel
    found: str


def judged(
    model: Model | MixtureModel,
    like: ArrayLike | None = None,
    recalibrate: bool | str = "auto",
    seed: int = 0,
    progress: bool | None = False,
) -> Judged:
    """The model, recalibrated where that was asked for, or where "auto" finds that its error bars do not hold."""
    size = len(model.plain.y)
    if recalibrate is False:
        return Judged(model, "The error bars were not compared with left-out observations.")
    if size < FEW:
        few = f"{size} observations are too few to judge error bars by leaving some out: they are those of the prior."
        return Judged(model, few)
    y = model.plain.recipe.y
    if np.ptp(y) <= _ROUNDING * np.abs(y).max():
        return Judged(model, "All observations are the same, so that left-out errors say nothing about error bars.")
    heaviest = isinstance(model, MixtureModel) and EXACT_UP_TO >= size > JUDGED_ALONE
    by: Model | MixtureModel = model.plain if heaviest else model
    seen = left_out(by, like, min(size, _ALONE if like is None else SITES), seed, progress, correlated=True)
    diagnosis = diagnose(seen.z, seen.correlation)
    local = len(seen) >= FEW and any(band.local for band in learned_from(seen, by.plain, seed).bands)
    hold = {each.level: coverage_percent(each.found) for each in diagnosis.coverage}
    predicted = ", predicted by the component with the most weight" if heaviest else ""
    differs = " Their size differs from place to place." if local else ""
    said = (
        f"Left-out observations{predicted}: 50% intervals hold {hold[0.5]}, 95% hold {hold[0.95]}; the rms of z is "
        f"{diagnosis.spread:.3g}.{differs}"
    )
    if recalibrate is True or not diagnosis.right or local:
        alone = seen if like is None and len(seen) == size else None
        mended = RecalibratedModel(model, learn(by, like, None, seed, progress, alone))
        return Judged(mended, f"{said} The error bars are recalibrated: scaled and shaped by the left-out errors.")
    return Judged(model, f"{said} The error bars hold and stay as they are under the prior.")

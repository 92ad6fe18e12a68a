"""Do the error bars hold on the data? Left-out observations say so, and mend them where they do not."""

from __future__ import annotations

import numpy as np
import torch

from ..calibration import evaluate
from ..left_out import FEWEST, LeftOut, leave_out, who_judges
from ..model import Model
from ..predicting.distributions import reach_of
from ..recalibration import Margins, WholeGaps
from ..recalibration.diagnosis import LEFT_OUT, diagnose, from_gap_to_gap
from ..recalibration.learning import (
    GROUPS,
    MISTAKEN,
    as_new,
    cross_adjustment,
    learn,
    learned_from,
    ordinary,
)
from ..solvers.exact import EXACT_UP_TO
from ..support import clock
from ..support.numbers import datum
from ..support.validation import ArrayLike
from .search import JUDGES, CandidateSearch

_ROUNDING = 1e-12
_TWO_SIDED, _A_FEW = 1.96, 0.01  # where 95% intervals begin, and the share of them below 0 that is worth a word
_LUMP = 0.05  # of the observations, the smallest and the same, which is worth a word
_WORSE = 0.05  # by so much the CRPS of transformed predictions may be worse for error bars that hold

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
    left, size = search.end(1.0) - clock.now(), len(search.model.recipe.judging)
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
    size, test = len(model.recipe.judging), None if like is None else model.test_points(like, "like")[0]
    if recalibrate is False:
        return model, "The error bars were not compared with left-out observations."
    if size < FEWEST:
        why = "too few to judge error bars by leaving some out"
        return model, f"{size} observations are {why}: they are those of the prior."
    y = model.recipe.y
    if np.ptp(y) <= _ROUNDING * np.abs(y).max():
        return model, "All observations are the same, so that left-out errors say nothing about error bars."
    by = _judging(model)
    enough = min(size, _ALONE if test is None else JUDGES)
    which, nowhere = who_judges(by.components[0], test, min(enough, most or enough), seed)
    everyone = leave_out(by, which, seed=seed, correlated=True)
    seen = ordinary(everyone, by)
    diagnosis = diagnose(seen.z, seen.correlation, len(np.unique(seen.index)))
    bands = learned_from(seen, by.components[0], seed).bands if len(seen) >= FEWEST else ()
    local = any(band.local for band in bands)
    predicted = ", predicted by the component with the most weight" if by is not model else ""
    differs = " Their size differs from place to place." if local else ""
    said = (
        f"{nowhere} Left-out observations{predicted}: 50% intervals hold {diagnosis.hold(0.5)}, 95% hold "
        f"{diagnosis.hold(0.95)}; the rms of z, error / std, is {diagnosis.spread:.3g}.{differs}"
    ).strip()
    if len(seen) < len(everyone):
        hold = diagnose(as_new(everyone, by).z).hold(0.95)
        said += f" That is without outliers more than {MISTAKEN:g} standard deviations out: with these 95% hold {hold}."
    below = float((seen.mean < _TWO_SIDED * seen.std).mean())
    if model.transform is None and y.min() >= 0 and below > _A_FEW:
        said += f" {below:.0%} of these 95% intervals begin below 0, where no observation lies; transforms end there."
    if (lump := float((y == y.min()).mean())) > _LUMP:
        least = torch.tensor([y.min()], dtype=torch.float64)
        least = least if model.transform is None else model.transform.inverse(least)
        said += (
            f" {lump:.0%} of the observations are {datum(round(float(least), 9))}, the least of all: a distribution "
            "without a lump there, transformed or not, makes values as small as that less likely than they are."
        )
    if most is not None and most < enough:
        said += f" To end in time only {most:,} observations were left out for this."
    wrong, asked_for = not diagnosis.right or local, recalibrate is True
    if wrong and not asked_for and (harm := _harm(by, seen, seed)):
        return model, f"{said} {harm}"
    whole = None if test is None else WholeGaps.like(by, test, seed)
    if wrong or asked_for:
        n = size if size <= EXACT_UP_TO else min(size, max(_ALONE, _LEARNED // len(by.components)))
        learned = learn(by, None, min(n, most or n), seed, progress, seen, bands)
        if not asked_for and whole is not None and (idle := whole.no_better(learned)):
            return model, f"{said} {idle} {_differs(whole, None)}".strip()
        said += " The error bars are recalibrated: scaled and shaped by the left-out errors."
        return model.replace(margins=learned), f"{said} {_differs(whole, learned)}".strip()
    differs = _differs(whole, None)
    if diagnosis.suspicious:
        doubt = "Some of this is outside of what chance explains, but no test rejects the error bars"
        return model, f"{said} {doubt}: they stay as they are under the prior. {differs}".strip()
    return model, f"{said} The error bars hold and stay as they are under the prior. {differs}".strip()


def _differs(whole: WholeGaps | None, margins: Margins | None) -> str:
    """How much coverage differs from gap to gap with these error bars, where points to be predicted lie in gaps."""
    return "" if whole is None else from_gap_to_gap(*whole.scores(margins), LEFT_OUT)


def _harm(model: Model, seen: LeftOut, seed: int) -> str:
    """How left-out observations ``seen`` are predicted worse on their own scale, before a transform, by what the others
    teach about error bars; "" where they are not. Of tails that were learned a transform may make anything.
    """
    if model.transform is None or len(seen) < GROUPS * FEWEST:
        return ""
    seen = seen.some(np.sort(np.random.default_rng(seed).permutation(len(seen))[:JUDGES]))
    component = model.components[0]
    y, carried = (
        model.transform.inverse(torch.from_numpy(seen.y)),
        (model.transform, reach_of(component, model.transform)),
    )
    learned = cross_adjustment(seen, component, seed).reshape
    without, within = (evaluate(seen.reshaped(each, *carried), y, "observed") for each in (None, learned))
    if within.crps <= (1 + _WORSE) * without.crps:
        return ""
    return (
        "A recalibration was tried and left out, since its long tails, carried back to the scale of the observations, "
        f"predict them worse: their CRPS is {within.crps:.4g} with it and {without.crps:.4g} without."
    )


def _judging(model: Model) -> Model:
    """The components that judge: all of them, or the heaviest where exact ones of many observations take long."""
    alone = len(model.components) > 1 and EXACT_UP_TO >= len(model.recipe.y) > _JUDGED_ALONE
    return model.replace(components=model.components[:1], weights=[1.0]) if alone else model

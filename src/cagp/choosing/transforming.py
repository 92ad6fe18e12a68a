"""Whether the observations are transformed, and how: by what left-out observations say on their own scale."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from ..errors import NotPositiveDefiniteError
from ..hyperparameters.transform_fitting import Profile, most_likely
from ..predicting.distributions import MEANS_REACH
from ..prior import Prior
from ..transforms import BoxCox, Log, Logit, SinhArcsinh, Transform, YeoJohnson, named
from .outliers import exceptions_or_transform, withstand_outliers
from .scoring import JudgingSet, LeftOutScores, clearly_worse
from .search import EXPLORING, JUDGES, CandidateSearch, FittedCandidate

_FEWEST = 50  # with fewer observations a transform is not sought: their shape is not known well enough
_MORE_LIKELY = 5.0  # by so much a transform must raise the log-likelihood for a fit with it to be tried
_BETTER = 0.02  # by so much of the score without it a transform must be better to be taken
# By so much the root mean square error of the mean may be worse with a transform; beyond chance, and in any case.
_WORSE, _MUCH_WORSE = 0.02, 0.1
_SHARES = 0.1  # below it the logit of a share is its logarithm, and numbers may be of any unit
# Why the observations are taken as they are.
_NO_BETTER = ", since no transform predicts clearly better"
_WORSE_MEANS = ", since a transform would make their means worse"
_EXCEPTIONS = ", since a noise of their own for outliers predicts better"
_SMALL_POWER = 0.35  # powers up to this one have the square root as a milder one


def choose_transform(search: CandidateSearch) -> CandidateSearch:
    """The search in the observations, transformed as asked for: None, a transform, the name of one, or "auto".

    With "auto", the first candidate is fitted without and, where one makes the observations more likely, with a
    transform, and the better one by the CRPS of left-out observations goes on, unless its means are worse. Kernels,
    means and noise that were given by hand are on the scale of the observations, which then stay as they are.
    """
    request, asked = search.request, search.request.options.transform
    if asked is None or (isinstance(asked, str) and asked == "auto"):
        return search if asked is None or request.by_hand else _better_of_two(search)
    X, y, kind = request.data.X, request.data.y, named(asked)
    found = kind.starting(y) if isinstance(kind, type) else kind
    changed = CandidateSearch(request, found, search.started)
    if isinstance(kind, type) and kind.free and (first := changed.run(changed.start)) is not None:
        found, _ = most_likely(found, Profile(first.prior, X, y, found, search.seed))
        changed = CandidateSearch(request, found, search.started)
    changed.findings["transform"] = f"The observations are transformed: {found.in_words}, as asked for. {MEANS_REACH}"
    return changed


def _better_of_two(search: CandidateSearch) -> CandidateSearch:
    """The search with the first candidate fitted: without a transform, or with one that left-out observations prefer.

    That is the most likely one, or a milder one of its kind where it would make the means worse.
    """
    X, y = search.request.data.X, search.request.data.y
    if len(y) < _FEWEST or np.ptp(y) == 0:
        return search
    if search.request.hurried:  # the other half is for a transform
        search.share = EXPLORING / 2
    first, search.share = search.run(search.start), EXPLORING
    if first is None or search.judges is None:
        return search
    if search.is_over:
        search.not_tried.append("a transform of the observations")
        return search
    try:
        proposed = _proposal(first.prior, X, y, search.seed)
    except NotPositiveDefiniteError:
        return search
    judges, search = search.judges, withstand_outliers(search)
    if proposed is None:
        search.findings["transform"] = (
            "The observations are taken as they are: no transform makes them clearly more likely."
        )
        return search
    tried: list[str] = []
    why = ""
    for transform in (proposed, *_milder(proposed)):
        changed = CandidateSearch(search.request, transform, search.started)
        changed.judges = replace(judges, transform=transform)
        changed.first = judges.geometry.model.with_observations(torch.from_numpy(changed.y))
        if changed.run(changed.start) is None:
            continue
        changed = withstand_outliers(changed)
        other, robust = changed.fits[0], search.fits[0]
        # a transform under which nothing is an outlier any more explains the extremes of the observations: only what
        # is clearly better calls them exceptions
        explains = robust is not first and other.prior.noise_factors is None
        words, better, worse = _judged((search, first if explains else robust), (changed, other))
        own, exceptions = _exceptions(search, changed) if explains else ("", False)
        if better and not worse and not exceptions:
            said = f"The observations are transformed: {transform.in_words}; {words}. {MEANS_REACH}"
            left = f"Left out, since it would make their means worse: {'; '.join(tried)}." if tried else ""
            changed.findings["transform"] = f"{said} {left}".strip()
            return changed
        tried.append(f"{transform.in_words}; {words}{own}")
        reason = _EXCEPTIONS if exceptions else _WORSE_MEANS if better else _NO_BETTER
        why = why if why and reason == _NO_BETTER else reason
        if not better or exceptions or search.is_over:
            break
    if tried:
        search.findings["transform"] = f"The observations are taken as they are{why}. Tried: {'; '.join(tried)}."
    return search


def _judged(
    without: tuple[CandidateSearch, FittedCandidate], within: tuple[CandidateSearch, FittedCandidate]
) -> tuple[str, bool, bool]:
    """What is said of fits without and with a transform, whether it predicts clearly better, and means clearly worse.

    What shape observations have single ones know best: those that stand in for points in a gap err together, so that
    by them alone hardly anything would be clear. Means in gaps must not be worse either.
    """
    (search, plain), (_, transformed) = without, within
    judges = search.judges
    assert judges is not None
    words, better, worse = _compared(plain.scores, transformed.scores, judges.crowd)
    if better or not judges.stand_in:
        return words, better, worse
    alone = JudgingSet.chosen(search.model_of(search.fits[0]), None, JUDGES, search.seed)
    one, other = (
        replace(alone, transform=each.transform).scores(each.model_of(fit)) for each, fit in (without, within)
    )
    words, better, also_worse = _compared(one, other)
    return words, better, worse or also_worse


def _exceptions(robust: CandidateSearch, transformed: CandidateSearch) -> tuple[str, bool]:
    """Whether outliers predict clearly better than a transform under which there are none, and that in words."""
    own, other = exceptions_or_transform(robust, transformed)
    better = own.mean() < (1 - _BETTER) * other.mean() and clearly_worse(other, own)
    words = (
        f"; of observations that had no part in calling outliers the CRPS is {other.mean():.4g} with the transform and "
        f"{own.mean():.4g} with a noise of their own for outliers"
    )
    return words if better else "", better


def _milder(transform: Transform) -> tuple[Transform, ...]:
    """The square root in place of a logarithm or a small power: its means are less at the mercy of tails."""
    if not isinstance(transform, (Log, BoxCox)) or getattr(transform, "power", 0.0) > _SMALL_POWER:
        return ()
    return (BoxCox(0.5, getattr(transform, "shift", 0.0)),)


def _compared(one: LeftOutScores, other: LeftOutScores, crowd: float = 1.0) -> tuple[str, bool, bool]:
    """Scores without and with a transform, in words; whether the CRPS is clearly better with it, and the mean worse.

    The few largest squared errors decide about a mean, and which of two is better there is mostly chance.
    """
    without, within = _aligned(one, other)
    pairs = [(within.crps.mean(), without.crps.mean()), (within.rmse, without.rmse)]
    digits = [4 if f"{a:.4g}" != f"{b:.4g}" else 7 for a, b in pairs]
    crps, rmse = (f"{a:.{n}g} with it and {b:.{n}g} without" for (a, b), n in zip(pairs, digits, strict=True))
    words = (
        f"the CRPS of left-out observations, predicted by the first candidate, is {crps}, and the root mean square "
        f"error of the mean {rmse}"
    )
    better = _clearly_better(within, without, crowd)
    beyond_chance = (
        clearly_worse(within.squared, without.squared, 2.0 * crowd**0.5)
        or within.rmse > (1 + _MUCH_WORSE) * without.rmse
    )
    return words, better, beyond_chance and within.rmse > (1 + _WORSE) * without.rmse


def _aligned(one: LeftOutScores, other: LeftOutScores) -> tuple[LeftOutScores, LeftOutScores]:
    """Those of the observations that both have."""
    index = np.intersect1d(one.index, other.index)
    return one.at(index), other.at(index)


def _clearly_better(one: LeftOutScores, other: LeftOutScores, crowd: float) -> bool:
    """Whether the CRPS of the one is better than that of the other by enough to matter, and not by chance: clearly by
    the CRPS, which a few large observations decide where there are some, or by the log score, where all count alike.
    """
    if not one.crps.mean() < (1 - _BETTER) * other.crps.mean():
        return False
    pairs = [(other.crps, one.crps), (other.log_score, one.log_score)]
    return any(clearly_worse(*pair, 2.0 * crowd**0.5) for pair in pairs)


def _proposal(prior: Prior, X: np.ndarray, y: np.ndarray, seed: int) -> Transform | None:
    """The most likely transform of y (n,), where one is clearly more likely than none.

    Of data that end at 0 those are tried that end there as well, so that nothing below is predicted.
    """
    kinds: tuple[type[Transform], ...]
    if y.min() >= 0 and y.min() <= np.ptp(y):
        kinds = (Log, BoxCox) if y.min() > 0 else (BoxCox,)
        if y.min() > 0 and _SHARES < y.max() < 1:
            kinds = (*kinds, Logit)
    else:
        kinds = (YeoJohnson, SinhArcsinh)
    starts = [kind.starting(y) for kind in kinds]
    profile = Profile(prior, X, y, starts[0], seed)
    found = [most_likely(each, profile) for each in starts]
    # a parameter more must be worth it
    best, likely = max(found, key=lambda each: each[1] - len(each[0].free))
    return best if likely > profile(YeoJohnson(1.0)) + _MORE_LIKELY else None

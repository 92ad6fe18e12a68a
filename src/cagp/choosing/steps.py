"""The steps of a search, in order: what is tried, and what is made of the best. Each takes a search and gives it back.

A further one is a function of the same shape, here or in a file of its own, and a line in ``steps_for``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.special import gammaincc, logsumexp, ndtri

from ..errors import NotPositiveDefiniteError
from ..hyperparameters.directions import promise
from ..hyperparameters.starting_prior import Group, scale_of
from ..solvers.exact import EXACT_UP_TO
from ..support.numbers import listed
from .candidates import PER_COLUMN, SHORT_AND_LONG, CandidatePrior, is_rotated, is_smooth, unlike_columns
from .integrating import integrate
from .judging import judge_error_bars
from .options import FitRequest
from .outliers import WHAT as OUTLIERS
from .outliers import withstand_outliers
from .patterns import try_patterns
from .scoring import ALL, clearly_worse, leverage, stacked
from .search import MAKING, CandidateSearch, FittedCandidate, Step
from .transforming import choose_transform

_TREND_ROWS = 10  # so many observations for each column are needed for a linear trend to be tried
_CHANCE = 0.014  # turned axes are tried where so few fields without a direction raise the log-likelihood by as much
# Of searches where the likelihood promises something of turned axes, so few may take them by chance.
_BY_CHANCE = 0.1
_UNDETERMINED = (
    "A linear trend was not tried, because the columns do not determine one: some of them add up to a constant, as "
    "those of all categories do, or one of them varies in a single row."
)
_ROUNDING = 1e-10

_FEWEST_COLUMNS = 3  # that matter, for one of them to be more than one of two coordinates
_MOST_PARTS = 3
# Lengthscales start at no more than so many spreads of their columns; a sum starts from several places.
_SPREADS, _SPREADS_OF_SUMS = 10.0, (3.0, 30.0)
_HOPEFUL = 1.1  # among many observations, a sum whose CRPS is so much worse than the best is not started elsewhere
_CLOSE = 0.01  # A candidate whose score is within so much of the best is as good
_WORTH_MIXING = 0.005  # nats by which a left-out observation has to be likelier: a component costs as much again


def steps_for(request: FitRequest) -> list[Step]:
    """What is done for a request. Kinds of kernels, trends and the like are not tried where they were given."""
    several = len(request.data.y) > 1
    steps = [Step("transform", choose_transform, always=True), Step("kernels", fit_first, always=True)]
    if request.tries_outliers:
        steps.append(Step("outliers", withstand_outliers, OUTLIERS))
    if several:
        steps.append(Step("kernels", fit_kernels, ", ".join(request.kinds[1:])))
    # a trend that is linear in longitude would jump where the globe closes
    if request.options.mean is None and not request.on_globe:
        steps.append(Step("trend", fit_trend, "a linear trend"))
    if request.tries_rotation and several:
        steps.append(Step("directions", fit_rotated, "turned axes"))
    if request.tries_patterns:
        steps.append(Step("patterns", try_patterns, "varying amplitude and noise"))
    return [
        *steps,
        Step("mixture", choose_parts, always=True),
        Step("polishing", polish_chosen, "fitting what was chosen to the end", MAKING),
        Step("integration", integrate, share=MAKING, always=True),
        Step("error bars", judge_error_bars, share=math.inf),
        Step("standard errors", find_standard_errors, "standard errors", 1.0),
    ]


def fit_first(search: CandidateSearch) -> CandidateSearch:
    """The first candidate, which others start from, unless the choice of a transform has fitted it."""
    if not search.fits and search.run(search.start) is None:
        raise NotPositiveDefiniteError(f"the first fit failed: {search.notes[0]} A larger noise_variance helps.")
    if search.request.given is None:
        search.notes += [_standardised(search.request, group) for group in search.request.groups if group.spreads]
    return search


def _standardised(request: FitRequest, group: Group) -> str:
    """That columns are divided by their spreads, and why they share a lengthscale, where nobody asked for that."""
    names = request.data.names or [f"x{i}" for i in range(request.data.X.shape[1])]
    which = "All columns" if group.columns is None else listed([names[each] for each in group.columns])
    said = f"{which} share one lengthscale, each divided by its spread: they are not measured alike"
    if request.options.ard is not None:
        return f"{said}."
    return (
        f"{said}, and there are fewer than {PER_COLUMN} observations for each column, too few for a lengthscale of its "
        "own, which ard=True gives it."
    )


def fit_kernels(search: CandidateSearch) -> CandidateSearch:
    """Kernels of other kinds, from where the first one ended; where there are several starts, what predicts best."""
    search.idle  # noqa: B018  found once, before several ask for it at the same time
    kinds = _enough_told(search, search.request.kinds[1:])
    few, done = len(search.y) <= EXACT_UP_TO, search.fits.copy()
    starts = [(kind, start) for kind in kinds for start in _starts(search, kind, done)[: None if few else 1]]
    if few:  # at the same time: sums, which take long, first
        starts.reverse()

    def tried(of: tuple[str, Callable[[], CandidatePrior]]) -> FittedCandidate | str | None:
        fit = None if search.is_over else search.tried(of[1]())
        done.extend([fit] if isinstance(fit, FittedCandidate) else [])
        return fit

    found: dict[str, list[FittedCandidate | str | None]] = {kind: [] for kind in kinds}
    for (kind, _), fit in zip(starts, search.together(tried, starts), strict=True):
        found[kind].append(fit)
    best = min(fit.crps for fit in done)
    for kind, fits in found.items():
        others = [] if few else _starts(search, kind, done)[1:]
        if isinstance(first := fits[0], FittedCandidate) and first.crps < _HOPEFUL * best:
            fits += [tried((kind, start)) for start in others]
        good = [fit for fit in fits if isinstance(fit, FittedCandidate)]
        failed = [fit for fit in fits if isinstance(fit, str)]
        if good:
            chosen = min(good, key=lambda fit: fit.crps)
            search.fits.append(replace(chosen, seconds=sum(fit.seconds for fit in good)))
        elif failed:
            search.keep(search.start.from_values_of(search.fits[0].prior, kind), failed[0])
        else:
            search.not_tried.append(kind)
    return search


def _enough_told(search: CandidateSearch, kinds: Sequence[str]) -> list[str]:
    """Those of the kinds, if nobody asked for them, for whose lengthscales there are observations enough: a sum has
    twice as many, learns few observations by heart, and those it has seen predict each other too well to tell.
    """
    by_columns = search.start.from_values_of(search.fits[0].prior, SHORT_AND_LONG).is_sum_by_columns
    if search.request.options.kernel is not None or len(search.y) >= 2 * PER_COLUMN * search.X.shape[1]:
        return list(kinds)
    if by_columns and SHORT_AND_LONG in kinds:
        search.notes.append(
            f"A sum of two kernels was not tried: its lengthscales, two for each column, want {PER_COLUMN} "
            "observations each."
        )
    return [kind for kind in kinds if not (by_columns and kind == SHORT_AND_LONG)]


def _starts(search: CandidateSearch, kind: str, done: Sequence[FittedCandidate]) -> list[Callable[[], CandidatePrior]]:
    """Where the kernel of a kind starts: several places for a sum, which has many optima.

    It is where the first candidate ended, or, one after another, the best of those that are ``done``, if it is smooth.
    """
    spread, scale, few = search.spread, search.variance or scale_of(search.y), len(search.y) <= EXACT_UP_TO

    def within(spreads: float) -> CandidatePrior:
        best = min(done, key=lambda fit: fit.crps)
        ended = search.fits[0] if few or not is_smooth(best.prior.kernel) else best
        return search.start.from_values_of(search.start.starting_at(ended.prior).within(spreads, spread).start, kind)

    def alone() -> CandidatePrior:  # from where one column is alone, if a few observations like that best
        starts = [within(_SPREADS), *(within(_SPREADS).long_along(column, spread, scale) for column in columns)]
        return max((search.sketched(each) for each in starts), key=lambda each: each[0])[1]

    columns = [column for column in range(len(spread)) if column not in search.idle]
    plain = partial(within, _SPREADS if few else math.inf)
    if not plain().is_sum_by_columns or len(columns) < _FEWEST_COLUMNS:
        return [plain]
    return [*(partial(within, spreads) for spreads in _SPREADS_OF_SUMS), alone] if few else [plain, alone]


def fit_trend(search: CandidateSearch) -> CandidateSearch:
    """The best candidate with a linear trend."""
    if len(search.y) <= _TREND_ROWS * search.X.shape[1]:
        return search
    if determines_trend(search.X):
        search.run(search.best.candidate.starting_at(search.best.prior).with_trend("linear"))
    else:
        search.notes.append(_UNDETERMINED)
    return search


def fit_rotated(search: CandidateSearch) -> CandidateSearch:
    """The best candidate with turned axes, where that is asked for, or promising and better than chance would be."""
    best, asked_for = search.best, search.request.options.rotate is True
    why_not = "" if asked_for else unlike_columns(best.prior.kernel, search.X)
    if why_not:
        search.notes.append(f"Turned axes were not tried, because {why_not}; rotate=True tries them.")
        return search
    found = promise(best.prior, search.log_likelihoods)
    if found is not None and (asked_for or gammaincc(found.freedom / 2, found.gain) < _CHANCE):
        candidate = best.candidate.rotated(best.prior).starting_at(found.prior)
        rotated = search.tried(candidate)
        if asked_for or isinstance(rotated, str) or _earned(search, best, rotated):
            search.keep(candidate, rotated)
        else:
            before, after = (float(each.scores.log_score.mean()) for each in (best, rotated))
            search.notes.append(
                f"Turned axes were tried and left out: the log score of left-out observations is {after:.3f} with them "
                f"and {before:.3f} without, which is not beyond what the best of {len(search.fits) + 1} candidates has "
                "by chance; rotate=True takes them."
            )
    elif found is not None:
        search.notes.append(
            "Turned axes were not tried, because they would raise the log-likelihood by no more than about "
            f"{max(found.gain, 0.0):.2g}, which chance does as well; rotate=True tries them."
        )
    return search


def _earned(search: CandidateSearch, best: FittedCandidate, more: FittedCandidate) -> bool:
    """Whether left-out observations are likelier under a candidate with ``more`` freedom than under the ``best``,
    beyond what chance does for the best of all that were tried.
    """
    assert search.judges is not None
    index = np.intersect1d(best.scores.index, more.scores.index)
    # observations that err together count like one
    errors = float(ndtri(1 - _BY_CHANCE / (len(search.fits) + 1))) * search.judges.crowd**0.5
    return clearly_worse(best.scores.at(index).log_score, more.scores.at(index).log_score, errors)


def choose_parts(search: CandidateSearch) -> CandidateSearch:
    """The candidates that predict, among those with turned axes where these were asked for."""
    asked = search.request.options
    fits = [each for each in search.fits if asked.rotate is not True or is_rotated(each.prior.kernel)] or search.fits
    crowd = 1.0 if search.judges is None else search.judges.crowd
    search.chosen = weighted(fits, crowd) if asked.mixture else [(min(fits, key=lambda each: each.crps), 1.0)]
    search.result = search.heaviest.result
    return search


def weighted(fits: list[FittedCandidate], crowd: float) -> list[tuple[FittedCandidate, float]]:
    """The best candidate, or a mixture of those that are about as good, with weights, where left-out observations are
    clearly likelier under it; so many of them err together as a ``crowd`` has.
    """
    best = min(fits, key=lambda each: each.crps)
    # patterns that do not predict better, by either score, add nothing to a mixture
    fits = [each for each in fits if best.candidate.varies or not each.candidate.varies or _likelier(each, best, crowd)]
    if len(fits) == 1:
        return [(best, 1.0)]
    index = best.scores.index
    for each in fits:
        index = np.intersect1d(index, each.scores.index)
    scores = {id(each): each.scores.at(index) for each in fits}
    crps = {of: each.crps for of, each in scores.items()}
    ranked = sorted(fits, key=lambda each: float(crps[id(each)].mean()))
    most = (1 + _CLOSE) * crps[id(best)].mean()
    # observations that are left out with each other err together: so many count like one
    errors = 2.0 * crowd**0.5
    alike = {of for of, each in crps.items() if each.mean() <= most or not clearly_worse(each, crps[id(best)], errors)}
    close = [each for each in ranked if id(each) in alike]
    # different kernels first: they differ more from each other than trends do
    kernels = [each.candidate.kernel for each in close]
    first_of_kind = {kernel: kernels.index(kernel) for kernel in kernels}
    order = sorted(range(len(close)), key=lambda i: first_of_kind[kernels[i]] != i)
    close = [close[i] for i in order[:_MOST_PARTS]]
    if len(close) == 1:
        return [(best, 1.0)]
    log_scores = np.stack([scores[id(each)].log_score for each in close])
    weights = stacked(log_scores)
    together = -logsumexp(-log_scores, axis=0, b=weights[:, None])
    gain = float((scores[id(best)].log_score - together).mean())
    if gain < _WORTH_MIXING or not clearly_worse(scores[id(best)].log_score, together, errors):
        return [(best, 1.0)]
    return list(zip(close, weights.tolist(), strict=True))


def _likelier(one: FittedCandidate, best: FittedCandidate, crowd: float) -> bool:
    """Whether left-out observations are clearly more likely under a candidate than under the one with the best CRPS."""
    index = np.intersect1d(one.scores.index, best.scores.index)
    return clearly_worse(best.scores.at(index).log_score, one.scores.at(index).log_score, 2.0 * crowd**0.5)


def polish_chosen(search: CandidateSearch) -> CandidateSearch:
    """The candidates that predict, fitted to the end: exploring stopped where the choice was clear."""
    polished = search.together(search.polish, [each for each, _ in search.chosen])
    for (before, weight), after in zip(search.chosen.copy(), polished, strict=True):
        search.fits[search.fits.index(before)] = after
        search.chosen[search.chosen.index((before, weight))] = after, weight
    search.result = search.heaviest.result
    return search


def find_standard_errors(search: CandidateSearch) -> CandidateSearch:
    """Those of the heaviest candidate, where its likelihood has them."""
    found = search.heaviest
    if search.fitting.get("standard_errors", True):
        search.result = found.result.with_standard_errors(quick=True)
    return search


def determines_trend(X: np.ndarray) -> bool:
    """Whether X (n, p) determines a linear trend, and still does when any one row is left out."""
    if (np.ptp(X, axis=0) <= _ROUNDING * np.abs(X).max(axis=0)).any():  # a constant beside the constant
        return False
    centred = X - X.mean(axis=0)
    centred = centred / np.abs(centred).max(axis=0)
    values = np.linalg.eigvalsh(centred.T @ centred / len(X))
    return bool(values[0] > _ROUNDING * values[-1] and leverage(X).max() < 1 - ALL)

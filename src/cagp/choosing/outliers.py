"""A few observations that are wrong, or come from elsewhere, must not spoil the map: they get a noise of their own.

An observation that lies further from what the others say than chance explains has the noise variance of the others
times a factor, fixed before anything is predicted: the likeliest one, (e² − v) / σ², where e is its error when it is
left out, v the variance of f there and σ² the noise of the others. Statistics calls that a shift of the variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import ndtr

from ..left_out import Geometry, leave_out
from ..model import Model
from .candidates import CandidatePrior
from .scoring import as_new, clearly_worse
from .search import CandidateSearch, Step

_FEWEST = 30  # of fewer observations none can be told to be the exception
_MOST = 0.1  # where more look like outliers, errors have heavy tails and no observation is the exception
_CHANCE = 0.01  # so few data with normal errors have an outlier
_FALSE = 0.05  # about so few of those that are called outliers are none
_ABSENT = 1e8  # a factor with which observations say nothing, while the others are fitted
_ROUNDS = 4  # of finding them and fitting the others: the largest hide the next
_MEDIAN = 0.6745  # of |z|
# Of more observations those that judge, and as many with the most extreme values, say whether there are outliers.
_EVERYONE = 10_000
_NAMED = 10


def withstand_outliers(search: CandidateSearch) -> CandidateSearch:
    """The search whose first candidate gives outliers a noise of their own, where there are some and that promises to
    pay; the one without is then its ``rival``.
    """
    size, judges = len(search.y), search.judges
    if search.outliers_sought or not search.request.tries_outliers or size < _FEWEST or judges is None:
        return search
    search.outliers_sought = True
    plain, rows = search.fits[0], np.arange(size)
    if size > _EVERYONE:
        extreme = np.argsort(np.abs(search.y - np.median(search.y)))[-len(judges.rows) :]
        if not len(_Errors.of(search.model_of(plain), np.union1d(judges.rows, extreme)).outlying(size)):
            return search
    trial = CandidateSearch(search.request, search.transform, search.started)
    trial.interrupt, trial.share, trial.outliers_sought = search.interrupt, search.share, True
    found, called = plain, rows[:0]
    for _ in range(_ROUNDS):
        errors = _Errors.of(search.model_of(found), rows)
        outlying = errors.outlying(size)
        if len(outlying) > _MOST * size:
            search.notes.append(
                f"{len(outlying):,} of {size:,} observations look like outliers, too many to be exceptions: they keep "
                "the noise of the others."
            )
            return search
        if np.array_equal(outlying, called):
            break
        called = outlying
        fitted = trial.tried(_first(trial, called, np.full(len(called), _ABSENT)))
        if isinstance(fitted, str) or search.is_over:
            search.not_tried.append("a noise of their own for outliers")
            return search
        found = fitted
    if not len(called):
        return search
    trial.start = _first(trial, called, errors.factors(called))
    robust = trial.run(trial.start.starting_at(replace(found.prior, noise_factors=trial.start.start.noise_factors)))
    if robust is None:
        return search
    trial.rival = search
    pays, said = _compared(trial, search)
    if not pays:
        search.notes.append(said)
    return trial if pays else search


def compare_with_rival(search: CandidateSearch, steps: Sequence[Step]) -> CandidateSearch:
    """The search where it predicts better than its rival, in which nothing is an outlier, after the same ``steps``.

    What the first candidate cannot explain another kernel may, and what is explained is no exception.
    """
    rival = search.rival
    if rival is None:
        return search
    rival.interrupt, rival.share = search.interrupt, search.share
    for step in steps:
        if not rival.is_over:
            rival = step.run(rival)
    pays, said = _compared(search, rival)
    chosen = search if pays else rival
    chosen.notes.append(said)
    return chosen


def _first(trial: CandidateSearch, called: np.ndarray, factors: np.ndarray) -> CandidatePrior:
    """The first candidate, with the ``factors`` (m,) of the noise of observations ``called`` (m,), for the others."""
    each = np.ones(len(trial.y))
    each[called] = factors
    candidate = trial.request.first_candidate(np.delete(trial.y, called))
    return candidate.starting_at(replace(candidate.start, noise_factors=each))


def _compared(search: CandidateSearch, rival: CandidateSearch) -> tuple[bool, str]:
    """Whether the best candidate predicts left-out observations better, and others than outliers clearly so, than the
    best one of a rival for which nothing is an outlier; and what is told of it.
    """
    one, other, prior = search.best, rival.best, search.best.prior
    assert search.judges is not None
    judges = replace(search.judges, transform=rival.transform)
    before, after = judges.scores(rival.model_of(other)).charged(other.charge), one.scores
    index = np.intersect1d(before.index, after.index)
    before, after, rows = before.at(index), after.at(index), prior.outliers
    # an observation that the observations themselves have put aside is one less to judge by
    charge, others = len(rows) / len(search.y), ~np.isin(index, rows)
    better = after.charged(charge).crps.mean() < before.crps.mean()
    pays = bool(better and clearly_worse(before.crps[others], after.crps[others]))
    named = ", ".join(map(str, rows[:_NAMED])) + (", …" if len(rows) > _NAMED else "")
    factors = prior.noise_factors[rows]
    scores = (
        f"the CRPS of left-out observations, these among them, is {after.crps.mean():.4g} with a noise of their own "
        f"and {before.crps.mean():.4g} without"
    )
    which = f"{len(rows):,} of {len(search.y):,} observations lie further from what the others say than chance explains"
    which += f" (row{'s' * (len(rows) > 1)} {named}, counted from 0)"
    if not pays:
        return False, f"{which}. They keep the noise of the others: {scores}, which does not pay."
    return True, (
        f"Outliers: {which}. They have a noise variance of their own, {factors.min():.3g} to {factors.max():.3g} times "
        f"that of the others, fixed before anything is predicted: {scores}. New observations have the noise of the "
        "others."
    )


@dataclass(frozen=True)
class _Errors:
    """Errors of observations ``index`` (n,) left out alone: their squares, the variance of f there, and the noise of
    new observations, each (n,).
    """

    index: np.ndarray
    squared: np.ndarray
    variance: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, model: Model, rows: np.ndarray) -> _Errors:
        """Those of ``rows`` (n,) by a model of one component."""
        found = as_new(leave_out(model, Geometry(model.components[0]), rows, None), model)
        noise = np.broadcast_to(torch.as_tensor(model.prior.new_noise(model.X)).cpu().numpy(), len(model.X))
        variance = found.std**2 - noise[found.index]
        return cls(found.index, (found.y - found.mean) ** 2, np.maximum(variance, 0.0), noise[found.index])

    def outlying(self, size: int) -> np.ndarray:
        """Those of ``size`` observations that are further out than chance explains, by Benjamini and Hochberg's rule.

        Of these a share ``_FALSE`` is expected to be none; of normal errors any are called in ``_CHANCE`` of all data.
        """
        z = np.sqrt(self.squared / (self.variance + self.noise))
        p = 2 * ndtr(-z / max(1.0, float(np.median(z)) / _MEDIAN))  # errors that are all too large are no outliers
        ranked = np.sort(p)
        expected = ranked * size / np.arange(1, len(p) + 1)
        return self.index[p <= ranked[expected <= _FALSE].max()] if expected.min() <= _CHANCE else self.index[:0]

    def factors(self, rows: np.ndarray) -> np.ndarray:
        """The likeliest factors (m,) of the noise of ``rows`` (m,)."""
        at = np.searchsorted(self.index, rows)
        return np.maximum((self.squared - self.variance)[at] / self.noise[at], 1.0)

"""A few observations that are wrong, or come from elsewhere, must not spoil the map: they get a noise of their own.

An observation that lies further from what the others say than chance explains has the noise variance of the others
times a factor, fixed before anything is predicted: the likeliest one, (e² − v) / σ², where e is its error when it is
left out, v the variance of f there and σ² the noise of the others. Statistics calls that a shift of the variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.linalg import qr
from scipy.special import ndtr

from ..calibration.scores import each_crps
from ..left_out import leave_out
from ..model import Model
from ..predicting.conditioned import Conditioned
from ..recalibration.learning import as_new
from ..solvers.exact import EXACT_UP_TO
from ..support.numbers import number
from .candidates import CandidatePrior
from .scoring import clearly_worse, normal_crps
from .search import CandidateSearch, FittedCandidate

WHAT = "a noise of their own for outliers"
_FEWEST = 30  # of fewer observations none can be told to be the exception
_MOST = 0.1  # where more look like outliers, errors have heavy tails and no observation is the exception
_CHANCE = 0.01  # so few data with normal errors have an outlier
_FALSE = 0.05  # about so few of those that are called outliers are none
_ABSENT = 1e8  # a factor with which observations say nothing, while the others are fitted
_MORE = 1.5  # among many observations, too, where the next look finds so many times as many
_SHARE = 0.04  # of the budget, that one look at all observations may take
_ROUNDS = 4  # of finding them and fitting the others: the largest hide the next
_MEDIAN = 0.6745  # of |z|
# Of more observations so many say whether there are outliers; and one group in five judges whether calling them so
# pays, where else all five do.
_EVERYONE, _GROUPS = 10_000, 5
# Among many observations tails of all errors look like outliers. Exceptions lie further out: the median of so many
# standard deviations, or further among so many with the most extreme values, where it takes little to be called one.
_FAR, _FURTHER, _EXTREME = 5.0, 8.0, 2_000
_CLEARLY = 1.0  # standard errors by which it has to pay
_NAMED = 10
_THE_SAME = 0.2  # where so large a share of the observations is one number, zero mostly, others are no exceptions


def withstand_outliers(search: CandidateSearch) -> CandidateSearch:
    """The search whose first candidate gives outliers a noise of their own, where there are some and that pays."""
    size, judges = len(search.y), search.judges
    if WHAT in search.settled or not search.request.tries_outliers or size < _FEWEST or judges is None:
        return search
    plain, rows = search.fits[0], np.arange(size)
    search.settled.add(WHAT)
    if search.model_of(plain).components[0].gram.dtype != torch.float64:
        search.notes.append("Outliers were not sought: what hardly counts needs double precision.")
        return search
    if np.unique(search.y, return_counts=True)[1].max() > _THE_SAME * size:  # of rain on a dry day nothing is a mistake
        search.notes.append("Outliers were not sought: many observations have the same value, and others are tails.")
        return search
    if size > EXACT_UP_TO and not _far_out(search.model_of(plain), search.y, search.seed):
        return search
    trial = CandidateSearch(search.request, search.transform, search.started)
    for name in ("interrupt", "share", "settled", "judges", "notes", "findings", "not_tried"):
        setattr(trial, name, getattr(search, name))
    found, called = plain, rows[:0]
    most = _MOST * size
    for _ in range(_ROUNDS):
        if search.is_over or search.left_out_seconds * size > _SHARE * search.request.seconds:
            search.not_tried.append(WHAT)
            return search
        errors = _Errors.of(search.model_of(found), rows)
        outlying = errors.outlying(size)
        if np.array_equal(outlying, called) or len(outlying) > most:
            break
        most = min(most, _MORE * len(outlying)) if size > EXACT_UP_TO else most
        called = outlying
        fitted = trial.tried(_first(trial, called, np.full(len(called), _ABSENT)))
        if isinstance(fitted, str):
            search.notes.append(f"A noise of their own for {len(called):,} outliers could not be fitted ({fitted}).")
            return search
        found = fitted
    if len(outlying) > most:
        search.notes.append(f"{len(outlying):,} observations look like outliers: too many to be exceptions.")
    elif len(called):
        trial.start = _first(trial, called, errors.factors(called))
        start = trial.start.starting_at(replace(found.prior, noise_factors=trial.start.start.noise_factors))
        if (robust := trial.run(start)) is not None:
            pays, said = _compared(search, plain, robust)
            search.notes.append(said)
            return trial if pays else search
    return search


def _far_out(model: Model, y: np.ndarray, seed: int) -> bool:
    """Whether among many observations y (n,) some lie so far out that they are exceptions, and not the tails of all."""
    size = len(y)
    some = np.sort(np.random.default_rng(seed).permutation(size)[:_EVERYONE])
    extreme = np.sort(np.argsort(np.abs(y - np.median(y)))[-_EXTREME:])
    for rows, least in ((some, _FAR), (extreme, _FURTHER)):
        errors = _Errors.of(model, rows)
        called = np.isin(rows, errors.outlying(size))
        if called.any() and np.median(errors.z[called]) >= least:
            return True
    return False


def _first(trial: CandidateSearch, called: np.ndarray, factors: np.ndarray) -> CandidatePrior:
    """The first candidate, with the ``factors`` (m,) of the noise of observations ``called`` (m,), for the others."""
    each = np.ones(len(trial.y))
    each[called] = factors
    candidate = trial.request.first_candidate(trial.y, np.delete(np.arange(len(trial.y)), called))
    return candidate.starting_at(replace(candidate.start, noise_factors=each))


def _compared(search: CandidateSearch, plain: FittedCandidate, robust: FittedCandidate) -> tuple[bool, str]:
    """Whether a noise of their own for outliers pays, and what is told of it.

    Left-out observations cannot say: they have put aside what disagreed with them. So observations judge, in groups,
    that had no part in calling outliers.
    """
    size, models = len(search.y), [search.model_of(each) for each in (plain, robust)]
    before, after = (np.concatenate(each) for each in zip(*_held_out(search, models), strict=True))
    rows = robust.prior.outliers
    named = ", ".join(map(str, rows[:_NAMED])) + (", …" if len(rows) > _NAMED else "")
    which = f"{len(rows):,} of {size:,} observations lie" if len(rows) > 1 else f"1 of {size:,} observations lies"
    which += f" further from what the others say than chance explains (row{'s' * (len(rows) > 1)} {named}, counted "
    which += "from 0 among those used)"
    digits = 4 if f"{after.mean():.4g}" != f"{before.mean():.4g}" else 7
    scale = "" if search.transform is None else ", on the transformed scale"
    crps = (
        f"the CRPS of observations that had no part in saying which is {after.mean():.{digits}g} with a noise of their "
        f"own for such outliers and {before.mean():.{digits}g} without{scale}"
    )
    if not clearly_worse(before, after, _CLEARLY):
        return False, f"{which}, but they keep the noise of the others: {crps}."
    low, high = (number(float(end(robust.prior.noise_factors[rows])), 2) for end in (np.min, np.max))
    times = low if low == high else f"{low} to {high}"
    return True, (
        f"Outliers: {which}. Their noise variance is {times} times that of the others, fixed before anything "
        f"is predicted: {crps}. New observations have the noise of the others."
    )


def exceptions_or_transform(robust: CandidateSearch, transformed: CandidateSearch) -> tuple[np.ndarray, np.ndarray]:
    """The CRPS (n,) of observations that had no part in calling outliers, on their own scale: with a noise of their own
    for outliers, and ``transformed``, where nothing is one.
    """
    each = [search.model_of(search.fits[0]) for search in (robust, transformed)]
    models = [each[0], each[1].replace(transform=transformed.transform)]
    exceptions, transform = (np.concatenate(found) for found in zip(*_held_out(robust, models), strict=True))
    return exceptions, transform


def _held_out(search: CandidateSearch, models: list[Model]) -> list[list[np.ndarray]]:
    """For each group of observations, (m,), their CRPS by each of the models, made of the others alone."""
    size = len(search.y)
    groups = np.array_split(np.random.default_rng(search.seed).permutation(size), _GROUPS)
    groups = [each[~np.isin(each, _of_the_trend(models[0]))] for each in groups]
    return [
        [_held_out_crps(search, model, group) for model in models]
        for group in (groups if size <= _EVERYONE else groups[:1])
    ]


def _of_the_trend(model: Model) -> np.ndarray:
    """Observations that determine a trend by themselves: the others can be left out in groups of any kind."""
    basis = model.components[0].basis
    if basis is None or basis.at_training_points.shape[1] == 1:  # a constant is determined by any observation
        return np.empty(0, dtype=np.int64)
    H = basis.at_training_points.cpu().numpy()
    return np.asarray(qr(H.T, mode="r", pivoting=True)[1][: H.shape[1]])


def _held_out_crps(search: CandidateSearch, model: Model, group: np.ndarray) -> np.ndarray:
    """The CRPS (m,) of a ``group`` of observations, predicted from the others, among which outliers are called anew."""
    kept = np.setdiff1d(np.arange(len(search.y)), group)
    part = model.components[0].rebuilt(kept)
    if part.prior.noise_factors is not None:
        errors, factors = _Errors.of(_alone(model, part), np.arange(len(kept))), np.ones(len(kept))
        called = errors.outlying(len(kept))
        factors[called] = errors.factors(called)
        part = part.with_prior(replace(part.prior, noise_factors=factors))
    predicted = _alone(model, part).predict(search.X[group], progress=False).observed()
    if model.transform is not None:
        return each_crps(predicted, search.y[group])
    return normal_crps(search.y[group] - np.asarray(predicted.mean), np.asarray(predicted.std))


def _alone(model: Model, component: Conditioned) -> Model:
    return model.replace(components=[component], weights=[1.0])


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
        found = as_new(leave_out(model, rows), model)
        noise = replace(model.prior, noise_factors=None).noise(model.X).cpu().numpy()
        variance = found.std**2 - noise[found.index]
        return cls(found.index, (found.y - found.mean) ** 2, np.maximum(variance, 0.0), noise[found.index])

    @property
    def z(self) -> np.ndarray:
        """Errors in standard deviations (n,); where all are too large, in those that they have."""
        z = np.sqrt(self.squared / (self.variance + self.noise))
        return np.asarray(z / max(1.0, float(np.median(z)) / _MEDIAN))

    def outlying(self, size: int) -> np.ndarray:
        """Those of ``size`` observations that are further out than chance explains, by Benjamini and Hochberg's rule.

        Of these a share ``_FALSE`` is expected to be none; of normal errors any are called in ``_CHANCE`` of all data.
        """
        p = 2 * ndtr(-self.z)
        ranked = np.sort(p)
        expected = ranked * size / np.arange(1, len(p) + 1)
        return self.index[p <= ranked[expected <= _FALSE].max()] if expected.min() <= _CHANCE else self.index[:0]

    def factors(self, rows: np.ndarray) -> np.ndarray:
        """The likeliest factors (m,) of the noise of ``rows`` (m,)."""
        at = np.searchsorted(self.index, rows)
        return np.maximum((self.squared - self.variance)[at] / self.noise[at], 1.0)

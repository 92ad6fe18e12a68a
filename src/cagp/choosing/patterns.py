"""Whether an amplitude, or a noise level, that varies with the inputs predicts left-out observations better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincc

from ..errors import InputError, NotPositiveDefiniteError
from ..hyperparameters.patterns import PatternFit
from ..left_out import leave_out
from ..prior import Prior
from ..recalibration.bands import DistanceBand
from .search import CandidateSearch, FittedCandidate

# What varies, amplitude and noise, in the order in which it is tried.
_KINDS = ((True, True), (False, True), (True, False))
_CENTRES, _MANY = 30, 300
_PER_CENTRE = 50  # so many observations are needed for each centre of a pattern
_CHANCE = 0.014  # patterns are tried where so few data without one promise as much, as for turned axes
_REFINED = 2  # so many kinds of patterns, the best, have the other hyperparameters fitted to them
_HOPELESS = 1.02  # fitting the other hyperparameters to patterns makes up for a CRPS that is so much worse, not more
_JUDGED = 100  # from fewer left-out observations little can be learnt from place to place


def try_patterns(search: CandidateSearch) -> CandidateSearch:
    """Fit the best candidate with the best patterns; with many more centres where a few of them predict better.

    "auto" looks at those that the likelihood promises something of. A recalibration learns from place to place, too.
    Where there is going to be one, a pattern has to be better with it.
    """
    options = search.request.options
    plain, most = search.best, len(search.y) // _PER_CENTRE
    patterns = _patterns(search, plain, min(_CENTRES, most)) if most >= 2 else None
    if patterns is None:
        return search
    known = bool(np.ndim(plain.prior.noise_variance))
    kinds = [each for each in _KINDS if not (known and each[1])]
    promised = [patterns.promise(*each) for each in kinds]
    if options.varying == "auto":
        kinds = [each for each, (gain, n) in zip(kinds, promised, strict=True) if gammaincc(n / 2, gain) < _CHANCE]
    if not kinds:
        search.notes.append(
            "An amplitude and a noise level that vary with the inputs were not tried, because they would raise the "
            f"log-likelihood by no more than about {max(promised)[0]:.2g}, which chance does as well; varying=True "
            "tries them."
        )
    explored = [found for each in kinds if (found := _explored(search, plain, patterns, *each)) is not None]
    for found in sorted(explored, key=lambda each: each.crps)[:_REFINED]:
        if not search.is_over:
            _run(search, plain, found)
    best, judges = search.best, search.judges
    assert judges is not None
    # what a pattern with many centres knows about the inside of a left-out gap, it would not know about a real one
    if best is not plain and most >= _MANY and judges.gaps is None and not search.is_over:
        finer, words = _patterns(search, plain, _MANY), best.candidate.varies.split(" and ")
        found = None if finer is None else _explored(search, plain, finer, "amplitude" in words, "noise" in words)
        if found is not None:
            _run(search, plain, found)
    recalibrates = options.recalibrate is not False and len(judges.rows) >= _JUDGED
    if recalibrates and search.best is not plain and not search.is_over:
        _leave_out_what_recalibration_does(search, plain)
    return search


def _leave_out_what_recalibration_does(search: CandidateSearch, plain: FittedCandidate) -> None:
    """Take candidates with patterns out of the race where the plain one is as good after a recalibration."""
    best, judges = search.best, search.judges
    assert judges is not None
    before, after = (_recalibrated_log_score(search, each) for each in (plain, best))
    # a pattern knows all that is left out with an observation: what lies in one gap counts like one
    together = 1.0 if judges.gaps is None else judges.crowd * len(search.y) / len(judges.rows)
    after += best.charge * together
    if after < before:
        return
    search.fits[:] = [each for each in search.fits if not each.candidate.varies]
    search.notes.append(
        f"Varying {best.candidate.varies} was tried and left out: the CRPS of left-out observations is {best.crps:.4g} "
        f"with it and {plain.crps:.4g} without, but after a recalibration, which learns from place to place as well, "
        f"their log score is {after:.3f} with it and {before:.3f} without."
    )


def _recalibrated_log_score(search: CandidateSearch, fit: FittedCandidate) -> float:
    """Of the left-out observations, by the error bars that a recalibration learns from them."""
    judges = search.judges
    assert judges is not None
    found = leave_out(search.model_of(fit), judges.geometry, judges.rows, judges.gaps)
    _, log_density = DistanceBand.learned(found, judges.geometry, search.seed)
    return float(np.log(found.std).mean()) - log_density


def _patterns(search: CandidateSearch, plain: FittedCandidate, centres: int) -> PatternFit | None:
    """What finds patterns for the ``plain`` candidate; None where none can be."""
    try:
        return PatternFit(plain.prior, search.X, search.y, centres, seed=search.seed, device=search.device)
    except (NotPositiveDefiniteError, InputError) as error:
        search.notes.append(f"Varying amplitude and noise could not be fitted ({error}).")
        return None


@dataclass(frozen=True)
class _Explored:
    """A ``prior`` with patterns in what ``varies``, and the CRPS that it has before all else is fitted to them."""

    prior: Prior
    varies: str
    charge: float
    crps: float


def _explored(
    search: CandidateSearch, plain: FittedCandidate, patterns: PatternFit, amplitude: bool, noise: bool
) -> _Explored | None:
    """Patterns for the ``plain`` candidate whose other hyperparameters stay; None where there are none."""
    varies = " and ".join(["amplitude"] * amplitude + ["noise"] * noise)
    # every value was chosen by the observations that judge it: one counts like an observation less
    charge = (amplitude + noise) * patterns.n_centres / len(search.y)
    assert search.judges is not None
    try:
        prior = patterns.prior(amplitude, noise)
        scores = search.judges.scores(search.condition(prior)).charged(charge)
    except (NotPositiveDefiniteError, InputError) as error:
        search.notes.append(f"Varying {varies} could not be fitted ({error}).")
        return None
    return _Explored(prior, varies, charge, float(scores.crps.mean()))


def _run(search: CandidateSearch, plain: FittedCandidate, found: _Explored) -> None:
    """Fit the other hyperparameters to these patterns, where that may make them better than none."""
    if found.crps < _HOPELESS * plain.crps:
        search.run(plain.candidate.with_patterns(found.prior, found.varies), plain.fitted_by, found.charge)
    else:
        search.notes.append(
            f"Varying {found.varies} was given up: the CRPS of left-out observations is {found.crps:.4g} with it and "
            f"{plain.crps:.4g} without, before the other hyperparameters are fitted to it."
        )

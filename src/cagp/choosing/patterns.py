"""Whether an amplitude, or a noise level, that varies with the inputs predicts left-out observations better."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc

from ..errors import InputError, NotPositiveDefiniteError
from ..hyperparameters.patterns import PatternFit
from ..left_out import leave_out
from ..recalibration.bands import DistanceBand
from .search import CandidateSearch, FittedCandidate

# What varies, amplitude and noise, in the order in which it is tried.
_KINDS = ((True, True), (False, True), (True, False))
_CENTRES, _MANY = 30, 300
_PER_CENTRE = 50  # so many observations are needed for each centre of a pattern
_CHANCE = 0.014  # patterns are tried where so few data without one promise as much, as for turned axes
_JUDGED = 100  # from fewer left-out observations little can be learnt from place to place


def try_patterns(search: CandidateSearch) -> CandidateSearch:
    """Fit the best candidate with patterns; with many more centres where a few of them predict better.

    "auto" fits those that the likelihood promises something of. A recalibration learns from place to place, too. Where
    there is going to be one, a pattern has to be better with it.
    """
    options, interrupt = search.request.options, search.interrupt
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
    for each in kinds:
        if not interrupt.requested:
            _run(search, plain, patterns, *each)
    best, judges = search.best, search.judges
    assert judges is not None
    # what a pattern with many centres knows about the inside of a left-out gap, it would not know about a real one
    if best is not plain and most >= _MANY and judges.gaps is None and not interrupt.requested:
        finer, words = _patterns(search, plain, _MANY), best.candidate.varies.split(" and ")
        if finer is not None:
            _run(search, plain, finer, "amplitude" in words, "noise" in words)
    recalibrates = options.recalibrate is not False and len(judges.rows) >= _JUDGED
    if recalibrates and search.best is not plain and not interrupt.requested:
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


def _run(search: CandidateSearch, plain: FittedCandidate, patterns: PatternFit, amplitude: bool, noise: bool) -> None:
    varies = " and ".join(["amplitude"] * amplitude + ["noise"] * noise)
    try:
        prior = patterns.prior(amplitude, noise)
    except (NotPositiveDefiniteError, InputError) as error:
        search.notes.append(f"Varying {varies} could not be fitted ({error}).")
        return
    # every value was chosen by the observations that judge it: one counts like an observation less
    charge = (amplitude + noise) * patterns.n_centres / len(search.y)
    search.run(plain.candidate.with_patterns(prior, varies), plain.fitted_by, charge)

"""Whether an amplitude, or a noise level, that varies with the inputs predicts left-out observations better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import gammaincc

from ..errors import InputError, NotPositiveDefiniteError
from ..hyperparameters.patterns import PatternFit
from ..left_out import Geometry
from ..prior import Prior
from ..recalibration.bands import DistanceBand
from .candidates import CandidatePrior
from .search import CandidateSearch, FittedCandidate

# What varies, amplitude and noise, in the order in which it is tried.
_KINDS = ((True, True), (False, True), (True, False))
_CENTRES = 30
_TERMS = 3000  # of the likelihood, that find them
_PER_CENTRE = 50  # so many observations are needed for each centre of a pattern
_CHANCE = 0.014  # patterns are tried where so few data without one promise as much, as for turned axes
_REFINED = 2  # so many kinds of patterns, the best, have the other hyperparameters fitted to them
# Fitting the other hyperparameters to patterns makes up for a CRPS that is so much worse, and for so many nats after a
# recalibration, not more.
_HOPELESS, _HOPELESS_NATS = 1.02, 0.02
_JUDGED = 100  # from fewer left-out observations little can be learnt from place to place


def try_patterns(search: CandidateSearch) -> CandidateSearch:
    """Fit the best candidate with the best patterns.

    "auto" looks at those that the likelihood promises something of. A recalibration learns from place to place, too.
    Where there is going to be one, a pattern has to be better with it.
    """
    options = search.request.options
    plain, most = search.best, len(search.y) // _PER_CENTRE
    if most < 2:
        return search
    how: dict[str, Any] = {"terms": _TERMS, "seed": search.seed, "device": search.device}
    try:
        patterns = PatternFit(plain.prior, search.X, search.y, min(_CENTRES, most), **how)
    except (NotPositiveDefiniteError, InputError) as error:
        search.notes.append(f"Varying amplitude and noise could not be fitted ({error}).")
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
    explored = search.together(lambda each: _explored(search, plain, patterns, *each), kinds)
    judges = search.judges
    assert judges is not None
    if search.is_over:
        return search
    recalibrates = options.recalibrate is not False and len(judges) >= _JUDGED
    hopeful = _hopeful(search, plain, [each for each in explored if each is not None], recalibrates)

    def refined(found: _PatternedPrior) -> tuple[CandidatePrior, FittedCandidate | str | None]:
        """The other hyperparameters fitted to these patterns."""
        candidate = plain.candidate.with_patterns(found.prior, found.varies)
        return candidate, None if search.is_over else search.tried(candidate, found.charge)

    for candidate, found in search.together(refined, hopeful[:_REFINED]):
        if found is not None:
            search.keep(candidate, found)
    if recalibrates and not search.is_over:
        patterned = {id(each.prior): each for each in search.fits if each.candidate.varies}
        priors = [
            _PatternedPrior(each.prior, each.candidate.varies, each.charge, each.crps) for each in patterned.values()
        ]
        good = {id(each.prior) for each in _hopeful(search, plain, priors, True, 0.0)}
        search.fits[:] = [each for each in search.fits if not each.candidate.varies or id(each.prior) in good]
    return search


def _hopeful(
    search: CandidateSearch,
    plain: FittedCandidate,
    explored: Sequence[_PatternedPrior],
    recalibrates: bool,
    slack: float = _HOPELESS_NATS,
) -> list[_PatternedPrior]:
    """Those that may be better than the plain candidate, the best first; told of the others.

    Where there is going to be a recalibration they have to be better after it, or would be but for ``slack`` nats.
    """
    judges = search.judges
    assert judges is not None
    ranked = []
    before, together = _recalibrated_log_score(search, plain.prior) if recalibrates and explored else (0.0, 1.0)
    for each in explored:
        words = f"the CRPS of left-out observations is {each.crps:.4g} with it and {plain.crps:.4g} without"
        if recalibrates:
            score = _recalibrated_log_score(search, each.prior)[0] + each.charge * together
            hopeless = score >= before + slack
            words += f", and after a recalibration their log score is {score:.3f} with it and {before:.3f} without"
        else:
            score, hopeless = each.crps, each.crps >= _HOPELESS * plain.crps
            words += ", before the other hyperparameters are fitted to it"
        if hopeless:
            search.notes.append(f"Varying {each.varies} was tried and left out: {words}.")
        else:
            ranked.append((score, each))
    return [each for _, each in sorted(ranked, key=lambda pair: pair[0])]


def _recalibrated_log_score(search: CandidateSearch, prior: Prior) -> tuple[float, float]:
    """Of the left-out observations, by the error bars that a recalibration learns from them; and how many observations
    count like one: a pattern knows all that is left out with an observation.
    """
    judges = search.judges
    assert judges is not None
    model = search.condition(prior)
    found, geometry = judges.left_out(model), Geometry(model.components[0])
    _, log_density = DistanceBand.learned(found, geometry, search.seed)
    rows, radius = (torch.from_numpy(each).to(geometry.points.device) for each in (found.index, found.radius))
    return float(np.log(found.std).mean()) - log_density, max(1.0, geometry.within(rows, radius))


@dataclass(frozen=True)
class _PatternedPrior:
    """A ``prior`` with patterns in what ``varies``, what its scores are made worse by, and its CRPS."""

    prior: Prior
    varies: str
    charge: float
    crps: float


def _explored(
    search: CandidateSearch, plain: FittedCandidate, patterns: PatternFit, amplitude: bool, noise: bool
) -> _PatternedPrior | None:
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
    return _PatternedPrior(prior, varies, charge, float(scores.crps.mean()))

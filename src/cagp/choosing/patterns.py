"""Whether an amplitude, or a noise level, that varies with the inputs predicts left-out observations better."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc

from ..errors import InputError, NotPositiveDefiniteError
from ..hyperparameters.patterns import PatternFit
from ..recalibration.bands import Band
from ..support.interrupt import Interrupt
from .search import Fit, Search

_KINDS = ((True, True), (False, True), (True, False))
"""What varies, amplitude and noise, in the order in which it is tried."""

_CENTRES, _MANY = 30, 300
_PER_CENTRE = 50
"""So many observations are needed for each centre of a pattern."""

_CHANCE = 0.014
"""Patterns are tried where so few data without one promise as much, as for turned axes."""

_JUDGED = 100
"""From fewer left-out observations little can be learnt from place to place."""


def varying_wanted(varying: bool | str, by_hand: bool) -> bool:
    """Whether patterns are tried: "auto" does so unless something was given by hand."""
    if varying not in (True, False, "auto"):
        raise InputError(f'varying must be True, False or "auto", got {varying!r}')
    return not by_hand if varying == "auto" else bool(varying)


def try_patterns(search: Search, varying: bool | str, recalibrates: bool, interrupt: Interrupt) -> None:
    """Fit the best candidate with patterns; with many more centres where a few of them predict better.

    "auto" fits those that the likelihood promises something of. A recalibration learns from place to place, too. Where
    there is going to be one, a pattern has to be better with it.
    """
    plain, most = search.best, len(search.y) // _PER_CENTRE
    patterns = _patterns(search, plain, min(_CENTRES, most)) if most >= 2 and not interrupt.requested else None
    if patterns is None:
        return
    known = bool(np.ndim(plain.prior.noise_variance))
    kinds = [each for each in _KINDS if not (known and each[1])]
    promised = [patterns.promise(*each) for each in kinds]
    if varying == "auto":
        kinds = [each for each, (gain, n) in zip(kinds, promised, strict=True) if gammaincc(n / 2, gain) < _CHANCE]
    if not kinds:
        search.failures.append(
            "An amplitude and a noise level that vary with the inputs were not tried, because they would raise the "
            f"log-likelihood by no more than about {max(promised)[0]:.2g}, which chance does as well; varying=True "
            "tries them."
        )
    for each in kinds:
        if not interrupt.requested:
            _run(search, plain, patterns, *each)
    best, site = search.best, search.site
    assert site is not None
    # what a pattern with many centres knows about the inside of a left-out gap, it would not know about a real one
    if best is not plain and most >= _MANY and site.gaps is None and not interrupt.requested:
        finer, words = _patterns(search, plain, _MANY), best.candidate.varies.split(" and ")
        if finer is not None:
            _run(search, plain, finer, "amplitude" in words, "noise" in words)
    if recalibrates and len(site.rows) >= _JUDGED and search.best is not plain and not interrupt.requested:
        _leave_out_what_recalibration_does(search, plain)


def _leave_out_what_recalibration_does(search: Search, plain: Fit) -> None:
    """Take candidates with patterns out of the race where the plain one is as good after a recalibration."""
    best, site = search.best, search.site
    assert site is not None
    before, after = (_recalibrated_log_score(search, each) for each in (plain, best))
    # a pattern knows all that is left out with an observation: what lies in one gap counts like one
    together = 1.0 if site.gaps is None else site.crowd * len(search.y) / len(site.rows)
    after += best.charge * together
    if after < before:
        return
    search.fits[:] = [each for each in search.fits if not each.candidate.varies]
    search.failures.append(
        f"Varying {best.candidate.varies} was tried and left out: the CRPS of left-out observations is {best.crps:.4g} "
        f"with it and {plain.crps:.4g} without, but after a recalibration, which learns from place to place as well, "
        f"their log score is {after:.3f} with it and {before:.3f} without."
    )


def _recalibrated_log_score(search: Search, fit: Fit) -> float:
    """Of the left-out observations, by the error bars that a recalibration learns from them."""
    assert search.site is not None
    geometry = search.site.geometry
    found = search.model_of(fit).leave_out(geometry, search.site.rows, search.site.gaps)
    _, log_density = Band.learned(found, geometry, search.settings.seed)
    return float(np.log(found.std).mean()) - log_density


def _patterns(search: Search, plain: Fit, centres: int) -> PatternFit | None:
    """What finds patterns for the ``plain`` candidate; None where none can be."""
    settings = search.settings
    try:
        return PatternFit(plain.prior, search.X, search.y, centres, seed=settings.seed, device=settings.device)
    except (NotPositiveDefiniteError, InputError) as error:
        search.failures.append(f"Varying amplitude and noise could not be fitted ({error}).")
        return None


def _run(search: Search, plain: Fit, patterns: PatternFit, amplitude: bool, noise: bool) -> None:
    varies = " and ".join(["amplitude"] * amplitude + ["noise"] * noise)
    try:
        prior = patterns.prior(amplitude, noise)
    except (NotPositiveDefiniteError, InputError) as error:
        search.failures.append(f"Varying {varies} could not be fitted ({error}).")
        return
    # every value was chosen by the observations that judge it: one counts like an observation less
    charge = (amplitude + noise) * patterns.n_centres / len(search.y)
    search.run(plain.candidate.with_patterns(prior, varies), plain.fitted_by, charge)

"""Are error bars right? Which way they fail, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import kurtosistest

from ..calibration import Assessment, assess, ecdf_band
from .numbers import number, percent

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)

_LEVEL = 0.01
_MATERIAL_SPREAD = 1.1
"""A spread of z within 1/1.1 … 1.1 is right for all practical purposes, whatever the tests can see."""

_MATERIAL_SHIFT = 0.1
_MATERIAL_COVERAGE = 0.03
_TAIL_RATIO = 1.2
_FEW = 20


@dataclass(frozen=True)
class Coverage:
    """How many of n intervals of a ``level`` hold the truth, and between which limits that is chance."""

    level: float
    found: float
    lower: float
    upper: float

    @property
    def inside(self) -> bool:
        return self.lower - 1e-12 <= self.found <= self.upper + 1e-12


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What z-values (n,) say about the error bars that made them.

    ``failures`` are among "too narrow", "too wide", "biased", "heavy tails", "wrong shape"; none means ``right``.
    ``sentence`` says it with numbers, ``notes`` what else is worth knowing.
    """

    z: np.ndarray
    failures: tuple[str, ...]
    sentence: str
    notes: tuple[str, ...]
    coverage: tuple[Coverage, ...]
    assessment: Assessment | None = field(default=None)

    @property
    def right(self) -> bool:
        return not self.failures

    @property
    def spread(self) -> float:
        """How many times too narrow (> 1) or too wide (< 1) the error bars are: the root mean square of z."""
        return float(np.sqrt(np.square(self.z).mean()))


def diagnose(z: np.ndarray, what: str = "predictions") -> Diagnosis:
    """Judge z = (truth − mean) / std, shape (n,), n ≥ 1; ``what`` has the error bars."""
    n = len(z)
    coverage = covered(z)
    if n == 1:
        return _single(float(z[0]), coverage, what)
    tests = assess(z, level=_LEVEL)
    rejected = tests.verdict != "calibrated"
    threshold = tests.level / 4
    failures: list[str] = []
    spread, shift = tests.z_std, tests.z_mean
    heavy = rejected and _heavy_tails(z)
    if tests.mean_p_value < threshold and abs(shift) > _MATERIAL_SHIFT:
        failures.append("biased")
    if tests.std_p_value < threshold and not 1 / _MATERIAL_SPREAD <= spread <= _MATERIAL_SPREAD:
        failures.append("too narrow" if spread > 1 else "too wide")
    if heavy:
        # where most errors are as small as promised, it is the few large ones that spread z
        central = float(np.median(np.abs(z)) / ndtri(0.75))
        if central <= _MATERIAL_SPREAD and "too narrow" in failures:
            failures.remove("too narrow")
        failures.insert(0, "heavy tails")
    worst = max(abs(c.found - c.level) for c in coverage)
    if rejected and not failures and worst > _MATERIAL_COVERAGE:
        failures.append("wrong shape")
    notes: list[str] = []
    if rejected and not failures:
        notes.append(f"With {n:,} values the tests see a deviation ({tests.reason}), but it is too small to matter.")
    if n < _FEW:
        notes.append(f"{n} values are few: only gross failures can be seen.")
    return Diagnosis(z, tuple(failures), _sentence(failures, z, coverage, what), tuple(notes), coverage, tests)


def covered(z: np.ndarray) -> tuple[Coverage, ...]:
    """The coverage of the central intervals at ``LEVELS``, with limits that hold for all of them at once."""
    band = ecdf_band(len(z), LEVELS)
    needed = 2 * ndtr(np.abs(z)) - 1
    return tuple(
        Coverage(level, float((needed <= level).mean()), float(low), float(high))
        for level, low, high in zip(LEVELS, band.lower, band.upper, strict=True)
    )


def _single(z: float, coverage: tuple[Coverage, ...], what: str) -> Diagnosis:
    far = abs(z) > ndtri(1 - _LEVEL / 2)
    sentence = f"the only held-out value lies {number(abs(z))} standard deviations from its prediction, " + (
        f"further than 99% should: the error bars of the {what} look too narrow" if far else "as near as it should"
    )
    note = "One value cannot tell whether error bars are right; hold out at least 20, better 200."
    return Diagnosis(np.array([z]), ("too narrow",) if far else (), sentence, (note,), coverage)


def _heavy_tails(z: np.ndarray) -> bool:
    """Whether a few values are much further out than a normal law of the spread of the others allows."""
    if len(z) < _FEW:
        return False
    centred = z - np.median(z)
    inner = np.median(np.abs(centred)) / ndtri(0.75)
    ratio = z.std(ddof=1) / max(inner, np.finfo(float).tiny)
    result = kurtosistest(z)
    return bool(ratio > _TAIL_RATIO and result.statistic > 0 and result.pvalue < _LEVEL)


def _sentence(failures: list[str], z: np.ndarray, coverage: tuple[Coverage, ...], what: str) -> str:
    spread = float(np.std(z, ddof=1))
    at = {c.level: percent(c.found) for c in coverage}
    hold = f"95% intervals hold {at[0.95]} of the {len(z):,} values"
    if not failures:
        return f"the error bars of the {what} are right as far as these data can tell: {hold}"
    parts = {
        "too narrow": f"too narrow, errors are typically {number(spread, 2)} times what they promise",
        "too wide": f"too wide, errors are typically only {number(spread, 2)} times what they promise",
        "biased": f"around biased predictions, which lie {number(abs(float(z.mean())), 2)} standard deviations too "
        f"{'low' if z.mean() > 0 else 'high'} on average",
        "heavy tails": f"right for no single width, because errors have heavy tails: 50% intervals hold {at[0.5]} and "
        f"99% intervals {at[0.99]}",
        "wrong shape": f"of the wrong shape: 50% intervals hold {at[0.5]} and 95% intervals {at[0.95]}",
    }
    said = "; and ".join(parts[failure] for failure in failures)
    return f"the error bars of the {what} are {said} ({hold})"

"""Are error bars right? The one place that decides: whether, which way they fail, in words and numbers.

The errors of one data set are correlated, and the model knows by how much (``left_out.correlation``). With average
correlation r̄, the mean of n values of z varies like that of n / (1 + (n − 1) r̄) independent ones; with average squared
correlation q̄, the mean of z², and about that of every even function of z, like that of n / (1 + (n − 1) q̄).

In gaps they are wrong together in ways that the model does not know: what a gap adds to the sum of all values, and how
much that differs from gap to gap, says how many independent ones they count like; the smaller number of both counts.
Where there are too few gaps for that, each is one value, unless the model knows better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its parts by their full names: stats takes long to import, and is when it is used
from scipy.special import ndtr, ndtri

from ..calibration import Assessment, ecdf_band
from ..calibration.assessment import LEVELS, EffectiveSize
from ..left_out import FEWEST, MANY, Correlation, Gaps
from ..support.numbers import coverage_percent, listed, number

LEFT_OUT = "whole gaps, left out at other places,"
"""What gaps like those to be predicted are called."""

_LEVEL = 0.01
_MATERIAL_SPREAD = 1.1  # within 1/1.1 … 1.1 a spread of z is right for all practical purposes
_MATERIAL_CENTRE = 1.2
_MATERIAL_SHIFT = 0.1
_MATERIAL_COVERAGE = 0.03
_TAIL_RATIO = 1.2
_OUTLYING = 4.0  # so far out lies one value in 16,000 by chance
_IMPOSSIBLE = 37.0  # beyond this normal score probabilities cannot be written in float64
_POWER = 0.8  # how often a deviation must be found to be called one that can be seen


@dataclass(frozen=True)
class Coverage:
    """How many of n intervals of a ``level`` hold the truth; chance is between limits for all levels at once."""

    level: float
    found: float
    lower: float
    upper: float

    @property
    def inside(self) -> bool:
        """Whether chance explains what was found."""
        return self.lower - 1e-12 <= self.found <= self.upper + 1e-12


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What z-values (n,) say about the error bars that made them; they count for ``worth`` independent ones.

    ``failures`` are among "too narrow", "too wide", "biased", "outliers", "heavy tails", "wrong shape"; none means
    ``right``: not rejected. ``signs`` are failures that no test rejects, but that show in a coverage outside of what
    chance explains. ``sentence`` says it with numbers, ``notes`` what else is worth knowing.
    """

    z: np.ndarray
    failures: tuple[str, ...]
    sentence: str
    notes: tuple[str, ...]
    coverage: tuple[Coverage, ...]
    worth: EffectiveSize
    signs: tuple[str, ...] = ()
    where: str = ""

    @property
    def right(self) -> bool:
        """Whether the tests do not reject the error bars, which is less than to say that they are right."""
        return not self.failures

    @property
    def suspicious(self) -> bool:
        """Whether no test rejects the error bars, but some coverage is outside of what chance explains."""
        return bool(self.signs)

    @property
    def too_few(self) -> bool:
        """Whether the values, or the independent ones that they count like, are so few that hardly anything shows."""
        return min(len(self.z), self.worth.spread) < FEWEST

    @property
    def state(self) -> str:
        """ "right", "suspicious" or "wrong"."""
        return "wrong" if self.failures else ("suspicious" if self.signs else "right")

    @property
    def spread(self) -> float:
        """How many times too narrow (> 1) or too wide (< 1) the error bars are: the root mean square of z."""
        return float(np.sqrt(np.square(self.z).mean()))

    @property
    def whole_sentence(self) -> str:
        """The sentence with what it is called where it is neither right nor wrong, a capital and a full stop."""
        sentence = f"suspicious: {self.sentence}." if self.suspicious else f"{self.sentence}."
        return sentence[:1].upper() + sentence[1:]

    def hold(self, level: float) -> str:
        """How many of the intervals of one of ``LEVELS`` hold the truth, in percent: 94.7%."""
        return coverage_percent(next(each.found for each in self.coverage if each.level == level))


def effective_size(n: int, correlation: Correlation | None) -> EffectiveSize:
    """How many independent values n errors with that average correlation are worth."""
    if correlation is None:
        return EffectiveSize(n, n)
    return EffectiveSize(*(n / (1 + (n - 1) * max(r, 0.0)) for r in (correlation.correlation, correlation.square)))


def bounded(z: np.ndarray) -> np.ndarray:
    """z-values (n,), where an observation that no prediction allows counts as at the edge of what can be written."""
    edge = max(_IMPOSSIBLE, float(np.abs(z[np.isfinite(z)]).max(initial=0.0)))
    return np.clip(z, -edge, edge)


def diagnose(
    z: np.ndarray, correlation: Correlation | None = None, different: int | None = None, gaps: Gaps | None = None
) -> Diagnosis:
    """Judge z = (truth − mean) / std (n,) of correlated errors: a failure is what tests reject, at 1%, and matters.

    They are those of so many ``different`` observations, by default of n, and lie in these ``gaps``. Where z is
    infinite no observation can be, whatever the tests say.
    """
    impossible, z = int(np.isinf(z).sum()), bounded(z)
    n, gaps = len(z), None if gaps is None or not gaps.matter else gaps
    worth = effective_size(n if different is None else different, correlation)
    if gaps is not None and not gaps.few:
        shares = [gaps.worth(scipy.stats.rankdata(each)) for each in (z, np.abs(z))]
        worth = EffectiveSize(min(worth.mean, shares[0]), min(worth.spread, shares[1]))
    elif gaps is not None and correlation is None:
        worth = EffectiveSize(gaps.alike, gaps.alike)
    where = "" if gaps is None else f" in {len(gaps):,} gaps" if len(gaps) > 1 else " in one gap"
    band, needed = ecdf_band(max(1, round(worth.spread)), LEVELS), 2 * ndtr(np.abs(z)) - 1
    found = [float((needed <= level).mean()) for level in LEVELS]
    coverage = tuple(map(Coverage, LEVELS, found, band.lower.tolist(), band.upper.tolist()))
    if n == 1:
        return _single(float(z[0]), coverage, worth)
    values = f"{n:,} values{where}"
    tests = Assessment(z, _LEVEL, worth)
    failures = _failures(tests, coverage) or (("outliers",) if impossible else ())
    signs = () if tests.rejected else _signs(coverage, tests.z_std)
    notes = [] if gaps is None else [_together(gaps)]
    if impossible:
        lie, count = ("lie", "they count") if impossible > 1 else ("lies", "it counts")
        where = f"{impossible:,} of the {n:,} values {lie} where the predictions say that no observation can be"
        notes.append(f"{where}: {count} as {number(float(np.abs(z).max()), 2)} standard deviations out.")
    if tests.rejected and not failures:
        notes.append(f"With {n:,} values the tests see a deviation, but it is too small to matter.")
    if worth.spread < 0.9 * n or worth.mean < 0.5 * n:
        counts = ((worth.spread, "the width of the error bars"), (worth.mean, "the bias"))
        told = [f"{number(worthy, 2)} independent ones for {what}" for worthy, what in counts if worthy < 0.9 * n]
        notes.append(f"The errors are correlated: the {n:,} values count like {' and like '.join(told)}.")
    if n < FEWEST:
        notes.append(f"{n} values are few: only gross failures can be seen.")
    held = f"95% intervals hold {coverage_percent(coverage[LEVELS.index(0.95)].found)} of the {values}"
    if failures:
        sentence = f"{_which_way(failures, tests, coverage)} ({held})"
    elif signs:
        sentence = _suspicion(coverage, values)
    elif tests.rejected:
        sentence = f"the error bars are wrong by too little to matter: {held}"
    else:
        sentence = f"no sign that the error bars are wrong: {held}; errors that are {number(visible(worth), 3)} "
        sentence += "times as large as promised would be noticed four times in five, larger ones more often"
    return Diagnosis(z, failures, sentence, tuple(notes), coverage, worth, signs, where)


def _together(gaps: Gaps) -> str:
    """That values in gaps are not independent."""
    several = f"{len(gaps):,} gaps, parts without data about as wide as deep, which tell as much as "
    several += f"{number(gaps.alike, 2)} of one size" if len(gaps) > 1 else ""
    where = several if len(gaps) > 1 else "one gap, which is one draw"
    together = f"Within a gap errors go together: {len(gaps.number):,} values lie in {where}."
    return f"{together} So few do not tell how often error bars hold in other gaps." if gaps.few else together


def from_gap_to_gap(z: np.ndarray, gaps: Gaps, of: str = "gaps") -> str:
    """How much coverage of the values z (n,) differs between gaps that have many, in a sentence; "" of few."""
    shares = {level: gaps.shares(np.abs(z) <= ndtri((1 + level) / 2)) for level in (0.8, 0.95)}
    m = len(shares[0.95])
    if m < MANY:
        return ""
    ends = {level: np.quantile(each, (0.1, 0.9)) for level, each in shares.items()}
    found = (f"{100 * level:g}% intervals hold {low:.0%} to {high:.0%}" for level, (low, high) in ends.items())
    which = f"in eight of ten among {m:,} {of} with {MANY} values or more"
    return f"Coverage differs from gap to gap: {which}, {' and '.join(found)} of the values."


def joint_verdict(method: Diagnosis | None, data: Diagnosis | None) -> tuple[str, str]:
    """What simulations under the prior and ``data`` say, in words; and "right", "suspicious", "wrong" or "unknown"."""
    if data is not None and not data.right:
        also = "" if method is None else f". Under its own prior too, {method.sentence}"
        if method is not None and method.right:
            also = "; under its own prior no test rejects the method, so the model does not fit the data"
        return f"Against data, {data.sentence}{also}.", "wrong"
    if method is not None and not method.right:
        also = ", although the data do not show it" if data is not None else ""
        return f"Under the method's own prior, {method.sentence}{also}.", "wrong"
    if method is None and data is None:
        return "Nothing could be checked, so nothing is known about the error bars.", "wrong"
    both = [("under the method's own prior", method), ("against data", data)]
    doubts = [f"{where}, {found.sentence}" for where, found in both if found is not None and found.suspicious]
    if doubts:
        return f"Suspicious: {'. Also '.join(doubts)}.", "suspicious"
    if data is None:
        method_alone = "under the method's own prior there is no sign that the error bars are wrong"
        return f"The model was not checked against data; {method_alone}.", "unknown"
    n, worth = len(data.z), data.worth.spread
    if data.too_few:
        like = f", which count like {number(worth, 2)} independent ones," if worth < 0.9 * n else ""
        many = "1 held-out value" if n == 1 else f"{n:,} held-out values{data.where}{like}"
        under = "" if method is None else "; under the method's own prior no test rejects it"
        return f"Too few to tell: {many} would hardly show error bars that are wrong{under}.", "unknown"
    where, after = ("neither under the method's own prior nor ", "") if method else ("", "; the method was not checked")
    seen = f"{n:,} rows{data.where} would show errors of about {number(visible(data.worth))} times what is promised"
    return f"No sign that the error bars are wrong: {where}against data, where {seen}{after}.", "right"


def visible(worth: EffectiveSize) -> float:
    """How many times too large errors must be for the test of their spread to reject, four times in five."""
    freedom = max(worth.spread - 1, 1.0)
    factor = np.sqrt(scipy.stats.chi2.ppf(1 - _LEVEL / 8, freedom) / scipy.stats.chi2.ppf(1 - _POWER, freedom))
    return max(float(factor), _MATERIAL_SPREAD)


def _failures(tests: Assessment, coverage: tuple[Coverage, ...]) -> tuple[str, ...]:
    """What the tests reject and what matters."""
    z, spread = tests.z, tests.z_std
    failures: list[str] = []
    if tests.mean_p_value < tests.threshold and abs(tests.z_mean) > _MATERIAL_SHIFT:
        failures.append("biased")
    if tests.std_p_value < tests.threshold and not 1 / _MATERIAL_SPREAD <= spread <= _MATERIAL_SPREAD:
        failures.append("too narrow" if spread > 1 else "too wide")
    by_width = bool(failures) and set(failures) <= {"too narrow", "biased"}
    if by_width and all(c.inside for c in coverage) and _spread_by_few(z):
        return ("outliers",)
    if tests.rejected and _heavy_tails(z):
        # where most errors are as small as promised, it is the few large ones that spread z
        narrow = float(np.median(np.abs(z)) / ndtri(0.75)) > _MATERIAL_CENTRE and "too narrow" in failures
        failures = ["heavy tails", *(["too narrow"] if narrow else []), *(f for f in failures if f == "biased")]
    if tests.rejected and not failures and max(abs(c.found - c.level) for c in coverage) > _MATERIAL_COVERAGE:
        failures.append("wrong shape")
    return tuple(failures)


def _single(z: float, coverage: tuple[Coverage, ...], worth: EffectiveSize) -> Diagnosis:
    far = abs(z) > ndtri(1 - _LEVEL / 2)
    distance = f"the only held-out value lies {number(abs(z))} standard deviations from its prediction"
    end = "further than 99% should: the error bars look too narrow" if far else "which is no cause for alarm"
    note = "One value cannot tell whether error bars are right; hold out at least 20, better 200."
    return Diagnosis(np.array([z]), ("too narrow",) if far else (), f"{distance}, {end}", (note,), coverage, worth)


def _heavy_tails(z: np.ndarray) -> bool:
    """Whether a few values are much further out than a normal law of the spread of the others allows."""
    if len(z) < FEWEST or (2 * ndtr(np.abs(z)) - 1 <= 0.99).mean() > 0.985:
        return False  # or the error bars are wide enough for the tails
    inner = np.median(np.abs(z - np.median(z))) / ndtri(0.75)
    ratio = z.std(ddof=1) / max(inner, np.finfo(float).tiny)
    result = scipy.stats.kurtosistest(z)
    return bool(ratio > _TAIL_RATIO and result.statistic > 0 and result.pvalue < _LEVEL)


def _which_way(failures: tuple[str, ...], tests: Assessment, coverage: tuple[Coverage, ...]) -> str:
    spread, shift = tests.z_std, tests.z_mean
    half, most, nearly_all = (coverage_percent(coverage[LEVELS.index(level)].found) for level in (0.5, 0.8, 0.99))
    typical = f"errors are typically {number(spread, 2)} times what they promise" if spread else "there are no errors"
    clauses = {
        "too narrow": f"the error bars are too narrow: {typical}",
        "too wide": f"the error bars are too wide: {typical}",
        "biased": f"the predictions are biased: on average the truth lies {number(abs(shift), 2)} standard deviations "
        f"{'above' if shift > 0 else 'below'} them",
        "heavy tails": f"the errors have heavy tails, so no single width is right: 50% intervals hold {half}, "
        f"99% intervals {nearly_all}",
        "outliers": f"most error bars hold, but {_few_of(tests.z)} far outside of them, up to "
        f"{number(float(np.abs(tests.z).max()), 2)} standard deviations",
        "wrong shape": f"the errors are not normal: 50% intervals hold {half}, 80% intervals {most}",
    }
    return "; and ".join(clauses[failure] for failure in failures)


def _signs(coverage: tuple[Coverage, ...], spread: float) -> tuple[str, ...]:
    """Which failure the levels outside of chance look like, for z of that spread; none where all are inside."""
    outside = [c for c in coverage if not c.inside]
    if not outside:
        return ()
    few, many = [c.level for c in outside if c.found < c.level], [c.level for c in outside if c.found > c.level]
    if not many and spread > 1.05:
        return ("too narrow",)
    if not few and spread < 0.95:
        return ("too wide",)
    # of about the right spread, so the centre or the tails are not normal
    peaked = all(level <= 0.8 for level in many) and all(level >= 0.9 for level in few)
    return ("heavy tails",) if peaked else ("wrong shape",)


def _spread_by_few(z: np.ndarray) -> bool:
    """Whether a few values far out spread and shift z, and without them it is neither spread nor shifted."""
    others = z[np.abs(z) <= _OUTLYING]
    if not 0 < len(others) < len(z):
        return False
    return float(np.sqrt(np.square(others).mean())) <= _MATERIAL_SPREAD and abs(others.mean()) <= _MATERIAL_SHIFT


def _few_of(z: np.ndarray) -> str:
    n = int((np.abs(z) > _OUTLYING).sum())
    return f"{n:,} of the errors lie" if n > 1 else "one of the errors lies"


def _suspicion(coverage: tuple[Coverage, ...], values: str) -> str:
    outside = [c for c in coverage if not c.inside]
    levels = listed([f"{100 * c.level:g}%" for c in outside])
    found = listed([coverage_percent(c.found) for c in outside])
    verb = "are" if len(outside) > 1 else "alone are"
    return (
        f"the {levels} intervals {verb} outside of what chance explains: they hold {found} of the {values}; no "
        "test rejects the error bars, and more rows would tell"
    )

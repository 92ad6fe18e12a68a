"""Simultaneous confidence bands: what an ECDF or a histogram of n independent values may look like by chance.

Binomial intervals of error γ hold each count; γ is chosen so that *all* hold together with the probability asked for
(Säilynoja, Bürkner & Vehtari, 2022). That probability is computed, not simulated: counts in disjoint intervals are
independent Poisson variables given their total, so it is a chain of convolutions.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy  # its parts by their full names: stats takes long to import, and is when it is used

from ..errors import InputError
from ..support.validation import ArrayLike, count, fraction, vector

_DEFAULT_POINTS = 100
_BISECTIONS = 30


@dataclass(frozen=True, eq=False)
class Band:
    """Limits that hold everywhere at once.

    ``expected``, ``lower`` and ``upper`` have the same shape: values of the ECDF at ``points`` for ``ecdf_band``,
    counts of the bins for ``histogram_band`` (whose ``points`` are the bin edges in probability). ``level`` is the
    probability asked for, ``coverage`` the exact one, at least that; ``pointwise`` is the error γ of each limit.
    """

    points: np.ndarray
    expected: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float
    coverage: float
    pointwise: float

    def contains(self, values: ArrayLike) -> bool:
        """Whether ``values``, one per limit, lie inside everywhere."""
        array = vector(values, "values", size=len(self.lower))
        # ECDF values are counts divided by n: the slack is for that division
        return bool(np.all((array >= self.lower - 1e-12) & (array <= self.upper + 1e-12)))


def ecdf_band(n: int, points: int | ArrayLike | None = None, level: float = 0.95) -> Band:
    """The band of the ECDF of ``n`` uniform values at ``points`` in (0, 1), or so many steps (None: min(n, 100))."""
    n, level = count(n, "n", minimum=1), fraction(level, "level")
    points = max(2, min(n, _DEFAULT_POINTS)) if points is None else points
    if isinstance(points, numbers.Integral):
        steps = count(points, "points", minimum=2)
        x = np.arange(1, steps) / steps
    else:
        x = vector(points, "points")
        if x[0] <= 0 or x[-1] >= 1 or (np.diff(x) <= 0).any():
            raise InputError("points must increase strictly within (0, 1): at 0 and 1 every ECDF is the same")
    lower, upper, coverage, gamma = _limits(n, tuple(x.tolist()), level, _ecdf_probability)
    return Band(x, x, lower / n, upper / n, level, coverage, gamma)


def histogram_band(n: int, bins: int | ArrayLike = 20, level: float = 0.95) -> Band:
    """The band of counts of ``n`` values in so many equally likely ``bins``, or in bins of the probabilities given."""
    n, level = count(n, "n", minimum=1), fraction(level, "level")
    if isinstance(bins, numbers.Integral):
        bins = np.full(count(bins, "bins", minimum=2), 1 / int(bins))
    p = vector(bins, "bins", minimum=2)
    if (p <= 0).any() or abs(p.sum() - 1) > 1e-9:
        raise InputError(
            f"bins must be positive probabilities that add up to 1, got a sum of {p.sum():g} and a least of "
            f"{p.min():g}; the outer bins take the tails"
        )
    p = p / p.sum()
    lower, upper, coverage, gamma = _limits(n, tuple(p.tolist()), level, _histogram_probability)
    return Band(np.r_[0.0, p.cumsum()], n * p, lower.astype(float), upper.astype(float), level, coverage, gamma)


_Probability = Callable[[int, np.ndarray, np.ndarray, np.ndarray], float]


@lru_cache(maxsize=64)  # a report asks for the same bands several times, and so do plots of several simulations
def _limits(
    n: int, shares: tuple[float, ...], level: float, probability: _Probability
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Limits (len(shares),) of counts out of n that hold together with ``probability`` ≥ level; that; the largest γ."""
    p, known = np.array(shares), dict[bytes, float]()

    def at(gamma: float) -> tuple[np.ndarray, np.ndarray, float, float]:
        lower, upper = (limit(gamma / 2, n, p).astype(int) for limit in (scipy.stats.binom.ppf, scipy.stats.binom.isf))
        key = lower.tobytes() + upper.tobytes()  # whole numbers: most steps of the bisection do not change them
        if key not in known:
            known[key] = probability(n, p, lower, upper)
        return lower, upper, known[key], gamma

    high = 1 - level
    if (found := at(high))[2] >= level:
        return found
    low = high / len(p)  # Bonferroni: enough for sure
    found = at(low)
    for _ in range(_BISECTIONS):
        middle = (low * high) ** 0.5
        if (between := at(middle))[2] >= level:
            low, found = middle, between
        else:
            high = middle
    return found


def _ecdf_probability(n: int, x: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """P(lower ≤ number of values ≤ xᵢ ≤ upper, for all i), for n uniform values."""
    inside, base = np.ones(1), 0  # inside[j]: probability that the count is base + j and was inside so far
    for step, low, high in zip(np.diff(x, prepend=0.0), lower, upper, strict=True):
        increments = _poisson(np.arange(high - base + 1), n * step)
        inside = scipy.signal.convolve(inside, increments)[low - base : high - base + 1]
        base = low
    rest = n - base - np.arange(len(inside))
    return float(inside @ _poisson(rest, n * (1 - x[-1])) / _poisson(n, n))


def _histogram_probability(n: int, p: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """P(lower ≤ counts ≤ upper) of a multinomial (n, p)."""
    inside, base = np.ones(1), 0
    for share, low, high in zip(p, lower, upper, strict=True):
        base += low
        increments = _poisson(np.arange(low, high + 1), n * share)
        inside = scipy.signal.convolve(inside, increments)[: max(n - base + 1, 0)]
    return float(inside[n - base] / _poisson(n, n)) if 0 <= n - base < len(inside) else 0.0


def _poisson(k: int | np.ndarray, mean: float) -> np.ndarray:
    """The probabilities of counts k ≥ 0, by the formula: SciPy's checks take longer than it does."""
    return np.exp(scipy.special.xlogy(k, mean) - scipy.special.gammaln(np.add(k, 1)) - mean)

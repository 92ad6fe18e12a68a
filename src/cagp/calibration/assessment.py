"""The verdict on z-values: are they standard normal, as those of a calibrated posterior are?"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy  # its parts by their full names: stats takes long to import, and is when it is used
from scipy.special import ndtr, ndtri

from ..solvers import Solver
from ..support.validation import ArrayLike, fraction, vector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Verdict = Literal["calibrated", "conservative", "overconfident", "miscalibrated"]

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)  # of the intervals whose coverage is told


@dataclass(frozen=True)
class EffectiveSize:
    """How many independent values correlated ones are worth, for their ``mean`` and for their ``spread``."""

    mean: float
    spread: float


@dataclass(frozen=True, eq=False, repr=False)
class Assessment:
    """z-values (n,) and four tests of whether they are standard normal; made by ``assess``.

    Each test runs at a quarter of ``level``, so that a calibrated posterior is called anything else with probability
    at most ``level`` (Bonferroni); ``coverage_p_value`` sees heavy tails that leave the others nearly untouched.

    ``verdict`` is "calibrated" where none rejects (of few values, none may be able to), "conservative" (``z_std`` < 1)
    or "overconfident" (``z_std`` > 1) where the spread is wrong and the mean is not, and else "miscalibrated": a shift,
    another shape. ``reason`` says it in words. Correlated values count for as many independent ones as ``worth`` says.
    """

    z: np.ndarray
    level: float = 0.01
    worth: EffectiveSize | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "z", vector(self.z, "z", minimum=2))
        object.__setattr__(self, "level", fraction(self.level, "level"))

    @property
    def _worth(self) -> EffectiveSize:
        return self.worth or EffectiveSize(len(self.z), len(self.z))

    @cached_property
    def t(self) -> np.ndarray:
        """Φ(z), shape (n,): uniform where the posterior is calibrated."""
        t: np.ndarray = ndtr(self.z)
        t.setflags(write=False)
        return t

    @cached_property
    def ks_statistic(self) -> float:
        """The largest distance between the ECDF of t and the diagonal."""
        return _distance(self.t)

    @cached_property
    def p_value(self) -> float:
        """The Kolmogorov-Smirnov test of whether t is uniform."""
        return _kolmogorov(self.ks_statistic, min(self._worth.mean, self._worth.spread))

    @property
    def z_mean(self) -> float:
        """The mean of z: 0 where the posterior is calibrated."""
        return float(self.z.mean())

    @property
    def mean_p_value(self) -> float:
        """The two-sided normal test of whether the mean of z is 0."""
        return float(2 * ndtr(-abs(self.z_mean) * self._worth.mean**0.5))

    @property
    def z_std(self) -> float:
        """The standard deviation of z about its mean: 1 where the posterior is calibrated."""
        return float(self.z.std(ddof=1))

    @property
    def std_p_value(self) -> float:
        """The two-sided χ² test of whether the standard deviation of z is 1."""
        freedom, chi2 = max(self._worth.spread - 1, 1.0), scipy.stats.chi2
        squares = freedom * self.z_std**2
        return float(min(1.0, 2 * min(chi2.cdf(squares, freedom), chi2.sf(squares, freedom))))

    @cached_property
    def coverage_p_value(self) -> float:
        """The Kolmogorov-Smirnov test of whether ``P(|z| ≤ q)`` is right for all q."""
        return _kolmogorov(_distance(2 * ndtr(np.abs(self.z)) - 1), self._worth.spread)

    @property
    def threshold(self) -> float:
        """Each test rejects where its p-value is below this."""
        return self.level / 4  # of four tests

    @property
    def rejected(self) -> bool:
        """Whether any test rejects."""
        return min(self.p_value, self.mean_p_value, self.std_p_value, self.coverage_p_value) < self.threshold

    @property
    def verdict(self) -> Verdict:
        """One word: what the tests say."""
        if not self.rejected:
            return "calibrated"
        if self.std_p_value < self.threshold <= self.mean_p_value:
            return "conservative" if self.z_std < 1 else "overconfident"
        return "miscalibrated"

    @property
    def reason(self) -> str:
        """Why the verdict is what it is, in a sentence."""
        threshold, found = self.threshold, []
        if self.std_p_value < threshold:
            direction = "wide" if self.z_std < 1 else "narrow"
            found.append(f"the std of z is {self.z_std:.3g}, the error bars are too {direction}")
        if self.mean_p_value < threshold:
            found.append(f"the mean of z is {self.z_mean:.3g}, the predictions are shifted")
        if not found and self.coverage_p_value < threshold:
            half, most = (float((np.abs(self.z) <= ndtri((1 + level) / 2)).mean()) for level in (0.5, 0.95))
            found.append(f"mean and std of z are right, but 50% intervals cover {half:.0%} and 95% ones {most:.0%}")
        if not found and self.p_value < threshold:
            found.append(f"mean and std of z are right, its shape is not (KS statistic {self.ks_statistic:.3g})")
        if not found:
            return f"no test rejects at a family-wise level of {self.level:.3g}"
        return f"{' and '.join(found)} (family-wise level {self.level:.3g})"

    def __str__(self) -> str:
        return (
            f"{self.verdict}: {self.reason}\n"
            f"  {len(self.z)} values of z\n"
            f"  KS statistic {self.ks_statistic:8.4f}   p {self.p_value:.4g}\n"
            f"  mean of z    {self.z_mean:8.4f}   p {self.mean_p_value:.4g}\n"
            f"  std of z     {self.z_std:8.4f}   p {self.std_p_value:.4g}\n"
            f"  coverage                p {self.coverage_p_value:.4g}"
        )

    def __repr__(self) -> str:
        numbers = f"n={len(self.z)}, p_value={self.p_value:.4g}, z_std={self.z_std:.4g}"
        return f"{type(self).__name__}({self.verdict!r}, {numbers})"

    def plot(self, axes: Any = None, *, bins: int = 20, level: float = 0.95) -> tuple[Axes, Axes]:
        """Histogram of t and its ECDF difference, each with its band of probability ``level``, on a pair of ``axes``.

        By default on those of a new figure: ``r.plot()[0].figure.savefig(...)``.
        """
        from . import plots

        left, right = plots.new_axes(2) if axes is None else axes
        plots.pit_histogram(self.t, bins=bins, level=level, ax=left)
        plots.ecdf_difference(self.t, level=level, ax=right)
        for ax in (left, right):
            ax.set_xlabel("t = Φ(z)")
        left.set_title(f"{self.verdict}: std of z {self.z_std:.3f}", fontsize="medium")
        right.set_title(f"KS p-value {self.p_value:.3g}", fontsize="medium")
        return left, right


def _distance(values: np.ndarray) -> float:
    """The largest distance between the ECDF of values in [0, 1] and the diagonal."""
    return float(scipy.stats.kstest(values, "uniform").statistic)


def _kolmogorov(distance: float, n: float) -> float:
    """The p-value of that distance from the uniform law, of values that are worth n independent ones."""
    return float(scipy.stats.kstwo.sf(distance, max(1, round(n))))


@dataclass(frozen=True, eq=False, repr=False)
class SimulationResult(Assessment):
    """What ``simulation_based_calibration`` found: an ``Assessment`` and how it was made.

    ``test_vector`` (T,) is w, ``solves`` counts the solves. The draws are exact, without jitter; ``factor`` says by
    which factorisation of the prior covariance, "cholesky" or, where it is singular to working precision, "eigh".
    """

    solver: Solver = field(kw_only=True)
    test_vector: np.ndarray = field(kw_only=True)
    seed: int = field(kw_only=True)
    solves: int = field(kw_only=True)
    factor: str = field(kw_only=True)

    def __str__(self) -> str:
        times = "one solve" if self.solves == 1 else f"{self.solves} solves"
        return (
            f"{super().__str__()}\n"
            f"  {self.solver!r}, {times}, {len(self.test_vector)} test points, seed {self.seed}\n"
            f"  exact prior draws ({self.factor})"
        )


def assess(z: ArrayLike, *, level: float = 0.01) -> Assessment:
    """Judge z-values (n,), n ≥ 2: (mean − truth) / std of independent repetitions of any Gaussian posterior.

    ``Scores`` are taken by their z-values. A calibrated posterior is called "calibrated" with probability at least
    1 − ``level``. Those of many test points under *one* data set are not independent: tests then reject too often.

    >>> import numpy as np
    >>> z = np.random.default_rng(0).standard_normal(1000)
    >>> assess(z).verdict, assess(1.4 * z).verdict, assess(0.7 * z).verdict
    ('calibrated', 'overconfident', 'conservative')
    """
    return Assessment(vector(getattr(z, "z", z), "z", minimum=2), level)

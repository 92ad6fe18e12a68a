"""How many independent values correlated errors are worth, and tests that respect it.

The errors at many test points of one data set are correlated: where the solver has not converged, or two points lie
close together, they are wrong together. The model knows by how much (``left_out.correlation``). With average
correlation r̄, the mean of n values of z varies like that of n / (1 + (n − 1) r̄) independent ones; with average squared
correlation q̄, the mean of z², and to leading order that of every even function of z, like that of
n / (1 + (n − 1) q̄).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its parts by their full names: stats takes long to import, and is when it is used
from scipy.special import ndtr

from ..left_out import Correlation


@dataclass(frozen=True)
class Effective:
    """How many independent values ``n`` correlated ones are worth, for their ``mean`` and for their ``spread``."""

    n: int
    mean: float
    spread: float

    @classmethod
    def of(cls, n: int, correlation: Correlation | None) -> Effective:
        if correlation is None:
            return cls(n, float(n), float(n))
        mean, spread = (n / (1 + (n - 1) * max(r, 0.0)) for r in (correlation.correlation, correlation.square))
        return cls(n, mean, spread)


def test(z: np.ndarray, worth: Effective) -> dict[str, float]:
    """Whether z (n,), n ≥ 2, is standard normal: p-values of the four tests of ``cagp.calibration.Assessment``.

    With independent values they are what ``assess`` computes.
    """
    freedom, chi2 = max(worth.spread - 1, 1.0), scipy.stats.chi2
    squares = freedom * float(z.var(ddof=1))
    return {
        "shift": float(2 * ndtr(-abs(z.mean()) * worth.mean**0.5)),
        "spread": float(min(1.0, 2 * min(chi2.cdf(squares, freedom), chi2.sf(squares, freedom)))),
        "shape": _kolmogorov(ndtr(z), min(worth.mean, worth.spread)),
        "coverage": _kolmogorov(2 * ndtr(np.abs(z)) - 1, worth.spread),
    }


def _kolmogorov(values: np.ndarray, n: float) -> float:
    """The p-value of the distance between values in [0, 1] and the uniform law, if they are worth n of them."""
    return float(scipy.stats.kstwo.sf(scipy.stats.kstest(values, "uniform").statistic, max(1, round(n))))

"""Standard errors of the hyperparameters, from the curvature of the likelihood."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ..errors import NotPositiveDefiniteError
from .likelihood import Likelihood

_STEP = 1e-3  # in log space: a tenth of a per cent. The error of central differences is about the square of it.
_ROUNDING = 1e-10  # curvatures below this fraction of the largest are rounding errors
_LOADING = 1e-6  # A hyperparameter takes part in a direction where its squared component is larger than this


@dataclass(frozen=True)
class Errors:
    """Standard errors ``own`` (q,) of the logarithms of the hyperparameters.

    ``share`` (q,) is the part of their squares that would be left if all terms were computed; None where all were.
    """

    own: np.ndarray
    share: np.ndarray | None

    @property
    def sampling(self) -> np.ndarray | None:
        """What the sampling adds (q,), as a standard error by itself."""
        return None if self.share is None else self.own * np.sqrt(1.0 - self.share)

    @property
    def factor(self) -> float:
        """By how much the sampling enlarges standard errors at the most."""
        known = np.ones(1) if self.share is None else self.share[self.share > 0]
        return float(1.0 / np.sqrt(known.min(initial=1.0)))


def log_standard_errors(
    likelihood: Likelihood, whole: Likelihood, log_values: np.ndarray, quick: bool = False
) -> Errors:
    """Standard errors (q,) of the *logarithms* of the hyperparameters: the inverse Hessian of −log p.

    The Hessian comes from central differences of the exact gradient, two evaluations per hyperparameter; where it may
    be ``quick``, the information that comes with one evaluation is taken for it. Those at a bound are held there and
    get NaN; so do all where the likelihood cannot be evaluated beside the optimum. Infinity: the likelihood is flat, or
    not curved downwards, in a direction that this hyperparameter takes part in.

    ``whole`` estimates what all terms would say where ``likelihood`` has a sample of them.
    """
    space = likelihood.space
    chosen = np.flatnonzero((log_values > space.lower) & (log_values < space.upper))
    own, share = np.full((2, len(log_values)), np.nan)
    with suppress(NotPositiveDefiniteError):
        own[chosen] = _errors((_information if quick else _hessian)(likelihood, log_values, chosen))
    if whole is likelihood:
        return Errors(own, None)
    with suppress(NotPositiveDefiniteError), np.errstate(invalid="ignore"):
        sampled, all_terms = (_errors(_information(each, log_values, chosen)) for each in (likelihood, whole))
        share[chosen] = np.minimum(1.0, (all_terms / sampled) ** 2)
    return Errors(own, share)


def _information(likelihood: Likelihood, log_values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The information (m, m) about the ``chosen`` logarithms (m,), or else the Hessian of −log p."""
    found = likelihood(log_values).information if likelihood.informed else None
    return _hessian(likelihood, log_values, chosen) if found is None else found[np.ix_(chosen, chosen)]


def _hessian(likelihood: Likelihood, log_values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Minus the second derivatives with respect to the ``chosen`` logarithms (m,), shape (m, m)."""
    hessian = np.empty((len(chosen), len(chosen)))
    for row, index in enumerate(chosen):
        step = np.zeros_like(log_values)
        step[index] = _STEP
        above, below = likelihood(log_values + step), likelihood(log_values - step)
        hessian[row] = (below.gradient - above.gradient)[chosen] / (2 * _STEP)
    return (hessian + hessian.T) / 2


def _errors(hessian: np.ndarray) -> np.ndarray:
    """The roots of the diagonal of the inverse (m,); infinite where a flat direction takes part."""
    if not hessian.size:
        return np.zeros(0)
    curvature, directions = np.linalg.eigh(hessian)
    curved = curvature > _ROUNDING * np.abs(curvature).max()
    finite = np.sqrt((directions[:, curved] ** 2 / curvature[curved]).sum(axis=1))
    flat = (directions[:, ~curved] ** 2 > _LOADING).any(axis=1)
    return np.where(flat, np.inf, finite)

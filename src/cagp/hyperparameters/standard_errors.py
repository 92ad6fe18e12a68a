"""Standard errors of the hyperparameters, from the curvature of the likelihood."""

from __future__ import annotations

import numpy as np

from ..errors import NotPositiveDefiniteError
from .likelihood import Likelihood

_STEP = 1e-3
"""In log space: a tenth of a per cent. The error of central differences is about the square of it."""

_ROUNDING = 1e-10
"""Curvatures below this fraction of the largest are rounding errors."""

_LOADING = 1e-6
"""A hyperparameter takes part in a direction where its squared component is larger than this."""


def log_standard_errors(likelihood: Likelihood, log_values: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Standard errors (q,) of the *logarithms* of the hyperparameters: the inverse Hessian of −log p.

    The Hessian comes from central differences of the exact gradient, two evaluations per hyperparameter. Those that
    are not ``inner`` (q,), because they are at a bound, are held there and get NaN; so do all where the likelihood
    cannot be evaluated beside the optimum. Infinity: the likelihood is flat, or not curved downwards, in a direction
    that this hyperparameter takes part in.
    """
    errors = np.full(len(log_values), np.nan)
    chosen = np.flatnonzero(inner)
    if not len(chosen):
        return errors
    try:
        hessian = _hessian(likelihood, log_values, chosen)
    except NotPositiveDefiniteError:
        return errors
    errors[chosen] = _errors(hessian)
    return errors


def share_of_all_terms(sampled: Likelihood, whole: Likelihood, log_values: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Which part (q,) of the variances of ``sampled`` terms would be left if all were computed; NaN where not known.

    ``whole`` is the estimate of that from the sample. The expected information is taken where it comes with an
    evaluation, because in it no term counts against another; else the Hessian.
    """
    share = np.full(len(log_values), np.nan)
    chosen = np.flatnonzero(inner)
    if not len(chosen):
        return share
    found = []
    try:
        for likelihood in (sampled, whole):
            information = likelihood(log_values).information if likelihood.informed else None
            if information is None:
                found.append(_errors(_hessian(likelihood, log_values, chosen)))
            else:
                found.append(_errors(information[np.ix_(chosen, chosen)]))
    except NotPositiveDefiniteError:
        return share
    with np.errstate(invalid="ignore"):
        share[chosen] = np.minimum(1.0, (found[1] / found[0]) ** 2)
    return share


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
    curvature, directions = np.linalg.eigh(hessian)
    curved = curvature > _ROUNDING * np.abs(curvature).max()
    finite = np.sqrt((directions[:, curved] ** 2 / curvature[curved]).sum(axis=1))
    flat = (directions[:, ~curved] ** 2 > _LOADING).any(axis=1)
    return np.where(flat, np.inf, finite)

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
    hessian = np.empty((len(chosen), len(chosen)))
    try:
        for row, index in enumerate(chosen):
            step = np.zeros_like(log_values)
            step[index] = _STEP
            above, below = likelihood(log_values + step), likelihood(log_values - step)
            hessian[row] = (below.gradient - above.gradient)[chosen] / (2 * _STEP)
    except NotPositiveDefiniteError:
        return errors
    curvature, directions = np.linalg.eigh((hessian + hessian.T) / 2)
    curved = curvature > _ROUNDING * np.abs(curvature).max()
    finite = np.sqrt((directions[:, curved] ** 2 / curvature[curved]).sum(axis=1))
    flat = (directions[:, ~curved] ** 2 > _LOADING).any(axis=1)
    errors[chosen] = np.where(flat, np.inf, finite)
    return errors

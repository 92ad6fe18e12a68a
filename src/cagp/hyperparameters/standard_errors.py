"""Standard errors of the hyperparameters, from the curvature of the likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import NotPositiveDefiniteError
from .likelihood import Likelihood

_STEP = 1e-3
"""In log space: a tenth of a per cent. The error of central differences is about the square of it."""

_ROUNDING = 1e-10
"""Curvatures below this fraction of the largest are rounding errors."""

_LOADING = 1e-6
"""A hyperparameter takes part in a direction where its squared component is larger than this."""


@dataclass(frozen=True)
class LogErrors:
    """Standard errors (q,) of the *logarithms* of the hyperparameters: in ``total``, and what ``sampling`` terms adds.

    total² is the sum of sampling² and of the errors that all terms would leave; ``sampling`` is None without a sample.
    """

    total: np.ndarray
    sampling: np.ndarray | None


def log_standard_errors(likelihood: Likelihood, log_values: np.ndarray, inner: np.ndarray) -> LogErrors:
    """Standard errors from the inverse Hessian of −log p, and from the spread of the scores of sampled terms.

    The Hessian comes from central differences of the exact gradient, two evaluations per hyperparameter. Those that
    are not ``inner`` (q,), because they are at a bound, are held there and get NaN; so do all where the likelihood
    cannot be evaluated beside the optimum. Infinity: the likelihood is flat, or not curved downwards, in a direction
    that this hyperparameter takes part in.
    """
    errors = np.full(len(log_values), np.nan)
    scores = likelihood.scores(log_values)
    sampling = None if scores is None else errors.copy()
    chosen = np.flatnonzero(inner)
    if not len(chosen):
        return LogErrors(errors, sampling)
    hessian = np.empty((len(chosen), len(chosen)))
    try:
        for row, index in enumerate(chosen):
            step = np.zeros_like(log_values)
            step[index] = _STEP
            above, below = likelihood(log_values + step), likelihood(log_values - step)
            hessian[row] = (below.gradient - above.gradient)[chosen] / (2 * _STEP)
    except NotPositiveDefiniteError:
        return LogErrors(errors, sampling)
    curvature, directions = np.linalg.eigh((hessian + hessian.T) / 2)
    curved = curvature > _ROUNDING * np.abs(curvature).max()
    own = (directions[:, curved] ** 2 / curvature[curved]).sum(axis=1)
    added = np.zeros_like(own)
    if scores is not None and sampling is not None:
        # the sum of groups that are drawn alike has as many times the variance of one of them
        spread = len(scores) * np.cov(scores[:, chosen], rowvar=False).reshape(hessian.shape)
        inverse = (directions[:, curved] / curvature[curved]) @ directions[:, curved].T
        added = (inverse @ spread @ inverse).diagonal()
        sampling[chosen] = np.sqrt(added)
    flat = (directions[:, ~curved] ** 2 > _LOADING).any(axis=1)
    errors[chosen] = np.where(flat, np.inf, np.sqrt(own + added))
    return LogErrors(errors, sampling)

"""scikit-learn's own Gaussian process on the same data, for what only it can do: differentiate its kernels."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from ..errors import InputError
from ..hyperparameters import FitWarning
from ..hyperparameters.parameters import BOUND_FACTOR
from ..interop.sklearn_kernels import from_sklearn
from .learning import EXACT_POINTS, HowToLearn, Learned
from .setup import Start

_NO_ALPHA = float(np.finfo(float).tiny)
"""GaussianProcessRegressor wants a positive alpha even where a WhiteKernel is all the noise."""


def residuals(start: Start, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Y (n, outputs) less the prior mean at X (n, p): scikit-learn's prior has the mean zero."""
    points = torch.from_numpy(X)
    columns = [torch.from_numpy(np.ascontiguousarray(y)) for y in Y.T]
    return np.column_stack([(y - start.mean.fit(points, y)(points)).numpy() for y in columns])


def log_likelihood_at(
    start: Start, noise: Any, kernel: Any, X: np.ndarray, Y: np.ndarray, theta: np.ndarray, eval_gradient: bool
) -> Any:
    """The exact log-likelihood at scikit-learn's ``theta`` (q,), and its gradient (q,) where it is asked for.

    ``noise``, one number or one per observation, is what the kernel has not in a WhiteKernel.
    """
    twin = GaussianProcessRegressor(kernel, alpha=_alpha(noise))
    twin.kernel_, twin.X_train_, twin.y_train_ = kernel, X, residuals(start, X, Y)
    return twin.log_marginal_likelihood(theta, eval_gradient=eval_gradient)


def _alpha(noise: Any) -> Any:
    return noise if np.any(noise) else _NO_ALPHA


def learn_by_sklearn(start: Start, X: np.ndarray, Y: np.ndarray, how: HowToLearn) -> Learned:
    """Hyperparameters by scikit-learn's optimiser, on a random subset where there are many observations."""
    assert start.translation is not None
    unknown = sorted(set(how.options) - {"subset"})
    if unknown:
        raise InputError(
            f"fit_options has {', '.join(map(repr, unknown))}, but this kernel is fitted by scikit-learn, since cagp "
            "has no equal of it or the optimizer is a callable; only a number as 'subset' can be given"
        )
    size = how.options.get("subset") or EXACT_POINTS
    rows = np.arange(len(X))
    if size < len(X):
        rows = np.sort(np.random.default_rng(how.seed).choice(len(X), size, replace=False))
    kernel, separate = start.translation.source, False
    if start.level is not None and not start.white:  # noise_variance beside a kernel without WhiteKernel
        bounds = (start.level / BOUND_FACTOR, start.level * BOUND_FACTOR)
        kernel, separate = kernel + WhiteKernel(start.level, bounds), True
    twin = GaussianProcessRegressor(
        kernel,
        alpha=_alpha(start.known[rows]),
        optimizer=how.optimizer,
        n_restarts_optimizer=how.n_restarts,
        random_state=how.seed,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        twin.fit(X[rows], residuals(start, X[rows], Y[rows]))
    for warning in caught:
        category = FitWarning if issubclass(warning.category, ConvergenceWarning) else warning.category
        warnings.warn(str(warning.message), category, stacklevel=5)
    found = from_sklearn(twin.kernel_, X.shape[1])
    assert found.kernel is not None
    drawn = f", drawn at random (seed {how.seed})" if len(rows) < len(X) else ""
    message = (
        f"Maximum of the exact likelihood of {len(rows)} of {len(X)} observations{drawn}, found by scikit-learn's "
        f"optimiser: log p = {twin.log_marginal_likelihood_value_:.6g}."
    )
    level = None if start.level is None else found.noise_variance
    return Learned(found.kernel, level, twin.kernel_.k1 if separate else twin.kernel_, None, message)

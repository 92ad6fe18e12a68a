"""Several outputs at the same points: one Gram matrix, one solve, one variance; a mean each."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..errors import NotPositiveDefiniteError
from ..model import Model
from ..posterior import Posterior

_NUMBERS_AT_ONCE = 2**24
"""Of weights (d, T) in memory at a time, where the means are taken from them."""


def means(models: list[Model], X: np.ndarray) -> np.ndarray:
    """The posterior means at X (T, p), shape (T, outputs), without variances."""
    if _mean_needs_weights(models):
        return _solved_once(models, X)[0]
    return np.column_stack([model.predict_mean(X) for model in models])


def means_and_variances(models: list[Model], X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The posterior means and variances of f at X (T, p), each (T, outputs)."""
    first = models[0]
    if not first.solver.calibrated:  # the weights depend on y, so every output has its own
        posteriors = [_predict(model, X) for model in models]
        return np.column_stack([p.mean for p in posteriors]), np.column_stack([p.variance for p in posteriors])
    if _mean_needs_weights(models):
        mean, variance = _solved_once(models, X)
    else:
        posterior = _predict(first, X)
        mean = np.column_stack([posterior.mean, *(model.predict_mean(X) for model in models[1:])])
        variance = posterior.variance
    return mean, np.repeat(variance[:, None], len(models), axis=1)


def covariances(models: list[Model], X: np.ndarray) -> np.ndarray:
    """The posterior covariances of f at X (T, p), shape (T, T, outputs)."""
    if models[0].solver.calibrated:
        return np.repeat(_predict(models[0], X).covariance()[:, :, None], len(models), axis=2)
    return np.stack([_predict(model, X).covariance() for model in models], axis=2)


def sklearn_draws(
    mean: np.ndarray, covariance: np.ndarray, n: int, rng: np.random.RandomState, eps: float
) -> np.ndarray:
    """``n`` joint draws, shape (T, n), from the same random numbers in the same way as GaussianProcessRegressor.

    ``eps`` is the precision of the covariance: what is negative beyond it is an error, and not a warning.
    """
    values = np.linalg.eigvalsh(covariance)
    if values[0] < -100 * len(values) * eps * np.abs(values).max():
        raise NotPositiveDefiniteError(
            f"the posterior covariance has the eigenvalue {values[0]:.3g}, beyond rounding; "
            "fit with dtype float64 or more noise"
        )
    return rng.multivariate_normal(mean, covariance, n, check_valid="ignore").T


def _predict(model: Model, X: np.ndarray) -> Posterior:
    return model.predict(X, progress=False)


def _mean_needs_weights(models: list[Model]) -> bool:
    """Whether one solve for the weights is the cheapest way to the means of several outputs."""
    return len(models) > 1 and models[0].solver.calibrated and not models[0].means_are_cheap


def _solved_once(models: list[Model], X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means (T, outputs) and variances (T,) from one solve: Wᵀb for every b."""
    B = np.column_stack([model.b.cpu().numpy() for model in models])
    step = max(1, _NUMBERS_AT_ONCE // len(B))
    parts: list[tuple[Any, Any]] = []
    for start in range(0, len(X), step):
        test = X[start : start + step]
        posterior = _predict(models[0], test)
        prior_means = np.column_stack([model.offset(torch.from_numpy(test)).numpy() for model in models])
        parts.append((prior_means + posterior.weights.T @ B, posterior.variance))
    return np.concatenate([mean for mean, _ in parts]), np.concatenate([variance for _, variance in parts])

"""Averages of repeated observations against all of them, in dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import cagp
from cagp.errors import InputError
from cagp.hyperparameters import averaged_rows


def kernel(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
    r = np.sqrt(3.0) * np.linalg.norm(P[:, None] - Q[None], axis=2) / 0.4
    return 1.5 * (1 + r) * np.exp(-r)


@pytest.mark.parametrize("each", [False, True])
def test_nothing_is_lost(each: bool) -> None:
    rng = np.random.default_rng(0)
    places = rng.random((7, 2))
    X = places[rng.integers(0, 7, 30)]
    y, X_test = rng.normal(size=30), rng.random((5, 2))
    noise = rng.uniform(0.1, 0.5, 30) if each else np.full(30, 0.3)
    G, V = kernel(X, X) + np.diag(noise), kernel(X_test, X)
    found = averaged_rows(X, y, noise if each else 0.3)
    assert len(found.X) == len(np.unique(X, axis=0))
    assert found.counts.sum() == 30
    if not each:
        np.testing.assert_allclose(found.noise_variance, 0.3 / found.counts)
    prior = cagp.Prior(cagp.Matern32(0.4, 1.5), mean=0.0, noise_variance=found.noise_variance)
    posterior = prior.condition(found.X, found.y, "cholesky").predict(X_test)
    np.testing.assert_allclose(posterior.mean, V @ np.linalg.solve(G, y), rtol=1e-9)
    np.testing.assert_allclose(posterior.variance, 1.5 - np.sum(V.T * np.linalg.solve(G, V.T), axis=0), rtol=1e-9)
    dense = multivariate_normal(np.zeros(30), G).logpdf(y)
    np.testing.assert_allclose(prior.log_likelihood(found.X, found.y) + found.log_likelihood, dense, rtol=1e-9)


def test_an_unknown_mean_as_well() -> None:
    rng = np.random.default_rng(1)
    X = rng.random((6, 1))[rng.integers(0, 6, 20)]
    y = rng.normal(size=20)
    prior = cagp.Prior(cagp.Matern32(0.4, 1.5), mean=cagp.Constant(), noise_variance=0.2)
    found = averaged_rows(X, y, 0.2)
    fewer = replace(prior, noise_variance=found.noise_variance)
    whole = prior.condition(X, y, "cholesky").predict([[0.5]])
    averaged = fewer.condition(found.X, found.y, "cholesky").predict([[0.5]])
    np.testing.assert_allclose(averaged.mean, whole.mean, rtol=1e-9)
    np.testing.assert_allclose(averaged.variance, whole.variance, rtol=1e-9)
    constant = 0.5 * np.log(len(y) / len(found.y))  # of the restricted likelihood: |HᵀH|
    by_averages = fewer.log_likelihood(found.X, found.y) + found.log_likelihood + constant
    np.testing.assert_allclose(by_averages, prior.log_likelihood(X, y), rtol=1e-9)


def test_noise_must_be_positive() -> None:
    with pytest.raises(InputError, match="noise_variance"):
        averaged_rows([[0.0], [0.0]], [1.0, 2.0], 0.0)

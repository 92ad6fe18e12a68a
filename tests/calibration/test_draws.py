"""The draws have exactly the covariance of the prior, by a kernel that somebody else wrote."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.gaussian_process.kernels import Matern

import cagp
from cagp.calibration.projection import draw


class Identity:
    """In place of random numbers: the draws are then the transposed square root of their covariance."""

    def standard_normal(self, shape):
        assert shape[0] == shape[1]
        return np.eye(shape[0])


def implied_covariance(prior, X, X_test, w):
    d = len(X)
    tensors = (torch.from_numpy(array) for array in (X, X_test, w))
    draws = draw(prior, *tensors, d + 1, Identity(), 2**30)
    joint = np.column_stack([draws.b.numpy(), draws.truth.numpy()])
    return joint.T @ joint, draws


@pytest.mark.parametrize("coincide", [False, True])
def test_joint_covariance_is_that_of_the_prior(coincide):
    rng = np.random.default_rng(0)
    X, noise = rng.random((30, 2)), rng.uniform(0.01, 0.5, 30)
    X_test = X[:12] if coincide else rng.random((700, 2))  # more test points than are worked on at once
    w = rng.normal(size=len(X_test))
    prior = cagp.Prior(cagp.Matern32(0.3, variance=2.0), mean=5.0, noise_variance=noise)
    found, draws = implied_covariance(prior, X, X_test, w)
    kernel = Matern(0.3, nu=1.5)
    V = 2.0 * kernel(X, X_test) @ w
    expected = np.block(
        [[2.0 * kernel(X) + np.diag(noise), V[:, None]], [V[None, :], np.full((1, 1), 2.0 * w @ kernel(X_test) @ w)]]
    )
    assert np.allclose(found, expected, atol=1e-12 * np.abs(expected).max())
    assert draws.prior_variance == pytest.approx(expected[-1, -1])
    assert draws.factor == "cholesky"


def test_singular_covariance_is_factored_by_its_eigenvectors():
    X = np.repeat(np.linspace(0, 1, 10), 2)[:, None]  # every point twice, almost no noise
    prior = cagp.Prior(cagp.RBF(1.0), noise_variance=1e-20)
    found, draws = implied_covariance(prior, X, X[:3], np.ones(3))
    assert draws.factor == "eigh"
    assert np.allclose(found[:-1, :-1], np.exp(-((X - X.T) ** 2) / 2), atol=1e-12)


def test_kernel_that_is_none_is_refused():
    kernel = cagp.CustomKernel(lambda A, B: -torch.exp(-((A[:, None] - B[None]) ** 2).sum(-1)))
    X = torch.linspace(0, 1, 5, dtype=torch.float64)[:, None]
    with pytest.raises(cagp.NotPositiveDefiniteError, match="not positive semidefinite"):
        draw(cagp.Prior(kernel), X, X, torch.ones(5, dtype=torch.float64), 3, np.random.default_rng(0), 2**30)


def test_memory_is_asked_for_first():
    X = torch.linspace(0, 1, 100, dtype=torch.float64)[:, None]
    with pytest.raises(cagp.MemoryBudgetError, match="joint prior draws at 100 training points"):
        draw(cagp.Prior(cagp.RBF()), X, X, X[:, 0], 1000, np.random.default_rng(0), 10_000)

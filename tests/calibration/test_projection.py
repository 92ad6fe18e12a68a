"""wᵀf(X′) through the shortcut is what the whole posterior says about it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cagp
from cagp.calibration.projection import Projection

SOLVERS = [
    cagp.Cholesky(),
    cagp.GaussSeidel(3),
    cagp.GaussSeidel(3, order="natural"),
    cagp.RandomDirections(4),
    cagp.Subset(7),
    cagp.Stationary("jacobi", iterations=4),
    cagp.ConjugateGradient(4),
]


@pytest.fixture(scope="module", params=["one noise", "noise per observation"])
def problem(request):
    rng = np.random.default_rng(0)
    noise = 0.05 if request.param == "one noise" else rng.uniform(0.01, 0.5, 40)
    X = rng.random((40, 2))
    X_test = np.concatenate([rng.random((10, 2)), X[:5]])
    prior = cagp.Prior(cagp.Matern52(0.3), noise_variance=noise)
    return prior, X, X_test, rng.normal(size=15), rng.normal(size=40)


@pytest.mark.parametrize("solver", SOLVERS, ids=repr)
def test_projection_is_that_of_the_posterior(problem, solver):
    prior, X, X_test, w, b = problem
    tensors = [torch.from_numpy(array) for array in (X, X_test, w)]
    projection = Projection(prior, *tensors, float(w @ prior.kernel(X_test) @ w), solver, 2**30)
    posterior = prior.condition(X, b, solver).predict(X_test)
    expected = w @ posterior.covariance() @ w
    for _ in range(2):  # the second solve skips what the first has checked
        u, variance = projection.solve(torch.from_numpy(b))
        assert u.numpy() @ b == pytest.approx(w @ posterior.mean, rel=1e-10)
        assert variance == pytest.approx(expected, rel=1e-9)


def test_weights_that_do_not_fit_are_refused(problem):
    prior, X, X_test, w, _ = problem
    tensors = [torch.from_numpy(array) for array in (X, X_test, w)]
    with pytest.raises(cagp.MemoryBudgetError, match="the weights of 15 test points"):
        Projection(prior, *tensors, 1.0, cagp.Cholesky(), 40 * 40 * 8 * 2)

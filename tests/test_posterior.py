"""What a posterior offers: intervals, samples, the noise, bounds, and precision at its limit."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

import cagp
from problems import make_problem

PROBLEM = make_problem()


@pytest.fixture
def post() -> cagp.Posterior:
    return PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.GaussSeidel(2)).predict(PROBLEM.X_test)


@pytest.mark.parametrize("solver", ["cholesky", "gauss-seidel"])
def test_a_value_that_is_certain_under_the_prior(solver: str) -> None:
    """A function from FractionalBrownian is zero at zero."""
    prior = cagp.Prior(cagp.FractionalBrownian(), noise_variance=0.1)
    post = prior.condition([[1.0], [2.0]], [1.0, 2.5], solver).predict([[0.0], [0.5]])
    assert (post.mean[0], post.std[0]) == (0.0, 0.0)
    assert_allclose(np.diag(post.covariance()), post.variance)
    assert post.computational_variance.upper[0] == 0.0
    assert_allclose(post.exceedance(0.0)[0], 0.5)
    assert_allclose(post.exceedance(-1e-9)[0], 1.0)
    assert post.log_density([1.0, 1.0])[0] == -np.inf
    assert_allclose(post.sample(3)[:, 0], 0.0)


def test_cholesky_is_scikit_learn() -> None:
    theirs = GaussianProcessRegressor(1.7 * Matern(0.3, nu=1.5), alpha=0.05, optimizer=None).fit(PROBLEM.X, PROBLEM.y)
    mean, covariance = theirs.predict(PROBLEM.X_test, return_cov=True)
    post = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky()).predict(PROBLEM.X_test)
    assert_allclose(post.mean, mean, rtol=1e-8)
    assert_allclose(post.covariance(), covariance, rtol=1e-8, atol=1e-12)
    assert_allclose(post.std, theirs.predict(PROBLEM.X_test, return_std=True)[1], rtol=1e-8)


def test_many_test_points_are_solved_a_few_at_a_time_and_are_as_exact() -> None:
    X = np.random.default_rng(0).random((5000, PROBLEM.X.shape[1]))
    theirs = GaussianProcessRegressor(1.7 * Matern(0.3, nu=1.5), alpha=0.05, optimizer=None).fit(PROBLEM.X, PROBLEM.y)
    mean, std = theirs.predict(X, return_std=True)
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky())
    component = model.components[0]
    assert len(component.prepared.pieces(component.cross(model.test_points(X)[0]))) > 1
    post = model.predict(X)
    assert_allclose(post.mean, mean, rtol=1e-8, atol=1e-9)
    assert_allclose(post.std, std, rtol=1e-8)
    assert (post.iterations == 1).all()
    assert_allclose(post.computational_variance.upper, 0, atol=1e-10)


def test_intervals_are_gaussian(post: cagp.Posterior) -> None:
    lower, upper = post.interval(0.9)
    assert_allclose(lower, norm.ppf(0.05, post.mean, post.std), rtol=1e-9)
    assert_allclose(upper, norm.ppf(0.95, post.mean, post.std), rtol=1e-9)
    for level in (0, 1, 95, -0.5):
        with pytest.raises(cagp.InputError, match="level"):
            post.interval(level)


def test_observed_adds_the_noise(post: cagp.Posterior) -> None:
    assert_allclose(post.observed().variance, post.variance + 0.05)
    assert_allclose(np.diag(post.observed().covariance()), post.variance + 0.05)
    each = np.linspace(0, 1, 7)
    assert_allclose(post.observed(each).variance, post.variance + each)
    assert_allclose(post.observed(each).mean, post.mean)
    with pytest.raises(cagp.InputError, match=r"shape \(3,\) for 7 test points"):
        post.observed(each[:3])
    with pytest.raises(cagp.InputError, match="negative"):
        post.observed(-1.0)
    uneven = make_problem(noise=None)
    other = uneven.prior.condition(uneven.X, uneven.y, cagp.Cholesky()).predict(uneven.X_test)
    with pytest.raises(cagp.InputError, match=r"give noise_variance=..."):
        other.observed()


def test_samples_have_the_moments(post: cagp.Posterior) -> None:
    draws = post.sample(40_000, seed=1)
    assert draws.shape == (40_000, 7)
    error = 5 * np.sqrt(2 / 40_000) * post.covariance().max()
    assert_allclose(np.cov(draws.T), post.covariance(), atol=error)
    assert_allclose(draws.mean(0), post.mean, atol=5 * post.std.max() / np.sqrt(40_000))
    assert_allclose(post.sample(3, seed=1), post.sample(3, seed=1))
    assert not np.allclose(post.sample(3, seed=1), post.sample(3, seed=2))
    wide = post.observed().sample(40_000, seed=1)
    assert_allclose(wide.var(0), post.variance + 0.05, rtol=0.05)


def test_covariance_needs_the_weights() -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.GaussSeidel(2))
    batched = model.predict(PROBLEM.X_test, batch_size=3)
    with pytest.raises(cagp.MemoryBudgetError, match="were not kept"):
        batched.covariance()


def test_iterations_and_passes(post: cagp.Posterior) -> None:
    assert post.iterations.tolist() == [2] * 7
    assert post.passes == 2
    assert repr(post) == "Posterior(7 test points, GaussSeidel(iterations=2), finished)"


def test_variances_at_the_limit_of_rounding_are_reported_as_that_limit() -> None:
    """A nearly singular problem: the exact variance is below what float64 resolves, and is never negative."""
    x = np.linspace(0, 1, 40)[:, None]
    # sixteen times the noise at which G has no Cholesky factor, a twentieth of that at which rounding resolves it
    prior = cagp.Prior(cagp.RBF(1.0), noise_variance=5e-15)
    post = prior.condition(x, np.sin(x[:, 0]), cagp.Cholesky()).predict(x + 1e-3)
    assert (post.variance > 0).all()
    assert "below what rounding can resolve" in str(post.status)

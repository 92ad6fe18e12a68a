"""What is written outside the package works like what is in it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cagp
from outside import Cauchy, SteepestDescent
from problems import make_problem

RNG = np.random.default_rng(0)
X, X_TEST = RNG.random((60, 2)), RNG.random((9, 2))
Y = np.sin(6 * X[:, 0]) + 0.1 * RNG.normal(size=60)


def values(A: np.ndarray, B: np.ndarray, lengthscale: float, variance: float) -> np.ndarray:
    """The kernel by its formula."""
    squared = ((A[:, None] - B[None]) ** 2).sum(axis=2)
    return variance / (1 + squared / lengthscale**2)


@pytest.mark.parametrize("storage", ["dense", "tiles"])
def test_a_kernel(storage: str) -> None:
    prior = cagp.Prior(Cauchy(0.3, 1.7), noise_variance=0.05)
    post = prior.condition(X, Y, cagp.Cholesky(), storage=storage).predict(X_TEST)
    G, V = values(X, X, 0.3, 1.7) + 0.05 * np.eye(60), values(X_TEST, X, 0.3, 1.7)
    assert_allclose(post.mean, V @ np.linalg.solve(G, Y), rtol=1e-9)
    assert_allclose(post.variance, 1.7 - (V * np.linalg.solve(G, V.T).T).sum(axis=1), rtol=1e-9)
    near = prior.condition(X, Y, cagp.NearestNeighbours(60)).predict(X_TEST)
    assert_allclose(near.variance, post.variance, rtol=1e-9)


def test_a_kernel_is_fitted() -> None:
    prior = cagp.Prior(Cauchy(0.3, 1.7), noise_variance=0.05)
    fitted = prior.fit(X, Y)
    assert isinstance(fitted.kernel, Cauchy)
    assert fitted.log_likelihood(X, Y) > prior.log_likelihood(X, Y) + 1
    K = values(X, X, fitted.kernel.lengthscale, fitted.kernel.variance) + fitted.noise_variance * np.eye(60)
    expected = -0.5 * (Y @ np.linalg.solve(K, Y) + np.linalg.slogdet(K)[1] + 60 * np.log(2 * np.pi))
    assert_allclose(fitted.log_likelihood(X, Y), expected, rtol=1e-9)


def test_a_solver_in_a_chain_and_as_a_start() -> None:
    problem = make_problem()
    exact = np.diag(problem.exact_covariance)
    for solver in (
        cagp.Chain([cagp.GaussSeidel(2), SteepestDescent(3), cagp.CalibratedCG(80)]),
        cagp.CalibratedCG(80, start=SteepestDescent(3)),
    ):
        post = problem.prior.condition(problem.X, problem.y, solver).predict(problem.X_test)
        assert solver.calibrated
        assert_allclose(post.variance, exact, rtol=1e-6)


def test_a_solver_stops_where_it_is_told() -> None:
    problem = make_problem()
    rule = cagp.stopping.ComputationalShare(0.1)
    model = problem.prior.condition(problem.X, problem.y, SteepestDescent(5000))
    post = model.predict(problem.X_test, stop=rule)
    exact = np.diag(problem.exact_covariance)
    assert ((post.variance - exact) / exact <= 0.1 + 1e-6).all()
    assert post.status.reason == "stopped"


def test_a_data_driven_solver_needs_observations() -> None:
    gram = cagp.Prior(cagp.RBF(0.2)).condition(X, Y, cagp.GaussSeidel(1)).gram
    with pytest.raises(cagp.InputError, match="takes its directions from the observations"):
        cagp.ConjugateGradient(3).prepared_for(gram)

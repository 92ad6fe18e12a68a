"""Mixed precision: bad arithmetic makes the error bars wider, never wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from cagp.stopping import ComputationalShare
from problems import make_problem
from solver_cases import CASES, Case

PROBLEM = make_problem()
EXACT = np.diag(PROBLEM.exact_covariance)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_single_precision_weights_are_certified_in_double(case: Case) -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, case.solver, solve_dtype=torch.float32)
    post = model.predict(PROBLEM.X_test)
    assert post.mean.dtype == np.float64
    C = PROBLEM.covariance(post.weights)
    assert_allclose(post.variance, np.diag(C), rtol=1e-10)  # exactly what these weights are worth
    assert_allclose(post.covariance(), C, rtol=1e-9, atol=1e-11)
    assert_allclose(post.mean, post.weights.T @ PROBLEM.y, rtol=1e-10, atol=1e-12)
    double = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, case.solver).predict(PROBLEM.X_test)
    assert_allclose(post.variance, double.variance, rtol=5e-3)
    assert "Solved in torch.float32, certified in torch.float64." in str(post.status)
    *_, last = model.iterate(PROBLEM.X_test)
    assert_allclose(last.variance, post.variance, rtol=1e-5)


def test_rules_judge_the_certified_weights() -> None:
    solver = cagp.CalibratedCG(100, cagp.Nystrom(10))
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver, solve_dtype=torch.float32)
    post = model.predict(PROBLEM.X_test, stop=ComputationalShare(0.05))
    assert ((post.variance - EXACT) / EXACT <= 0.05).all()


def test_a_deliberately_bad_half_precision_solve_is_wide_and_still_calibrated() -> None:
    """Gauss-Seidel in float16: the certificate widens the error bars to what the weights deserve."""
    problem = replace(make_problem(d=60, T=4, noise=1e-4), lengthscale=2.0)
    G, W = problem.G.astype(np.float16), np.zeros((60, 4), np.float16)
    rhs = problem.V.T.astype(np.float16)
    for _ in range(200):
        for i in reversed(range(60)):
            W[i] += (rhs[i] - G[i] @ W) / G[i, i]
    model = problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(0))
    post = model.posterior(problem.X_test, W)
    converged = problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(200, order="natural"))
    exact = np.diag(problem.exact_covariance)
    assert (post.variance > 1.01 * converged.predict(problem.X_test).variance).any()  # the price of bad arithmetic
    assert (post.variance >= exact).all()
    # and calibrated: 4,000 draws from the prior give z of variance one
    rng = np.random.default_rng(0)
    joint = np.block([[problem.kernel(problem.X, problem.X), problem.V.T], [problem.V, problem.K]])
    draws = rng.multivariate_normal(np.zeros(64), joint, size=4000, method="eigh")
    y = draws[:, :60] + 0.01 * rng.normal(size=(4000, 60))
    z = (y @ post.weights - draws[:, 60:]) / post.std
    assert_allclose(z.var(axis=0), 1.0, atol=5 * np.sqrt(2 / 4000))


def test_solve_dtype_is_checked() -> None:
    with pytest.raises(cagp.InputError, match="solve_dtype must be"):
        PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.GaussSeidel(1), solve_dtype=torch.float16)

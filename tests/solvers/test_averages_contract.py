"""What every solver promises about averages: those of ``solver_cases.py``, and one from outside."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from cagp.averages import Average
from fields_problem import functional_covariance, rows_of_weights
from problems import Problem, make_problem
from solver_cases import CASES, OUTSIDE, Case

each_solver = pytest.mark.parametrize("case", CASES + OUTSIDE, ids=lambda case: case.id)
PROBLEM = make_problem(noise=None)
A = rows_of_weights(len(PROBLEM.X_test))


def average(solver: cagp.Solver, problem: Problem = PROBLEM, **settings: object) -> Average:
    return problem.prior.condition(problem.X, problem.y, solver, **settings).average(problem.X_test, A)


@each_solver
def test_mean_and_covariance_follow_from_the_weights(case: Case) -> None:
    found = average(case.solver)
    C = functional_covariance(PROBLEM, A, found.weights)
    assert_allclose(found.mean, found.weights.T @ PROBLEM.y, rtol=1e-10, atol=1e-12)
    assert_allclose(found.covariance(), C, rtol=1e-9, atol=1e-11)
    assert_allclose(found.variance, np.diag(C), rtol=1e-9, atol=1e-11)
    assert_allclose(average(case.solver, storage="tiles").variance, found.variance, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("case", [case for case in CASES if case.tolerance < 1e-6], ids=lambda case: case.id)
def test_converges_to_the_average_of_the_exact_posterior(case: Case) -> None:
    found = average(case.converged)
    assert_allclose(found.mean, A @ PROBLEM.exact_weights.T @ PROBLEM.y, atol=10 * case.tolerance)
    assert_allclose(found.covariance(), A @ PROBLEM.exact_covariance @ A.T, atol=10 * case.tolerance)


@each_solver
def test_bounds_hold_the_computational_variance(case: Case) -> None:
    found = average(case.solver)
    exact = A @ PROBLEM.exact_covariance @ A.T
    truth = np.diag(functional_covariance(PROBLEM, A, found.weights) - exact)
    bounds = found.computational_variance
    assert (bounds.lower <= truth * (1 + 1e-8) + 1e-12).all()
    assert (truth <= bounds.upper * (1 + 1e-8) + 1e-12).all()


@each_solver
def test_calibrated_for_calibrated_solvers(case: Case) -> None:
    """The mean is affine in y and the covariance ignores y, just where the solver says so."""
    y1, y2 = np.random.default_rng(5).normal(size=(2, len(PROBLEM.y)))

    def of(y: np.ndarray) -> Average:
        return PROBLEM.prior.condition(PROBLEM.X, y, case.solver).average(PROBLEM.X_test, A)

    first, second, mixed = of(y1), of(y2), of(0.3 * y1 - 2 * y2)
    assert np.allclose(mixed.mean, 0.3 * first.mean - 2 * second.mean, rtol=1e-9, atol=1e-9) == case.solver.calibrated
    assert np.allclose(first.covariance(), second.covariance(), rtol=1e-9, atol=1e-9) == case.solver.calibrated
    assert (first.guarantee.kind == "under the prior") == case.solver.calibrated


@each_solver
def test_unknown_trend_is_no_part_of_the_error(case: Case) -> None:
    """With a linear trend the weights are unbiased, so the error is the same whatever the coefficients are."""
    prior = cagp.Prior(PROBLEM.prior.kernel, mean=cagp.Polynomial(1), noise_variance=PROBLEM.noise)

    def of(y: np.ndarray) -> Average:
        return prior.condition(PROBLEM.X, y, case.solver).average(PROBLEM.X_test, A)

    def trend(X: np.ndarray) -> np.ndarray:
        return 3.0 + X @ np.array([20.0, -7.0])

    found = of(PROBLEM.y)
    shifted = of(PROBLEM.y + trend(PROBLEM.X))
    if case.solver.calibrated:
        assert_allclose(shifted.mean - found.mean, A @ trend(PROBLEM.X_test), rtol=1e-8)
        C = functional_covariance(PROBLEM, A, found.weights)
        assert_allclose(found.covariance(), C, rtol=1e-9, atol=1e-10)


def test_single_precision_and_torch() -> None:
    reference = average(cagp.Cholesky())
    single = average(cagp.NearestNeighbours(40), dtype=torch.float32)
    assert_allclose(single.mean, reference.mean, atol=1e-3)
    assert_allclose(single.variance, reference.variance, atol=1e-3)
    mixed = average(cagp.GaussSeidel(50), solve_dtype="float32")
    assert_allclose(mixed.variance, np.diag(functional_covariance(PROBLEM, A, mixed.weights)), rtol=1e-9)
    X, y, X_test = (torch.from_numpy(each) for each in (PROBLEM.X, PROBLEM.y, PROBLEM.X_test))
    same = PROBLEM.prior.condition(X, y, cagp.Cholesky()).average(X_test, torch.from_numpy(A))
    assert isinstance(same.mean, torch.Tensor)
    assert_allclose(same.mean.numpy(), reference.mean, rtol=1e-12)

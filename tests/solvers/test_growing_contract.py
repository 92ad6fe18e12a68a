"""Every solver: a model that was given further observations is a model of all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from numpy.testing import assert_allclose

import cagp
from problems import make_problem
from solver_cases import CASES, OUTSIDE, Case

PROBLEM = make_problem(noise=None)
FIRST = slice(0, 31)
REST = slice(31, None)


@pytest.mark.parametrize("case", CASES + OUTSIDE, ids=lambda case: case.id)
def test_results_are_those_of_a_new_model(case: Case) -> None:
    """With an unknown trend and noise of its own for each observation; the model before stays what it was."""
    prior = replace(PROBLEM.prior, mean=cagp.Polynomial(1))
    X, y, noise, X_test = PROBLEM.X, PROBLEM.y, PROBLEM.noise, PROBLEM.X_test
    small = replace(prior, noise_variance=noise[FIRST]).condition(X[FIRST], y[FIRST], case.solver)
    before = small.predict(X_test)
    whole = small.with_more(X[REST], y[REST], noise_variance=noise[REST])
    found, wanted = whole.predict(X_test), prior.condition(X, y, case.solver).predict(X_test)
    assert whole.solver == case.solver
    assert_allclose(found.weights, wanted.weights, rtol=1e-10, atol=1e-12)
    assert_allclose(found.mean, wanted.mean, rtol=1e-10, atol=1e-12)
    assert_allclose(found.variance, wanted.variance, rtol=1e-10, atol=1e-12)
    assert_allclose(whole.predict_mean(X_test), wanted.mean, rtol=1e-8, atol=1e-9)
    after = small.predict(X_test)
    assert_allclose([after.mean, after.variance], [before.mean, before.variance], rtol=1e-12)

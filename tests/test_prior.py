"""What a prior says by itself: draws, the likelihood of data, and a model with other observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

import cagp
from cagp.hyperparameters import fit, log_likelihood
from problems import make_problem
from solver_cases import CASES

PROBLEM = make_problem(d=60, T=8)


def test_draws_have_the_prior_moments() -> None:
    prior = cagp.Prior(cagp.Matern32(0.3, 1.7), mean=2.0)
    draws = prior.sample(PROBLEM.X_test, 40_000, seed=3)
    assert draws.shape == (40_000, 8)
    assert_allclose(draws.mean(axis=0), 2.0, atol=5 * np.sqrt(1.7 / 40_000))
    assert_allclose(np.cov(draws.T), PROBLEM.K, atol=0.06)
    assert_allclose(prior.sample(PROBLEM.X_test, 40_000, seed=3), draws)
    assert not np.allclose(prior.sample(PROBLEM.X_test, 1, seed=4), draws[:1])


def test_draws_at_the_same_point_are_the_same() -> None:
    X = np.zeros((3, 2))
    draws = cagp.Prior(cagp.RBF(1.0)).sample(X, 5)
    assert_allclose(draws, draws[:, :1].repeat(3, axis=1), atol=1e-7)


def test_draws_as_the_points_came() -> None:
    assert isinstance(cagp.Prior(cagp.RBF(1.0)).sample(torch.zeros(3, 2), 5), torch.Tensor)


def test_whole_covariances_are_computed_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps of a kernel take several times the memory of what they compute, which no budget counts."""
    X, sizes, evaluate = np.random.default_rng(5).random((1500, 2)), [], cagp.Matern52.evaluate

    def recorded(self: cagp.Matern52, *arguments: Any) -> torch.Tensor:
        found = evaluate(self, *arguments)
        sizes.append(found.numel())
        return found

    prior = cagp.Prior(cagp.Matern52(0.2) + cagp.Matern52(1.0), noise_variance=0.1)
    model = prior.condition(X[:100], X[:100, 0], cagp.Cholesky())
    monkeypatch.setattr(cagp.Matern52, "evaluate", recorded)
    prior.sample(X, 1)
    model.predict(X, progress=False).covariance()
    model.simulate(X, 1, method="dense", progress=False)
    cagp.calibration.simulation_based_calibration(prior, X, X[:5], cagp.Subset(9), 9, progress=False)
    assert sum(sizes) >= 4 * 2 * 1500**2
    assert max(sizes) <= 2**20


def test_draws_that_do_not_fit_the_budget_are_refused() -> None:
    with pytest.raises(cagp.MemoryBudgetError, match="fewer points"):
        cagp.Prior(cagp.RBF(1.0)).sample(np.zeros((1000, 1)), memory_budget=1e6)


@pytest.mark.parametrize("noise", [0.05, None])
def test_log_likelihood_is_that_of_scipy(noise: float | None) -> None:
    problem = make_problem(d=60, noise=noise)
    expected = multivariate_normal(np.zeros(60), problem.G).logpdf(problem.y)
    assert_allclose(problem.prior.log_likelihood(problem.X, problem.y), expected, rtol=1e-10)
    all_before = problem.prior.log_likelihood(problem.X, problem.y, likelihood="nearest-neighbours", n_neighbours=59)
    assert_allclose(all_before, expected, rtol=1e-9)


def test_log_likelihood_integrates_an_unknown_mean_out() -> None:
    prior = cagp.Prior(cagp.Matern32(0.3, 1.7), mean=cagp.Constant(), noise_variance=0.05)
    K = np.linalg.qr(np.ones((60, 1)), mode="complete").Q[:, 1:]  # differences, which know nothing of the mean
    expected = multivariate_normal(np.zeros(59), K.T @ PROBLEM.G @ K).logpdf(K.T @ PROBLEM.y)
    assert_allclose(prior.log_likelihood(PROBLEM.X, PROBLEM.y), expected, rtol=1e-10)


@pytest.mark.parametrize("likelihood", ["exact", "nearest-neighbours"])
def test_likelihoods_of_several_outputs_multiply(likelihood: str) -> None:
    Y = np.column_stack([PROBLEM.y, PROBLEM.X[:, 1] ** 2, np.cos(9 * PROBLEM.X[:, 0])])
    each = [log_likelihood(PROBLEM.prior, PROBLEM.X, y, likelihood=likelihood) for y in Y.T]
    assert_allclose(log_likelihood(PROBLEM.prior, PROBLEM.X, Y, likelihood=likelihood), sum(each), rtol=1e-10)
    copies = np.column_stack([PROBLEM.y] * 3)
    one, three = (
        fit(PROBLEM.prior, PROBLEM.X, y, likelihood=likelihood, n_restarts=0, standard_errors=False)
        for y in (PROBLEM.y, copies)
    )
    assert_allclose(list(three.values.values()), list(one.values.values()), rtol=1e-3)
    assert_allclose(three.log_likelihood, 3 * one.log_likelihood, rtol=1e-6)


def test_known_noise_is_beside_the_fitted_one() -> None:
    known = np.linspace(0.01, 0.05, 60)
    result = fit(PROBLEM.prior, PROBLEM.X, PROBLEM.y, known_noise=known, n_restarts=0)
    total = cagp.Prior(result.prior.kernel, noise_variance=result.prior.noise_variance + known)
    assert_allclose(result.log_likelihood, total.log_likelihood(PROBLEM.X, PROBLEM.y), rtol=1e-9)
    with pytest.raises(cagp.InputError, match="known_noise must not be negative"):
        fit(PROBLEM.prior, PROBLEM.X, PROBLEM.y, known_noise=-known)
    with pytest.raises(cagp.InputError, match="known_noise has shape"):
        fit(PROBLEM.prior, PROBLEM.X, PROBLEM.y, known_noise=known[:5])


@pytest.mark.parametrize("solver", [case.solver for case in CASES], ids=repr)
@pytest.mark.parametrize("solve_dtype", [None, "float32"])
def test_other_observations_are_as_a_new_model(solver: cagp.Solver, solve_dtype: str | None) -> None:
    prior = cagp.Prior(cagp.Matern32(0.3), mean=cagp.Constant(), noise_variance=0.05)
    other = np.cos(3 * PROBLEM.X[:, 1]) + 5.0
    model = prior.condition(PROBLEM.X, PROBLEM.y, solver, solve_dtype=solve_dtype)
    before = model.predict(PROBLEM.X_test)
    swapped = model.with_observations(other)
    new = prior.condition(PROBLEM.X, other, solver, solve_dtype=solve_dtype)
    tolerance = 1e-9 if solve_dtype is None else 1e-4
    assert_allclose(swapped.predict_mean(PROBLEM.X_test), new.predict_mean(PROBLEM.X_test), rtol=tolerance)
    assert_allclose(swapped.predict(PROBLEM.X_test).mean, new.predict(PROBLEM.X_test).mean, rtol=tolerance)
    assert_allclose(swapped.predict(PROBLEM.X_test).variance, new.predict(PROBLEM.X_test).variance, rtol=tolerance)
    assert_allclose(model.predict(PROBLEM.X_test).mean, before.mean, rtol=1e-12)  # the first is as it was

"""Bounds on the computational variance against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import cagp
from cagp import bounds as module
from cagp.bounds import computational_variance
from cagp.preconditioners import Nystrom
from problems import Problem, make_problem


def truth_of(problem: Problem, post: cagp.Posterior) -> np.ndarray:
    return np.diag(problem.covariance(post.weights) - problem.exact_covariance)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 1000),
    noise=st.floats(1e-6, 10),
    rank=st.integers(1, 30),
    scale=st.sampled_from([0.0, 1e-3, 0.1, 1.0, 100.0]),
)
def test_bounds_hold_for_any_weights_and_inducing_points(seed: int, noise: float, rank: int, scale: float) -> None:
    problem = make_problem(d=30, T=4, seed=seed, noise=noise)
    model = problem.prior.condition(problem.X, problem.y)
    W = problem.exact_weights + scale * np.random.default_rng(seed).normal(size=(30, 4))
    post = model.posterior(problem.X_test, W)
    truth = truth_of(problem, post)
    batch = post._batches[0]
    bounds = computational_variance(batch.cross, batch.weights, Nystrom(rank, seed).prepare(model.gram))
    slack = 1e-9 * problem.variance
    assert (bounds.lower.numpy() <= truth * (1 + 1e-6) + slack).all()
    assert (truth <= bounds.upper.numpy() * (1 + 1e-6) + slack).all()


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Problem:
    """A short lengthscale: more directions than inducing points, but few neighbours that matter."""
    monkeypatch.setattr("cagp.model._MAX_INDUCING", 100)
    given = make_problem(d=1500, T=12, noise=1e-3)
    return Problem(given.X, given.y, given.X_test, 1e-3, lengthscale=0.05)


@pytest.mark.parametrize(
    ("dtype", "solve_dtype"), [("float64", "float64"), ("float64", "float32"), ("float32", "float32")]
)
def test_neighbours_make_the_bounds_tight(short: Problem, dtype: str, solve_dtype: str) -> None:
    options = {"dtype": dtype, "solve_dtype": solve_dtype}
    post = short.prior.condition(short.X, short.y, cagp.GaussSeidel(1), **options).predict(short.X_test)
    truth = post.variance - np.diag(short.exact_covariance)
    found = post.computational_variance
    slack = 1e-9 if dtype == "float64" else 1e-5
    assert (found.lower <= truth + slack).all()
    assert (truth <= found.upper + slack).all()
    assert (found.upper - found.lower <= 0.02 * post.variance).all()


def test_without_neighbours_the_bounds_are_wider_but_hold(short: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    model = short.prior.condition(short.X, short.y, cagp.GaussSeidel(1))
    tight = model.predict(short.X_test).computational_variance

    def fails(*arguments: object) -> None:
        raise cagp.NotPositiveDefiniteError("the Gram matrix of the neighbours")

    monkeypatch.setattr(module.NearestNeighbours, "prepare", fails)
    post = model.predict(short.X_test)
    wide, truth = post.computational_variance, truth_of(short, post)
    assert (wide.lower <= truth * (1 + 1e-8)).all()
    assert (truth <= wide.upper * (1 + 1e-8)).all()
    assert (tight.upper - tight.lower < 0.1 * (wide.upper - wide.lower)).all()


def test_bounds_leave_the_weights_alone() -> None:
    problem = make_problem(d=200, noise=0.01)
    post = problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(1)).predict(problem.X_test)
    before = post.weights.copy()
    assert len(post.computational_variance.lower) == 7
    assert_allclose(post.weights, before, rtol=0, atol=0)

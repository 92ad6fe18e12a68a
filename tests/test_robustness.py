"""Ways in which the core was once broken: threads, low precision, extreme noise, memory, aliasing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from cagp.stopping import ComputationalShare
from problems import make_problem

PROBLEM = make_problem(d=300, T=20)


@pytest.mark.parametrize("storage", ["dense", "tiles"])
@pytest.mark.parametrize("solver", [cagp.GaussSeidel(2), cagp.CalibratedCG(3), cagp.NearestNeighbours(20)], ids=repr)
def test_threads_may_share_a_model(solver: cagp.Solver, storage: str) -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver, storage=storage)
    inputs = [np.random.default_rng(i).random((30, 2)) for i in range(8)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda X: model.predict(X).variance, inputs))
    for X, variance in zip(inputs, together, strict=True):
        assert_allclose(variance, model.predict(X).variance, rtol=1e-10)


@pytest.mark.parametrize("noise", [1e-5, 1e-6, 1e-8])
@pytest.mark.parametrize("solver", [cagp.GaussSeidel(3), cagp.NearestNeighbours(10)], ids=repr)
def test_single_precision_bounds_hold_where_the_noise_is_small(solver: cagp.Solver, noise: float) -> None:
    problem = make_problem(d=200, T=10, noise=noise)
    post = problem.prior.condition(problem.X, problem.y, solver, dtype="float32").predict(problem.X_test)
    truth = np.diag(problem.covariance(post.weights.astype(float)) - problem.exact_covariance)
    assert (truth <= post.computational_variance.upper * 1.001).all()
    stopped = problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(30), dtype="float32").predict(
        problem.X_test, stop=ComputationalShare(0.05)
    )
    exact = np.diag(problem.exact_covariance)
    certified = stopped.iterations < 30
    assert ((stopped.variance - exact)[certified] <= 0.06 * exact[certified]).all()


def test_noise_that_vanishes_in_single_precision_is_refused() -> None:
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=1e-46)
    with pytest.raises(cagp.InputError, match=r"zero in torch\.float32"):
        prior.condition(PROBLEM.X, PROBLEM.y, cagp.GaussSeidel(1), dtype="float32")


def test_one_very_noisy_observation_masks_itself_only() -> None:
    noise = np.full(300, 0.01)
    noise[0] = 1e20
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=noise)
    without = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01)
    masked = prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky()).predict(PROBLEM.X_test)
    left_out = without.condition(PROBLEM.X[1:], PROBLEM.y[1:], cagp.Cholesky()).predict(PROBLEM.X_test)
    assert_allclose(masked.variance, left_out.variance, rtol=1e-8)


def test_noise_of_the_training_points_is_never_that_of_test_points() -> None:
    problem = make_problem(d=20, T=20, noise=None)
    post = problem.prior.condition(problem.X, problem.y, cagp.Cholesky()).predict(problem.X_test)
    with pytest.raises(cagp.InputError, match="says nothing about new ones"):
        post.observed()


def test_masked_arrays_are_refused() -> None:
    y = np.ma.masked_array(PROBLEM.y.copy(), mask=np.arange(300) == 3)
    with pytest.raises(cagp.InputError, match="masked array with 1 masked values"):
        PROBLEM.prior.condition(PROBLEM.X, y, cagp.Cholesky())
    unmasked = np.ma.masked_array(PROBLEM.y)
    assert PROBLEM.prior.condition(PROBLEM.X, unmasked, cagp.Cholesky())


def test_a_point_without_variance_is_nobodys_neighbour() -> None:
    kernel = cagp.CustomKernel(lambda A, B: A @ B.T)
    X = np.linspace(-1, 1, 41)[:, None]  # k(0, 0) = 0
    post = cagp.Prior(kernel, noise_variance=0.01).condition(X, X[:, 0], cagp.NearestNeighbours(1)).predict([[0.9]])
    assert post.variance[0] < 0.1 * 0.81


def test_results_and_inputs_are_nobody_elses_memory() -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky())
    post = model.predict(PROBLEM.X_test)
    before = post.mean.copy(), post.covariance().copy()
    post.mean[:] = 100
    post.weights[:] = 0
    assert_allclose(post.mean, before[0], rtol=0)
    assert_allclose(post.covariance(), before[1], rtol=1e-12)
    x = np.linspace(0, 1, 30)[:, None].copy()
    kernel = cagp.CustomKernel(lambda A, B: torch.exp(-((A - B.T) ** 2)))
    own = cagp.Prior(kernel, noise_variance=0.1).condition(x, x[:, 0].copy(), cagp.CalibratedCG(5))
    reference = own.predict([[0.3]]).variance
    x[:] = 0
    assert_allclose(own.predict([[0.3]]).variance, reference, rtol=1e-12)


@pytest.mark.parametrize(
    ("solver", "budget", "what"),
    [
        (cagp.RandomDirections(100), 1e5, "100 search directions"),
        (cagp.ConjugateGradient(100), 1e5, "100 search directions"),
        (cagp.RandomKrylov(10, 10), 1e5, "100 search directions"),
        (cagp.NearestNeighbours(200), 1e5, "200 neighbours"),
        (cagp.CalibratedCG(2, cagp.Nystrom(100)), 1e5, "100 inducing points"),
        (cagp.GaussSeidel(2, block_size=100), 1e5, "blocks of 100"),
        (cagp.Chain([cagp.GaussSeidel(1, seed=i) for i in range(4)]), 1e6, "a chain of solvers in 2 different orders"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_every_solver_asks_for_memory_first(solver: cagp.Solver, budget: float, what: str) -> None:
    with pytest.raises(cagp.MemoryBudgetError, match=what):
        PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver, memory_budget=budget)


def test_a_method_that_left_the_numbers_is_told() -> None:
    solver = cagp.Stationary("richardson", 5000, relaxation=1.0, allow_divergence=True)
    with pytest.raises(cagp.DivergenceError, match="no longer finite"):
        PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver).predict(PROBLEM.X_test)


def test_nothing_is_rounded_to_an_index() -> None:
    with pytest.raises(cagp.InputError, match=r"indices must be an integer, got 1\.7"):
        cagp.Subset(indices=[1.7, 2.9])
    with pytest.raises(cagp.InputError, match="order must be an integer"):
        cagp.GaussSeidel(1, order=[0.9, 1.2])
    with pytest.raises(cagp.InputError, match="cannot go on from another"):
        cagp.Chain([cagp.GaussSeidel(2), cagp.CalibratedCG(3, start=cagp.NearestNeighbours(5))])


def test_statuses_count_right() -> None:
    chain = cagp.Chain([cagp.GaussSeidel(2), cagp.CalibratedCG(3)])
    status = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, chain).predict(PROBLEM.X_test).status
    assert "CalibratedCG did the 3 iterations asked for" in str(status)
    numpy_budget = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, chain, memory_budget=np.int64(10**9))
    assert numpy_budget.recipe.budget == 10**9

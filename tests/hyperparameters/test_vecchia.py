import dataclasses

import numpy as np
import pytest
import torch
from likelihood_problems import KERNELS, observations, space_of
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

import cagp
from cagp.gram.previous_neighbours import NONE, previous_neighbours
from cagp.hyperparameters.exact import ExactLikelihood
from cagp.hyperparameters.search_space import Space
from cagp.hyperparameters.terms import Terms
from cagp.hyperparameters.vecchia import VecchiaLikelihood


def _vecchia(space, data, k, budget=2**30):
    neighbours = previous_neighbours(space.prior.kernel, data.X, k)
    return VecchiaLikelihood(space, data, Terms.all_of(neighbours), budget)


@pytest.mark.parametrize("name", KERNELS)
def test_all_predecessors_give_the_exact_likelihood(name):
    data, space = observations(30), space_of(name)
    found = _vecchia(space, data, 29)(space.start)
    expected = ExactLikelihood(space, data, 2**30)(space.start)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-10)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-7, atol=1e-9)


def test_all_predecessors_give_the_exact_trend():
    data, space = observations(30, basis=True, noise=True), space_of("matern32-ard", noise=False)
    found = _vecchia(space, data, 29)(space.start)
    expected = ExactLikelihood(space, data, 2**30)(space.start)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-10)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(found.trend.coefficients, expected.trend.coefficients)
    torch.testing.assert_close(found.trend.covariance, expected.trend.covariance)


def test_noise_that_varies():
    data, space = observations(30, pattern=True), space_of("varying")
    found = _vecchia(space, data, 29)(space.start)
    expected = ExactLikelihood(space, data, 2**30)(space.start)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-10)
    np.testing.assert_allclose(found.gradient, expected.gradient, rtol=1e-7, atol=1e-9)


def test_it_is_the_product_of_conditional_densities():
    data, space, k = observations(40), space_of("product"), 5
    likelihood = _vecchia(space, data, k)
    G = space.prior.kernel(data.X.numpy()) + 0.07 * np.eye(40)
    b = (data.y - data.mean).numpy()
    expected = 0.0
    for i, row in enumerate(likelihood.terms.neighbours.numpy()):
        near = row[row != NONE]
        assert len(near) == min(i, k)
        block = np.append(near, i)
        expected += multivariate_normal(np.zeros(len(block)), G[np.ix_(block, block)]).logpdf(b[block])
        if len(near):
            expected -= multivariate_normal(np.zeros(len(near)), G[np.ix_(near, near)]).logpdf(b[near])
    assert likelihood(space.start).log_likelihood == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("basis", [False, True])
def test_the_gradient_is_that_of_finite_differences(basis):
    data, space = observations(40, basis=basis), space_of("sum")
    likelihood = _vecchia(space, data, 6)
    numeric = approx_fprime(space.start, lambda at: likelihood(at).log_likelihood, 1e-6)
    np.testing.assert_allclose(likelihood(space.start).gradient, numeric, rtol=1e-4, atol=1e-4)


def test_batches_do_not_matter():
    data, space = observations(50, basis=True), space_of("geographic")
    whole = _vecchia(space, data, 5)
    parts = _vecchia(space, data, 5, budget=50_000)
    assert parts._batch < 10 < whole._batch
    one, other = whole(space.start), parts(space.start)
    assert one.log_likelihood == pytest.approx(other.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(one.gradient, other.gradient, rtol=1e-9)


def test_a_budget_below_one_point_is_refused():
    with pytest.raises(cagp.MemoryBudgetError, match="one point with 20 neighbours needs"):
        _vecchia(space_of("rbf"), observations(30), 20, budget=1000)


def test_a_singular_block_is_an_error():
    space = Space.of(cagp.Prior(cagp.RBF(50.0), noise_variance=1e-30), fix_noise=True)
    with pytest.raises(cagp.NotPositiveDefiniteError, match="8 neighbours"):
        _vecchia(space, observations(), 8)(space.start)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["exact", "vecchia"])
def test_the_accelerator_gives_the_same_numbers(kind):
    data, space = observations(60, basis=True), space_of("product")
    there = dataclasses.replace(data, **{n: getattr(data, n).cuda() for n in ("X", "y", "mean", "basis")})
    make = (lambda d: ExactLikelihood(space, d, 2**30)) if kind == "exact" else (lambda d: _vecchia(space, d, 7))
    here, gone = make(data)(space.start), make(there)(space.start)
    assert here.log_likelihood == pytest.approx(gone.log_likelihood, rel=1e-9)
    np.testing.assert_allclose(here.gradient, gone.gradient, rtol=1e-6, atol=1e-8)

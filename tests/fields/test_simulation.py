"""Conditional simulation: moments, distributions of what is not linear, seeds, and every kind of model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import ks_2samp

import cagp
from cagp.errors import InputError, MemoryBudgetError

SIDE = 12
AXIS = np.linspace(0, 1, SIDE)
GRID = np.stack(np.meshgrid(AXIS, AXIS), axis=-1).reshape(-1, 2)
RNG = np.random.default_rng(0)
ON_GRID = GRID[RNG.permutation(SIDE**2)[:30]]
SCATTERED = RNG.random((40, 2))


def observations(X: np.ndarray) -> np.ndarray:
    return np.sin(5 * X[:, 0]) + 2 * X[:, 1] + 0.1 * np.random.default_rng(1).standard_normal(len(X))


def model_of(X: np.ndarray, solver: cagp.Solver, mean: cagp.Mean | None = None, **settings: object) -> cagp.Model:
    prior = cagp.Prior(cagp.Matern32(0.25), mean=mean or cagp.Zero(), noise_variance=0.02)
    return prior.condition(X, observations(X), solver, **settings)


def assert_moments(fields: np.ndarray, mean: np.ndarray, C: np.ndarray, slack: float = 0.0) -> None:
    """Within five standard errors of the mean and of every covariance, of which there are thousands."""
    n, s = len(fields), np.sqrt(np.diag(C))
    assert np.abs((fields.mean(axis=0) - mean) / s).max() < 5 / np.sqrt(n)
    error = np.sqrt((np.outer(s, s) ** 2 + C**2) / n)
    assert np.abs((np.cov(fields.T) - C) / (error + slack * s.max() ** 2)).max() < 5


@pytest.mark.parametrize("mean", [None, cagp.Polynomial(1)], ids=["known mean", "trend"])
@pytest.mark.parametrize(
    "solver",
    [cagp.Cholesky(), cagp.GaussSeidel(iterations=2), cagp.NearestNeighbours(8), cagp.Subset(15)],
    ids=lambda solver: solver.name,
)
def test_moments_are_those_of_the_posterior(solver: cagp.Solver, mean: cagp.Mean | None) -> None:
    model, X_test = model_of(SCATTERED, solver, mean), GRID[::7]
    post = model.predict(X_test)
    found = model.simulate(X_test, 3000, seed=1)
    assert_moments(found.fields, post.mean, post.covariance())
    assert_allclose(found.prediction.mean, post.mean)
    assert_allclose(found.prediction.variance, post.variance)
    assert found.spread == pytest.approx(1, abs=0.03)
    assert found.guarantee == post.guarantee
    assert found.status.reason == "finished"


@pytest.mark.parametrize("method", ["dense", "circulant", "vecchia"])
def test_moments_whichever_way_the_prior_is_drawn(method: str) -> None:
    model = model_of(ON_GRID, cagp.Cholesky(), cagp.Constant())
    post = model.predict(GRID)
    found = model.simulate(GRID, 2000, seed=2, method=method)
    assert_moments(found.fields, post.mean, post.covariance(), slack=0.01 if method == "vecchia" else 0.0)
    assert ("exact" in found.how) == (method != "vecchia")


def contour_length(fields: np.ndarray) -> np.ndarray:
    """Edges between neighbouring cells of which one is above the level of 1 and the other is not."""
    above = fields.reshape(-1, SIDE, SIDE) > 1
    return (above[:, 1:] != above[:, :-1]).sum(axis=(1, 2)) + (above[:, :, 1:] != above[:, :, :-1]).sum(axis=(1, 2))


@pytest.mark.parametrize("method", ["circulant", "vecchia"])
def test_distributions_of_what_is_not_linear(method: str) -> None:
    model = model_of(ON_GRID, cagp.NearestNeighbours(20))
    dense = model.predict(GRID).sample(1500, seed=5)
    fields = model.simulate(GRID, 1500, seed=6, method=method).fields
    for functional in (lambda each: each.max(axis=1), contour_length):
        assert ks_2samp(functional(dense), functional(fields)).pvalue > 0.01


def test_a_field_depends_on_its_number_and_on_nothing_else() -> None:
    model = model_of(SCATTERED, cagp.NearestNeighbours(8))
    whole = model.simulate(GRID, 7, seed=3, method="vecchia").fields
    assert_allclose(model.simulate(GRID, 2, seed=3, method="vecchia").fields, whole[:2], rtol=1e-10)
    assert_allclose(model.simulate(GRID, 2, seed=3, method="vecchia", first=4).fields, whole[4:6], rtol=1e-10)
    assert not np.allclose(model.simulate(GRID, 2, seed=4, method="vecchia").fields, whole[:2])
    little = model_of(SCATTERED, cagp.NearestNeighbours(8), memory_budget=400_000)  # some fields at a time
    assert_allclose(little.simulate(GRID, 7, seed=3, method="vecchia").fields, whole, rtol=1e-10)
    simulator = model.simulator(GRID, method="vecchia")
    parts = [simulator.draw(n, 3, first=first).fields for n, first in ((3, 0), (4, 3))]
    assert_allclose(np.concatenate(parts), whole, rtol=1e-10)


def test_test_points_in_batches() -> None:
    whole, cut = (model_of(SCATTERED, cagp.Cholesky(), memory_budget=budget) for budget in (2**30, 120_000))
    found = [model.simulate(GRID, 1, seed=3, method="vecchia").fields for model in (whole, cut)]
    assert_allclose(*found, rtol=1e-10)


def test_torch_in_torch_out() -> None:
    model = model_of(SCATTERED, cagp.Cholesky())
    fields = model.simulate(torch.from_numpy(GRID), 2).fields
    assert isinstance(fields, torch.Tensor)
    assert_array_equal(fields.numpy(), model.simulate(GRID, 2).fields)


def test_single_precision() -> None:
    double, single = (model_of(SCATTERED, cagp.Cholesky(), dtype=dtype) for dtype in ("float64", "float32"))
    assert_allclose(single.simulate(GRID, 2).fields, double.simulate(GRID, 2).fields, atol=1e-3)


def test_fields_of_observations() -> None:
    model = model_of(SCATTERED, cagp.Cholesky())
    latent, noisy = model.simulate(GRID, 300), model.simulate(GRID, 300, observed=True)
    assert noisy.prediction.includes_noise
    assert np.var(noisy.fields - latent.fields) == pytest.approx(0.02, rel=0.05)
    assert np.var(model.simulate(GRID, 300, noise_variance=0.5).fields - latent.fields) == pytest.approx(0.5, rel=0.05)
    each = cagp.Prior(cagp.Matern32(0.25), noise_variance=np.full(40, 0.02)).condition(SCATTERED, np.zeros(40))
    with pytest.raises(InputError, match="noise_variance"):
        each.simulate(GRID, observed=True)


def test_a_posterior_samples_where_its_covariance_does_not_fit() -> None:
    model = model_of(SCATTERED, cagp.NearestNeighbours(8), memory_budget=600_000)
    post = model.predict(GRID)
    with pytest.raises(MemoryBudgetError):
        post.covariance()
    assert_allclose(post.sample(2, seed=9), model.simulate(GRID, 2, seed=9).fields)
    assert_allclose(post.observed(0.3).sample(2, 9), model.simulate(GRID, 2, 9, noise_variance=0.3).fields)


def test_samples_of_a_stopped_prediction_have_its_weights() -> None:
    model = model_of(SCATTERED, cagp.GaussSeidel(iterations=20))
    post = model.predict(GRID[:60], stop=cagp.stopping.ComputationalShare(0.3), batch_size=30)
    draws = post.sample(2000, seed=1)  # cut by batch_size, so that no covariance is to be had
    assert_allclose(draws.mean(axis=0), post.mean, atol=5 * post.std.max() / np.sqrt(2000))
    assert_allclose(draws.std(axis=0), post.std, rtol=0.1)


def test_recalibrated_fields_have_recalibrated_margins() -> None:
    model = model_of(SCATTERED, cagp.Cholesky()).recalibrated(progress=False)
    found = model.simulate(GRID[:5], 4000, seed=1)
    prediction = model.predict(GRID[:5])
    assert found.guarantee.kind == "empirical"
    assert_allclose(np.quantile(found.fields, 0.9, axis=0), prediction.quantile(0.9), atol=0.1 * prediction.std.max())
    assert found.spread == pytest.approx(1, abs=0.05)
    plain = model.replace(margins=None).simulate(GRID[:5], 4000, seed=1).fields
    # the same fields, stretched: ranks stay
    assert_array_equal(plain.argsort(axis=0), found.fields.argsort(axis=0))


def test_each_field_of_a_mixture_is_one_of_a_component() -> None:
    components = [model_of(SCATTERED, cagp.Cholesky()), model_of(SCATTERED, cagp.NearestNeighbours(3))]
    mixture = cagp.Model([each.components[0] for each in components], [0.3, 0.7])
    fields = mixture.simulate(GRID, 60, seed=2).fields
    apart = [each.simulate(GRID, 60, seed=2).fields for each in components]
    same = np.array([[np.allclose(a, b) for a, b in zip(fields, own, strict=True)] for own in apart])
    assert (same.sum(axis=0) == 1).all()
    assert 0.5 < same[1].mean() < 0.9
    assert_allclose(mixture.simulate(GRID, 2, seed=2, first=50).fields, fields[50:52])
    assert_allclose(mixture.simulate(GRID, 60, seed=2).spread, 1, atol=0.1)


def test_bad_input_is_refused() -> None:
    model = model_of(SCATTERED, cagp.Cholesky())
    for wrong, match in (({"n": 0}, "n must"), ({"seed": -1}, "seed must"), ({"first": -1}, "first must")):
        with pytest.raises(InputError, match=match):
            model.simulate(GRID, **wrong)
    with pytest.raises(InputError, match="method must be one of"):
        model.simulate(GRID, method="spectral")
    with pytest.raises(MemoryBudgetError, match="fewer at a time"):
        model_of(SCATTERED, cagp.NearestNeighbours(8), memory_budget=400_000).simulate(GRID, 1000)

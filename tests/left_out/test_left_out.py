"""Left-out predictions against models that are conditioned on the rest, one by one."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cagp
from cagp.gram.neighbours import ScaledSearch
from cagp.left_out import Geometry, geometry, leave_out

KERNEL = cagp.Matern32(lengthscale=[0.3, 0.5], variance=2.0)


def _problem(n: int = 60, seed: int = 0, mean: cagp.Mean | None = None, noise: object = 0.1) -> tuple:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    y = np.sin(5 * X[:, 0]) + 3 * X[:, 1] + 0.3 * rng.standard_normal(n)
    return cagp.Prior(KERNEL, mean=mean or cagp.Zero(), noise_variance=noise), X, y


def _refitted(prior: cagp.Prior, X: np.ndarray, y: np.ndarray, i: int, kept: np.ndarray) -> tuple[float, float]:
    """Mean and std of observation i from those kept, by the exact model of them."""
    noise = prior.noise_variance
    own = cagp.Prior(prior.kernel, mean=prior.mean, noise_variance=noise[kept] if np.ndim(noise) else noise)
    post = own.condition(X[kept], y[kept], cagp.Cholesky()).predict(X[i : i + 1])
    post = post.observed(noise[i] if np.ndim(noise) else noise)
    return float(post.mean[0]), float(post.std[0])


@pytest.mark.parametrize("mean", [cagp.Zero(), cagp.Constant(2.0), cagp.Constant(), cagp.Polynomial(1)], ids=repr)
@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.NearestNeighbours(59)], ids=repr)
def test_each_is_predicted_by_the_model_of_the_others(mean: cagp.Mean, solver: cagp.Solver) -> None:
    prior, X, y = _problem(mean=mean)
    found = prior.condition(X, y, solver).left_out()
    assert found.index.tolist() == list(range(60))
    for i in (0, 17, 59):
        expected = _refitted(prior, X, y, i, np.arange(60) != i)
        np.testing.assert_allclose((found.mean[i], found.std[i]), expected, rtol=1e-8)
    np.testing.assert_allclose(found.z, (y - found.mean) / found.std)
    assert found.scores.rmse == pytest.approx(np.sqrt(np.mean((y - found.mean) ** 2)))


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.NearestNeighbours(59)], ids=repr)
def test_noise_of_each_observation(solver: cagp.Solver) -> None:
    noise = np.random.default_rng(1).uniform(0.01, 0.5, 60)
    prior, X, y = _problem(noise=noise)
    found = prior.condition(X, y, solver).left_out(n=5, seed=3)
    assert len(found) == 5
    for place, i in enumerate(found.index):
        expected = _refitted(prior, X, y, i, np.arange(60) != i)
        np.testing.assert_allclose((found.mean[place], found.std[place]), expected, rtol=1e-8)


@pytest.mark.parametrize("mean", [cagp.Zero(), cagp.Polynomial(1)], ids=repr)
@pytest.mark.parametrize("solver", ["cholesky", cagp.NearestNeighbours(83), cagp.CalibratedCG(40)], ids=repr)
def test_copies_are_left_out_together(mean: cagp.Mean, solver: cagp.Solver | str) -> None:
    prior, X, y = _problem(mean=mean)
    again = np.r_[np.arange(60), np.arange(20), np.arange(20, 23), 20]  # some are there thrice
    found = prior.condition(X[again], y[again], solver).left_out()
    assert "Copies of them were left out with them" in found.how
    assert found.short == "leave-one-out"
    for i in (0, 20, 40, 59):
        expected = _refitted(prior, X[again], y[again], i, again != i)
        np.testing.assert_allclose((found.mean[i], found.std[i]), expected, rtol=1e-7)
        here = np.flatnonzero(again == i)
        np.testing.assert_allclose(found.mean[here], expected[0], rtol=1e-7)


def test_other_solvers_leave_out_groups_or_say_who_stands_in() -> None:
    prior, X, y = _problem(200)
    exact = prior.condition(X, y, cagp.Cholesky()).left_out()
    found = prior.condition(X, y, cagp.CalibratedCG(60)).left_out()
    assert "5 groups" in found.how
    assert "CalibratedCG" in found.how
    # from four fifths of the data, so about as good
    assert 0.9 < found.std.mean() / exact.std.mean() < 1.3
    stand_ins = prior.condition(X, y, cagp.CalibratedCG(60)).left_out(like=X + 0.01)
    assert "stands in for a point to be predicted" in stand_ins.how


@given(st.integers(2, 30), st.integers(0, 10**6), st.sampled_from([0, 1]))
@settings(max_examples=25, deadline=None)
def test_z_is_standard_normal_under_the_prior(n: int, seed: int, degree: int) -> None:
    """Left-out errors have the promised covariance: y = L e gives z of unit variance, whatever the trend."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 1))
    mean = cagp.Polynomial(degree) if degree and n > 4 else cagp.Zero()
    prior = cagp.Prior(cagp.Matern32(lengthscale=0.4), mean=mean, noise_variance=0.3)
    G = prior.kernel(torch.from_numpy(X), torch.from_numpy(X)).numpy() + 0.3 * np.eye(n)
    L = np.linalg.cholesky(G)
    total = np.zeros(n)
    model = prior.condition(X, np.zeros(n), cagp.Cholesky())
    for column in L.T:  # Var z = Σ (z of the columns of L)²
        total += model.with_observations(column).left_out().z ** 2
    np.testing.assert_allclose(total, 1.0, rtol=1e-6)


def test_kernels_without_a_distance_and_repeated_points() -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((30, 3)), 2, axis=0)
    y = X[:, 0] + 0.1 * rng.standard_normal(60)
    prior = cagp.Prior(cagp.Linear(), noise_variance=0.1)
    for solver in (cagp.Cholesky(), cagp.NearestNeighbours(20)):
        found = prior.condition(X, y, solver).left_out()
        assert np.isfinite(found.z).all()
        np.testing.assert_array_equal(found.distance, 0.0)


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.NearestNeighbours(20), cagp.CalibratedCG()], ids=repr)
def test_a_category_that_occurs_once_is_not_judged_with_a_trend(solver: cagp.Solver) -> None:
    prior, X, y = _problem(mean=cagp.Polynomial(1))
    X = np.column_stack([X, np.arange(60) == 7])
    for scale in np.linspace(0.1, 1.0, 10):
        kernel = cagp.Matern32(lengthscale=[scale, scale, 1.0], variance=2.0)
        found = dataclasses.replace(prior, kernel=kernel).condition(X, y, solver).left_out()
        assert found.index.tolist() == [*range(7), *range(8, 60)]
        assert found.std.max() < 2
        assert "1 is left out of the result" in found.how


def test_bad_input() -> None:
    prior, X, y = _problem(10)
    model = prior.condition(X, y, cagp.Cholesky())
    with pytest.raises(cagp.InputError, match="n is 11, and there are 10"):
        model.left_out(n=11)
    with pytest.raises(cagp.InputError, match="like"):
        model.left_out(like=np.zeros((3, 5)))
    with pytest.raises(cagp.InputError, match="one observation cannot"):
        prior.condition(X[:1], y[:1], cagp.Cholesky()).left_out()


def test_plot() -> None:
    prior, X, y = _problem(40)
    axes = prior.condition(X, y, cagp.Cholesky()).left_out().plot()
    assert axes[2].get_ylabel() == "z = error / std"


def test_a_tree_of_other_lengthscales_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    prior, X, y = _problem(80)
    first, rows = prior.condition(X, y, cagp.NearestNeighbours(8)), np.arange(0, 80, 4)
    other = dataclasses.replace(prior, kernel=cagp.Matern12((0.4, 0.9))).condition(X, y, cagp.NearestNeighbours(8))
    alone = leave_out(other, rows)
    monkeypatch.setattr(geometry, "_SHARED_FROM", 0)
    known = Geometry(first.components[0])
    assert isinstance(Geometry(other.components[0], known).search, ScaledSearch)
    shared = leave_out(other, rows, another=known)
    np.testing.assert_allclose(shared.mean, alone.mean, rtol=1e-9)
    np.testing.assert_allclose(shared.std, alone.std, rtol=1e-9)

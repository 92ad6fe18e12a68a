"""Joint draws of the prior: the map from white noise, given the unit matrix, shows its covariance without any luck."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

import cagp
from cagp.errors import InputError, MemoryBudgetError
from cagp.fields.circulant import circulant_draws
from cagp.fields.prior_draws import PriorDraws
from cagp.fields.simulation import prior_draws
from cagp.fields.vecchia_draws import VecchiaDraws

BUDGET = 2**30


def matern32(A: np.ndarray, lengthscale: float) -> np.ndarray:
    r = np.sqrt(3) * cdist(A, A) / lengthscale
    return (1 + r) * np.exp(-r)


def grid(rows: int, columns: int) -> np.ndarray:
    axes = np.meshgrid(np.linspace(2, 3, columns), np.linspace(-1, 1, rows))
    return np.stack(axes, axis=-1).reshape(-1, 2)


def covariance_of(draws: PriorDraws) -> np.ndarray:
    """R Rᵀ, where R are the draws from the unit matrix."""
    root = draws(torch.eye(draws.noises, dtype=torch.float64)).numpy()
    return root.T @ root


def draws_at(kernel: cagp.Kernel, X: np.ndarray, method: str) -> PriorDraws:
    return prior_draws(kernel, torch.from_numpy(X), method, BUDGET)


@pytest.mark.parametrize("method", ["dense", "circulant"])
def test_exact_ways_have_the_covariance_of_the_prior(method: str) -> None:
    some = np.random.default_rng(0).permutation(12 * 9)[:70]  # the points need not fill the grid
    X = grid(12, 9)[some]
    draws = draws_at(cagp.Matern32(0.2), X, method)
    assert draws.exact
    assert "exact" in draws.how
    assert_allclose(covariance_of(draws), matern32(X, 0.2), atol=1e-11)


def test_circulant_draws_of_sums_and_products_on_columns() -> None:
    X = grid(6, 7)
    kernel = cagp.Matern12(0.1).on(0) * cagp.Matern32(0.2).on(1) + cagp.Matern52(0.15, variance=0.5)
    assert_allclose(covariance_of(draws_at(kernel, X, "circulant")), kernel(X), atol=1e-11)


@pytest.mark.parametrize("shape", [(6, 7), (5, 8)])
def test_circulant_draws_of_turned_axes(shape: tuple[int, int]) -> None:
    X = grid(*shape)
    kernel = cagp.Rotated(cagp.Matern32((0.3, 0.1)), 35.0)
    assert_allclose(covariance_of(draws_at(kernel, X, "circulant")), kernel(X), atol=1e-11)


def test_circulant_draws_refuse_what_does_not_suit() -> None:
    X = torch.from_numpy(grid(12, 12))
    scattered = torch.from_numpy(np.random.default_rng(0).random((144, 2)))
    for kernel, points, reason in (
        (cagp.Geographic(cagp.Matern32(0.2)), X, "differences"),
        (cagp.Linear() + cagp.Matern32(0.2), X, "differences"),
        (cagp.Matern32(0.2), scattered, "regular grid"),
        (cagp.RationalQuadratic(2.0, alpha=0.1), X, "negative eigenvalues"),
    ):
        found, why = circulant_draws(kernel, points, BUDGET)
        assert found is None
        assert reason in why
    with pytest.raises(InputError, match="regular grid"):
        prior_draws(cagp.Matern32(0.2), scattered, "circulant", BUDGET)
    with pytest.raises(MemoryBudgetError, match="fewer points"):
        prior_draws(cagp.Matern32(0.2), scattered, "dense", 1000)


def test_negative_eigenvalues_are_told() -> None:
    X = torch.from_numpy(np.linspace(0, 1, 60)[:, None])
    found, _ = circulant_draws(cagp.Matern52(0.8), X, BUDGET)
    assert found is not None
    if not found.exact:
        assert "at most" in found.how
    assert_allclose(covariance_of(found), cagp.Matern52(0.8)(X.numpy()), atol=2e-4)


def test_with_all_points_before_it_the_vecchia_process_is_exact() -> None:
    X = np.random.default_rng(1).random((80, 2))
    kernel = cagp.Matern32(0.3)
    points = torch.from_numpy(X)
    draws = VecchiaDraws(kernel, kernel.embed(points, points.mean(dim=0)), k=79)
    assert_allclose(covariance_of(draws), matern32(X, 0.3), atol=1e-10)
    assert draws.largest_error < 1e-9


def test_the_vecchia_process_says_how_good_it_is() -> None:
    X = np.concatenate([grid(20, 20), np.random.default_rng(2).uniform([2, -1], [3, 0], (300, 2))])
    draws = prior_draws(cagp.Matern32(0.3), torch.from_numpy(X), "vecchia", BUDGET)
    assert isinstance(draws, VecchiaDraws)
    error = np.abs(covariance_of(draws) - matern32(X, 0.3))
    assert not draws.exact
    assert draws.largest_error <= error.max() + 1e-12
    assert draws.largest_error > 0.2 * error.max()
    assert 0.5 < draws.typical_error / np.sqrt(np.mean(error**2)) < 2
    assert error.max() < 0.04
    assert f"{draws.typical_error:.1g} of the variance" in draws.how


def test_variograms_of_unconditional_draws() -> None:
    X = grid(25, 25)
    draws = prior_draws(cagp.Matern32(0.3), torch.from_numpy(X), "vecchia", BUDGET)
    fields = draws(torch.from_numpy(np.random.default_rng(3).standard_normal((400, 625)))).numpy().reshape(-1, 25, 25)
    for lag in (1, 2, 5):
        found = 0.5 * np.mean((fields[:, :, lag:] - fields[:, :, :-lag]) ** 2)
        r = np.sqrt(3) * lag / 24 / 0.3
        assert_allclose(found, 1 - (1 + r) * np.exp(-r), rtol=0.05)


def test_points_that_are_the_same_have_the_same_value() -> None:
    latitude, longitude = np.meshgrid([90.0, 45.0, -90.0], [0.0, 120.0, 240.0, 360.0], indexing="ij")
    X = np.column_stack([latitude.ravel(), longitude.ravel()])
    kernel = cagp.Geographic(cagp.Matern32(0.5))
    for method in ("dense", "vecchia"):
        draws = draws_at(kernel, X, method)
        assert draws.noises == 5
        fields = draws(torch.from_numpy(np.random.default_rng(0).standard_normal((3, 5)))).numpy().reshape(3, 3, 4)
        assert (fields[:, 0] == fields[:, 0, :1]).all()
        assert (fields[:, 1, 0] == fields[:, 1, 3]).all()
        assert_allclose(covariance_of(draws), kernel(X), atol=1e-7)


def test_smooth_kernels_are_drawn_too() -> None:
    X = np.linspace(0, 1, 150)[:, None]
    for method in ("dense", "vecchia"):
        draws = draws_at(cagp.RBF(0.3), X, method)
        assert_allclose(covariance_of(draws), cagp.RBF(0.3)(X), atol=2e-3)
    assert "nugget" in draws.how


def test_a_single_point() -> None:
    for method in ("dense", "vecchia"):
        assert_allclose(covariance_of(draws_at(cagp.Matern32(0.3, variance=2.0), np.zeros((1, 2)), method)), [[2.0]])


def test_the_way_is_chosen_by_the_points() -> None:
    many = grid(60, 60)
    scattered = np.random.default_rng(0).random((2600, 2))
    assert draws_at(cagp.Matern32(0.2), grid(5, 5), "auto").method == "dense"
    assert draws_at(cagp.Matern32(0.2), many, "auto").method == "circulant"
    assert draws_at(cagp.Matern32(0.2), scattered, "auto").method == "vecchia"

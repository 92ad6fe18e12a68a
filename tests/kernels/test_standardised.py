"""One lengthscale for columns of different units, each divided by its spread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cagp
from cagp.errors import InputError, InputTypeError
from cagp.hyperparameters import log_likelihood

SPREADS = (1e5, 0.3, 7.0)


def data(n: int = 60, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    return Z, np.sin(Z[:, 0]) + Z[:, 1] + 0.1 * rng.normal(size=n)


def priors(kernel: cagp.Kernel) -> tuple[cagp.Prior, cagp.Prior]:
    both = cagp.Standardised(kernel, SPREADS), kernel
    return tuple(cagp.Prior(each, noise_variance=0.01) for each in both)  # type: ignore[return-value]


@pytest.mark.parametrize("kernel", [cagp.Matern32(1.5), cagp.RBF(2.0) + cagp.Matern12((1.0, 2.0, 3.0))])
def test_it_is_the_kernel_on_divided_columns(kernel: cagp.Kernel) -> None:
    Z, y = data()
    X = Z * SPREADS
    np.testing.assert_allclose(cagp.Standardised(kernel, SPREADS)(X, X[:9]), kernel(Z, Z[:9]), rtol=1e-12, atol=1e-14)
    own, plain = priors(kernel)
    assert log_likelihood(own, X, y) == pytest.approx(log_likelihood(plain, Z, y), rel=1e-10)
    for solver in (cagp.Cholesky(), cagp.NearestNeighbours(20)):
        found, expected = (p.condition(A, y, solver).predict(A[:7] + 0.0) for p, A in ((own, X), (plain, Z)))
        np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-8)
        np.testing.assert_allclose(found.std, expected.std, rtol=1e-8)


@pytest.mark.parametrize("likelihood", ["exact", "nearest-neighbours"])
def test_it_is_fitted_like_divided_columns(likelihood: Any) -> None:
    Z, y = data(200)
    own, plain = priors(cagp.Matern32(1.0))
    options: dict[str, Any] = {"likelihood": likelihood, "seed": 0, "progress": False}
    found, expected = (cagp.hyperparameters.fit(p, A, y, **options) for p, A in ((own, Z * SPREADS), (plain, Z)))
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-5)
    assert found.values["kernel.kernel.lengthscale"] == pytest.approx(expected.values["kernel.lengthscale"], rel=0.01)


def test_slopes_are_those_of_the_divided_columns() -> None:
    Z, y = data()
    own, plain = (p.condition(A, y) for p, A in zip(priors(cagp.Matern52(1.5)), (Z * SPREADS, Z), strict=True))
    found, expected = own.gradient(Z[:5] * SPREADS), plain.gradient(Z[:5])
    np.testing.assert_allclose(found.mean * SPREADS, expected.mean, rtol=1e-6)


def test_it_is_saved_and_draws_on_grids(tmp_path: Path) -> None:
    grid = np.stack(np.meshgrid(np.arange(12.0) * 1e5, np.arange(10.0) * 0.3, indexing="ij"), axis=-1).reshape(-1, 2)
    prior = cagp.Prior(cagp.Standardised(cagp.Matern32(2.0), (1e5, 0.3)), noise_variance=0.01)
    model = prior.condition(grid[::7], np.sin(grid[::7, 1]))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(cagp.load(tmp_path / "model").predict(grid).mean, model.predict(grid).mean)
    draws = prior.sample(grid, 400, 0)
    assert np.cov(draws.T) == pytest.approx(prior.kernel(grid), abs=0.35)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="Standardised has 3 spreads, the points have 2 columns"):
        cagp.Standardised(cagp.Matern32(1.0), SPREADS)(np.zeros((2, 2)))
    with pytest.raises(InputError, match="spreads must be"):
        cagp.Standardised(cagp.Matern32(1.0), (1.0, 0.0))
    with pytest.raises(InputError, match="spreads must be one number for each column"):
        cagp.Standardised(cagp.Matern32(1.0), ())
    with pytest.raises(InputTypeError, match="Standardised wraps a kernel"):
        cagp.Standardised(3.0, (1.0,))  # type: ignore[arg-type]


def table(n: int, columns: int, units: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, columns))
    return Z * units, 3 * Z[:, 0] - 2 * Z[:, 1] + 0.5 * rng.normal(size=n)


@pytest.mark.parametrize("n", [30, 90])
def test_a_table_of_few_rows_is_learned_whatever_its_units_are(n: int) -> None:
    units = 10.0 ** np.random.default_rng(1).uniform(-3, 6, 12)
    X, y = table(n + 300, 12, units, 0)
    model = cagp.fit(X[:n], y[:n], progress=False)
    error = model.predict(X[n:]).mean - y[n:]
    assert 1 - np.square(error).mean() / y[n:].var() > 0.8
    assert "All columns share one lengthscale, each divided by its spread" in " ".join(model.story.split())
    alike = cagp.fit(X[:n] / units, y[:n], progress=False)
    assert "divided by its spread" not in alike.story
    beside = alike.predict(X[n:] / units).mean - y[n:]
    assert np.square(beside).mean() == pytest.approx(np.square(error).mean(), rel=0.2)


def test_coordinates_of_few_places_are_not_divided() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((15, 2)) * (40_000.0, 9_000.0)
    model = cagp.fit(X, np.sin(X[:, 0] / 9_000) + 0.1 * rng.normal(size=15), progress=False)
    assert "divided by its spread" not in model.story


def test_a_rare_category_is_not_far_from_all() -> None:
    X = np.column_stack([np.random.default_rng(0).normal(size=(80, 9)), np.arange(80) < 1, np.full(80, 2.0)])
    X[:, 0] *= 1e4
    [group] = cagp.hyperparameters.starting_prior.column_groups(X, each=False)
    assert group.spreads[9:] == (0.25, 1.0)


def test_a_constant_column_is_no_unit() -> None:
    """The standard deviation of fifteen times 0.1 is 3e-17."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random((15, 2)), np.full(15, 0.1)])
    [group] = cagp.hyperparameters.starting_prior.column_groups(X, each=False)
    assert group.spreads == ()
    [group] = cagp.hyperparameters.starting_prior.column_groups(X)
    assert group.lengthscale[2] > 0.5  # type: ignore[index]


def test_the_story_says_which_columns_share_one_and_why() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) * (1.0, 1e4, 1e-3)
    asked = " ".join(cagp.fit(X, X[:, 0] + 0.1 * rng.normal(size=60), ard=False, progress=False).story.split())
    assert "All columns share one lengthscale, each divided by its spread: they are not measured alike." in asked
    places = np.column_stack([rng.uniform(40, 60, 14), rng.uniform(-10, 30, 14), X[:14]])
    model = cagp.fit(places, places[:, 0] + 0.1 * rng.normal(size=14), globe=(0, 1), progress=False)
    assert "x2, x3 and x4 share one lengthscale" in " ".join(model.story.split())

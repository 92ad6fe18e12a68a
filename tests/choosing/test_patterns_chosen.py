"""Patterns are taken where they predict left-out observations better, by every door."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cagp
from cagp.estimator import CAGPRegressor

HOW = {"mean": "constant", "uncertainty": False, "mixture": False, "recalibrate": False}
FAST = {"kernel": "matern32", "transform": None, "progress": False, **HOW}


def problem(noise: np.ndarray | float, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.sort(rng.random((n, 1)), axis=0)
    return X, np.sin(8 * X[:, 0]) + noise * rng.normal(size=n)


X, _ = problem(0.0)
LEVEL = np.where(X[:, 0] < 0.5, 0.03, 0.5)
_, Y = problem(LEVEL)


@pytest.fixture(scope="module")
def fitted() -> cagp.Model:
    return cagp.fit(X, Y, **FAST)


def test_noise_that_varies_is_found(fitted: cagp.Model, tmp_path: Path) -> None:
    assert "matern32, constant, varying" in fitted.record.text
    std = fitted.predict(X, progress=False).observed().std
    assert_allclose(np.median(std[LEVEL < 0.1]), 0.03, rtol=0.6)
    assert_allclose(np.median(std[LEVEL > 0.1]), 0.5, rtol=0.25)
    fitted.save(tmp_path / "model")
    assert_allclose(cagp.load(tmp_path / "model").predict(X).observed().std, std)


def test_not_where_it_does_not_or_is_not_wanted() -> None:
    even = cagp.fit(*problem(0.2), **FAST)
    assert even.prior.noise_pattern is None
    assert not isinstance(even.prior.kernel, cagp.Varying)
    assert "were not tried, because they would raise the log-likelihood by no more than about" in even.record.text
    tried = cagp.fit(*problem(0.2), varying=True, **FAST)
    assert "matern32, constant, varying noise" in tried.record.text
    assert tried.prior.noise_pattern is None
    assert "varying" not in cagp.fit(X, Y, varying=False, **FAST).record.text
    assert "varying" not in cagp.fit(X, Y, noise_variance=0.1, **FAST).record.text
    with pytest.raises(cagp.InputError, match="varying must be True, False or"):
        cagp.fit(X, Y, varying="yes", **FAST)


def test_known_noise_leaves_the_amplitude() -> None:
    found = cagp.fit(X, Y, noise_variance=LEVEL**2, varying=True, **FAST)
    assert "Varying amplitude was tried and left out" in found.record.text
    assert "Varying noise" not in found.record.text
    assert "amplitude and noise" not in found.record.text


def test_the_estimator_has_the_noise_of_each_place(fitted: cagp.Model) -> None:
    regressor = CAGPRegressor("matern32", target_transform=None, **HOW)
    regressor.fit(X, Y)
    mean, std = regressor.predict(X[::30], return_std=True, of="observed")
    expected = fitted.predict(X[::30], progress=False).observed()
    assert_allclose(mean, expected.mean, rtol=1e-9)
    assert_allclose(std, expected.std, rtol=1e-9)
    _, covariance = regressor.predict(X[::30], return_cov=True, of="observed")
    assert_allclose(np.diag(covariance) ** 0.5, std, rtol=1e-9)

"""Three of scikit-learn's published examples, with CAGPRegressor in the place of GaussianProcessRegressor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Kernel, RationalQuadratic, WhiteKernel

from cagp.estimator import CAGPRegressor
from optima import assert_optimum


def compare(kernel: Kernel, X: np.ndarray, y: np.ndarray, X_new: np.ndarray, known: list[float], **options: Any) -> Any:
    """Fitted by cagp alone; at the hyperparameters that it found scikit-learn says the same, and finds none better."""
    ours = CAGPRegressor(kernel, **options).fit(X, y)
    options = {name: value for name, value in options.items() if name == "alpha"}
    theirs = GaussianProcessRegressor(ours.kernel_, optimizer=None, **options).fit(X, y)
    assert_allclose(ours.log_marginal_likelihood_value_, theirs.log_marginal_likelihood_value_, atol=1e-6)
    for found, expected in zip(*(each.predict(X_new, return_std=True) for each in (ours, theirs)), strict=True):
        assert_allclose(found, expected, atol=1e-5 * y.std())
    assert_optimum(theirs, ours.kernel_.theta, known)
    return ours, theirs


@pytest.mark.parametrize(("noise", "known"), [(0.0, [3.2277, 0.3602]), (0.75, [2.9071, 0.0993])])
def test_introduction(noise: float, known: list[float]) -> None:
    x = np.linspace(0, 10, 1000)[:, None]
    rng = np.random.RandomState(1)
    chosen = rng.choice(1000, size=6, replace=False)
    y = np.ravel(x * np.sin(x))[chosen] + noise * rng.normal(size=6)
    kernel = 1 * RBF(length_scale=1.0, length_scale_bounds=(1e-2, 1e2))
    alpha = noise**2 if noise else 1e-10
    ours, _ = compare(kernel, x[chosen], y, x[::20], known, alpha=alpha, n_restarts_optimizer=9)
    assert_allclose(ours.kernel_.theta, known, atol=1e-2)


@pytest.mark.filterwarnings("ignore::cagp.hyperparameters.FitWarning")
@pytest.mark.parametrize(
    ("length", "level", "known"), [(10.0, 1.0, [-0.5403, 6.9077, -0.6452]), (0.1, 0.01, [0.1030, -0.5638, -2.0124])]
)
def test_noise_level(length: float, level: float, known: list[float]) -> None:
    """Two starts, two optima: all noise, or a signal and some noise."""
    X = np.random.RandomState(0).uniform(0, 5, size=20)[:, None]
    y = 0.5 + np.sin(3 * X[:, 0]) + np.random.RandomState(1).normal(0, 0.3, size=20)
    kernel = 1.0 * RBF(length, (1e-2, 1e3)) + WhiteKernel(level, (1e-10, 1e1))
    ours, theirs = compare(kernel, X, y, np.linspace(0, 5, 30)[:, None], known, alpha=0.0)
    assert_allclose(ours.kernel_.theta, known, atol=1e-2)
    theta = np.log([2.0, 0.5, 0.1])
    assert_allclose(ours.log_marginal_likelihood(theta), theirs.log_marginal_likelihood(theta), rtol=1e-10)


@pytest.mark.filterwarnings("ignore::cagp.hyperparameters.FitWarning")
def test_carbon_dioxide() -> None:
    """Long trend, season, irregularities and two kinds of noise, on ten years of made-up monthly values.

    The short RBF and the white noise are the same thing at monthly points, so their shares are anybody's guess.
    """
    X = 1958 + np.arange(120)[:, None] / 12
    x, rng = X[:, 0] - 1958, np.random.RandomState(0)
    y = 1.1 * x + 0.02 * x**2 + 3 * np.sin(2 * np.pi * x) + 0.8 * np.sin(4 * np.pi * x + 0.3) + 0.5 * np.sin(x)
    y += rng.normal(0, 0.2, size=120)
    kernel = (
        50.0**2 * RBF(length_scale=50.0)
        + 2.0**2 * RBF(length_scale=100.0) * ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed")
        + 0.5**2 * RationalQuadratic(length_scale=1.0, alpha=1.0)
        + 0.1**2 * RBF(length_scale=0.1)
        + WhiteKernel(noise_level=0.1**2, noise_level_bounds=(1e-5, 1e5))
    )
    known = [5.463, 2.8716, 4.4924, 11.5129, 1.2308, -0.2322, 11.5129, 0.8147, -4.7798, -7.6736, -3.4832]
    ours, _ = compare(kernel, X, y - y.mean(), np.linspace(1958, 1970, 60)[:, None], known)
    assert ours.kernel_.get_params()["k1__k1__k1__k2__k2__periodicity"] == 1.0
    assert_allclose(ours.kernel_.theta[:8], known[:8], atol=0.05)

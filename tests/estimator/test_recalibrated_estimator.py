"""``CAGPRegressor(recalibrate=…)``, and MAPIE and crepes on top of the estimator."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from crepes import ConformalPredictiveSystem
from mapie.conformity_scores.bounds.std_normalised import StdConformityScore
from mapie.regression import SplitConformalRegressor
from scipy.stats import norm
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import cagp
from cagp.errors import InputError
from cagp.estimator import CAGPRegressor

NARROW: dict[str, Any] = {"kernel": cagp.Matern32(0.4), "noise_variance": 1e-4, "optimizer": None}
"""Far too little noise for the data below."""


def world(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, 5 + np.sin(6 * X[:, 0]) + 0.2 * rng.normal(size=n)


X, Y = world(200, 0)
X_TEST, Y_TEST = world(500, 1)


def test_standard_deviations_and_intervals_are_those_of_the_recalibrated_model() -> None:
    regressor = CAGPRegressor(**NARROW, mean=5.0, recalibrate=True).fit(X, Y)
    model = cagp.Prior(cagp.Matern32(0.4), mean=5.0, noise_variance=1e-4).condition(X, Y).recalibrated()
    expected = model.predict(X_TEST)
    mean, std = regressor.predict(X_TEST, return_std=True)
    np.testing.assert_allclose(mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(std, expected.std, rtol=1e-9)
    _, observed = regressor.predict(X_TEST, return_std=True, of="observed")
    np.testing.assert_allclose(observed, expected.observed().std, rtol=1e-9)
    for of, meant in (("observed", expected.observed()), ("latent", expected)):
        found = regressor.predict_interval(X_TEST, 0.8, of=of)
        np.testing.assert_allclose(found, meant.interval(0.8), rtol=1e-7)
    assert "error bars are recalibrated" in regressor.fit_message_


def test_means_do_not_change_and_covariances_agree_with_standard_deviations() -> None:
    plain, mended = (CAGPRegressor(**NARROW, recalibrate=each).fit(X, Y) for each in (False, True))
    np.testing.assert_array_equal(plain.predict(X_TEST), mended.predict(X_TEST))
    for of in ("latent", "observed"):
        mean, covariance = mended.predict(X_TEST[:20], return_cov=True, of=of)
        _, std = mended.predict(X_TEST[:20], return_std=True, of=of)
        np.testing.assert_allclose(np.diag(covariance), std**2, rtol=1e-9)
        _, before = plain.predict(X_TEST[:20], return_cov=True, of=of)
        scale = np.sqrt(np.diag(before))
        correlation = covariance / np.outer(std, std)
        np.testing.assert_allclose(correlation, before / np.outer(scale, scale), atol=1e-9)
    lower, upper = plain.predict_interval(X_TEST, 0.95, of="latent")
    mean, std = plain.predict(X_TEST, return_std=True)
    np.testing.assert_allclose([lower, upper], [mean - 1.959964 * std, mean + 1.959964 * std], rtol=1e-6)


def test_auto_mends_what_is_wrong_and_nothing_else() -> None:
    wrong = CAGPRegressor(**NARROW, recalibrate="auto").fit(X, Y)
    assert wrong.models_[0].margins is not None
    assert "The error bars are recalibrated" in wrong.fit_message_
    right = CAGPRegressor(cagp.Matern52(0.5), noise_variance=0.04, mean=5.0, recalibrate="auto").fit(X, Y)
    assert right.models_[0].margins is None
    assert "stay as they are" in right.fit_message_
    few = CAGPRegressor(**NARROW, recalibrate="auto").fit(X[:10], Y[:10])
    assert "10 observations are too few" in few.fit_message_
    with pytest.raises(InputError, match="at least 20"):
        CAGPRegressor(**NARROW, recalibrate=True).fit(X[:10], Y[:10])
    with pytest.raises(InputError, match="recalibrate must be"):
        CAGPRegressor(**NARROW, recalibrate=3).fit(X, Y)


def test_each_output_by_itself() -> None:
    rng = np.random.default_rng(4)
    both = np.column_stack([Y, 3 * np.cos(4 * X[:, 1]) + 0.01 * rng.normal(size=len(X))])
    together = CAGPRegressor(**NARROW, recalibrate=True, normalize_y=True).fit(X, both)
    mean, std = together.predict(X_TEST, return_std=True, of="observed")
    lower, upper = together.predict_interval(X_TEST, 0.9)
    assert mean.shape == std.shape == lower.shape == upper.shape == (500, 2)
    for j in range(2):
        alone = CAGPRegressor(**NARROW, recalibrate=True, normalize_y=True).fit(X, both[:, j])
        np.testing.assert_allclose(std[:, j], alone.predict(X_TEST, return_std=True, of="observed")[1], rtol=1e-6)
        np.testing.assert_allclose(lower[:, j], alone.predict_interval(X_TEST, 0.9)[0], rtol=1e-6, atol=1e-6)
    covariance = together.predict(X_TEST[:5], return_cov=True)[1]
    np.testing.assert_allclose(
        np.diagonal(covariance).T, together.predict(X_TEST[:5], return_std=True)[1] ** 2, rtol=1e-6
    )


def test_exceedance_in_the_units_of_y() -> None:
    """Of scaled outputs: one threshold, one for each point, one for each point and output; beside the normal law."""
    both = np.column_stack([Y, 100 * Y - 300])
    found = CAGPRegressor(**{**NARROW, "noise_variance": 0.1}, normalize_y=True).fit(X, both)
    mean, std = found.predict(X_TEST, return_std=True, of="observed")
    each, high = mean[:, 0] + 0.3, mean + np.array([0.2, -30.0])
    for threshold, whole in ((5.5, np.full_like(mean, 5.5)), (each, np.column_stack([each, each])), (high, high)):
        expected = norm.sf(whole, mean, std)
        np.testing.assert_allclose(found.predict_exceedance(X_TEST, threshold), expected, rtol=1e-6, atol=1e-12)
    latent = found.predict_exceedance(X_TEST, high, of="latent")
    assert (np.abs(latent - 0.5) > np.abs(found.predict_exceedance(X_TEST, high) - 0.5)).all()
    alone = CAGPRegressor(**NARROW).fit(X, Y)
    assert alone.predict_exceedance(X_TEST, 5.0).shape == (500,)
    with pytest.raises(InputError, match=r"threshold has shape \(3,\) for 500 points and 1 outputs"):
        alone.predict_exceedance(X_TEST, [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="threshold"):
        alone.predict_exceedance(X_TEST, np.nan)


def test_noise_in_the_kernel_cloning_and_pickling() -> None:
    kernel = RBF(0.4, "fixed") + WhiteKernel(1e-3, "fixed")
    regressor = CAGPRegressor(kernel, recalibrate=True, normalize_y=True)
    assert clone(regressor).recalibrate is True
    fitted = pickle.loads(pickle.dumps(regressor.fit(X, Y)))
    np.testing.assert_array_equal(fitted.predict_interval(X_TEST), regressor.predict_interval(X_TEST))
    with_noise, latent = (fitted.predict(X_TEST, return_std=True, of=of)[1] for of in (None, "latent"))
    assert (with_noise > latent).all()


def coverage(lower: np.ndarray, upper: np.ndarray) -> float:
    return float(((lower <= Y_TEST) & (upper >= Y_TEST)).mean())


@pytest.mark.parametrize("recalibrate", [False, True])
@pytest.mark.parametrize("score", ["absolute", StdConformityScore()], ids=["absolute", "std"])
def test_mapie(recalibrate: bool, score: Any) -> None:
    X_cal, Y_cal = world(300, 2)
    regressor = CAGPRegressor(**NARROW, recalibrate=recalibrate).fit(X, Y)
    on_top = SplitConformalRegressor(regressor, confidence_level=0.9, conformity_score=score, prefit=True)
    _, intervals = on_top.conformalize(X_cal, Y_cal).predict_interval(X_TEST)
    assert coverage(intervals[:, 0, 0], intervals[:, 1, 0]) == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("recalibrate", [False, True])
def test_crepes(recalibrate: bool) -> None:
    X_cal, Y_cal = world(300, 2)
    regressor = CAGPRegressor(**NARROW, recalibrate=recalibrate).fit(X, Y)
    mean, std = regressor.predict(X_cal, return_std=True, of="observed")
    on_top = ConformalPredictiveSystem().fit(Y_cal - mean, std)
    mean, std = regressor.predict(X_TEST, return_std=True, of="observed")
    intervals = on_top.predict_int(mean, sigmas=std, confidence=0.9)
    assert coverage(intervals[:, 0], intervals[:, 1]) == pytest.approx(0.9, abs=0.05)

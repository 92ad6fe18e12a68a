"""Counts that are mostly 0: means stay where observations have been, whatever the transform and the tails learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cagp
from cagp.calibration import evaluate
from cagp.estimator import CAGPRegressor
from cagp.prediction import Prediction

QUICK: dict[str, Any] = {"kernel": "matern32", "uncertainty": False, "varying": False}


def counts(seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Overdispersed counts in ten columns, some 85% of them 0 and the largest 8 or 9: n to fit, 200 to predict."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 200, 10))
    rate = np.exp(X[:, :3] @ [1.1, 0.8, -0.5] - 2.6) * rng.gamma(0.7, 1 / 0.7, n + 200)
    y = rng.poisson(rate).astype(float)
    return X[:n], y[:n], X[n:], y[n:]


def rmse(mean: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((mean - truth) ** 2)))


def within_what_was_seen(prediction: Prediction, y: np.ndarray) -> None:
    low, high = prediction.interval(0.99)
    assert (high >= 0).all()
    assert (low <= y.max()).all()
    assert prediction.mean.min() > -0.2 * y.max()
    assert prediction.mean.max() < 1.2 * y.max()
    assert np.isfinite(prediction.std).all()


@pytest.mark.parametrize("seed", [1, 2])
def test_means_stay_where_observations_have_been(seed: int) -> None:
    X, y, test, truth = counts(seed)
    model = cagp.fit(X, y, progress=False, **QUICK)
    assert "root mean square error" in model.record.text
    for prediction in (model.predict(test), model.predict(test).observed()):
        within_what_was_seen(prediction, y)
    mean = CAGPRegressor(**QUICK).fit(X, y).predict(test)
    np.testing.assert_allclose(mean, model.predict(test).observed().mean, rtol=1e-6)
    assert rmse(mean, truth) < 2 * rmse(np.full(200, y.mean()), truth)  # 9 to 13 times before


@pytest.mark.parametrize("recalibrate", [True, False])
def test_also_with_a_transform_by_name(recalibrate: bool) -> None:
    X, y, test, _ = counts(2)
    regressor = CAGPRegressor(**QUICK, target_transform="box-cox", recalibrate=recalibrate).fit(X, y)
    assert "as asked for" in regressor.fit_message_
    mean, std = regressor.predict(test, return_std=True)
    assert (mean >= 0).all()
    assert (mean - std <= y.max()).all()
    assert mean.max() < 2 * y.max()
    assert np.isfinite(std).all()


def test_also_where_a_prior_is_recalibrated_by_hand(tmp_path: Any) -> None:
    X, y, test, _ = counts(2)
    prior = cagp.Prior(cagp.Matern32(4.0), mean=cagp.means.Polynomial(1), noise_variance=0.4)
    model = prior.transformed(cagp.transforms.BoxCox(0.0, 0.5)).condition(X, y).recalibrated(progress=False)
    within_what_was_seen(model.predict(test).observed(), y)
    loaded: Any = cagp.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(test).mean, model.predict(test).mean)


def test_long_tails_that_a_transform_multiplies_are_not_learned() -> None:
    X, y, test, truth = counts(2)
    options = {**QUICK, "transform": cagp.transforms.BoxCox(0.0, 0.1), "progress": False}
    model = cagp.fit(X, y, **options)
    assert "A recalibration was tried and left out, since its long tails" in model.record.text
    kept, learned = model.predict(test).observed(), model.recalibrated(progress=False).predict(test).observed()
    assert kept.quantile(0.975).max() < 10 * y.max() < learned.quantile(0.975).max()
    scores, other = (evaluate(each, truth, "observed") for each in (kept, learned))
    assert scores.crps < other.crps
    assert "recalibrated" in cagp.fit(X, y, recalibrate=True, **options).story

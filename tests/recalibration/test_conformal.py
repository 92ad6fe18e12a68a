"""Split conformal prediction: crepes' intervals, the coverage it promises, and every way in and out."""

from __future__ import annotations

from pathlib import Path

import joblib
import numpy as np
import pytest
import torch
from crepes import ConformalPredictiveSystem

import cagp
from cagp.recalibration import Conformal

RNG = np.random.default_rng(1)


def world(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Heavy tails that grow to the east."""
    X = rng.random((n, 2))
    return X, np.sin(6 * X[:, 0]) + (0.05 + X[:, 0]) * 0.3 * rng.standard_t(2, size=n)


X, Y = world(150, RNG)
X_CAL, Y_CAL = world(99, RNG)
X_TEST, Y_TEST = world(400, RNG)
WRONG = cagp.Prior(cagp.RBF(0.1, 4.0), noise_variance=1e-4).condition(X, Y, "cholesky")
"""Far too short, far too little noise."""


def conformal_alone(X: np.ndarray, y: np.ndarray) -> cagp.Model:
    """Intervals of calibration observations alone, without a recalibration."""
    return WRONG.replace(margins=Conformal(np.sort(WRONG.predict(X).observed().normal_score(y))))


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_intervals_are_those_of_crepes(level: float) -> None:
    """Of 97 observations, so that no rank is whole: where one is, theirs may be rounded to the next."""
    model = conformal_alone(X_CAL[:97], Y_CAL[:97])
    here, there = WRONG.predict(X_CAL[:97]).observed(), WRONG.predict(X_TEST).observed()
    theirs = ConformalPredictiveSystem().fit(Y_CAL[:97] - here.mean, here.std)
    expected = theirs.predict_int(there.mean, sigmas=there.std, confidence=level)
    lower, upper = model.predict(X_TEST).observed().interval(level)
    np.testing.assert_allclose(lower, expected[:, 0], rtol=1e-9)
    np.testing.assert_allclose(upper, expected[:, 1], rtol=1e-9)
    assert np.isfinite(upper).all()


def test_an_error_of_fifty_standard_deviations_is_no_infinite_interval() -> None:
    X_far, Y_far = X_CAL, Y_CAL + 50 * WRONG.predict(X_CAL).observed().std
    model = conformal_alone(X_far, Y_far)
    lower, upper = model.predict(X_TEST).observed().interval(0.9)
    assert (lower > WRONG.predict(X_TEST).mean).all()
    assert np.isfinite(upper).all()


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("n", [19, 60])
def test_coverage_over_exchangeable_replications(level: float, n: int) -> None:
    """500 calibration sets of a badly wrong model, each with ten new observations."""
    rng, new = np.random.default_rng(7), 10
    points, truth = world(500 * (n + new), rng)
    prediction = WRONG.predict(points)
    held = np.empty((500, new))
    for i, rows in enumerate(np.split(np.arange(len(truth)), 500)):
        here, there = rows[:n], rows[n:]
        mean, variance = prediction.mean[None], prediction.variance[None]
        calibrating = WRONG.prediction_of(points[here], mean[:, here], variance[:, here]).observed()
        scores = np.sort(calibrating.normal_score(truth[here]))
        model = WRONG.replace(margins=Conformal(scores))
        predicted = model.prediction_of(points[there], mean[:, there], variance[:, there])
        lower, upper = predicted.observed().interval(level)
        held[i] = (lower <= truth[there]) & (truth[there] <= upper)
    each = held.mean(axis=1)
    assert each.mean() >= level - 3 * each.std(ddof=1) / np.sqrt(500)
    assert each.mean() <= level + 2 / (n + 1) + 3 * each.std(ddof=1) / np.sqrt(500)  # and not much more often


def test_on_top_of_a_recalibration() -> None:
    model = WRONG.recalibrated(calibration=(X_CAL, Y_CAL))
    lower, upper = model.predict(X_TEST).observed().interval(0.9)
    assert ((lower <= Y_TEST) & (upper >= Y_TEST)).mean() == pytest.approx(0.9, abs=0.07)
    assert model.predict(X_TEST).guarantee.kind == model.guarantee.kind == "marginal, distribution-free"
    assert "99 calibration observations" in str(model.guarantee)


MODELS = {
    "recalibrated": WRONG.recalibrated(),
    "conformal": WRONG.recalibrated(calibration=(X_CAL, Y_CAL)),
}


@pytest.mark.parametrize("kind", MODELS)
def test_numpy_and_torch(kind: str) -> None:
    arrays, tensors = MODELS[kind].predict(X_TEST).observed(), MODELS[kind].predict(torch.from_numpy(X_TEST)).observed()
    for name in ("mean", "std", "variance", "median"):
        assert isinstance(getattr(arrays, name), np.ndarray)
        np.testing.assert_array_equal(getattr(arrays, name), getattr(tensors, name).numpy())
    for method in ("cdf", "log_density", "normal_score"):
        np.testing.assert_array_equal(
            getattr(arrays, method)(Y_TEST), getattr(tensors, method)(torch.from_numpy(Y_TEST)).numpy()
        )
    np.testing.assert_array_equal(arrays.quantile([0.1, 0.6]), tensors.quantile([0.1, 0.6]).numpy())


@pytest.mark.parametrize("kind", MODELS)
def test_batches_and_workers(kind: str) -> None:
    whole = MODELS[kind].predict(X_TEST).observed()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        spread = MODELS[kind].predict(X_TEST).observed()
    for cut in (spread, MODELS[kind].predict(X_TEST, batch_size=33).observed()):
        np.testing.assert_allclose(cut.std, whole.std, rtol=1e-9)
        np.testing.assert_allclose(cut.interval(0.9), whole.interval(0.9), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", MODELS)
def test_kept_moments_are_enough(kind: str) -> None:
    model = MODELS[kind]
    plain, whole = WRONG.predict(X_TEST), model.predict(X_TEST).observed()
    again = model.prediction_of(X_TEST, plain.mean[None], plain.variance[None]).observed()
    np.testing.assert_array_equal(again.std, whole.std)
    np.testing.assert_array_equal(again.interval(0.7), whole.interval(0.7))
    with pytest.raises(cagp.InputError, match="were not kept"):
        again.sample(2)


@pytest.mark.gpu
@pytest.mark.parametrize("calibration", [None, (X_CAL, Y_CAL)], ids=["recalibrated", "conformal"])
def test_on_a_gpu(calibration: tuple[np.ndarray, np.ndarray] | None, tmp_path: Path) -> None:
    here = WRONG.recalibrated(calibration=calibration)
    there = WRONG.prior.condition(X, Y, "cholesky", device="cuda").recalibrated(calibration=calibration)
    loaded = cagp.load(here.save(tmp_path / "model"), device="cuda")
    expected = here.predict(X_TEST).observed()
    for model in (there, loaded):
        found = model.predict(torch.from_numpy(X_TEST).cuda()).observed()
        np.testing.assert_allclose(found.std.cpu(), expected.std, rtol=1e-5)
        np.testing.assert_allclose(model.predict(X_TEST).observed().interval(0.8), expected.interval(0.8), atol=1e-4)
    jackknife = there.jackknife_interval(X_TEST, 0.8)
    np.testing.assert_allclose(jackknife, WRONG.jackknife_interval(X_TEST, 0.8), atol=1e-4)

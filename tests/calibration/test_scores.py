"""Held-out scores against their definitions, and the choice between latent and observed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import norm

import cagp
from cagp.calibration import evaluate, score


@pytest.fixture(scope="module")
def predictions():
    rng = np.random.default_rng(0)
    mean, std = rng.normal(size=40), rng.uniform(0.2, 2.0, size=40)
    return mean, std, mean + std * rng.standard_t(3, size=40)


@pytest.fixture(scope="module")
def posterior():
    rng = np.random.default_rng(1)
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.04)
    X = rng.random((60, 2))
    return prior.condition(X, rng.normal(size=60), cagp.GaussSeidel(5)).predict(rng.random((25, 2)))


def test_scores_agree_with_their_definitions(predictions):
    mean, std, truth = predictions
    scores = score(mean, std, truth, level=0.8)
    assert scores.rmse == pytest.approx(np.sqrt(np.mean((mean - truth) ** 2)))
    assert scores.nll == scores.log_score == pytest.approx(-norm.logpdf(truth, mean, std).mean())
    assert np.allclose(scores.pit, norm.cdf(truth, mean, std))
    assert np.allclose(scores.z, (truth - mean) / std)
    lower, upper = norm.interval(0.8, mean, std)
    outside = np.maximum(lower - truth, 0) + np.maximum(truth - upper, 0)
    assert scores.sharpness == pytest.approx((upper - lower).mean())
    assert scores.interval_score == pytest.approx((upper - lower + 2 / 0.2 * outside).mean())


def test_crps_is_the_integral_of_the_squared_cdf_error(predictions):
    each = []
    for mean, std, truth in zip(*(column[:8] for column in predictions), strict=True):
        below, _ = quad(lambda x, m=mean, s=std: norm.cdf(x, m, s) ** 2, min(mean, truth) - 12 * std, truth)
        above, _ = quad(lambda x, m=mean, s=std: norm.sf(x, m, s) ** 2, truth, max(mean, truth) + 12 * std)
        each.append(below + above)
    assert score(*(column[:8] for column in predictions)).crps == pytest.approx(np.mean(each), rel=1e-6)


def test_coverage_counts_the_intervals(predictions):
    mean, std, truth = predictions
    scores = score(mean, std, truth)
    for level in (0.05, 0.5, 0.9, 0.999):
        lower, upper = norm.interval(level, mean, std)
        assert scores.coverage(level) == np.mean((lower <= truth) & (truth <= upper))
    levels, shares = scores.coverage_curve()
    assert np.array_equal(scores.coverage(levels), shares)
    assert np.all(scores.coverage(np.nextafter(levels, 0)) < shares)
    assert scores.coverage([0.0, 1.0]).tolist() == [0.0, 1.0]


def test_latent_and_observed_are_scored_as_such(posterior):
    truth = posterior.mean + 0.1
    latent, observed = evaluate(posterior, truth, of="latent"), evaluate(posterior, truth, of="observed")
    assert np.allclose(latent.std**2, posterior.variance)
    assert np.allclose(observed.std**2, posterior.variance + 0.04)
    other = evaluate(posterior, truth, of="observed", noise_variance=0.09)
    assert np.allclose(other.std**2, posterior.variance + 0.09)
    assert np.allclose(evaluate(posterior.observed(0.25), truth, of="observed").std ** 2, posterior.variance + 0.25)
    assert np.allclose(evaluate(posterior.observed(0.0), truth, of="observed").std, posterior.std)


def test_torch_and_numpy_give_the_same_scores(posterior):
    truth = posterior.mean + 0.1
    expected = evaluate(posterior, truth, of="latent")
    assert evaluate(posterior, torch.from_numpy(truth), of="latent").crps == expected.crps
    tensors = (torch.from_numpy(values.copy()) for values in (posterior.mean, posterior.std, truth))
    assert score(*tensors).interval_score == expected.interval_score


def test_table_shows_the_scores(posterior):
    scores = evaluate(posterior, posterior.mean + 0.1, of="observed")
    table = str(scores)
    assert "25 test points, observed" in table
    for number in (scores.rmse, scores.nll, scores.crps, scores.interval_score, scores.sharpness):
        assert f"{number:.4f}" in table
    assert f"coverage at 95%{scores.coverage(0.95):>19.4f}" in table
    assert repr(scores).startswith("Scores(observed, 25 points, rmse=0.1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"truth": np.zeros(24), "of": "latent"}, "truth has 24 values for 25 predictions"),
        ({"truth": np.zeros((25, 1)), "of": "latent"}, "one dimension"),
        ({"truth": np.full(25, np.nan), "of": "latent"}, "NaN"),
        ({"truth": np.zeros(25), "of": "both"}, "of must be one of 'latent', 'observed'"),
        ({"truth": np.zeros(25), "of": "latent", "noise_variance": 0.1}, "f has no noise"),
        ({"truth": np.zeros(25), "of": "observed", "level": 95}, "level must be between 0 and 1"),
    ],
)
def test_bad_input_is_refused(posterior, arguments, message):
    with pytest.raises(cagp.InputError, match=message):
        evaluate(posterior, **arguments)


def test_what_the_posterior_is_about_must_fit(posterior):
    with pytest.raises(cagp.InputError, match="includes noise"):
        evaluate(posterior.observed(), np.zeros(25), of="latent")
    with pytest.raises(cagp.InputError, match="includes its noise already"):
        evaluate(posterior.observed(), np.zeros(25), of="observed", noise_variance=0.1)
    with pytest.raises(cagp.InputError, match="score"):
        evaluate((posterior.mean, posterior.std), np.zeros(25), of="latent")


def test_observations_are_what_is_scored_unless_it_is_said(posterior):
    y = np.linspace(-1, 1, 25)
    said = score(posterior.observed().mean, posterior.observed().std, y)
    for prediction in (posterior, posterior.observed()):
        found = evaluate(prediction, y)
        assert found.of == "observed"
        np.testing.assert_array_equal(found.z, said.z)
    assert (np.abs(evaluate(posterior, y, "latent").z) > np.abs(said.z)).all()


def test_predictions_must_make_sense():
    with pytest.raises(cagp.InputError, match="std must be positive, got 0 at index 1"):
        score([0.0, 0.0], [1.0, 0.0], [0.0, 0.0])
    with pytest.raises(cagp.InputError, match="levels must lie"):
        score([0.0], [1.0], [0.0]).coverage(95)


def test_the_log_score_of_a_truth_far_out_is_finite():
    scores = score([0.0], [1.0], [100.0])
    assert np.isclose(scores.nll, 0.5 * 100**2 + 0.5 * np.log(2 * np.pi))

"""cagp.fit takes a transform where left-out observations say so, and predicts on the scale of the observations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.spatial.distance import cdist

import cagp
from cagp.choosing.scoring import LeftOutScores
from cagp.choosing.transforming import _clearly_better, _compared, _milder
from cagp.errors import InputError
from cagp.estimator import CAGPRegressor
from cagp.fit_report import Names, write_fit_report
from cagp.interop.xarray import ConditionedField
from cagp.left_out import left_out
from cagp.reports.inputs import check_inputs
from cagp.support.numbers import datum
from cagp.transforms import BoxCox, Log, YeoJohnson
from reports.pages import Page

RNG = np.random.default_rng(12)
X = RNG.random((120, 1))
F = 1.5 * np.sin(7 * X[:, 0]) + 0.4 * RNG.normal(size=120)
SKEWED = np.exp(F)
TEST = np.linspace(0, 1.2, 30)[:, None]
QUICK: dict[str, Any] = {"kernel": "matern52", "mean": "constant", "uncertainty": False, "progress": False}


def test_skewed_data_are_transformed_and_normal_ones_are_not() -> None:
    rng = np.random.default_rng(14)
    X = rng.random((120, 1))
    F = 1.5 * np.sin(7 * X[:, 0]) + 0.4 * rng.normal(size=120)
    found = cagp.fit(X, np.exp(F), **QUICK)
    assert isinstance(found.transform, (Log, BoxCox))
    assert "The observations are transformed: " in found.record.text
    prediction = found.predict(TEST).observed()
    assert (prediction.interval(0.99)[0] >= 0).all()
    plain = cagp.fit(X, np.exp(F), transform=None, **QUICK)
    assert plain.transform is None
    truth = np.exp(1.5 * np.sin(7 * TEST[:, 0]))
    error, other = (np.abs(each.predict(TEST).median - truth)[:25].mean() for each in (found, plain))
    assert error < other
    normal = cagp.fit(X, F, **QUICK)
    assert normal.transform is None
    assert "The observations are taken as they are" in normal.record.text


def test_it_is_kept(tmp_path: Path) -> None:
    found = cagp.fit(X, SKEWED, transform="log", **QUICK)
    assert "the logarithm, as asked for" in found.record.text
    loaded: Any = cagp.load(found.save(tmp_path / "model"))
    for name in ("mean", "std", "median"):
        np.testing.assert_array_equal(getattr(loaded.predict(TEST), name), getattr(found.predict(TEST), name))
    np.testing.assert_allclose(cagp.saving.read(tmp_path / "model").observations, SKEWED)


def test_parameters_are_found_or_given() -> None:
    found = cagp.fit(X, SKEWED, transform="box-cox", **QUICK)
    assert found.transform.power < 0.4
    given = cagp.fit(X, SKEWED, transform=BoxCox(0.5), **QUICK)
    assert given.transform == BoxCox(0.5)
    zeros = np.maximum(F, 0)
    with_zeros = cagp.fit(X, zeros, transform="box-cox", recalibrate=False, **QUICK)
    assert (with_zeros.predict(TEST).observed().quantile([0.01, 0.5]) >= 0).all()
    np.testing.assert_allclose(with_zeros.candidates[0].crps, _crps(with_zeros, zeros), rtol=2e-3)


def _crps(model: Any, y: np.ndarray) -> float:
    """The average CRPS of left-out observations from their quantiles."""
    found = left_out(model.replace(transform=None), progress=False)
    p = (np.arange(4000) + 0.5) / 4000
    total = 0.0
    for mean, std, truth in zip(found.mean, found.std, y[found.index], strict=True):
        q = model.transform.inverse(torch.from_numpy(stats.norm.ppf(p, mean, std))).numpy()
        total += float((2 * ((truth <= q) - p) * (q - truth)).mean())
    return total / len(found)


def test_scores_are_on_the_scale_of_the_observations() -> None:
    prior = cagp.Prior(cagp.Matern52(0.3), mean=cagp.Constant(), noise_variance=0.2)
    found = left_out(prior.condition(X, F, cagp.Cholesky()), progress=False)
    scores = LeftOutScores.carried_over(found, Log())
    law = stats.lognorm(s=found.std, scale=np.exp(found.mean))
    np.testing.assert_allclose(scores.log_score, -law.logpdf(SKEWED[found.index]), rtol=1e-9)
    # closed form for a log-normal law (Baran and Lerch 2015)
    y, mean, std = SKEWED[found.index], found.mean, found.std
    w = (np.log(y) - mean) / std
    terms = stats.norm.cdf(w - std) + stats.norm.cdf(std / np.sqrt(2)) - 1
    crps = y * (2 * stats.norm.cdf(w) - 1) - 2 * np.exp(mean + std**2 / 2) * terms
    np.testing.assert_allclose(scores.crps, crps, rtol=0.03)
    np.testing.assert_allclose(scores.crps.mean(), crps.mean(), rtol=2e-3)


def test_what_is_given_by_hand_is_on_the_scale_of_the_observations() -> None:
    for given in ({"kernel": cagp.Matern52(0.3)}, {"noise_variance": 0.1}, {"mean": "zero"}):
        found = cagp.fit(X[:60], SKEWED[:60], **{**QUICK, **given})
        assert found.transform is None


def test_what_cannot_be_is_refused_before_work() -> None:
    with pytest.raises(InputError, match=r'transform must be None, "auto", "log"'):
        cagp.fit(X, F, transform="square")
    with pytest.raises(InputError, match=r'"log" cannot take, .* at row'):
        cagp.fit(X, F, transform="log")
    with pytest.raises(InputError, match="shares lie strictly between 0 and 1"):
        cagp.fit(X, SKEWED, transform="logit")


def test_few_observations_are_taken_as_they_are() -> None:
    assert cagp.fit(X[:30], SKEWED[:30], **QUICK).transform is None


@pytest.mark.usefixtures("words_only")
def test_reports_are_about_the_observations(tmp_path: Path) -> None:
    found = cagp.fit(X, SKEWED, transform="log", **QUICK)
    names = Names(("place",), "rain", target_unit="mm")
    page = Page(write_fit_report(found, tmp_path, names=names))
    low, high = SKEWED.min(), SKEWED.max()
    assert page.row("facts", "target")[1].startswith(f"rain: {datum(low)} mm to {datum(high)} mm, average ")
    assert page.row("facts", "scale")[1].startswith("the logarithm of rain is modelled: ")
    noise = page.row("facts", "noise")[1]
    assert noise.startswith("standard deviation 0.")
    assert f"mm where rain is {datum(float(np.median(SKEWED)))} mm, its median" in noise
    left = found.left_out(n=120, seed=0)
    rmse = np.sqrt(np.square(np.exp(left.mean + left.std**2 / 2) - SKEWED[left.index]).mean())
    shown = page.row("scores", "RMSE")[1].split()
    assert float(shown[0]) == pytest.approx(rmse, rel=0.05)
    assert shown[1] == "mm"
    observed = [row[2] for row in page.tables["points"][1:]]
    assert all(float(each.split()[0]) > 0 for each in observed)
    assert "mm" not in page.row("hyperparameters", "variance of the function")[1]
    assert page.tables["by-roughness"][0][2] == "rms of z"  # error / std of skewed predictions is large by itself
    assert page.row("recalibration", "rms of z")[3] == "1 if right"
    beyond = check_inputs(found, None, (X, np.zeros(120)), None, names)  # which no logarithm allows: z is −∞
    assert beyond.holdout is not None
    assert len(beyond.holdout.y) == 120
    assert check_inputs(found, None, (X[:5] + 0.01, SKEWED[:5]), None, names).heaviest.transform is None
    with pytest.raises(InputError, match="rows of holdout are training rows"):
        check_inputs(found, None, (X, SKEWED), None, names)


def test_the_likelihood_of_an_estimator_has_the_slope_in_it() -> None:
    found = CAGPRegressor("matern52", mean="constant", uncertainty=False, target_transform="log").fit(X, SKEWED)
    expected = found.prior_.transformed("log").log_likelihood(X, SKEWED)
    assert found.log_marginal_likelihood_value_ == pytest.approx(expected)


def test_a_field_is_recalibrated_inside_of_its_transform() -> None:
    found = cagp.fit(X, SKEWED, transform="log", recalibrate=False, **QUICK)
    again = ConditionedField(found, ()).recalibrated().model
    assert again.transform == Log()
    assert again.guarantee.kind == "empirical"


def scores(crps: np.ndarray, squared: np.ndarray) -> LeftOutScores:
    return LeftOutScores(np.arange(len(crps)), crps, crps, squared)


def test_a_few_large_errors_do_not_decide_about_a_mean() -> None:
    rng = np.random.default_rng(3)
    crps, squared = 1.0 + 0.1 * rng.random(200), rng.random(200)
    squared[:3] = 50.0
    without = scores(crps, squared)
    by_one = squared.copy()
    by_one[0] += 15.0  # the root mean square is 3% larger for one observation
    assert _compared(without, scores(0.8 * crps, by_one))[1:] == (True, False)
    by_all = squared + 0.06 * squared.mean() + 0.001 * rng.random(200)
    assert _compared(without, scores(0.8 * crps, by_all))[1:] == (True, True)
    by_far = squared.copy()
    by_far[0] += 80.0
    words, better, worse = _compared(without, scores(0.8 * crps, by_far))
    assert (better, worse) == (True, True)
    assert "root mean square error of the mean" in words
    assert _compared(without, scores(0.99 * crps, squared))[1:] == (False, False)


def test_a_square_root_is_milder_than_a_logarithm() -> None:
    assert _milder(Log()) == (BoxCox(0.5),)
    assert _milder(BoxCox(0.1, 0.3)) == (BoxCox(0.5, 0.3),)
    assert _milder(BoxCox(0.45)) == ()
    assert _milder(YeoJohnson(0.1)) == ()


def test_what_begins_below_zero_is_told() -> None:
    found = cagp.fit(X, SKEWED, transform=None, **QUICK)
    assert (found.predict(TEST).observed().interval(0.95)[0] < 0).any()
    assert "of these 95% intervals begin below 0, where no observation lies" in found.record.text
    for other in (cagp.fit(X, SKEWED + 100, transform=None, **QUICK), cagp.fit(X, F, transform=None, **QUICK)):
        assert "begin below 0" not in other.record.text


def test_a_narrow_plume_is_no_reason_to_predict_doses_below_zero() -> None:
    """Two hundred stations, a smooth background near 100 and doses up to 1,500 at a few of them."""
    rng = np.random.default_rng(3)
    places = rng.random((600, 2)) * [400.0, 500.0]
    away = (places - [220.0, 260.0]) @ np.array([[0.8, -0.6], [0.6, 0.8]]) / [30.0, 12.0]
    doses = 100 + 20 * np.sin(places[:, 0] / 80) + 4 * rng.normal(size=600)
    doses += 1400 * np.exp(-0.5 * (away**2).sum(axis=1))
    stations = slice(0, 200)
    assert 1 < (doses[stations] > 200).sum() < 6
    options = {**QUICK, "varying": False, "rotate": False}
    found = cagp.fit(places[stations], doses[stations], **options).predict(places[200:]).observed()
    plain = cagp.fit(places[stations], doses[stations], transform=None, **options).predict(places[200:]).observed()
    assert (found.interval(0.95)[0] > 0).all()
    assert found.mean.min() > 0
    assert found.mean.max() < 2 * doses[stations].max()
    errors = [np.abs(each.mean - doses[200:]).mean() for each in (found, plain)]
    assert errors[0] < errors[1]


@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e6])
def test_a_transform_does_not_depend_on_the_unit(unit: float) -> None:
    """In kilograms for micrograms all of them are below 1, and no shares."""
    y = SKEWED / SKEWED.max() * 50
    one, other = (cagp.fit(X, values, **QUICK) for values in (y, unit * y))
    assert isinstance(one.transform, (Log, BoxCox))
    assert type(one.transform) is type(other.transform)
    np.testing.assert_allclose(unit * one.predict(TEST).median, other.predict(TEST).median, rtol=1e-3)


def test_a_few_large_values_do_not_hide_that_a_transform_is_better() -> None:
    """Beside a CRPS that a few observations decide, a log score that is clearly better is enough; alone it is not."""
    rng = np.random.default_rng(0)
    crps = np.exp(2 * rng.normal(size=300))
    better = crps * np.exp(0.8 * rng.normal(size=300))
    better *= 0.95 * crps.mean() / better.mean()
    log_score = rng.normal(size=300)
    rows, likelier = np.arange(300), log_score - 0.3 + 0.1 * rng.normal(size=300)
    before = LeftOutScores(rows, crps, log_score, crps**2)
    assert not _clearly_better(LeftOutScores(rows, better, log_score, crps**2), before, 1.0)
    assert _clearly_better(LeftOutScores(rows, better, likelier, crps**2), before, 1.0)
    assert not _clearly_better(LeftOutScores(rows, 0.99 * crps, likelier, crps**2), before, 1.0)


@pytest.mark.parametrize("seed", [1, 3])
def test_a_forecast_of_a_skewed_quantity_is_transformed(seed: int) -> None:
    """Observations that stand in for a week to come err together: by them alone hardly anything would be clear."""
    rng, days = np.random.default_rng(seed), np.arange(40)
    places = rng.uniform(0, 200, (8, 2))
    root = np.linalg.cholesky(np.exp(-cdist(places, places) / 80))
    Z = [root @ rng.standard_normal(8)]
    for _ in days[1:]:
        Z.append(0.8 * Z[-1] + 0.6 * (root @ rng.standard_normal(8)))
    X = np.column_stack([np.tile(places, (len(days), 1)), np.repeat(days, 8)]).astype(float)
    y = np.exp(3 + 0.4 * np.array(Z) + 0.1 * rng.standard_normal((len(days), 8))).ravel()
    before = X[:, 2] < 33
    options = {**QUICK, "kernel": "matern32", "varying": False}
    assert cagp.fit(X[before], y[before], times=[2], like=X[~before], **options).transform is not None

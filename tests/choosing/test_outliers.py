"""A few wrong observations do not spoil what ``cagp.fit`` makes of the others, and are never dropped in silence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from scipy.stats import multivariate_normal

import cagp
from cagp.choosing.outliers import _Errors
from cagp.errors import InputError
from cagp.hyperparameters import FitWarning, log_likelihood

QUICK: dict[str, Any] = {"kernel": "matern32", "mean": "constant", "uncertainty": False, "progress": False}
N, NOISE = 150, 0.2
ROWS = np.array([17, 60, 98, 141])


def field(seed: int, n: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points X (n, 2) with noisy observations of a field, and 300 more with its values."""
    rng = np.random.default_rng(seed)
    X = rng.random((n + 300, 2))
    f = np.asarray(cagp.Prior(cagp.Matern32(0.5)).sample(X, 1, seed))[0]
    return X[:n], f[:n] + NOISE * rng.standard_normal(n), X[n:], f[n:]


def spoilt(y: np.ndarray, size: float) -> np.ndarray:
    y = y.copy()
    y[ROWS] += size * np.array([1, -1, -1, 1])
    return y


def crps(model: cagp.Model, X: np.ndarray, f: np.ndarray) -> float:
    return float(cagp.calibration.evaluate(model.predict(X), f, "latent").crps)


@pytest.mark.parametrize("off", ["noise", "y"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_map_is_nearly_that_of_clean_data(seed: int, off: str) -> None:
    X, y, X_test, f = field(seed)
    clean, size = cagp.fit(X, y, **QUICK), 10 * (NOISE if off == "noise" else float(y.std()))
    model = cagp.fit(X, spoilt(y, size), **QUICK)
    assert not len(clean.prior.outliers)
    assert set(ROWS) <= set(model.prior.outliers)
    assert len(model.prior.outliers) <= len(ROWS) + 1
    assert model.transform is None
    assert crps(model, X_test, f) < 1.05 * crps(clean, X_test, f)
    assert "Outliers: " in model.record.text
    assert f"(rows {', '.join(map(str, model.prior.outliers))}, counted from 0 among those used)" in model.record.text
    assert "That is without outliers more than 6 standard deviations out" in model.record.text


def test_neighbours_find_them_as_well() -> None:
    X, y, *_ = field(4, 300)
    how: dict[str, Any] = {"solver": "nearest-neighbours", "likelihood": "nearest-neighbours", "varying": False}
    model = cagp.fit(X, spoilt(y, 2.0), transform=None, rotate=False, **how, **QUICK)
    assert list(model.prior.outliers) == list(ROWS)


def test_a_number_that_stands_for_a_missing_value_is_an_outlier() -> None:
    X, y, X_test, f = field(5)
    wrong = y.copy()
    wrong[ROWS] = -9999.0
    with pytest.warns(FitWarning, match="the target is -9999 in 4 rows, far from all other values"):
        model = cagp.fit(X, wrong, **QUICK)
    assert list(model.prior.outliers) == list(ROWS)
    assert crps(model, X_test, f) < 1.1 * crps(cagp.fit(X, y, **QUICK), X_test, f)


def test_real_peaks_keep_the_noise_of_the_others(data_folder: Path) -> None:
    """Cadmium around Jura has hot spots, which its neighbours disagree with: to discount them predicts no better."""
    rows = np.genfromtxt(data_folder / "jura.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    rows = np.concatenate([rows[rows["set"] == "prediction"], rows[rows["set"] != "prediction"]])
    some = rows[np.random.default_rng(1).permutation(len(rows))[:259]]
    X, y = np.column_stack([some["Xloc"], some["Yloc"]]), some["Cd"].astype(float)
    model = cagp.fit(X, y, transform=None, varying=False, recalibrate=False, **QUICK)
    assert not len(model.prior.outliers)
    assert "further from what the others say than chance explains" in model.record.text
    assert "but they keep the noise of the others" in model.record.text


def lognormal(seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    group, income, visits = rng.choice(3, n, p=[0.6, 0.3, 0.1]), rng.normal(0, 0.5, n), rng.poisson(6, n)
    X = np.column_stack([group == 1, group == 2, 3e4 * np.exp(income), visits]).astype(float)
    return X, np.exp(2.5 + X[:, :2] @ [0.7, 1.3] + 0.8 * income + 0.1 * visits + 0.4 * rng.standard_normal(n))


@pytest.mark.parametrize("seed", [6, 29])
@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_tails_of_a_skewed_quantity_are_no_outliers(seed: int) -> None:
    """They are judged like any other observation: to put them aside predicts the rest well, and not what comes."""
    (X, y), (X_test, y_test) = lognormal(seed, 400), lognormal(100 + seed, 1000)
    model = cagp.fit(X, y, varying=False, rotate=False, **QUICK)
    assert not len(model.prior.outliers)
    lower, upper = model.predict(X_test).observed().interval(0.95)
    assert ((lower <= y_test) & (y_test <= upper)).mean() > 0.93
    assert (lower > 0).all()


def test_peaks_that_a_logarithm_explains_are_no_outliers() -> None:
    """Left-out observations without the largest cannot judge that: those do that had no part in calling outliers."""
    rng = np.random.default_rng(1)
    rough, smooth, height, fine = (
        each / each.std()
        for each in (gaussian_filter(rng.standard_normal((120, 170)), s, mode="reflect") for s in (6, 25, 15, 4))
    )
    elevation = np.clip(450 + rough * 180 + smooth * 200, 80, 2500)
    field = np.exp(np.log(12) + 0.55 * height + 0.25 * fine - 0.0009 * (elevation - 450)).ravel()
    latitude = 49.7 - 0.02 * (np.arange(120) + 0.5)
    longitude = 7.8 + 0.02 * (np.arange(170) + 0.5)
    places = np.stack(np.meshgrid(latitude, longitude, indexing="ij"), axis=-1).reshape(-1, 2)
    chosen = rng.choice(len(field), 150, replace=False)
    X, y = np.column_stack([places, elevation.ravel()])[chosen], field[chosen] * np.exp(0.2 * rng.standard_normal(150))
    model = cagp.fit(X, y, globe=(0, 1), varying=False, rotate=False, **QUICK)
    assert isinstance(model.transform, cagp.transforms.Log)
    assert not len(model.prior.outliers)


def test_rain_on_a_dry_day_is_no_mistake() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((90, 2)), np.zeros(90)
    y[:5] = 2.4, 11.0, 3.1, 7.5, 20.0
    model = cagp.fit(X, y, varying=False, rotate=False, **QUICK)
    assert not len(model.prior.outliers)
    text = " ".join(model.story.split())
    assert "Outliers were not sought: many observations have the same value" in text
    assert "94% of the observations are 0, the least of all" in text


def test_a_day_without_any_rain_is_fitted() -> None:
    X = np.random.default_rng(0).random((60, 3))
    with pytest.warns(FitWarning):
        model = cagp.fit(X, np.zeros(60), progress=False)
    assert np.abs(model.predict(X).mean).max() < 1e-6


def test_error_bars_foresee_outliers_that_are_no_mistakes() -> None:
    """Errors of five standard deviations come again, and intervals hold them as often as they promise."""
    rng = np.random.default_rng(7)
    X, y, X_test, f = field(7, 400)
    y += np.where(rng.random(400) < 0.06, 5 * NOISE * rng.choice([-1.0, 1.0], 400), 0.0)
    model = cagp.fit(X, y, transform=None, varying=False, rotate=False, recalibrate=True, **QUICK)
    assert len(model.prior.outliers)
    again = f + NOISE * rng.standard_normal(300)
    again += np.where(rng.random(300) < 0.06, 5 * NOISE * rng.choice([-1.0, 1.0], 300), 0.0)
    lower, upper = model.predict(X_test).observed().interval(0.95)
    hold = ((lower <= again) & (again <= upper)).mean()
    assert hold > 0.915  # 0.89 where they judge nothing


def test_outliers_beside_each_other_are_no_error() -> None:
    X, y, *_ = field(6)
    y[np.argsort(((X - 0.5) ** 2).sum(axis=1))[:6]] += 8.0
    assert np.isfinite(cagp.fit(X, y, **QUICK).predict(X).mean).all()


def test_a_noise_that_was_given_is_kept() -> None:
    X, y, *_ = field(0)
    for given in (0.04, np.full(N, 0.04)):
        assert not len(cagp.fit(X, spoilt(y, 2.0), noise_variance=given, **QUICK).prior.outliers)
    assert not len(cagp.fit(X, spoilt(y, 2.0), fit_options={"fix_noise": True}, **QUICK).prior.outliers)


def test_normal_errors_have_outliers_in_one_of_a_hundred_data() -> None:
    rng = np.random.default_rng(0)
    one, found = np.ones(100), 0
    for _ in range(2000):
        found += len(_Errors(np.arange(100), rng.standard_normal(100) ** 2, 0 * one, one).outlying(100)) > 0
    assert found < 2000 * 0.01 + 3 * (2000 * 0.01) ** 0.5
    squared = rng.standard_normal(100) ** 2
    squared[7] = 36.0
    assert list(_Errors(np.arange(100), squared, 0 * one, one).outlying(100)) == [7]
    assert not len(_Errors(np.arange(100), 9 * rng.standard_normal(100) ** 2, 0 * one, one).outlying(100))


def test_a_model_with_outliers_is_saved_grows_and_says_when_its_error_bars_hold(tmp_path: Path) -> None:
    X, y, X_test, _ = field(1)
    model = cagp.fit(X, spoilt(y, 2.0), recalibrate=False, **QUICK)
    n = len(model.prior.outliers)
    assert f"{n} observations are outliers" in model.guarantee.sentence
    again = cagp.load(model.save(tmp_path / "model"))
    assert again.prior == model.prior
    assert again.guarantee == model.guarantee
    np.testing.assert_allclose(again.predict(X_test).std, model.predict(X_test).std, rtol=1e-9)
    assert model.new_noise(model.X).numel() == 1  # type: ignore[union-attr]
    more = again.with_more(X_test, model.predict(X_test).mean)
    assert list(more.prior.outliers) == list(model.prior.outliers)
    np.testing.assert_array_equal(more.prior.noise_factors[N:], 1.0)
    mended = model.recalibrated()
    assert not np.isin(mended.margins.bands[0].index, model.prior.outliers).any()  # type: ignore[union-attr]


def test_the_estimator_finds_them_and_predicts_new_observations() -> None:
    X, y, X_test, _ = field(2)
    found = cagp.CAGPRegressor().fit(X, spoilt(y, 2.0))
    assert set(ROWS) <= set(found.model_.prior.outliers)
    _, covariance = found.predict(X_test[:5], return_cov=True)
    assert np.isfinite(covariance).all()


# --- what factors of the noise are -----------------------------------------------------------------------------------


def prior_with_factors() -> tuple[cagp.Prior, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X, y, factors = rng.random((30, 2)), rng.standard_normal(30), np.ones(30)
    factors[[3, 20]] = 50.0, 7.0
    return cagp.Prior(cagp.Matern52(0.4), noise_variance=0.1, noise_factors=factors), X, y, factors


def dense(X: np.ndarray, other: np.ndarray) -> np.ndarray:
    r = np.sqrt(5) * np.linalg.norm(X[:, None] - other, axis=2) / 0.4
    return np.asarray((1 + r + r**2 / 3) * np.exp(-r))


def test_predictions_are_those_of_dense_algebra() -> None:
    prior, X, y, factors = prior_with_factors()
    test = np.random.default_rng(4).random((9, 2))
    G, V = dense(X, X) + np.diag(0.1 * factors), dense(X, test)
    found = prior.condition(X, y, "cholesky").predict(test)
    np.testing.assert_allclose(found.mean, V.T @ np.linalg.solve(G, y), rtol=1e-9)
    np.testing.assert_allclose(found.variance, 1 - (V * np.linalg.solve(G, V)).sum(axis=0), rtol=1e-8)
    np.testing.assert_allclose(found.observed().variance - found.variance, 0.1, rtol=1e-9)


def test_likelihoods_are_those_of_dense_algebra() -> None:
    prior, X, y, factors = prior_with_factors()
    expected = multivariate_normal(np.zeros(30), dense(X, X) + np.diag(0.1 * factors)).logpdf(y)
    assert log_likelihood(prior, X, y) == pytest.approx(expected, rel=1e-9)
    by_terms = log_likelihood(prior, X, y, likelihood="nearest-neighbours", n_neighbours=29)
    assert by_terms == pytest.approx(expected, rel=1e-8)


def test_the_level_of_a_pattern_is_that_of_the_others() -> None:
    rng = np.random.default_rng(5)
    X, factors = rng.random((80, 2)), np.ones(80)
    factors[[3, 20, 50]] = 400.0
    y = np.sin(3 * X[:, 0]) + np.sqrt(0.1 * factors) * rng.standard_normal(80)
    prior = cagp.Prior(cagp.Matern52(0.4), noise_variance=0.1)
    how: dict[str, Any] = {"amplitude": False, "n_centres": 2}
    found = cagp.hyperparameters.fit_patterns(replace(prior, noise_factors=factors), X, y, **how)
    assert list(found.outliers) == [3, 20, 50]
    assert 0.06 < found.noise_variance < 0.16
    assert cagp.hyperparameters.fit_patterns(prior, X, y, **how).noise_variance > 0.3


def test_factors_that_cannot_be_are_refused() -> None:
    prior, X, y, _ = prior_with_factors()
    with pytest.raises(InputError, match="noise_factors must be positive everywhere, got -1 at index 0"):
        replace(prior, noise_factors=[-1.0, 1.0])
    with pytest.raises(InputError, match="noise_factors is for one noise_variance"):
        replace(prior, noise_variance=np.ones(30))
    with pytest.raises(InputError, match="noise_factors has 30 values for 29 observations"):
        prior.condition(X[1:], y[1:])


def test_solvers_that_name_points_and_single_precision() -> None:
    X, y, *_ = field(0)
    wrong = y.copy()
    wrong[[17, 60]] += 30.0
    ordered = cagp.fit(X, wrong, **QUICK, solver=cagp.GaussSeidel(order=tuple(range(len(y)))))
    assert {17, 60} <= set(ordered.prior.outliers)
    single = cagp.fit(X, 1e7 * wrong, **QUICK, condition_options={"dtype": "float32"})
    assert not len(single.prior.outliers)
    assert "Outliers were not sought" in single.record.text


def test_what_was_sought_is_not_called_not_tried() -> None:
    X, y, *_ = field(0)
    wrong = y.copy()
    wrong[[17, 60]] += 30.0
    model = cagp.fit(X, wrong, seconds=1e-6, progress=False)
    assert model.record.text.count("a noise of their own for outliers") == 1
    transformed = cagp.fit(X, np.exp(wrong / 10), **{**QUICK, "transform": "log"})
    assert len(transformed.prior.outliers)
    assert "are transformed: the logarithm" in transformed.record.text

"""Data as they should not be: the front door either fits them or says in one sentence why not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import cagp
from cagp.errors import NotPositiveDefiniteError
from cagp.estimator import CAGPRegressor
from cagp.hyperparameters import FitWarning

QUICK = {"kernel": "matern32", "uncertainty": False, "progress": False}


@pytest.mark.parametrize("value", [0.1, 0.3, 0.5, 273.15])
def test_a_constant_column_is_no_trend(value: float) -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(40), np.full(40, value)])
    model = cagp.fit(X, np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(40), **QUICK)
    assert np.isfinite(model.predict(X).std).all()
    assert "No linear trend" in model.record.text or "trend" in model.record.text


@pytest.mark.filterwarnings("ignore::cagp.hyperparameters.FitWarning")  # one iteration is not enough
def test_a_constant_column_of_many_rows_warns_of_nothing() -> None:
    X = np.random.default_rng(4).random((2100, 2)) * [1.0, 0.0] + [0.0, 3.0]
    options = {"mean": "zero", "transform": None, "varying": False, "progress": False}
    model = cagp.fit(X, np.sin(9 * X[:, 0]), kernel=["matern32", "rbf"], fit_options={"max_iterations": 1}, **options)
    assert len(model.candidates) == 2


@pytest.mark.parametrize("far", [[[2.5]], [[0.5], [3.0]], [[40.0]]])
@pytest.mark.parametrize("mean", ["constant", "linear"])
def test_points_far_from_the_data(far: list[list[float]], mean: str) -> None:
    rng = np.random.default_rng(1)
    X = rng.random((30, 1))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(30)
    model = cagp.fit(X, y, like=np.array(far), mean=mean, **QUICK)
    assert all(each.crps < 10 for each in model.candidates)  # y is of the size of one
    assert "extrapolations" in model.record.text


def test_observations_that_are_all_the_same_are_not_recalibrated() -> None:
    X = np.random.default_rng(2).random((30, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        model = cagp.fit(X, np.full(30, 3.0), **QUICK)
    assert "left-out errors say nothing" in model.record.text
    assert model.guarantee.kind == "under the prior"


def test_each_output_has_its_own_noise_and_likelihood() -> None:
    rng = np.random.default_rng(3)
    X = rng.random((60, 1))
    Y = np.column_stack([10 * np.sin(6 * X[:, 0]) + rng.standard_normal(60), 0.01 * rng.standard_normal(60)])
    options = {"kernel": "matern32", "uncertainty": False, "mixture": False, "recalibrate": False}
    both = CAGPRegressor(**options).fit(X, Y)
    alone = [CAGPRegressor(**options).fit(X, y) for y in Y.T]
    covariance = both.predict(X[:4], return_cov=True, of="observed")[1]
    for j, each in enumerate(alone):
        np.testing.assert_allclose(covariance[:, :, j], each.predict(X[:4], return_cov=True, of="observed")[1])
    total = sum(each.log_marginal_likelihood_value_ for each in alone)
    assert both.log_marginal_likelihood_value_ == pytest.approx(total)


def test_smooth_models_can_be_sampled() -> None:
    rng = np.random.default_rng(4)
    X = rng.random((40, 1))
    model = cagp.Prior(cagp.RBF(5.0, 2000.0), noise_variance=1e-4).condition(X, X[:, 0], cagp.Cholesky())
    draws = model.predict(np.repeat(X[:10], 2, axis=0)).sample(5)
    assert np.isfinite(draws).all()
    assert np.isfinite(model.average(X, by=np.arange(40) % 3).sample(5)).all()


def test_noise_and_a_transform_are_on_different_scales() -> None:
    X, y = np.linspace(0, 1, 60)[:, None], np.linspace(1, 2, 60)
    with pytest.raises(cagp.InputError, match="on the scale of the observations"):
        cagp.fit(X, y, noise_variance=np.full(60, 0.1), transform="log")
    with pytest.raises(cagp.InputError, match="on the scale of the observations"):
        cagp.fit(X, y, mean=3.0, transform="log")


def test_a_kernel_too_smooth_for_data_without_noise_leaves_the_race() -> None:
    """Under a Gaussian kernel rounding errors are larger than what is left to know; that must not end the fit."""
    X = np.random.default_rng(1).random((2100, 1))
    quick = {"mean": "constant", "varying": False, "recalibrate": False, "progress": False}
    held = {"noise_variance": 1e-18, "fit_options": {"fix_noise": True}}
    model = cagp.fit(X, np.sin(6 * X[:, 0]), kernel=["matern12", "rbf"], **held, **quick)
    assert "rbf, constant could not be fitted" in model.record.text
    assert np.abs(model.predict(X[:50] + 1e-5).mean - np.sin(6 * (X[:50, 0] + 1e-5))).max() < 1e-3


def test_hyperparameters_that_rounding_errors_rule_out_are_left_out_of_the_integral() -> None:
    """Two clusters with a value each: without noise their matrices are singular but for rounding."""
    X, y = make_blobs(30, centers=[[0, 0, 0], [1, 1, 1]], random_state=0, cluster_std=0.1)
    model = cagp.fit(X, y, progress=False)
    assert np.isfinite(model.predict(X + 0.01).std).all()


def test_a_column_that_is_constant_in_this_fold_is_no_obstacle() -> None:
    rng = np.random.default_rng(7)
    X = np.column_stack([rng.random((120, 5)), np.full(120, 7.0)])
    y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.05 * rng.standard_normal(120)
    model = cagp.fit(X, y, uncertainty=False, progress=False)
    both = ("short and long", "matern32 + matern12")  # by whether its fit is short and long
    assert any(each.name.startswith(both) for each in model.candidates)
    assert np.isfinite(model.predict(X[:5], progress=False).std).all()


def test_noise_stays_above_rounding() -> None:
    """Fits begin where others ended, each of which may shrink the noise of data without any again."""
    X = np.linspace(0.0, 1.0, 60)[:, None]
    model = cagp.fit(X, np.sin(5 * X[:, 0]), uncertainty=False, transform=None, mean="constant", progress=False)
    for each in model.components:
        assert float(each.prior.noise_variance) >= 0.99e-9 * np.var(np.sin(5 * X[:, 0]))
    np.testing.assert_allclose(model.predict(X + 0.005).mean, np.sin(5 * (X[:, 0] + 0.005)), atol=1e-3)


def test_the_order_in_memory_changes_no_digit() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((60, 3))
    y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=60)
    row, column = (cagp.fit(each, y, progress=False).predict(X[:5]).mean for each in (X, np.asfortranarray(X)))
    np.testing.assert_array_equal(row, column)


def test_a_table_with_every_row_twice_is_told_and_judged_without_the_copies() -> None:
    rng = np.random.default_rng(4)
    X, new = rng.normal(size=(80, 1)), rng.normal(size=(500, 1))
    y, truth = (np.sin(2 * each[:, 0]) + 0.3 * rng.standard_normal(len(each)) for each in (X, new))
    with pytest.warns(FitWarning, match="80 of the 160 rows repeat another one, place and value"):
        model = cagp.fit(np.r_[X, X], np.r_[y, y], **QUICK)
    assert "80 of the 160 rows repeat another one" in " ".join(model.story.split())
    lower, upper = model.predict(new).observed().interval(0.95)
    assert ((lower <= truth) & (truth <= upper)).mean() > 0.85
    with pytest.warns(FitWarning, match="80 of the 160 rows"):
        CAGPRegressor(recalibrate="auto").fit(np.r_[X, X], np.r_[y, y])
    with pytest.warns(FitWarning, match="80 of the 160 rows"):
        CAGPRegressor(cagp.Matern32(1.0), noise_variance=0.1).fit(np.r_[X, X], np.r_[y, y])


@pytest.mark.parametrize("solver", [cagp.GaussSeidel(3), cagp.Cholesky(), cagp.NearestNeighbours(5)])
def test_two_observations_of_a_line_are_refused_by_every_solver_alike(solver: Any) -> None:
    """Each of them decides the trend: none is left out by itself."""
    X, y = np.array([[0.126], [-0.132]]), np.array([0.64, 0.1])
    with pytest.raises(NotPositiveDefiniteError, match="the first fit failed"):
        cagp.fit(X, y, mean=cagp.Polynomial(1), solver=solver, progress=False)

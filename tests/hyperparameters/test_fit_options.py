"""Options of a fit are honoured at every door, and what a fit has to say points at the line that asked for it."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cagp
from cagp.hyperparameters import FitWarning, fit


@pytest.fixture
def noisy() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = np.sort(rng.random((40, 1)), axis=0)
    return X, np.sin(6 * X[:, 0]) + 0.3 * rng.standard_normal(40)


def _priors(model: Any) -> list[cagp.Prior]:
    """Those of every component that predicts."""
    mixture = model if hasattr(model, "components") else model.inner
    return [each.prior for each in mixture.components]


def test_noise_that_is_held_is_held_where_hyperparameters_are_integrated_over(noisy) -> None:
    X, y = noisy
    options = {"kernel": cagp.Matern32(0.3), "noise_variance": 0.09, "fit_options": {"fix_noise": True}}
    model = cagp.fit(X, y, **options, recalibrate=False, progress=False)
    noises = np.array([prior.noise_variance for prior in _priors(model)])
    assert len(noises) > 1
    assert (noises == 0.09).all()


def test_bounds_hold_where_hyperparameters_are_integrated_over(noisy) -> None:
    X, y = noisy
    low, high = 0.2, 0.3  # the most likely one is longer: the fit ends at the bound
    options = {"kernel": cagp.Matern32(0.25), "fit_options": {"bounds": {"lengthscale": (low, high)}}}
    model = cagp.fit(X, y, **options, recalibrate=False, progress=False)
    lengthscales = np.array([prior.kernel.lengthscale for prior in _priors(model)])
    assert len(lengthscales) > 1
    assert (lengthscales >= low * (1 - 1e-9)).all()
    assert (lengthscales <= high * (1 + 1e-9)).all()


def _unsettled(noisy: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The same with two columns that are constant, so that the likelihood is flat in two lengthscales."""
    X, y = noisy
    return np.column_stack([X, np.ones(len(X)), np.full(len(X), 2.0)]), y


def _by_prior(X: np.ndarray, y: np.ndarray) -> None:
    cagp.Prior(cagp.RBF((0.3, 1.0, 1.0)), noise_variance=0.1).fit(X, y, n_restarts=0)


def _by_transformed_prior(X: np.ndarray, y: np.ndarray) -> None:
    start = cagp.Prior(cagp.RBF((0.3, 1.0, 1.0)), noise_variance=0.1)
    start.transformed("log").fit(X, np.exp(y), n_restarts=0)


def _by_estimator(X: np.ndarray, y: np.ndarray) -> None:
    cagp.CAGPRegressor(cagp.RBF((0.3, 1.0, 1.0))).fit(X, y)


def _by_constant_observations(X: np.ndarray, y: np.ndarray) -> None:
    cagp.fit(X[:20, :1], np.ones(20), kernel="rbf", uncertainty=False, progress=False)


def _by_estimator_of_constant_observations(X: np.ndarray, y: np.ndarray) -> None:
    cagp.CAGPRegressor("rbf", uncertainty=False).fit(X[:20, :1], np.ones(20))


@pytest.mark.parametrize(
    ("door", "flat"),
    [
        (_by_prior, True),
        (_by_transformed_prior, True),
        (_by_estimator, True),
        (_by_constant_observations, False),
        (_by_estimator_of_constant_observations, False),
    ],
)
def test_one_warning_per_fit_points_at_the_line_that_fits(noisy, door: Callable[..., None], flat: bool) -> None:
    X, y = _unsettled(noisy)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        door(X, y)
    (told,) = [each for each in caught if issubclass(each.category, FitWarning)]
    assert told.filename == __file__
    first = door.__code__.co_firstlineno
    assert first < told.lineno <= first + 2
    if flat:
        assert "nothing about kernel.lengthscale[1] and kernel.lengthscale[2]: other values" in str(told.message)


@pytest.mark.parametrize(
    "how",
    [
        {"likelihood": "exact"},
        {"likelihood": "exact", "subset": 30},
        {"likelihood": "nearest-neighbours", "n_neighbours": 5},
        {"likelihood": "nearest-neighbours", "n_neighbours": 5, "terms": 20},
    ],
)
def test_standard_errors_come_without_another_search(noisy, monkeypatch, how: dict[str, Any]) -> None:
    X, y = noisy
    prior = cagp.Prior(cagp.Matern32(0.3), mean=cagp.Constant(), noise_variance=0.1)
    whole = fit(prior, X, y, n_restarts=0, **how)
    plain = fit(prior, X, y, n_restarts=0, standard_errors=False, **how)
    assert plain.standard_errors is None
    monkeypatch.setattr("cagp.hyperparameters.optimise._climb", lambda *_: pytest.fail("searched again"))
    later = plain.with_standard_errors()
    for name in ("standard_errors", "sampling_errors"):
        one, other = (getattr(each, name) or {} for each in (later, whole))
        assert one == pytest.approx(other, rel=1e-9, nan_ok=True)
    assert later.prior == plain.prior
    assert str(later) == str(whole)
    assert later.with_standard_errors() is later


def test_a_result_travels_without_the_observations(noisy) -> None:
    X, y = noisy
    result = fit(cagp.Prior(cagp.Matern32(0.3), noise_variance=0.1), X, y, n_restarts=0, standard_errors=False)
    told = pickle.loads(pickle.dumps(result))
    assert told.prior == result.prior
    assert told.values == result.values
    with pytest.raises(cagp.InputError, match="left the observations behind"):
        told.with_standard_errors()


def test_one_rule_says_which_likelihood_is_meant(noisy) -> None:
    rng = np.random.default_rng(1)
    X = rng.random((2_001, 1))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(len(X))
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01)
    quick: Any = {"n_restarts": 0, "standard_errors": False, "max_iterations": 1, "terms": 50, "n_neighbours": 5}
    assert fit(prior, X, y, **quick).likelihood == "nearest-neighbours"
    assert fit(prior, X, y, subset=60, **quick).likelihood == "exact"
    assert fit(prior, X, y, subset=range(60), **quick).likelihood == "exact"
    assert fit(prior, *noisy, **quick).likelihood == "exact"


def test_what_is_told_of_a_fit_is_told_of_the_model_that_predicts() -> None:
    """Observations without noise end at a bound: another search from there would go on to other values."""
    X = np.random.default_rng(0).random((60, 2))
    plain: Any = {"uncertainty": False, "recalibrate": False, "varying": False, "transform": None, "rotate": False}
    model = cagp.fit(X, np.sin(5 * X[:, 0]), kernel="matern32", mean="constant", progress=False, **plain)
    assert model.result is not None
    told = model.result.values
    assert told["noise_variance"] == model.result.prior.noise_variance
    lengthscales = [told[f"kernel.lengthscale[{i}]"] for i in range(2)]
    assert lengthscales == pytest.approx(model.result.prior.kernel.lengthscale)
    assert model.result.standard_errors is not None

"""``CAGPRegressor.model_`` predicts what the regressor predicts, and Ctrl-C ends the loops of scikit-learn."""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import cross_val_score

import cagp
from cagp import CAGPRegressor
from cagp.hyperparameters.search_space import Space
from cagp.predicting.solving import Iterates

RNG = np.random.default_rng(6)
X, X_TEST = RNG.random((60, 1)), RNG.random((9, 1)) * 1.1
Y = np.exp(np.sin(6 * X[:, 0]) + 0.2 * RNG.normal(size=60))
ONE: dict[str, Any] = {"kernel": "matern32", "mean": cagp.Constant(), "mixture": False, "varying": False}
REGRESSORS = {
    "a kernel": {"kernel": cagp.Matern32(0.3), "noise_variance": 0.05},
    "a kernel, recalibrated": {"kernel": cagp.Matern32(0.3), "noise_variance": 1e-3, "recalibrate": True},
    "a mixture": {**ONE, "target_transform": None, "uncertainty": True, "recalibrate": False},
    "a transform": {**ONE, "target_transform": "log", "uncertainty": False, "recalibrate": False},
    "all of it": {**ONE, "target_transform": "log", "uncertainty": True, "recalibrate": True},
}


@pytest.mark.parametrize("kind", REGRESSORS)
def test_it_predicts_what_the_regressor_predicts(kind: str) -> None:
    regressor = CAGPRegressor(**REGRESSORS[kind]).fit(X, Y)
    model = regressor.model_
    assert isinstance(model, cagp.Model)
    assert (len(model.components) > 1) == (kind in ("a mixture", "all of it"))
    assert (model.margins is not None) == (kind in ("a kernel, recalibrated", "all of it"))
    assert (model.transform is not None) == (kind in ("a transform", "all of it"))
    for of, found in (("latent", model.predict(X_TEST)), ("observed", model.predict(X_TEST).observed())):
        mean, std = regressor.predict(X_TEST, return_std=True, of=of)
        assert_allclose(mean, found.mean, rtol=1e-9)
        assert_allclose(std, found.std, rtol=1e-9)
        assert_allclose(regressor.predict_interval(X_TEST, 0.8, of=of), found.interval(0.8), rtol=1e-7)
        median = found.median
        assert_allclose(regressor.predict_exceedance(X_TEST, median, of=of), found.exceedance(median), rtol=1e-6)
    plain = model.predict(X_TEST) if model.transform is None else model.predict(X_TEST).observed()
    assert_allclose(regressor.predict(X_TEST), plain.mean, rtol=1e-9)
    assert_allclose(model.y, Y, rtol=1e-9)


def test_ctrl_c_in_a_prediction_ends_a_cross_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a prediction must not be scored as if it were a whole one: here the second of three."""
    iterates, asked = Iterates.__init__, []

    def interrupted(*arguments: Any) -> None:
        asked.append(1)
        if len(asked) == 2:
            signal.raise_signal(signal.SIGINT)
        iterates(*arguments)

    monkeypatch.setattr(Iterates, "__init__", interrupted)
    solver = cagp.NearestNeighbours(5)  # whose means take all of the work
    regressor = CAGPRegressor(cagp.Matern32(0.3), noise_variance=0.05, optimizer=None, solver=solver)
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(regressor, X, Y, cv=3, error_score="raise")
    assert len(asked) == 2


@pytest.mark.filterwarnings("ignore::cagp.hyperparameters.FitWarning")
def test_ctrl_c_in_a_search_ends_a_cross_validation(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second candidate of the first of three fits: the first candidate is not scored instead."""
    embed, asked = cagp.RBF.embed, []

    def interrupted(*arguments: Any) -> Any:
        asked.append(1)
        if len(asked) == 1:
            signal.raise_signal(signal.SIGINT)
        return embed(*arguments)

    monkeypatch.setattr(cagp.RBF, "embed", interrupted)
    fits, fit = [], CAGPRegressor.fit

    def counted(*arguments: Any, **options: Any) -> Any:
        fits.append(1)
        return fit(*arguments, **options)

    monkeypatch.setattr(CAGPRegressor, "fit", counted)
    regressor = CAGPRegressor(**{**ONE, "kernel": ["matern32", "rbf"], "target_transform": None})
    with pytest.raises(KeyboardInterrupt):
        cross_val_score(regressor, X, Y, cv=3, error_score="raise")
    assert asked
    assert len(fits) == 1


@pytest.mark.filterwarnings("ignore::cagp.hyperparameters.FitWarning")
@pytest.mark.parametrize("restart", [False, True])
def test_ctrl_c_while_a_given_kernel_is_fitted_keeps_it_and_ends(
    monkeypatch: pytest.MonkeyPatch, restart: bool
) -> None:
    """In the first start of the optimiser, and in the second one, after the first has converged."""
    kernel, asked, when = Space.kernel, [], [0]

    def interrupted(*arguments: Any) -> Any:
        asked.append(1)
        if len(asked) == when[0]:
            signal.raise_signal(signal.SIGINT)
        return kernel(*arguments)

    monkeypatch.setattr(Space, "kernel", interrupted)
    settings = {"noise_variance": 0.05, "recalibrate": True}
    CAGPRegressor(cagp.Matern32(0.3), **{**settings, "recalibrate": False}).fit(X, Y)
    when[0] = len(asked) + 1 if restart else 3
    asked.clear()
    regressor = CAGPRegressor(cagp.Matern32(0.3), n_restarts_optimizer=3, **settings)
    with pytest.raises(KeyboardInterrupt, match="best model found so far"):
        regressor.fit(X, Y)
    assert len(asked) <= when[0] + 2
    assert regressor.fit_result_.converged == restart
    assert regressor.model_.margins is None
    assert regressor.predict(X_TEST).shape == (9,)

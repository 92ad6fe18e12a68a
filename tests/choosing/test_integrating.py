"""``cagp.fit`` integrates over hyperparameters where there are few observations, and says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import cagp
from cagp.choosing.integrating import _as_fitted
from cagp.hyperparameters import Hyperpriors
from cagp.hyperparameters.hyperpriors import SmallDeviation
from cagp.recalibration import Recalibration

RNG = np.random.default_rng(4)
X = RNG.random((25, 1))
Y = np.sin(7 * X[:, 0]) + 0.1 * RNG.standard_normal(25)
T = np.linspace(0, 1.3, 20)[:, None]


def test_by_default_and_not_when_told() -> None:
    known = cagp.fit(X, Y, kernel="matern32", mean="constant", uncertainty=False, recalibrate=False)
    found = cagp.fit(X, Y, kernel="matern32", mean="constant", recalibrate=False)
    assert len(known.components) == 1
    assert "plugged in as fitted, as if they were known" in known.record.text
    assert len(found.components) > 1
    assert f"a mixture of {len(found.components)} models" in found.record.text
    assert "lengthscale, noise variance, variance" in found.record.text
    # the error bars are wider where the data say little
    assert found.predict(T).std[-1] > 1.02 * known.predict(T).std[-1]
    again = cagp.fit(X, Y, kernel="matern32", mean="constant", recalibrate=False)
    assert np.array_equal(again.predict(T).std, found.predict(T).std)


@pytest.mark.parametrize("like", [None, T], ids=["anywhere", "like"])
def test_no_more_components_than_predictions_need(like: np.ndarray | None, monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"kernel": "matern32", "mean": "constant", "recalibrate": False, "like": like}
    few = cagp.fit(X, Y, **how)
    monkeypatch.setattr(cagp.Model, "compact", lambda self, like, tolerance: self)
    drawn = cagp.fit(X, Y, **how)
    assert len(few.components) < len(drawn.components) / 1.5
    assert f"a mixture of {len(few.components)} models" in few.record.text
    assert f"as few of {len(drawn.components)} as move medians" in few.record.text
    one, whole = (model.predict(X if like is None else like) for model in (few, drawn))
    for p in (0.025, 0.5, 0.975):
        assert (np.abs(one.quantile(p) - whole.quantile(p)) <= 0.1 * whole.std).all()


def test_with_a_mixture_of_kernels_and_a_recalibration() -> None:
    model = cagp.fit(X, Y, kernel=("matern32", "matern52", "rbf"), mean="constant", recalibrate=True)
    assert isinstance(model.margins, Recalibration)
    assert 3 <= len(model.components) <= 30
    shares = {each.name.split(",")[0]: each.weight for each in model.candidates}
    for kind, share in shares.items():
        own = [
            weight
            for weight, each in zip(model.weights, model.components, strict=True)
            if type(each.prior.kernel).__name__.lower() == kind
        ]
        assert sum(own) == pytest.approx(share, abs=0.02)
    low, high = model.predict(T).interval(0.9)
    assert (low < high).all()


def test_a_trend_that_takes_a_variance_far_beyond_that_of_the_observations() -> None:
    """The likelihood likes ever longer lengthscales there; what is believed of them must not make predictions worse."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(800, 6))
    a, b, c, d = inputs[:, :4].T
    y = 0.05 * a * b + c + 0.1 * np.sin(a) + 0.3 * np.abs(np.round(d)) + 0.02 * rng.normal(size=800)
    how: dict[str, Any] = {"kernel": "matern32", "mean": "constant", "transform": None, "varying": False}
    scores = {}
    for uncertainty in (False, "auto"):
        fitted = cagp.fit(inputs[:300], y[:300], uncertainty=uncertainty, rotate=False, recalibrate=False, **how)
        predicted = fitted.predict(inputs[300:]).observed()
        scores[uncertainty] = -stats.norm.logpdf(y[300:], predicted.mean, predicted.std).mean()
    # whether it can be sampled, or is told to be plugged in, depends on where on a ridge the optimiser stops
    assert len(fitted.components) > 1 or "could be sampled" in fitted.story.replace("\n  ", " ")
    assert fitted.components[0].prior.kernel.variance > 1e4  # type: ignore[attr-defined]
    assert scores["auto"] < scores[False] + 0.05


def test_a_noise_that_few_observations_hide_is_integrated_over() -> None:
    """The fit goes through all ten, and the likelihood is flat in a noise that small: that is not to know it."""
    rng = np.random.default_rng(10061)
    inputs = rng.random((110, 1))
    apart = np.abs(inputs - inputs.T) / 0.4 * 3**0.5
    f = np.linalg.cholesky((1 + apart) * np.exp(-apart) + 1e-9 * np.eye(110)) @ rng.normal(size=110)
    y = f + 0.3 * rng.normal(size=110)
    how: dict[str, Any] = {"kernel": "matern32", "mean": "constant", "transform": None, "varying": False}
    model = cagp.fit(inputs[:10], y[:10], rotate=False, recalibrate=False, **how)
    assert model.result.prior.noise_variance < 1e-4
    assert max(float(each.prior.noise_variance) for each in model.components) > 1e-3


def test_with_columns_that_have_names() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["depth"])
    model = cagp.fit(table, Y, kernel="rbf", mean="constant", recalibrate=False)
    assert np.array_equal(
        model.predict(table).mean, cagp.fit(X, Y, kernel="rbf", mean="constant", recalibrate=False).predict(X).mean
    )
    with pytest.raises(cagp.InputError, match="columns"):
        model.predict(table.rename(columns={"depth": "height"}))


def test_not_for_many_observations() -> None:
    many = np.random.default_rng(0).random((2001, 1))
    with pytest.raises(cagp.InputError, match="uncertainty=True is for at most 2,000 observations, got 2,001"):
        cagp.fit(many, many[:, 0], uncertainty=True)
    with pytest.raises(cagp.InputError, match="uncertainty"):
        cagp.fit(X, Y, uncertainty="sometimes")


def test_lengthscales_are_held_where_the_variance_is_far_beyond_what_was_expected() -> None:
    """Drawn by themselves they would be short: where nothing was observed, predictions would vary by all of it."""
    told = {"kernel.kernels[0].lengthscale[0]": 0.5, "kernel.kernels[1].lengthscale[0]": 0.5}
    told |= {"kernel.kernels[1].lengthscale[1]": 2.0, "kernel.kernels[0].lengthscale[1]": 0.01}
    names = "kernel.kernels[0].variance", "kernel.kernels[1].variance"
    expected = Hyperpriors({name: SmallDeviation(1.0) for name in names})
    flat = ("kernel.kernels[0].lengthscale[1]",)
    assert _as_fitted(told) == flat
    assert _as_fitted(told, expected, expected.allowing({names[1]: 1.5**2})) == flat
    held = _as_fitted(told, expected, expected.allowing({names[1]: 5.0**2}))
    assert set(held) == {*flat, "kernel.kernels[1].lengthscale[0]"}


def test_few_rows_of_many_columns_are_not_learned_by_heart() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=150)
    how: dict[str, Any] = {"mean": "constant", "varying": False, "rotate": False, "transform": None, "progress": False}
    model = cagp.fit(X[:100], y[:100], **how)
    assert all("+" not in each.name and "long" not in each.name for each in model.candidates)
    assert "A sum of two kernels was not tried" in model.record.text
    assert "There are only 10 observations for each hyperparameter" in model.record.text
    asked = cagp.fit(X[:100], y[:100], kernel="short and long", uncertainty=False, **how)
    assert asked.prior.kernel.kernels

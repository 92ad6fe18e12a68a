"""Whatever a model is made of, it does the same things, or says in one sentence why it cannot."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import cagp
from cagp.errors import InputError
from cagp.story import Story

RNG = np.random.default_rng(11)
X, TEST = RNG.random((60, 2)), RNG.random((6, 2))
Z = np.sin(5 * X[:, 0]) + X[:, 1] + 0.2 * RNG.normal(size=60)
FIRST = cagp.Prior(cagp.Matern32(0.4), mean=cagp.Constant(), noise_variance=0.04)
SECOND = cagp.Prior(cagp.RBF(0.3, 2.0), mean=cagp.Constant(), noise_variance=0.05)
NEW = slice(45, 60)
KINDS = ("plain", "mixture", "recalibrated", "conformal", "transformed", "all of it")


@cache
def model_of(kind: str) -> cagp.Model:
    mixed, transformed = kind in ("mixture", "all of it"), kind in ("transformed", "all of it")
    priors, y = (FIRST, SECOND) if mixed else (FIRST,), Z[:45]
    components = [prior.condition(X[:45], y, "cholesky").components[0] for prior in priors]
    transform = cagp.transforms.Log() if transformed else None
    model = cagp.Model(components, [0.6, 0.4] if mixed else [1.0], transform=transform)
    if kind in ("conformal", "all of it"):
        model = model.recalibrated(calibration=(X[NEW], observations(kind)[NEW]), progress=False)
    elif kind == "recalibrated":
        model = model.recalibrated(progress=False)
    return model.replace(story=Story("Made for a test.", ())) if kind == "all of it" else model


def observations(kind: str) -> np.ndarray:
    return np.exp(Z) if kind in ("transformed", "all of it") else Z


def predicted(found: Any, size: int = len(TEST)) -> None:
    assert len(found) == size
    shown = found.observed()
    for each in (found.mean, found.std, found.variance, found.median, *found.interval(0.5), *shown.interval(0.5)):
        assert np.asarray(each).shape == (size,)
        assert np.isfinite(each).all()
    assert (found.std > 0).all()
    assert (shown.std > found.std).all()
    assert found.quantile([0.3, 0.6]).shape == (size, 2)
    assert found.status.reason
    assert str(found.guarantee)


def other_model(found: cagp.Model, kind: str, size: int) -> None:
    assert isinstance(found, cagp.Model)
    assert len(found.components) == len(model_of(kind).components)
    assert found.transform == model_of(kind).transform
    assert found.X.shape == (size, 2)
    assert found.y.shape == (size,)
    predicted(found.predict(TEST))


def _predict(kind: str, folder: Path) -> None:
    found = model_of(kind).predict(TEST)
    predicted(found)
    assert found.sample(3).shape == (3, 6)
    assert_allclose(found.exceedance(found.mean), 1 - found.cdf(found.mean), atol=1e-12)
    assert len(found.components) == len(found.component_weights) == len(model_of(kind).components)
    assert found.iterations.shape == (6,)
    assert found.passes > 0


def _average(kind: str, folder: Path) -> None:
    found = model_of(kind).average(TEST, by=[0, 0, 0, 1, 1, 1])
    predicted(found, 2)
    assert found.covariance().shape == (2, 2)
    assert found.sample(3).shape == (3, 2)
    if model_of(kind).transform is None:
        bounds = found.computational_variance
        assert (bounds.lower <= bounds.upper).all()
    if model_of(kind).margins is None:
        assert_allclose(found.exceedance(found.quantile(0.3)), 0.7, atol=1e-3)
        return
    with pytest.raises(InputError, match="not how they go together"):
        found.exceedance(0.0)


def _simulate(kind: str, folder: Path) -> None:
    found = model_of(kind).simulate(TEST, 4, observed=True, progress=False)
    assert found.fields.shape == (4, 6)
    assert np.isfinite(found.fields).all()
    assert found.how


def _left_out(kind: str, folder: Path) -> None:
    found = model_of(kind).left_out(progress=False)
    assert found.mean.shape == found.std.shape == (45,)
    assert np.isfinite(found.z).all()
    assert_allclose(found.y, Z[:45], rtol=1e-9)


def _recalibrated(kind: str, folder: Path) -> None:
    found = model_of(kind).recalibrated(progress=False)
    other_model(found, kind, 45)
    assert found.guarantee.kind == "empirical"
    assert_allclose(found.components[0].b, model_of(kind).components[0].b)


def _calibrated(kind: str, folder: Path) -> None:
    found = model_of(kind).recalibrated(calibration=(X[NEW], observations(kind)[NEW]), progress=False)
    other_model(found, kind, 45)
    assert found.guarantee.kind == "marginal, distribution-free"


def _iterate(kind: str, folder: Path) -> None:
    *_, last = model_of(kind).iterate(TEST)
    predicted(last)
    assert_allclose(last.mean, model_of(kind).predict(TEST).mean)
    assert_allclose(last.std, model_of(kind).predict(TEST).std)


def _jackknife(kind: str, folder: Path) -> None:
    lower, upper = model_of(kind).jackknife_interval(TEST, 0.8)
    assert lower.shape == upper.shape == (6,)
    assert (lower < upper).all()


def _with_more(kind: str, folder: Path) -> None:
    found = model_of(kind).with_more(X[NEW], observations(kind)[NEW])
    other_model(found, kind, 60)
    assert_allclose(found.y, observations(kind), rtol=1e-9)


def _with_observations(kind: str, folder: Path) -> None:
    found = model_of(kind).with_observations(observations(kind)[:45] * 1.5)
    other_model(found, kind, 45)
    assert_allclose(found.y, 1.5 * observations(kind)[:45], rtol=1e-9)
    assert found.margins is None
    assert found.story == ""


def _saved(kind: str, folder: Path) -> None:
    model = model_of(kind)
    found = cagp.load(model.save(folder / "model"))
    other_model(found, kind, 45)
    assert_allclose(found.predict(TEST).observed().interval(0.7), model.predict(TEST).observed().interval(0.7))
    assert found.story == model.story
    assert found.guarantee == model.guarantee
    assert_allclose(found.weights, model.weights)


def _made_of(kind: str, folder: Path) -> None:
    model = model_of(kind)
    assert model.prior == FIRST
    assert model.solver == cagp.Cholesky()
    assert_allclose(model.X, X[:45])
    assert_allclose(model.y, observations(kind)[:45], rtol=1e-9)
    assert model.trend is not None
    assert np.isfinite(np.asarray(model.trend.coefficients)).all()
    assert model.column_names is None
    assert "45 observations" in repr(model)
    assert str(model)


def _predict_mean(kind: str, folder: Path) -> None:
    assert_allclose(model_of(kind).predict_mean(TEST), model_of(kind).predict(TEST).mean, rtol=1e-9)
    *_, last = model_of(kind).iterate_mean(TEST)
    assert_allclose(last, model_of(kind).predict(TEST).mean, rtol=1e-9)


def _prior_at(kind: str, folder: Path) -> None:
    found = model_of(kind).prior_at(TEST)
    predicted(found)
    assert (np.asarray(found.components[0].std) > np.asarray(model_of(kind).predict(TEST).components[0].std)).all()


def _kept(kind: str, folder: Path) -> None:
    whole = model_of(kind).predict(TEST)
    moments = (np.stack([getattr(each, name) for each in whole.components]) for name in ("mean", "variance"))
    found = model_of(kind).prediction_of(TEST, *moments)
    predicted(found)
    assert_allclose(found.observed().interval(0.6), whole.observed().interval(0.6), rtol=1e-12)


VERBS: dict[str, Callable[[str, Path], None]] = {
    "predict": _predict,
    "average": _average,
    "simulate": _simulate,
    "left_out": _left_out,
    "recalibrated": _recalibrated,
    "recalibrated(calibration=)": _calibrated,
    "iterate": _iterate,
    "jackknife_interval": _jackknife,
    "with_more": _with_more,
    "with_observations": _with_observations,
    "save and load": _saved,
    "prior, solver, X, y, trend": _made_of,
    "predict_mean": _predict_mean,
    "prior_at": _prior_at,
    "prediction_of": _kept,
}
REFUSED = {
    ("jackknife_interval", "mixture"): "jackknife\\+ is known for one prior",
    ("jackknife_interval", "all of it"): "jackknife\\+ is known for one prior",
    ("with_more", "conformal"): "before calibrating",
    ("with_more", "all of it"): "before calibrating",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("verb", VERBS)
def test_every_model_does_it_or_says_why_not(verb: str, kind: str, tmp_path: Path) -> None:
    why = REFUSED.get((verb, kind))
    if why is None:
        VERBS[verb](kind, tmp_path)
        return
    with pytest.raises(InputError, match=why) as raised:
        VERBS[verb](kind, tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_a_data_frame_are_told_by_name(kind: str) -> None:
    """Also those of ``like`` and of calibration observations, which were not asked for their names once."""
    frame = pd.DataFrame(X[:45], columns=["east", "north"])
    model = FIRST.condition(frame, Z[:45], "cholesky")
    second = SECOND.condition(frame, Z[:45], "cholesky").components[0]
    parts = model_of(kind)
    if len(parts.components) > 1:
        model = model.replace(components=[*model.components, second], weights=[0.6, 0.4])
    model = model.replace(margins=parts.margins, transform=parts.transform)
    assert model.column_names == ["east", "north"]
    turned = pd.DataFrame(TEST, columns=["north", "east"])
    calls: dict[str, Callable[[], Any]] = {
        "X_test": lambda: model.predict(turned),
        "like": lambda: model.left_out(like=turned),
        "like ": lambda: model.recalibrated(like=turned),
        "calibration[0]": lambda: model.recalibrated(calibration=(turned, np.ones(6))),
        "X": lambda: model.with_more(turned, np.ones(6)),
    }
    for name, call in calls.items():
        said = rf"^{name.strip()} has the columns \['north', 'east'\], .* {name.strip()}\[\['east', 'north'\]\]"
        said = said.replace("calibration[0]", r"calibration\[0\]")
        if name == "X" and kind in ("conformal", "all of it"):
            said = "before calibrating|has the columns"
        with pytest.raises(InputError, match=said):
            call()


def _calls(work: Callable[[], Any]) -> int:
    """How many functions, of Python and of C, are called."""
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("recalibrated", [False, True], ids=["mixture", "recalibrated"])
def test_an_interval_of_many_components_is_a_handful_of_calls(recalibrated: bool) -> None:
    """28 priors at 400 points: everything is done for all of them at once."""
    points = np.random.default_rng(0).random((400, 2))
    components = [
        cagp.Prior(cagp.Matern32(0.2 + 0.03 * i), noise_variance=0.02 + 0.002 * i).condition(X, Z).components[0]
        for i in range(28)
    ]
    model = cagp.Model(components, np.full(28, 1 / 28))
    model = model.recalibrated(progress=False) if recalibrated else model
    prediction = model.predict(points).observed()
    assert _calls(lambda: prediction.interval(0.95)) <= 300
    prediction = model.predict(points).observed()
    lower, upper = prediction.interval(0.95)
    if not recalibrated:
        assert_allclose(prediction.cdf(upper) - prediction.cdf(lower), 0.95, atol=1e-9)

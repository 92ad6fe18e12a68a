"""The estimator with data frames, weights and pipelines, as users of scikit-learn have them."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cagp
from cagp.errors import InputError, MemoryBudgetError
from cagp.hyperparameters import FitWarning

N = 90
RNG = np.random.default_rng(1)
SOIL = np.array(["clay", "peat", "sand"])[RNG.integers(0, 3, N)]
FRAME = pd.DataFrame(
    {"x": RNG.random(N), "soil": SOIL, "when": pd.date_range("2024-01-01", periods=N), "wet": RNG.random(N) < 0.5}
)
DAYS = (FRAME["when"] - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")
ENCODED = np.column_stack([FRAME["x"], SOIL == "peat", SOIL == "sand", DAYS, FRAME["wet"]]).astype(float)
Y = np.sin(6 * FRAME["x"].to_numpy()) + (SOIL == "sand") + 0.1 * RNG.normal(size=N)
KERNEL = cagp.Matern32((0.5, 1.0, 1.0, 50.0, 1.0))
QUICK: Any = {"uncertainty": False, "varying": False, "rotate": False}
KINDS = {
    "chosen": cagp.CAGPRegressor("matern32", **QUICK),
    "given": cagp.CAGPRegressor(KERNEL, noise_variance=0.01, optimizer=None, recalibrate=True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_their_features(kind: str) -> None:
    regressor = clone(KINDS[kind]).fit(FRAME, Y)
    plain = clone(KINDS[kind]).fit(ENCODED, Y)
    assert list(regressor.feature_names_in_) == ["x", "soil", "when", "wet"]
    assert regressor.n_features_in_ == 4
    np.testing.assert_array_equal(regressor.X_train_, ENCODED)
    for ours, theirs in zip(
        regressor.predict(FRAME, return_std=True), plain.predict(ENCODED, return_std=True), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-3)  # the last digits decide where an optimiser stops
    assert regressor.model_.column_names == ["x", "soil=peat", "soil=sand", "when", "wet"]
    np.testing.assert_allclose(regressor.model_.predict(FRAME).mean, regressor.predict(FRAME), atol=1e-4)
    np.testing.assert_allclose(
        pickle.loads(pickle.dumps(regressor)).predict(FRAME), regressor.predict(FRAME), atol=1e-4
    )
    assert "'soil' holds 3 categories ('clay', 'peat', 'sand')" in " ".join(regressor.fit_message_.split())


@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_cross_validation_and_pipelines() -> None:
    scores = cross_val_score(KINDS["chosen"], FRAME, Y, cv=3, error_score="raise")
    assert scores.min() > 0.7
    scaled = make_column_transformer(
        (StandardScaler(), ["x"]), remainder="passthrough", verbose_feature_names_out=False
    )
    pipeline = make_pipeline(scaled.set_output(transform="pandas"), clone(KINDS["given"])).fit(FRAME, Y)
    regressor, points = pipeline[-1], pipeline[:-1].transform(FRAME)
    assert list(regressor.feature_names_in_) == ["x", "soil", "when", "wet"]
    for interval, of in ((0.8, None), (0.95, "latent")):
        ends = pipeline.predict(FRAME, interval=interval, of=of)
        expected = regressor.predict_interval(points, interval, of=of or "observed")
        for end, its in zip(ends, expected, strict=True):
            np.testing.assert_array_equal(end, its)
    logarithms = TransformedTargetRegressor(clone(KINDS["given"]), func=np.log, inverse_func=np.exp)
    assert logarithms.fit(FRAME, np.exp(Y)).score(FRAME, np.exp(Y)) > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_is_refused_in_words(kind: str) -> None:
    regressor = clone(KINDS[kind]).fit(FRAME, Y)
    with pytest.raises(InputError, match="'soil' of X holds 'gravel' at index 0, a category that the model has never"):
        regressor.predict(FRAME.assign(soil="gravel"))
    with pytest.raises(InputError, match="the training points have 5; these were made of a data frame"):
        regressor.predict(np.ones((2, 4)))
    with pytest.raises(ValueError, match="feature names"):
        regressor.predict(FRAME[["soil", "x", "when", "wet"]])
    with pytest.raises(TypeError, match="toarray"):
        regressor.fit(scipy.sparse.csr_array(ENCODED), Y)
    with pytest.raises(InputError, match="leave out return_std"):
        regressor.predict(FRAME, return_std=True, interval=0.9)


def test_texts_in_arrays_are_refused_with_what_to_do() -> None:
    """Arrays of objects, as a ColumnTransformer makes them of texts, and columns as they were before encoding."""
    plain = FRAME[["x", "soil"]]
    regressor = cagp.CAGPRegressor(cagp.RBF(), noise_variance=0.01, optimizer=None)
    pipeline = make_pipeline(make_column_transformer(("passthrough", ["soil", "x"])), regressor)
    remedy = r"texts \(could not convert string to float: .*set_output\(transform=\"pandas\"\).*OneHotEncoder"
    with pytest.raises(InputError, match=remedy):
        pipeline.fit(plain, Y)
    with pytest.raises(InputError, match=remedy):
        clone(KINDS["chosen"]).fit(plain.to_numpy(), np.column_stack([Y, Y]))
    regressor.fit(plain, Y)
    for refusing, name in ((regressor.predict, "X"), (regressor.model_.predict, "X_test")):
        for array in (plain.to_numpy(), np.ones((2, 2))):
            words = f"{name} has 2 columns, the training points have 3; .* data frame with the columns .'x', 'soil'.;"
            with pytest.raises(InputError, match=words):
                refusing(array)
    two = SOIL != "peat"  # and as many features as columns
    regressor.fit(plain[two], Y[two])
    for refusing in (regressor.predict, regressor.model_.predict):
        with pytest.raises(InputError, match=r"has texts; .* data frame with the columns"):
            refusing(plain.to_numpy())
    truths = FRAME[["x", "wet"]]
    regressor.fit(truths, Y)
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(regressor.predict(truths.to_numpy()), regressor.predict(truths))


WEIGHTS = RNG.integers(0, 4, N)
ROWS = np.repeat(np.arange(N), WEIGHTS)


@pytest.mark.filterwarnings("ignore:.*bound:cagp.hyperparameters.FitWarning")  # copies tell of no noise
@pytest.mark.parametrize("kind", ["chosen", "given", "fitted"])
def test_weights_repeat_rows(kind: str) -> None:
    regressor = cagp.CAGPRegressor(KERNEL) if kind == "fitted" else clone(KINDS[kind])
    with nullcontext() if kind == "given" else pytest.warns(FitWarning, match="weight repeats .* copies agree exactly"):
        weighted = clone(regressor).fit(FRAME, Y, sample_weight=WEIGHTS.astype(float))
    with nullcontext() if kind == "given" else pytest.warns(FitWarning, match="rows repeat another one"):
        repeated = clone(regressor).fit(FRAME.iloc[ROWS], Y[ROWS])
    for ours, theirs in zip(
        weighted.predict(FRAME, return_std=True), repeated.predict(FRAME, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_a_weight_divides_a_known_noise() -> None:
    """The law of Gaussian noise: an observation that is there w times is one with the noise divided by w."""
    there = WEIGHTS > 0
    weighted = cagp.CAGPRegressor(KERNEL, optimizer=None, alpha=0.04).fit(ENCODED, Y, sample_weight=WEIGHTS)
    noise = 0.04 / WEIGHTS[there]
    divided = cagp.CAGPRegressor(KERNEL, optimizer=None).fit(ENCODED[there], Y[there], noise_variance=noise)
    for ours, theirs in zip(
        weighted.predict(ENCODED, return_std=True), divided.predict(ENCODED, return_std=True), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7)
    each = RNG.uniform(0.01, 0.1, N)
    known = cagp.CAGPRegressor(KERNEL, optimizer=None)
    weighted = clone(known).fit(ENCODED, Y, noise_variance=each, sample_weight=WEIGHTS)
    divided = clone(known).fit(ENCODED[there], Y[there], noise_variance=(each / np.maximum(WEIGHTS, 1))[there])
    np.testing.assert_allclose(weighted.predict(ENCODED), divided.predict(ENCODED), rtol=1e-7)


@pytest.mark.parametrize(
    ("weights", "more", "words"),
    [
        (np.full(N, 0.5), {}, "whole numbers.*got 0.5 at index 0.*noise_variance"),
        (-np.ones(N), {}, "whole numbers.*got -1"),
        (np.zeros(N), {}, "zero for all"),
        (np.ones(N + 1), {}, "shape .91,. for 90 observations"),
        (np.full(N, 1e13), {}, "sample_weight, 1e.13 at index 0, repeats observations, and 9e.14 rows needs .*divide"),
        (np.full(N, 1e19), {}, "sample_weight, 1e.19 at index 0, .*noise_variance"),
        (np.ones((N, 2)), {}, "shape .90, 2. for 90 observations"),
        (np.ones(N), {"alpha": np.ones(N)}, "give these values to fit"),
    ],
)
def test_weights_that_are_none(weights: np.ndarray, more: Any, words: str) -> None:
    with pytest.raises((InputError, MemoryBudgetError), match=words):
        cagp.CAGPRegressor(KERNEL, optimizer=None, **more).fit(ENCODED, Y, sample_weight=weights)

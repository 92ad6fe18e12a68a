"""Models with a trend that a regressor learned, on disk: data and settings, never code."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import cagp
from cagp.errors import InputError, SavedModelError
from cagp.regression import CrossFitted
from cagp.saving import read
from cagp.saving.objects import decode, encode

pytest.importorskip("sklearn")
pytest.importorskip("safetensors")

from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

RNG = np.random.default_rng(5)
X = RNG.random((120, 3))
Y = np.round(3 * X[:, 0]) + X[:, 1]
TEST = RNG.random((9, 3))
PRIOR = cagp.Matern32(0.5, 0.3)


def model_of(regressor: object) -> cagp.Model:
    mean = cagp.Regression(regressor).fit(X, Y)
    return cagp.Prior(PRIOR, mean=mean, noise_variance=0.01).condition(X, Y, "cholesky")


@pytest.mark.parametrize(
    "regressor",
    [
        HistGradientBoostingRegressor(max_iter=10),
        RandomForestRegressor(10, max_features=0.5),
        make_pipeline(MinMaxScaler((0, 2)), Ridge(0.1)),
    ],
)
@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_a_saved_trend_comes_back(tmp_path: Path, regressor: object) -> None:
    model = model_of(regressor)
    model.save(tmp_path / "m")
    loaded = cagp.load(tmp_path / "m")
    assert loaded.guarantee.kind == read(tmp_path / "m").guarantee.kind == "empirical"
    assert loaded.prior == model.prior
    for places in (X, TEST):
        np.testing.assert_allclose(loaded.predict(places).mean, model.predict(places).mean, rtol=1e-10)
    more = loaded.with_more(TEST, np.ones(9))
    more.save(tmp_path / "more")
    np.testing.assert_allclose(cagp.load(tmp_path / "more").predict(X[:5]).mean, more.predict(X[:5]).mean, rtol=1e-10)


def test_a_mixture_learns_its_trend_once(tmp_path: Path) -> None:
    model = cagp.fit(X, Y, mean=Ridge(), kernel="matern32", transform=None, progress=False)
    assert len(model.components) > 1
    model.save(tmp_path / "m")
    loaded = cagp.load(tmp_path / "m")
    assert len({id(each.recipe.offset) for each in loaded.components}) == 1
    np.testing.assert_allclose(loaded.predict(TEST).std, model.predict(TEST).std, rtol=1e-8)


class Own:
    def fit(self, X: np.ndarray, y: np.ndarray) -> None: ...

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.zeros(len(X))


@pytest.mark.parametrize(
    "regressor",
    [
        Own(),
        make_pipeline(FunctionTransformer(np.log1p), Ridge()),
        TransformedTargetRegressor(Ridge(), func=np.log1p, inverse_func=np.expm1),
    ],
)
def test_what_holds_code_is_refused_before_anything_is_written(tmp_path: Path, regressor: object) -> None:
    with pytest.raises(InputError, match="a model folder holds no code"):
        model_of(regressor).save(tmp_path / "m")
    assert not (tmp_path / "m").exists()


def test_a_cache_is_refused(tmp_path: Path) -> None:
    cached = make_pipeline(MinMaxScaler(), Ridge(), memory=str(tmp_path / "cache"))
    with pytest.raises(InputError, match="a cache; leave it out"):
        model_of(cached).save(tmp_path / "m")


def changed(**parts: object) -> tuple[dict[str, object], dict[str, np.ndarray]]:
    arrays: dict[str, np.ndarray] = {}
    content = encode(cagp.Regression(Ridge()).fit(X, Y), "mean", arrays)
    return json.loads(json.dumps(content)) | parts, arrays


@pytest.mark.parametrize(
    "regressor",
    [
        {"sklearn": "os.system", "parameters": {}},
        {"sklearn": "sklearn.utils.Bunch", "parameters": {}},
        {"sklearn": "sklearn.pipeline.Pipeline", "parameters": {"steps": [], "memory": "/tmp"}},
        {"sklearn": "sklearn.linear_model.Ridge", "parameters": {"unheard_of": 1}},
        {"sklearn": "sklearn.linear_model.Ridge"},
    ],
)
def test_only_known_estimators_come_back(regressor: object) -> None:
    content, arrays = changed(regressor=regressor)
    with pytest.raises(SavedModelError):
        decode(content, "mean", arrays, CrossFitted)


def test_another_trend_than_the_saved_one_is_refused() -> None:
    content, arrays = changed(made_by="scikit-learn 0.1")
    name = next(each for each in arrays if each.endswith("values"))
    arrays[name] = arrays[name] + 0.1
    mean = decode(content, "mean", arrays, CrossFitted)
    model = cagp.Prior(PRIOR, mean=mean, noise_variance=0.01).condition(X, Y)
    with pytest.raises(SavedModelError, match=r"learned with scikit-learn 0\.1"):
        model.predict(TEST)
    del arrays[name]
    with pytest.raises(SavedModelError, match="has no array values"):
        decode(content, "mean", arrays, CrossFitted)

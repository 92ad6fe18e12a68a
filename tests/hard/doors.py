"""Problems for the doors of ``cagp.fit`` that take more than arrays: regressors, quantities, shards, data frames."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import cagp
from hard.kinds import Problem, check_transformed
from hard.laws import check_prediction, numbers
from hard.ugly import pick, scale

QUICK: dict[str, Any] = {"kernel": "matern32", "progress": False, "mixture": False}


def quick(rng: np.random.Generator) -> dict[str, Any]:
    """Options with which a fit is short."""
    made: dict[str, Any] = {**QUICK, "fit_options": {"max_iterations": int(rng.integers(1, 8))}}
    if rng.random() < 0.3:
        made["uncertainty"] = False
    if rng.random() < 0.3:
        made["seconds"] = pick(rng, (1e-9, 0.01, 1.0, 1e9, 0, -1.0, np.nan, np.inf, "long", None))
    if rng.random() < 0.2:
        made["recalibrate"] = True
    return made


def check_fitted(model: Any, X_test: Any) -> np.ndarray:
    """The laws of predictions of a model that ``cagp.fit`` made; its means."""
    prediction = model.predict(X_test)
    if model.transform is None:
        check_prediction(prediction, draws=False)
    else:
        check_transformed(prediction, model.transform, model.replace(transform=None).predict(X_test))
    assert model.story.strip()
    return np.asarray(prediction.mean)


def saved_too(model: Any, X_test: Any, folder: Path) -> None:
    """A loaded model says the same."""
    model.save(folder / "m")
    before, after = (np.asarray(each.predict(X_test).mean) for each in (model, cagp.load(folder / "m")))
    assert np.allclose(before, after, rtol=1e-6, atol=1e-9 * np.abs(before).max(), equal_nan=True), "not as saved"


def trends(seed: int, folder: Path) -> str:
    """A trend by a regressor."""
    problem = Problem(np.random.default_rng([11, seed]), 40, calm=0.8)
    rng = problem.rng
    regressor = pick(
        rng,
        (
            lambda: "trees",
            lambda: Ridge(float(10.0 ** rng.uniform(-6, 3))),
            lambda: DecisionTreeRegressor(max_depth=int(rng.integers(1, 6))),
            lambda: KNeighborsRegressor(int(rng.integers(1, 6))),
            lambda: make_pipeline(StandardScaler(), Ridge()),
            lambda: cagp.Regression(Ridge(), folds=int(rng.integers(2, 7))),
            lambda: Ridge,
        ),
    )()
    options = quick(rng)
    if rng.random() < 0.2:
        options["like"] = problem.X_test
    model = cagp.fit(problem.maybe_spoilt(problem.X), problem.maybe_spoilt(problem.y), mean=regressor, **options)
    mean = check_fitted(model, problem.X_test)
    backwards = np.asarray(model.predict(problem.X_test[::-1]).mean)[::-1]
    assert np.allclose(mean, backwards, rtol=1e-6, atol=1e-6 * np.abs(mean).max(), equal_nan=True), "order matters"
    saved_too(model, problem.X_test, folder)
    return "fitted"


def quantities(seed: int, folder: Path) -> str:
    """Several quantities, each measured at some of the places."""
    problem = Problem(np.random.default_rng([12, seed]), 25, calm=0.8)
    rng = problem.rng
    q, n = int(rng.integers(2, 4)), len(problem.y)
    units = [scale(rng) if rng.random() < 0.1 else 1.0 for _ in range(q)]
    Y = np.column_stack([unit * (problem.y + 0.3 * problem.y_unit * rng.normal(size=n)) for unit in units])
    Y[rng.random(Y.shape) < pick(rng, (0.0, 0.2, 0.7))] = np.nan
    if rng.random() < 0.05:
        Y.flat[int(rng.integers(Y.size))] = np.inf
    given: Any = pd.DataFrame(Y, columns=[f"q{i}" for i in range(q)]) if rng.random() < 0.3 else Y
    options = quick(rng) | {"together": pick(rng, ("auto", True, True, False, "maybe"))}
    model: Any = cagp.fit(problem.maybe_spoilt(problem.X), given, **options)
    T, found = len(problem.X_test), model.predict(problem.X_test)
    for each in found.each:
        mean = np.asarray(each.mean)
        assert not np.isnan(mean).any(), "mean is NaN"
        assert not np.isnan(np.asarray(each.std)).any(), "std is NaN"
    C = np.asarray(found.covariance())
    assert C.shape == (T, q, q)
    assert not np.isnan(C).any(), "a covariance is NaN"
    assert (np.diagonal(C, axis1=1, axis2=2) >= 0).all()
    model.save(folder / "m")
    again: Any = cagp.load(folder / "m")
    before, after = np.asarray(found.mean), np.asarray(again.predict(problem.X_test).mean)
    assert np.allclose(before, after, rtol=1e-6, atol=1e-9 * np.abs(before).max(), equal_nan=True), "not as saved"
    more = again.with_more(problem.X_test, np.where(np.isnan(before), 0.0, before))
    assert not np.isnan(np.asarray(more.predict(problem.X).mean)).any()
    return "together" if model.together else "apart"


def shards(seed: int, folder: Path) -> str:
    """Observations in a folder of Parquet files, as people have them."""
    problem = Problem(np.random.default_rng([13, seed]), 60, calm=0.8)
    rng = problem.rng
    names = [f"x{i}" for i in range(problem.p)]
    source = folder / "table"
    source.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(problem.y)), int(rng.integers(1, 4)))):
        columns: dict[str, Any] = dict(zip(names, problem.X[rows].T, strict=True)) | {"z": problem.y[rows]}
        odd = pick(rng, (*names, "z"))
        if rng.random() < 0.1:
            columns[odd] = pick(
                rng,
                (
                    np.clip(columns[odd], -1e38, 1e38).astype(np.float32),
                    np.round(np.clip(columns[odd], -1e9, 1e9)).astype(np.int32),
                    columns[odd].astype(str),
                    [None] * len(rows),
                    np.where(rng.random(len(rows)) < 0.2, np.nan, columns[odd]),
                ),
            )
        groups = int(rng.integers(1, 30))
        parquet.write_table(pa.table(columns), source / f"{number}.parquet", row_group_size=groups)
    if rng.random() < 0.05:
        file = pick(rng, sorted(source.iterdir()))
        content = file.read_bytes()
        file.write_bytes(content[: int(rng.integers(len(content)))])
    options = quick(rng)
    model: Any = cagp.fit(source, "z", **options)
    mean = np.asarray(model.predict(problem.X_test).mean)
    assert not np.isnan(mean).any(), "mean is NaN"
    assert (np.asarray(model.predict(problem.X_test).std) >= 0).all()
    model.save(folder / "m")
    again = cagp.load(folder / "m")
    assert np.array_equal(mean, np.asarray(again.predict(problem.X_test).mean), equal_nan=True), "not as saved"
    points = folder / "points.parquet"
    parquet.write_table(pa.table(dict(zip(names, problem.X_test.T, strict=True))), points)
    for _ in range(2):
        out = again.predict_to(points, folder / "out", n_jobs=1, progress=False)
        written = parquet.read_table(out / "part-00000.parquet")
        assert np.allclose(written["mean"], mean, rtol=1e-6, atol=1e-9 * np.abs(mean).max()), "not as predicted"
    return "fitted"


def frames(seed: int, folder: Path) -> str:
    """Data frames with categories, dates, yes and no; at the estimator too, where rows are repeated."""
    problem = Problem(np.random.default_rng([14, seed]), 40, calm=0.8)
    rng = problem.rng

    def column(n: int) -> Any:
        return pick(
            rng,
            (
                lambda: rng.choice(["a", "b", "ç", "", "d e"][: int(rng.integers(1, 6))], n),
                lambda: pd.Categorical(rng.choice(["low", "high"], n), ["low", "high", "never"]),
                lambda: rng.random(n) < 0.5,
                lambda: rng.choice(["yes", "no"], n),
                lambda: pd.Timestamp("2024-02-29") + pd.to_timedelta(rng.integers(0, 4000, n), "D"),
                lambda: pd.array(rng.integers(0, 3, n), "Int64"),
                lambda: np.where(rng.random(n) < 0.1, None, rng.choice(["a", "b"], n)),
                lambda: np.array([f"id{i}" for i in range(n)]),
                lambda: rng.choice(["1", "2", "x"], n),
            ),
        )()

    n = len(problem.y)
    X = pd.DataFrame({f"x{i}": each for i, each in enumerate(problem.X.T)})
    for i in range(int(rng.integers(1, 3))):
        X[f"c{i}"] = column(n)
    test = X.iloc[rng.integers(n, size=5)].reset_index(drop=True)
    if rng.random() < 0.5:
        model = cagp.fit(X, problem.y, **quick(rng))
        check_fitted(model, test)
        saved_too(model, test, folder)
        try:
            model.predict(test.assign(c0="another"))
        except cagp.CagpError:
            return "fitted"
        assert all(each.column != "c0" or each.kind == "number" for each in model.encodings), "a new category is taken"
    counts = rng.integers(0, 4, n)
    regressor = cagp.CAGPRegressor("matern32", mixture=False, uncertainty=False, fit_options={"max_iterations": 3})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # repeated rows are said to agree
        weighted = regressor.fit(X, problem.y, sample_weight=counts).predict(test)
        rows = np.repeat(np.arange(n), counts)
        repeated = regressor.fit(X.iloc[rows].reset_index(drop=True), problem.y[rows]).predict(test)
    numbers(weighted, "the mean", (5,))
    assert np.allclose(weighted, repeated, rtol=1e-6, atol=1e-6 * np.abs(problem.y).max()), "weights are no repetitions"
    return "weighted"


DOORS = {"trends": trends, "quantities": quantities, "shards": shards, "frames": frames}

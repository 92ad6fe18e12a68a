"""``like`` says where predictions are wanted: the working set of data in shards has all that is near these points."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cagp
from cagp.errors import InputError
from cagp.shards import fit
from cagp.shards.fitting import working_set
from cagp.shards.writing import write
from shards.test_shards import HERE, NEAR, agree, few, table

pytest.importorskip("pyarrow.parquet")

OPTIONS: dict[str, Any] = {
    "kernel": "matern32",
    "varying": False,
    "rotate": False,
    "transform": None,
    "solver": NEAR,
    "uncertainty": False,
}


def height(X: np.ndarray) -> np.ndarray:
    """A known field at X (n, 2)."""
    return np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + 0.5 * np.sin(40 * X[:, 0] + 20 * X[:, 1])


def with_lakes(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places in the unit square but in round lakes, the field with noise there, and 400 places in the lakes."""
    rng = np.random.default_rng(0)
    X, lakes = rng.random((n, 2)), rng.random((40, 2))
    wet = (np.square(X[:, None] - lakes).sum(axis=2) < 0.04**2).any(axis=1)
    return X[~wet], height(X[~wet]) + 0.1 * rng.normal(size=int((~wet).sum())), rng.permutation(X[wet])[:400]


def test_few_data_are_learned_from_as_in_memory(tmp_path: Path) -> None:
    X, y, like = with_lakes(1300)
    model = cagp.fit(X, y, like=like, progress=False, **OPTIONS)
    points = table(tmp_path / "like", like)
    found = cagp.fit(table(tmp_path / "table", X, y), "z", like=points, progress=False, **OPTIONS)
    assert "stands in for a point to be predicted" in " ".join(found.story.split())
    agree(found.predict(like), model.predict(like))


def test_some_points_of_a_grid_say_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    xr = pytest.importorskip("xarray")
    from cagp.interop.xarray_conventions import Axis
    from cagp.shards.fields import some_points

    along = {"x": np.linspace(0, 1, 30), "y": np.linspace(2, 3, 20)}
    grid, axes = xr.Dataset(coords=along), (Axis("x", "other"), Axis("y", "other"))
    every = some_points(axes, None, grid, 1000)
    assert_array_equal(every, np.column_stack([each.ravel() for each in np.meshgrid(*along.values(), indexing="ij")]))
    some = some_points(axes, None, grid, 50)
    assert len(np.unique(some, axis=0)) == 50
    assert {tuple(each) for each in some} <= {tuple(each) for each in every}
    with pytest.raises(InputError, match="like is a grid, and the observations are not"):
        fit(table(tmp_path / "table", *with_lakes(100)[:2]), "z", n_jobs=1, like=grid, **OPTIONS)


def test_the_working_set_has_all_that_is_near_the_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, 8000)
    X, y, like = with_lakes(20_000)
    store = write(table(tmp_path / "table", X, y), "z", tmp_path / "store", HERE, tile=3000, block=200)
    rows, whole, chosen = working_set(store, HERE, {**OPTIONS, "ard": False, "like": like})
    assert 30 < len(chosen) <= 50
    assert {tuple(each) for each in chosen} <= {tuple(each) for each in like}
    assert len(rows.y) < 10_000
    assert len(whole) > 300
    prior = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01)
    some, every = (prior.condition(*each, NEAR).predict(chosen).std for each in ((rows.X, rows.y), (X, y)))
    assert_allclose(some, every, rtol=1e-10)


def test_error_bars_hold_in_gaps_of_many_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, 8000)
    X, y, like = with_lakes(20_000)
    found = fit(table(tmp_path / "table", X, y), "z", n_jobs=1, like=like, recalibrate=True, **OPTIONS)
    assert len(found.learned.y) < 10_000
    assert "stands in for a point to be predicted" in " ".join(found.story.split())
    prediction = found.predict(like)
    low, high = prediction.interval(0.9)
    assert 0.85 < ((low <= height(like)) & (height(like) <= high)).mean() < 0.97
    noise = 0.1 * np.random.default_rng(1).normal(size=len(like))
    assert 0.9 < np.sqrt(np.square(prediction.observed().normal_score(height(like) + noise)).mean()) < 1.1

"""Predictions from data in shards are those of the same model with all data in memory."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial import cKDTree

import cagp
from cagp.errors import DataError, InputError, InputTypeError, SavedModelError
from cagp.model import Model
from cagp.saving.folder import own_hash
from cagp.shards import ShardedModel, Store, fit, fitting, writing
from cagp.shards.fitting import working_set
from cagp.shards.sources import Part
from cagp.shards.work import Workers
from cagp.shards.writing import _in_spreads, write
from cagp.support import progress
from cagp.support.atomic_files import write_atomically

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

HERE = Workers()
NEAR = cagp.NearestNeighbours(30, shared=False)


def table(folder: Path, X: np.ndarray, y: np.ndarray | None = None, files: int = 3) -> Path:
    """A folder of Parquet files, whose row groups are small."""
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(len(X)), files)):
        columns = {f"x{i}": column for i, column in enumerate(X[rows].T)}
        columns |= {} if y is None else {"z": y[rows]}
        parquet.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=700)
    return folder


def plane(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Places in the unit square but for a hole in its middle, in clusters, and a function with noise there."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([rng.random((3 * n // 4, 2)), 0.2 + 0.05 * rng.normal(size=(n - 3 * n // 4, 2))])
    X = rng.permutation(X[(np.abs(X - 0.6) > 0.15).any(axis=1)])
    return X, np.sin(9 * X[:, 0]) * np.cos(7 * X[:, 1]) + X[:, 0] + 0.1 * rng.normal(size=len(X))


def globe(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Latitudes and longitudes everywhere but over an ocean, and a function with noise there."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.degrees(np.arcsin(rng.uniform(-1, 1, n))), rng.uniform(-180, 180, n)])
    X = X[~((np.abs(X[:, 0]) < 30) & (np.abs(X[:, 1]) > 150))]
    a, b = np.radians(X.T)
    return X, np.cos(a) * np.cos(2 * b) + np.sin(a) + 0.05 * rng.normal(size=len(X))


PRIORS = {
    "known mean": cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01),
    "trend": cagp.Prior(cagp.Matern52((0.1, 0.4)), mean=cagp.Polynomial(1), noise_variance=0.01),
    "turned": cagp.Prior(cagp.Rotated(cagp.Matern32((0.1, 0.3)), 30.0), mean=cagp.Constant(), noise_variance=0.01),
    "sum": cagp.Prior(cagp.Matern32(0.05) + cagp.Matern12((0.5, 2.0)), mean=cagp.Constant(), noise_variance=0.01),
    "columns": cagp.Prior(cagp.Matern32(0.2).on(0) * cagp.RBF(0.3).on(1), noise_variance=0.01),
    "globe": cagp.Prior(
        cagp.Geographic(cagp.Matern32(1500.0), radius=6371.0), mean=cagp.Constant(), noise_variance=0.01
    ),
}


def agree(one: Any, other: Any, by: float = 1e-10) -> None:
    """The same means, error bars and intervals."""
    assert_allclose(one.mean, other.mean, rtol=0, atol=by * np.abs(other.mean).max())
    assert_allclose(one.std, other.std, rtol=by)
    for mine, theirs in zip(one.interval(0.9), other.interval(0.9), strict=True):
        assert_allclose(mine, theirs, rtol=0, atol=by * np.abs(theirs).max())


@pytest.mark.parametrize("name", PRIORS)
def test_predictions_are_those_in_memory(name: str, tmp_path: Path) -> None:
    prior, rng = PRIORS[name], np.random.default_rng(1)
    X, y = globe(10_000) if name == "globe" else plane(10_000)
    test = rng.uniform([-90, -180], [90, 180], (700, 2)) if name == "globe" else rng.uniform(-0.2, 1.3, (700, 2))
    store = write(table(tmp_path / "table", X, y), "z", tmp_path / "store", HERE, tile=1500, block=100)
    assert store.size == len(X)
    assert len(store.rows) > 6
    found = ShardedModel.of(prior.condition(X[:200], y[:200], NEAR), store, HERE)
    agree(found.predict(test), prior.condition(X, y, NEAR).predict(test))


def in_memory(found: ShardedModel, X: np.ndarray, y: np.ndarray) -> Model:
    """The same model of all observations (n,) at X (n, p): nothing of it was read from shards."""
    own = found.learned
    y = y if own.transform is None else own.transform.of(torch.from_numpy(y)).numpy()
    components = [each.prior.condition(X, y, each.solver).components[0] for each in own.components]
    margins: Any = own.margins
    if margins is not None:
        number = cKDTree(X).query(own.X.numpy())[1]
        assert_array_equal(X[number], own.X.numpy())
        margins = replace(margins, bands=tuple(replace(band, index=number[band.index]) for band in margins.bands))
    return own.replace(components=components, margins=margins)


def few(monkeypatch: pytest.MonkeyPatch, working: int) -> None:
    """Little is learned from, by small patches."""
    monkeypatch.setattr(fitting, "WORKING", working)
    for module in (fitting, writing):
        monkeypatch.setattr(module, "SAMPLE", working // 4)


@pytest.mark.parametrize("transform", [None, "log"])
def test_a_recalibrated_mixture_predicts_as_in_memory(
    transform: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few(monkeypatch, 3000)
    X, y = plane(10_000)
    y = y if transform is None else np.exp(y)
    options: dict[str, Any] = {"kernel": ["matern32", "matern12"], "varying": False, "rotate": False, "seconds": 30}
    found = fit(
        table(tmp_path / "table", X, y), "z", n_jobs=1, solver=NEAR, recalibrate=True, transform=transform, **options
    )
    assert len(found.learned.y) < 4000
    assert found.learned.margins is not None
    first = found.learned.components[0]
    other = first.with_prior(replace(first.prior, kernel=cagp.Matern12(0.4, 0.5)))
    mixed = ShardedModel.of(found.learned.replace(components=[first, other], weights=[0.7, 0.3]), found.store, HERE)
    test = np.random.default_rng(1).uniform(-0.1, 1.2, (500, 2))
    for each in (found, mixed):
        agree(each.predict(test).observed(), in_memory(each, X, y).predict(test).observed(), 1e-9)


def test_who_judges_has_all_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few(monkeypatch, 6000)
    X, y = plane(12_000)
    store = write(table(tmp_path / "table", X, y), "z", tmp_path / "store", HERE, tile=1500, block=100)
    rows, whole, _ = working_set(store, HERE, {"solver": cagp.NearestNeighbours(20, shared=False)})
    assert_array_equal(rows.X, X[rows.row])
    assert_array_equal(rows.y, y[rows.row])
    assert {int(y.argmin()), int(y.argmax())} <= set(rows.row)
    assert len(rows.y) < 8000
    assert len(whole) > 300
    # whatever the units of the columns are, they differ little here
    near = cKDTree(X).query(X[rows.row[whole]], 16)[1]
    assert np.isin(near, rows.row).mean() > 0.999


def test_a_fit_to_few_is_that_in_memory(tmp_path: Path) -> None:
    X, y = plane(3000)
    options: dict[str, Any] = {"kernel": "matern32", "varying": False, "rotate": False, "solver": NEAR, "seed": 3}
    found = fit(table(tmp_path / "table", X, y), "z", n_jobs=1, **options)
    model = cagp.fit(X, y, progress=False, **options)
    test = np.random.default_rng(1).uniform(-0.1, 1.2, (300, 2))
    agree(found.predict(test), model.predict(test))
    assert "3,000" in found.story or f"{len(X):,} of {len(X):,}" in found.story


def test_the_globe_is_known_by_its_columns(tmp_path: Path) -> None:
    X, y = globe(2500)
    options: dict[str, Any] = {"kernel": "matern32", "varying": False, "recalibrate": False, "solver": NEAR}
    found = fit(table(tmp_path / "table", X, y), "z", n_jobs=1, globe=("x0", "x1"), **options)
    model = cagp.fit(X, y, progress=False, globe=(0, 1), **options)
    test = np.random.default_rng(1).uniform([-90, -180], [90, 180], (300, 2))
    agree(found.predict(test), model.predict(test))


def test_the_index_of_a_data_frame_is_no_feature(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"x0": np.arange(90.0), "z": np.sin(np.arange(90))}).query("x0 % 3 > 0")
    frame.to_parquet(tmp_path / "table.parquet")
    assert "__index_level_0__" in parquet.read_schema(tmp_path / "table.parquet").names
    assert write(tmp_path / "table.parquet", "z", tmp_path / "store", HERE).features == ("x0",)


def test_a_dask_data_frame_is_read_and_predicted(tmp_path: Path) -> None:
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    X, y = plane(2500)
    frame = frames.from_pandas(pandas.DataFrame({"x0": X[:, 0], "x1": X[:, 1], "z": y}), npartitions=3)
    options: dict[str, Any] = {"store": tmp_path / "store", "n_jobs": 1, "kernel": "matern32", "seconds": 5}
    found = fit(frame, "z", solver=NEAR, **options)
    assert found.store.size == len(X)
    assert fit(frame, "z", solver=NEAR, **options).store == found.store  # which is not written again
    with pytest.raises(InputError, match="shards of other data"):
        fit(frame.assign(z=0 * frame.z), "z", solver=NEAR, **options)
    for other, message in (
        (frame.rename(columns={"x0": "x9"}), "no column 'x0'; it has 'x9', 'x1', 'z'"),
        (frame.assign(x0="a"), "column 'x0' has the type .*, and must be of numbers"),
        (frame.assign(x0=frame.x0 > 0.5), "column 'x0' has the type bool"),
        (frame.rename(columns={"x0": 7}), "a column called 7; names must be texts"),
    ):
        with pytest.raises(InputError, match=message):
            fit(other, "z", features=["x0", "x1"], store=tmp_path / "other", n_jobs=1)
        with pytest.raises(InputError, match=message):
            found.predict_to(other, tmp_path / "other", n_jobs=1)
    with pytest.raises(InputError, match=r"such as like.compute\(\)"):
        fit(frame, "z", like=frame, store=tmp_path / "other", n_jobs=1)
    assert not (tmp_path / "other").exists()
    out = found.predict_to(frame[["x0", "x1"]], tmp_path / "out", n_jobs=1)
    assert_allclose(parquet.read_table(out)["mean"].to_numpy(), found.predict(X).mean, rtol=1e-10, atol=1e-12)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ShardedModel:
    """A model in shards of some thousand observations."""
    folder = tmp_path_factory.mktemp("model")
    X, y = plane(4000)
    store = write(table(folder / "table", X, y), "z", folder / "store", HERE, tile=800, block=100)
    return ShardedModel.of(PRIORS["trend"].condition(X[:300], y[:300], NEAR), store, HERE)


def test_predictions_are_written_in_the_order_of_the_points(
    model: ShardedModel, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO", "cagp")
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    test = np.random.default_rng(1).uniform(0, 1, (2000, 2))
    folder, points = model.save(tmp_path / "model"), tmp_path / "points.parquet"
    names = [f"p{i}" for i in range(2000)]
    given = pa.table({"id": names, "x1": test[:, 1], "std": test[:, 0], "x0": test[:, 0]})
    parquet.write_table(given, points, row_group_size=700)
    how: dict[str, Any] = {"observed": True, "interval": 0.8, "batch_size": 300, "n_jobs": 1}
    out = cagp.load(folder).predict_to(points, tmp_path / "out", **how)
    found, wanted = parquet.read_table(out), model.predict(test).observed()
    assert found.column_names == ["id", "x1", "x0", "mean", "std", "lower_80", "upper_80"]
    assert found["id"].to_pylist() == names
    assert_array_equal(found["x0"].to_numpy(), test[:, 0])
    assert_allclose(found["mean"].to_numpy(), wanted.mean, rtol=1e-10, atol=1e-12)
    assert_allclose(found["upper_80"].to_numpy(), wanted.interval(0.8)[1], rtol=1e-10, atol=1e-12)
    parts = sorted(out.glob("part-*.parquet"))
    assert len(parts) == 7
    before = {path: path.stat().st_mtime_ns for path in parts}
    parts[2].unlink()
    cagp.load(folder).predict_to(points, out, **how)
    again = {path: path.stat().st_mtime_ns for path in parts}
    assert [path for path in parts if before[path] != again[path]] == [parts[2]]
    cagp.load(folder).predict_to(points, out, **how)
    said = [record.getMessage().partition(" after ")[0] for record in caplog.records]
    end, n = "predicting: ended", len(parts)
    assert said[said.index(end) - 1] == "predicting: 100%"
    share = f"predicting: {100 * (n - 1) / n:.0f}%"
    assert said[-5:-1] == [f"{n - 1} of {n} files were done; going on", share, "predicting: 100%", end]
    assert said[-1] == f"all {n} files were there"
    assert {each.partition(":")[0] for each in said[: n + 1]} == {"predicting"}  # nothing from inside
    with pytest.raises(InputError, match="another model, for other points, or in other batches"):
        cagp.load(folder).predict_to(points, out, n_jobs=1)
    parquet.write_table(given.set_column(1, "x1", given["x0"]), points, row_group_size=700)
    with pytest.raises(InputError, match="another model, for other points"):  # which have changed meanwhile
        cagp.load(folder).predict_to(points, out, **how)


def test_only_the_features_of_points_matter(model: ShardedModel, tmp_path: Path) -> None:
    x = np.random.default_rng(2).uniform(0, 1, 20)
    (tmp_path / "points").mkdir()
    names: tuple[list[str], ...] = (["id", "x0", "c", "x1", "c"], ["c", "x1", "x0", "id", "d"])
    for number, own in enumerate(names):
        parquet.write_table(pa.table([pa.array(x)] * 5, names=own), tmp_path / "points" / f"{number}.parquet")
    found = parquet.read_table(model.predict_to(tmp_path / "points", tmp_path / "out", n_jobs=1))
    assert found.column_names[:4] == ["id", "x0", "x1", "mean"]
    assert_allclose(found["mean"].to_numpy()[20:], model.predict(np.column_stack([x, x])).mean, rtol=1e-10)
    twice = tmp_path / "twice.parquet"
    parquet.write_table(pa.table([pa.array(x)] * 4, names=["z", "x0", "x1", "x0"]), twice)
    for refused in (lambda: fit(twice, "z", n_jobs=1), lambda: model.predict_to(twice, tmp_path / "other", n_jobs=1)):
        with pytest.raises(InputError, match=r"twice\.parquet has 2 columns called 'x0'; rename all but one"):
            refused()


def test_points_that_were_refused_are_not_in_the_way(model: ShardedModel, tmp_path: Path) -> None:
    dd, out = pytest.importorskip("dask.dataframe"), tmp_path / "out"
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"x0": [0.1, 0.2, np.nan, 0.4], "x1": 0.5})
    frame.to_parquet(tmp_path / "points.parquet")
    for points, message in (
        (tmp_path / "points.parquet", "no finite value in row 2"),
        (dd.from_pandas(frame[["x0"]], npartitions=3), "no column 'x1'"),
    ):
        with pytest.raises(InputError, match=message):
            model.predict_to(points, out, n_jobs=1)
    model.predict_to(dd.from_pandas(frame.dropna(), npartitions=1), out, n_jobs=1)
    assert parquet.read_table(out)["x0"].to_pylist() == [0.1, 0.2, 0.4]
    with pytest.raises(InputError, match="for other points"):
        model.predict_to(dd.from_pandas(frame.dropna()[:2], npartitions=1), out, n_jobs=1)


def test_a_store_has_every_row_once(tmp_path: Path) -> None:
    X, y = plane(3000)
    store = write(table(tmp_path / "table", X, y), "z", tmp_path / "store", HERE, tile=500, block=64)
    rows = store.take(np.arange(len(X)), HERE)
    assert_array_equal(rows.X, X)
    assert_array_equal(rows.y, y)
    assert max(store.rows) <= 1000
    assert Store.open(store.folder) == store
    one = store.read(3)
    assert len(one.y) <= 64
    assert len(store.take(np.array([5, 2, 5]), HERE).y) == 2


@pytest.mark.parametrize("after", ["split.json", "cagp-dealt/part-00001.parquet", "tiles/tile-00002.parquet"])
def test_writing_goes_on_where_it_was_killed(after: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = plane(3000)
    source, whole = table(tmp_path / "table", X, y), writing.whole_file
    options: dict[str, Any] = {"tile": 500, "block": 64}
    wanted = write(source, "z", tmp_path / "other", HERE, **options)

    class Killed(BaseException):
        pass

    def dying(path: Path) -> Any:
        if (tmp_path / "store" / after).exists():
            raise Killed
        return whole(path)

    with monkeypatch.context() as patched:
        for module in ("writing", "store"):
            patched.setattr(f"cagp.shards.{module}.whole_file", dying)
        with pytest.raises(Killed):
            write(source, "z", tmp_path / "store", HERE, **options)
    kept = (tmp_path / "store" / after).stat().st_mtime_ns
    monkeypatch.setattr(writing, "remove", lambda path: None)
    store = write(source, "z", tmp_path / "store", HERE, **options)
    assert (tmp_path / "store" / after).stat().st_mtime_ns == kept
    assert store.rows == wanted.rows
    assert_array_equal(store.take(np.arange(len(X)), HERE).y, y)
    monkeypatch.undo()
    write_atomically(store.folder / "cagp-dealt/.partial-0-part-00001.parquet", b"")  # killed after its description
    write_atomically(store.folder / ".partial-0-split.json", b"")
    assert write(source, "z", tmp_path / "store", HERE, **options) == store
    assert not [*store.folder.glob("cagp-*"), *store.folder.rglob(".partial-*")]


def test_no_store_is_made_around_data_of_others(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    for name in ("source", "dealt"):  # such as what a store could be made of
        source = table(tmp_path / "project" / name, *plane(100))
        with pytest.raises(
            InputError, match=r"other things in it, such as .*; shards need one of their own: cagp.shards"
        ):
            fit(source, "z", store=tmp_path / "project", n_jobs=1)
        assert len(list(source.glob("*.parquet"))) == 3
    store = write(source, "z", tmp_path / "store", HERE)
    kept = table(store.folder / "source", *plane(10))
    assert write(source, "z", store.folder, HERE) == store
    assert len(list(kept.glob("*.parquet"))) == 3


def test_a_saved_model_predicts_the_same(model: ShardedModel, tmp_path: Path) -> None:
    test = np.random.default_rng(1).uniform(0, 1, (200, 2))
    folder = model.save(tmp_path / "model")
    assert_allclose(cagp.load(folder).predict(test).mean, model.predict(test).mean, rtol=1e-10, atol=1e-12)
    assert cagp.load(folder).key == model.key
    with pytest.raises(InputError, match="already holds a model"):
        model.save(folder)
    model.save(folder, overwrite=True)
    with pytest.raises(InputError, match="device is not known"):
        cagp.load(folder, device="cpu")
    (folder / "shards.json").write_text("{}")
    with pytest.raises(SavedModelError, match="no model of data in shards"):
        cagp.load(folder)


def test_a_model_is_of_the_shards_that_it_was_made_of(tmp_path: Path) -> None:
    X, y = plane(200)
    source, store = table(tmp_path / "table", X, y), tmp_path / "table-shards-z"
    how: dict[str, Any] = {"kernel": "matern32", "varying": False, "recalibrate": False, "n_jobs": 1}
    before = fit(source, "z", **how)
    before.save(tmp_path / "model")
    for place in (source, store):
        shutil.rmtree(place)
    again = fit(table(source, X[::-1], 100 + y), "z", **how)  # as many rows, at the same places
    assert again.store.folder == before.store.folder
    assert again.key != before.key
    with pytest.raises(SavedModelError, match="were made anew, of other data or columns; fit again"):
        cagp.load(tmp_path / "model")


def test_what_needs_a_model_in_memory_is_refused(model: ShardedModel, tmp_path: Path) -> None:
    for name in ("average", "simulate", "with_more", "left_out", "recalibrated"):
        assert not hasattr(model, name)
        with pytest.raises(InputError, match=f"no {name}.*model.learned.prior.condition"):
            getattr(model, name)
    with pytest.raises(InputTypeError, match=r"got ShardedModel; take those around .* model.learned.prior.condition"):
        cagp.write_map(model, tmp_path / "map.tif", 1.0)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = model.nothing
    assert model.prior is model.learned.prior
    with pytest.raises(InputError, match="stop is for solvers with iterations"):
        model.predict(np.zeros((1, 2)), stop=1)  # type: ignore[arg-type]
    with pytest.raises(SavedModelError, match="fit one to the observations around the places in question"):
        cagp.saving.read(model.save(tmp_path / "model"))


def test_what_was_damaged_is_refused(model: ShardedModel, tmp_path: Path) -> None:
    """Whatever zip archives, Parquet files and JSON say of it."""
    folder = model.save(tmp_path / "model")
    known = json.loads((folder / "shards.json").read_text())
    del known["sha256"]
    huge = [[[take, 10**30] for take, _ in own] for own in known["far"]]
    for key, value in (
        ("parts", "../model"),
        ("near", [[{}]]),
        ("near", [[[9]]]),
        ("far", [[["x", 1]]]),
        ("store", 3),
        ("far", huge),
    ):
        changed = known | {key: value}
        (folder / "shards.json").write_text(json.dumps(changed | {"sha256": own_hash(changed)}))
        with pytest.raises(SavedModelError, match="no model of data in shards"):
            cagp.load(folder)
    (folder / "shards.json").write_text(json.dumps(known | {"sha256": own_hash(known)}))
    rng = np.random.default_rng(0)
    for file in [*folder.glob("parts-*/around-*.npz"), *folder.glob("parts-*/far.parquet")]:
        content = file.read_bytes()
        for flip in rng.integers(8 * len(content), size=60).tolist():
            damaged = bytearray(content)
            damaged[flip // 8] ^= 1 << flip % 8
            file.write_bytes(damaged)
            with suppress(SavedModelError):
                cagp.load(folder)
        file.write_bytes(content[: len(content) // 2])
        with pytest.raises(SavedModelError, match="no model of data in shards"):
            cagp.load(folder)
        file.write_bytes(content)
    np.savez_compressed(next(folder.glob("parts-*/around-0.npz")), np.zeros(10**6))
    with pytest.raises(SavedModelError, match="packed"):  # a little file that would be a lot of memory
        cagp.load(folder)


@pytest.mark.parametrize("how", ["bit", "gone"])
def test_a_tile_that_was_damaged_is_refused(model: ShardedModel, tmp_path: Path, how: str) -> None:
    folder, tile, X = model.save(tmp_path / "model"), model.store.tile(0), model.store.read(0).X
    content, found = tile.read_bytes(), cagp.load(folder)
    damaged = bytearray(content)
    damaged[200] ^= 1  # of a number, which is another number then
    try:
        tile.write_bytes(damaged) if how == "bit" else tile.unlink()
        with pytest.raises(DataError, match="is damaged, or gone"):
            found.predict(X[:5])
    finally:
        tile.write_bytes(content)


@pytest.mark.parametrize(
    ("key", "value"), [("rows", []), ("rows", [[1]]), ("rows", "ab"), ("block", None), ("block", 3), ("target", 10**30)]
)
def test_a_store_that_cannot_be_is_refused(model: ShardedModel, tmp_path: Path, key: str, value: Any) -> None:
    folder, place = model.save(tmp_path / "model"), model.store.folder / "store.json"
    known = place.read_text()
    place.write_text(json.dumps(json.loads(known) | {key: value}))
    try:
        with pytest.raises(SavedModelError, match="no model of data in shards"):
            cagp.load(folder)
    finally:
        place.write_text(known)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "solver": ({"solver": "cholesky"}, "solver must be NearestNeighbours"),
    "no neighbours": ({"solver": cagp.NearestNeighbours(0)}, "solver must be NearestNeighbours"),
    "like": ({"like": np.zeros((3, 5))}, "like"),
    "device": ({"device": "cuda"}, "device is not known"),
    "noise": ({"noise_variance": np.ones(50)}, "noise_variance must be one number"),
    "target": ({"target": "height"}, "no column 'height'"),
    "no target": ({"target": None}, "y must be the name of the column"),
    "features": ({"features": ["x0", "x9"]}, "no column 'x9'"),
    "features twice": ({"features": ["x0", "x0"]}, "features must be different columns"),
    "the target": ({"features": ["x0", "z"]}, "and not the target 'z'"),
    "together": ({"together": True}, "together=True is for several quantities"),
    "n_jobs": ({"n_jobs": 0}, "n_jobs"),
    "kernel": ({"kernel": "matern99"}, "kernel"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused(name: str, tmp_path: Path) -> None:
    options, message = REFUSED[name]
    X, y = plane(50)
    with pytest.raises(InputError, match=message):
        fit(table(tmp_path / "table", X, y), **{"target": "z", "n_jobs": 1, **options})
    assert not (tmp_path / "table-shards-z").exists()  # before any work


def test_what_is_wrong_with_a_column_is_said_with_its_place_and_the_remedy(tmp_path: Path) -> None:
    values = np.arange(2000.0)
    values[1905] = np.nan
    parquet.write_table(pa.table({"z": values}), tmp_path / "long.parquet", row_group_size=700)
    part = Part(str(tmp_path / "long.parquet"), (1, 2), 700, 1300)  # the last two row groups
    with pytest.raises(InputError, match="column 'z' has no finite value in row 1,905, counted from 0; leave"):
        part.cut(100)[12].read(["z"])
    named = tmp_path / "named.parquet"
    parquet.write_table(pa.table({"id": ["a", "b"], "x0": [0.0, 1.0], "z": [0.0, 1.0]}), named)
    with pytest.raises(InputError, match=r"of numbers; convert it before, or leave it out of the features: --exclude"):
        fit(named, "z", n_jobs=1)
    with pytest.raises(InputError, match=r"of numbers; convert it before$"):
        fit(named, "id", features=["x0"], n_jobs=1)


def test_data_that_cannot_be_are_refused(tmp_path: Path, model: ShardedModel) -> None:
    X, y = plane(50)
    y[7] = np.nan
    with pytest.raises(InputError, match="column 'z' has no finite value in row 7, counted from 0; leave"):
        fit(table(tmp_path / "table", X, y), "z", n_jobs=1)
    with pytest.raises(InputError, match="does not exist"):
        fit(tmp_path / "nowhere", "z", n_jobs=1)
    with pytest.raises(InputError, match="no files whose names end in"):
        fit([tmp_path], "z", n_jobs=1)
    with pytest.raises(InputError, match="not for 'other'"):
        fit(model.store.folder, "other", n_jobs=1)
    with pytest.raises(InputError, match="shards of other data"):
        write(table(tmp_path / "more", *plane(60)), "z", model.store.folder, HERE)
    for more in ({"features": ["x0"]}, {"store": tmp_path / "other"}):
        with pytest.raises(InputError, match="is a store of the features 'x0', 'x1' already"):
            fit(model.store.folder, "z", n_jobs=1, **more)
    ids = table(tmp_path / "ids", np.arange(2**60, 2**60 + 10)[:, None], np.arange(10.0))
    with pytest.raises(InputError, match=r"0\.parquet: column 'x0' holds integers beyond 2\*\*53"):
        fit(ids, "z", n_jobs=1)
    for points in (X, X[0].tolist(), None):
        with pytest.raises(InputTypeError, match="and predict take what is in memory"):
            model.predict_to(points, tmp_path / "out", n_jobs=1)
    for size in (0, -1):
        with pytest.raises(InputError, match="batch_size must be at least 1"):
            model.predict(X, batch_size=size)
    with pytest.raises(InputTypeError, match="interval must be a real number"):
        model.predict_to(ids, tmp_path / "out", interval="90%", n_jobs=1)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
    first = model.learned.prior
    with pytest.raises(InputTypeError, match="predicted by NearestNeighbours"):
        ShardedModel.of(first.condition(X, np.nan_to_num(y), "cholesky"), model.store, HERE)
    linear = cagp.Prior(cagp.Linear(1.0), noise_variance=0.01).condition(X, np.nan_to_num(y), NEAR)
    with pytest.raises(InputError, match="falls with distance"):
        ShardedModel.of(linear, model.store, HERE)
    own = replace(first, noise_variance=np.full(len(X), 0.1)).condition(X, np.nan_to_num(y), NEAR)
    with pytest.raises(InputError, match="noise_variance must be one number"):
        ShardedModel.of(own, model.store, HERE)


@pytest.mark.slow
@pytest.mark.parametrize("size", [100_000, 1_000_000])
@pytest.mark.parametrize("name", ["gaps", "trend", "globe", "recalibrated mixture"])
def test_many_observations_are_predicted_as_in_memory(
    name: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y = globe(size * 6 // 5) if name == "globe" else plane(size * 11 // 10)
    low, high = {"globe": ([-90, -180], [90, 180]), "gaps": (0.46, 0.74)}.get(name, (-0.1, 1.2))
    test, source = np.random.default_rng(1).uniform(low, high, (20_000, 2)), table(tmp_path / "table", X, y)
    if name == "recalibrated mixture":
        few(monkeypatch, 20_000)
        found = fit(
            source, "z", n_jobs=1, kernel="matern32", varying=False, rotate=False, solver=NEAR, recalibrate=True
        )
        first = found.learned.components[0]
        other = first.with_prior(replace(first.prior, kernel=cagp.Matern12(0.4, 0.5)))
        mixed = found.learned.replace(components=[first, other], weights=[0.7, 0.3])
        found = ShardedModel.of(mixed, found.store, HERE)
        agree(found.predict(test).observed(), in_memory(found, X, y).predict(test).observed())
        return
    prior = PRIORS["known mean" if name == "gaps" else name]
    store = write(source, "z", tmp_path / "store", HERE, tile=200_000)
    found = ShardedModel.of(prior.condition(X[:200], y[:200], NEAR), store, HERE)
    agree(found.predict(test), prior.condition(X, y, NEAR).predict(test))


def test_coordinates_whose_squares_are_no_numbers_are_cut_by_their_spread() -> None:
    X = np.random.default_rng(0).random((50, 3))
    X[:, 2] = 7.0  # all the same
    wanted = X / np.where(np.ptp(X, axis=0) > 0, X.std(axis=0), 1.0)
    for unit in (1.0, 1e200, 1e-200):
        found = _in_spreads(X * [unit, 1.0, 1.0])
        assert_allclose(found[:, :2], wanted[:, :2], rtol=1e-12)
        assert np.ptp(found[:, 2]) == 0

"""Gridded fields in shards: the observations and the model of memory, and predictions on grids, block by block."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cagp
from cagp.errors import InputError
from cagp.shards import ShardedModel, fields, fit, grids, sharded
from cli.small import call
from shards.test_shards import HERE, NEAR, agree

xr = pytest.importorskip("xarray")
da = pytest.importorskip("dask.array")
pytest.importorskip("zarr")
parquet = pytest.importorskip("pyarrow.parquet")

import cagp.interop.xarray  # noqa: E402
from cagp.interop.xarray_field import observed  # noqa: E402

QUICK: dict[str, Any] = {"kernel": "matern32", "varying": False, "recalibrate": False, "solver": NEAR, "seed": 3}


def sea(rows: int = 31, columns: int = 73, missing: float = 0.2) -> Any:
    """A field on the globe, from pole to pole, with the first meridian twice, and clouds."""
    rng = np.random.default_rng(0)
    lat, lon = np.linspace(-90, 90, rows), np.linspace(0, 360, columns)
    north, east = np.radians(lat)[:, None], np.radians(lon)[None]
    values = np.cos(north) * np.cos(2 * east) + np.sin(north) + 0.05 * rng.normal(size=(rows, columns))
    values[[0, -1]], values[:, -1] = values[[0, -1], :1], values[:, 0]
    values[rng.random(values.shape) < missing] = np.nan
    about = {"units": "K", "long_name": "temperature"}
    return xr.DataArray(values, {"lat": lat, "lon": lon}, ("lat", "lon"), "t2m", about)


def cube() -> Any:
    """A field in space and time, without clouds."""
    rng = np.random.default_rng(1)
    hours = np.datetime64("2020-01-01", "h") + 6 * np.arange(8)
    x, y = np.linspace(0, 1, 9), np.linspace(0, 2, 10)
    values = np.sin(4 * x)[:, None, None] * np.cos(2 * y)[:, None] + 0.1 * np.arange(8)
    values = values + 0.05 * rng.normal(size=values.shape)
    return xr.DataArray(values, {"x": x, "y": y, "time": hours}, ("x", "y", "time"), "level")


def rows_of(store: Any) -> np.ndarray:
    """All rows (n, p + 1) of a store, in its order."""
    found = store.take(np.arange(store.size), HERE)
    return np.column_stack([found.X, found.y])


def ordered(rows: np.ndarray) -> np.ndarray:
    """The same rows by their coordinates."""
    return rows[np.lexsort(rows.T)]


def test_pieces_have_the_observations_that_memory_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "_CELLS", 200)
    whole, seen = sea(), list[int]()

    def read(block: np.ndarray) -> np.ndarray:
        seen.append(block.size)
        return block

    lazy = whole.copy(
        data=da.from_array(whole.values, chunks=(8, 20)).map_blocks(read, dtype=float, meta=np.empty((0, 0)))
    )
    found = lazy.cagp.fit(store=tmp_path / "store", n_jobs=1, progress=False, **QUICK)
    assert isinstance(found.model, ShardedModel)
    assert sum(seen) == whole.size + 160  # each piece once, and the first one to check what was asked for
    assert max(seen) == 160
    wanted = observed(whole, None, "D", None)
    assert wanted.source.copies > 50
    assert_array_equal(ordered(rows_of(found.model.store)), ordered(np.column_stack([wanted.X, wanted.y])))
    assert found.source == wanted.source
    assert found.axes == wanted.axes
    rows = rows_of(found.model.store)
    memory = cagp.fit(rows[:, :-1], rows[:, -1], globe=(0, 1), progress=False, **QUICK)
    test = np.random.default_rng(1).uniform([-90, -180], [90, 180], (300, 2))
    agree(found.model.predict(test), memory.predict(test))
    assert "in shards in" in found.model.story


@pytest.mark.parametrize("ending", [".zarr", ".nc"])
def test_files_of_grids_are_sources(ending: str, tmp_path: Path) -> None:
    field, path = cube(), tmp_path / f"level{ending}"
    if ending == ".zarr":
        field.chunk({"x": 4, "time": 5}).to_dataset().to_zarr(path, zarr_format=2)
    else:
        field.to_dataset().to_netcdf(path, engine="h5netcdf")
    found = cagp.fit(path, "level", seconds=5, progress=False, **QUICK)
    assert isinstance(found, ShardedModel)
    assert found.store.folder == tmp_path / "level-shards-level"
    wanted = observed(field, ("x", "y", "time"), "D", None)
    assert_array_equal(ordered(rows_of(found.store)), ordered(np.column_stack([wanted.X, wanted.y])))
    assert found.store.field is not None
    assert found.store.field.axes == wanted.axes
    assert ".on(2)" in repr(found.prior.kernel)
    assert cagp.fit(found.store.folder, None, progress=False, **QUICK).store == found.store
    values = field.isel(time=[3, 5]).cagp.predict(found)
    X = observed(field.isel(time=[3, 5]), ("x", "y", "time"), "D", None).X
    assert_allclose(values["mean"].values.ravel(), found.predict(X).mean, rtol=1e-12)
    assert values["mean"].dims == field.dims


def test_several_files_are_one_grid(tmp_path: Path) -> None:
    field = cube()
    for number, some in enumerate((field.isel(time=slice(5, None)), field.isel(time=slice(5)))):
        some.to_dataset().to_netcdf(tmp_path / f"{number}.nc", engine="h5netcdf")
    paths = sorted(tmp_path.glob("*.nc"))
    lazy = fields.LazyField.opened(paths, "level")
    lazy.write(tmp_path / "pieces", HERE)
    assert fields.LazyField.opened(paths[:1], "level").files == (paths[0],)
    rows = np.concatenate([parquet.read_table(each).to_pandas() for each in (tmp_path / "pieces").glob("piece-*")])
    wanted = observed(field, ("x", "y", "time"), "D", None)
    assert_array_equal(ordered(rows), ordered(np.column_stack([wanted.X, wanted.y])))
    with pytest.raises(InputError, match="has no variable 'other'"):
        fields.LazyField.opened(paths, "other")
    with pytest.raises(InputError, match="does not exist"):
        cagp.fit(tmp_path / "nowhere.zarr", "level")


def test_a_lazy_field_goes_to_shards_where_memory_has_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    whole = cube().isel(time=0, drop=True)
    lazy, options = whole.chunk({"x": 20}), {"coords": ("x", "y"), "progress": False, **QUICK}
    assert not isinstance(lazy.cagp.fit(**options).model, ShardedModel)
    monkeypatch.setattr(cagp.interop.xarray, "available_bytes", lambda device: 2 * 600 * whole.size - 1)
    found, memory = lazy.cagp.fit(n_jobs=1, **options), whole.cagp.fit(**options)
    assert isinstance(found.model, ShardedModel)
    assert found.model.store.folder == tmp_path / "cagp-shards-level"
    grid = xr.Dataset(coords={"x": np.linspace(-0.1, 1, 7), "y": np.linspace(0, 2.2, 5)})
    mine, wanted = found.predict(grid, level=0.9), memory.predict(grid, level=0.9)
    for name in ("mean", "std", "lower", "upper"):
        assert_allclose(mine[name], wanted[name], rtol=1e-9)
        assert mine[name].attrs == wanted[name].attrs
    assert mine.attrs["cagp_observations"] == whole.size
    again = cagp.load(found.save(tmp_path / "model"))
    assert_allclose(grid.cagp.predict(again)["mean"], mine["mean"], rtol=1e-12)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ShardedModel:
    """A model of the sea in shards."""
    folder = tmp_path_factory.mktemp("sea")
    sea().chunk({"lat": 8}).to_dataset().to_zarr(folder / "sea.zarr", zarr_format=2)
    return fit(folder / "sea.zarr", "t2m", n_jobs=1, **QUICK)


def test_a_grid_is_predicted_block_by_block(
    model: ShardedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharded, "_PIECE", 120)
    grid = xr.Dataset(coords={"latitude": np.linspace(-80, 80, 23), "longitude": np.linspace(-180, 170, 36)})
    out, whole, done = tmp_path / "sea.zarr", grids._predict_block, list[int]()

    def dying(*call: Any) -> None:
        if len(done) == 3:
            raise KeyboardInterrupt
        whole(*call)
        done.append(call[-1])

    monkeypatch.setattr(grids, "_predict_block", dying)
    with pytest.raises(KeyboardInterrupt):
        model.predict_to(grid, out, observed=True, interval=0.8, exceed=15, n_jobs=1)
    assert not out.exists()
    with pytest.raises(InputError, match="another model, for another grid"):
        model.predict_to(grid, out, n_jobs=1)
    first, before = done[:], len(done)
    done.clear()
    done.extend([-1] * 4)
    model.predict_to(grid, out, observed=True, interval=0.8, exceed=15, n_jobs=1)
    assert not set(done[4:]) & set(first)
    assert len(done) - 4 + before > 6
    assert [path.name for path in tmp_path.iterdir()] == ["sea.zarr"]
    found = xr.open_zarr(out)
    wanted = grid.cagp.predict(model, observed=True, level=0.8, exceed=15)
    for name in ("mean", "std", "lower", "upper", "exceeds_15"):
        assert_allclose(found[name], wanted[name], rtol=1e-10, atol=1e-10)
        assert found[name].attrs == wanted[name].attrs
    before, left = out.stat().st_mtime_ns, out.with_name(f"{out.name}.parts")
    (left / "_model").mkdir(parents=True)
    assert model.predict_to(grid, out, observed=True, interval=0.8, exceed=15, n_jobs=1).stat().st_mtime_ns == before
    assert not left.exists()
    with pytest.raises(InputError, match="with something else"):
        model.predict_to(grid, out, n_jobs=1)
    with pytest.raises(InputError, match=r"must end in \.zarr"):
        model.predict_to(grid, tmp_path / "sea.nc", n_jobs=1)


# of format 3, which is what xarray writes by itself, and of texts in it
@pytest.mark.filterwarnings("ignore:Consolidated metadata", "ignore:The (codec|dtype) `")
@pytest.mark.parametrize("version", [2, 3])
def test_coordinates_may_be_lazy_and_of_any_store(version: int, model: ShardedModel, tmp_path: Path) -> None:
    lat, lon = np.meshgrid(np.linspace(50, -50, 9), np.linspace(10, 60, 7), indexing="ij")
    names, hours = np.array([f"row {i}" for i in range(9)], dtype=object), np.datetime64("2020-01-01T06", "ns")
    whole = xr.Dataset({"depth": (("j", "i"), lat)}, {"lat": (("j", "i"), lat), "lon": (("j", "i"), lon)})
    whole = whole.assign_coords(name=("j", names), hour=hours)
    wanted = whole.cagp.predict(model, level=0.95)
    whole.assign(depth=whole["depth"].chunk({"j": 4})).to_zarr(tmp_path / "grid.zarr", zarr_format=version)
    read = xr.open_zarr(tmp_path / "grid.zarr")  # whose variables are cut differently
    for number, grid in enumerate((tmp_path / "grid.zarr", read, whole.chunk({"j": 4}))):
        found = xr.open_zarr(model.predict_to(grid, tmp_path / f"{number}.zarr", batch_size=20, n_jobs=1))
        for name in ("lat", "lon", "name", "hour"):
            assert_array_equal(found.coords[name], wanted.coords[name])
        for name in ("mean", "std", "lower", "upper"):
            assert_allclose(found[name], wanted[name], rtol=1e-10, atol=1e-10)


def test_the_blocks_of_a_grid_lie_in_a_folder_of_their_own(model: ShardedModel, tmp_path: Path) -> None:
    grid, out = xr.Dataset(coords={"latitude": [0.0, 9.0], "longitude": [0.0, 9.0]}), tmp_path / "sea.zarr"
    precious = tmp_path / "sea.zarr.parts" / "precious.txt"
    precious.parent.mkdir()
    precious.touch()
    with pytest.raises(InputError, match=r"other things in it, such as precious.txt; choose another name"):
        model.predict_to(grid, out, n_jobs=1)
    model.predict_to(grid, tmp_path / "other.zarr", n_jobs=1)
    (tmp_path / "other.zarr").rename(out)
    model.predict_to(grid, out, n_jobs=1)  # all of it is there
    assert precious.exists()


@pytest.mark.parametrize("within", ["_predict_block", "_remove_own"])  # the latter when the store has its name
def test_a_grid_begins_anew_where_nothing_is_left(
    within: str, model: ShardedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid, out = xr.Dataset(coords={"latitude": [0.0, 9.0], "longitude": [0.0, 9.0]}), tmp_path / "sea.zarr"

    def killed(*given: Any) -> None:
        if within == "_predict_block" or out.exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(grids, within, killed)
        with pytest.raises(KeyboardInterrupt):
            model.predict_to(grid, out, n_jobs=1)
    shutil.rmtree(out, ignore_errors=True)
    model.predict_to(grid, out, interval=0.8 if within == "_predict_block" else 0.95, n_jobs=1)
    assert xr.open_zarr(out)["mean"].notnull().all()
    assert list(tmp_path.iterdir()) == [out]


def test_the_command_line_knows_stores(tmp_path: Path) -> None:
    sea(13, 25).chunk({"lat": 5}).to_dataset().to_zarr(tmp_path / "sea.zarr", zarr_format=2)
    quick = ("--kernel", "matern32", "--no-varying", "--seconds", 5)
    result = call("fit", tmp_path / "sea.zarr", "--target", "t2m", "--out", tmp_path / "model", *quick)
    assert result.exit_code == 0, result.output
    assert "Geographic" in repr(cagp.load(tmp_path / "model").prior.kernel)
    result = call("predict", tmp_path / "model", tmp_path / "sea.zarr", "--out", tmp_path / "predicted.zarr")
    assert result.exit_code == 0, result.output
    found = xr.open_zarr(tmp_path / "predicted.zarr")
    assert found["mean"].notnull().all()
    result = call("fit", tmp_path / "sea.zarr", "--target", "sst", "--out", tmp_path / "other")
    assert result.exit_code == 2
    assert "no variable 'sst'" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: sea().chunk() * np.nan, {}, "all 2,263 values of the field are NaN"),
        (lambda: sea().chunk().fillna(np.inf), {}, "has infinite values"),
        (lambda: sea(), {}, "store is for lazy fields"),
        (lambda: cube().chunk(), {"coords": ("x", "y")}, "also varies along"),
        (lambda: sea().chunk().rename("lat"), {}, "is called 'lat' like its coordinate; rename it"),
        (lambda: sea().chunk(), {"noise_variance": sea() ** 2}, "noise_variance must be one number"),
        (lambda: sea().chunk(), {"kernel": "matern99"}, "kernel"),
    ],
)
def test_fields_that_cannot_be_are_refused(make: Any, options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        make().cagp.fit(store=tmp_path / "store", n_jobs=1, **options)


@pytest.mark.parametrize("beginning", [0, 1, 2])
def test_a_field_may_begin_with_what_is_missing(
    beginning: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cagp.shards.fitting._PILOTED", 20)  # of which only so many are there
    field = sea(9, 13)
    field[0] = np.nan
    field[0, 3 : 3 + beginning] = 0.1
    model = field.chunk().cagp.fit(store=tmp_path / "store", n_jobs=1, **QUICK | {"recalibrate": True}).model
    assert model.size == len(observed(field, None, "D", None).y)

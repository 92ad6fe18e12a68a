"""``cagp predict``: the numbers, the files, Ctrl-C, and being killed."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import cagp
from cagp import saving
from cagp.algebra.sweeps import sweep
from cagp.interop import xarray as interop
from cagp.support.pieces import Pieces
from cagp.tables import read_table, write_table
from cli.small import VALUES, call, snapshot, start, write_small
from random_examples import examples


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and test.csv."""
    place = tmp_path_factory.mktemp("predict")
    write_small(place / "train.csv", 60)
    write_small(place / "test.csv", 50, seed=1)
    arguments = ["fit", place / "train.csv", "--target", "height", "--out", place / "model", *VALUES, "--no-report"]
    assert call(*arguments).exit_code == 0
    return place


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".parquet", ".nc"])
def test_numbers_are_those_of_the_library(folder: Path, tmp_path: Path, ending: str) -> None:
    test = read_table(folder / "test.csv")
    write_table(tmp_path / f"test{ending}", test.columns)
    out = tmp_path / f"out{ending}"
    arguments = ["predict", folder / "model", tmp_path / f"test{ending}", "--out", out, "--interval", 80]
    result = call(*arguments, "--batch", 7, "--observed")
    assert result.exit_code == 0, result.output
    table = read_table(out)
    lower, upper = ("lower", "upper") if ending == ".nc" else ("lower_80", "upper_80")
    assert list(table.columns) == ["east", "north", "mean", "std", lower, upper]
    post = saving.load(folder / "model").predict(test.matrix(["east", "north"])).observed()
    np.testing.assert_allclose(table.columns["mean"], post.mean, rtol=1e-12)
    np.testing.assert_allclose(table.columns["std"], post.std, rtol=1e-12)
    np.testing.assert_allclose(table.columns[upper], post.mean + norm.ppf(0.9) * post.std, rtol=1e-12)
    np.testing.assert_array_equal(table.columns["east"], test.columns["east"])
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([f"test{ending}", f"out{ending}"])


def test_map(folder: Path, tmp_path: Path) -> None:
    """A page beside the table, over the rows' extent; what cannot be is refused before any work is done."""
    out, page = tmp_path / "out.csv", tmp_path / "map.html"
    arguments = ["predict", folder / "model", folder / "test.csv", "--out", out, "--map", page]
    for wrong, more in (("--no-std", ["--no-std"]), ("end with .html", ["--map", tmp_path / "map.png"])):
        result = call(*arguments, *more)
        assert result.exit_code == 2
        assert wrong in result.output
        assert not list(tmp_path.iterdir())
    result = call(*arguments, "--exceed", "0.5,0.25", "--observed")
    assert result.exit_code == 0, result.output
    assert f"Written: {page}" in result.output
    text = page.read_text("utf-8")
    assert '"start": 0.25' in text
    assert "new observations, noise included" in text
    assert '"name": "east"' in text
    assert list(read_table(out).columns)[:3] == ["east", "north", "mean"]
    result = call(*arguments, "--out", tmp_path / "other.csv")
    assert result.exit_code == 2
    assert f"{page} is there already; --overwrite replaces it" in result.output


@pytest.mark.parametrize("ending", [".csv", ".nc"])
def test_exceed(folder: Path, tmp_path: Path, ending: str) -> None:
    """A column for each threshold; the flag may come more than once; the next call has other ones."""
    out = tmp_path / f"out{ending}"
    arguments = ["predict", folder / "model", folder / "test.csv", "--out", out, "--observed", "--prefix", "p_"]
    result = call(*arguments, "--exceed", "0.25,1", "--exceed", "-2")
    assert result.exit_code == 0, result.output
    table = read_table(out)
    limits = ("lower", "upper") if ending == ".nc" else ("lower_95", "upper_95")
    names = [f"p_{name}" for name in ("mean", "std", *limits, "exceeds_0.25", "exceeds_1", "exceeds_-2")]
    assert list(table.columns) == ["east", "north", *names]
    for name, threshold in zip(names[4:], (0.25, 1.0, -2.0), strict=True):
        expected = norm.sf(threshold, table.columns["p_mean"], table.columns["p_std"])
        np.testing.assert_allclose(table.columns[name], expected, rtol=1e-8)
    if ending == ".nc":
        with xr.open_dataset(out) as written:
            about = {"long_name": "probability of more than 0.25: new observations of height", "units": "1"}
            assert written["p_exceeds_0.25"].attrs == about
            assert written["p_mean"].attrs["ancillary_variables"] == "p_std p_lower p_upper"


def test_columns_stay_in_the_order_of_the_table(folder: Path, tmp_path: Path) -> None:
    columns = read_table(folder / "test.csv").columns
    features = [name for name in columns if name != "height"]
    write_table(tmp_path / "turned.csv", {name: columns[name] for name in features[::-1]})
    out = tmp_path / "out.csv"
    assert call("predict", folder / "model", tmp_path / "turned.csv", "--out", out).exit_code == 0
    assert out.read_text().splitlines()[0] == ",".join([*features[::-1], "mean", "std", "lower_95", "upper_95"])


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize("batch", [(), ("--batch", 2)])
def test_columns_that_are_not_used_are_kept(folder: Path, tmp_path: Path, ending: str, batch: tuple[object]) -> None:
    """Names of rows, whatever they look like, and of the rows that are predicted; not the target."""
    ids = ["007", "12345678901234567890", None, "a,b", "x1"]
    frame = pd.DataFrame({"east": [0.1, None, 0.3, 0.4, 0.5], "id": ids, "north": 0.5, "height": 1.0, "mean": 3.0})
    whole = frame.assign(number=np.arange(5) + 2**60, day=pd.date_range("2024-01-01", periods=5))
    table, out = tmp_path / f"in{ending}", tmp_path / f"out{ending}"
    whole.to_csv(table, index=False) if ending == ".csv" else whole.to_parquet(table)
    done = call("predict", folder / "model", table, "--out", out, "--drop-missing", *batch)
    assert done.exit_code == 0, done.output
    found = pd.read_csv(out, dtype={"id": str}) if ending == ".csv" else pd.read_parquet(out)
    assert list(found.columns) == ["id", "number", "day", "east", "north", "mean", "std", "lower_95", "upper_95"]
    assert found["id"].fillna("").tolist() == ["007", "", "a,b", "x1"]
    assert found["number"].tolist() == [2**60, 2**60 + 2, 2**60 + 3, 2**60 + 4]
    assert pd.to_datetime(found["day"]).dt.day.tolist() == [1, 3, 4, 5]
    assert (found["mean"] != 3.0).all()
    assert "The column 'mean' of" in done.stderr
    assert "is called like a new one, which takes its place; try --prefix." in done.stderr


def test_unused_numbers_with_decimal_commas_are_written_with_points(folder: Path, tmp_path: Path) -> None:
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text("id;depth;east;north\n007;-5,3;0,1;0,5\n008;;0,3;0,5\n")
    assert call("predict", folder / "model", table, "--out", out).exit_code == 0
    found = pd.read_csv(out, dtype={"id": str})
    assert found["id"].tolist() == ["007", "008"]
    assert found["depth"].tolist()[0] == -5.3
    assert "'" not in out.read_text()


def test_unused_days_of_a_time_zone_stay_days(folder: Path, tmp_path: Path) -> None:
    day = pd.date_range("2020-01-01", periods=2, tz="Europe/Berlin")
    pd.DataFrame({"day": day, "east": [0.1, 0.2], "north": 0.5}).to_parquet(tmp_path / "in.parquet")
    assert call("predict", folder / "model", tmp_path / "in.parquet", "--out", tmp_path / "o.parquet").exit_code == 0
    assert pd.read_parquet(tmp_path / "o.parquet")["day"].tolist()[0] == "2020-01-01 00:00:00+01:00"


def test_options(folder: Path, tmp_path: Path) -> None:
    arguments = ["predict", folder / "model", folder / "test.csv", "--out", tmp_path / "a.csv"]
    assert call(*arguments, "--no-std", "--prefix", "p_").exit_code == 0
    table = read_table(tmp_path / "a.csv")
    assert list(table.columns) == ["east", "north", "p_mean"]
    post = saving.load(folder / "model").predict(table.matrix(["east", "north"]))
    np.testing.assert_allclose(table.columns["p_mean"], post.mean, rtol=1e-9)
    refused = call(*arguments)
    assert refused.exit_code == 2
    assert "--overwrite" in refused.stderr
    more = ["--solver", "CalibratedCG(60, Nystrom(10))", "--stop-share", 0.05, "--overwrite", "--batch", 20]
    result = call(*arguments, *more)
    assert result.exit_code == 0, result.output
    assert "ComputationalShare" in result.stdout
    table = read_table(tmp_path / "a.csv")
    assert 1 <= table.columns["iterations"].min() < table.columns["iterations"].max() <= 60
    exact = post.std
    assert (table.columns["std"] <= 1.025 * exact + 1e-9).all()
    result = call(*arguments, "--solver", "gauss-seidel", "--iterations", 1, "--overwrite")
    assert (read_table(tmp_path / "a.csv").columns["std"] >= exact - 1e-9).all()


def test_a_grid_comes_back_as_a_grid(folder: Path, tmp_path: Path) -> None:
    coordinates = {"north": ("north", [0.1, 0.5], {"units": "km"}), "east": [0.2, 0.4, 0.6]}
    xr.Dataset(coords=coordinates).to_netcdf(tmp_path / "grid.nc", engine="h5netcdf")
    result = call("predict", folder / "model", tmp_path / "grid.nc", "--out", tmp_path / "out.nc")
    assert result.exit_code == 0, result.output
    with xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as out:
        assert set(out.data_vars) == {"mean", "std", "lower", "upper"}
        assert out["north"].attrs["units"] == "km"
        mean = out["mean"].sel(north=0.5, east=0.4).item()
        assert "prediction of height" in out.attrs["title"]
    assert mean == pytest.approx(saving.load(folder / "model").predict(np.array([[0.4, 0.5]])).mean[0], rel=1e-10)
    assert call("predict", folder / "model", tmp_path / "grid.nc", "--out", tmp_path / "rows.csv").exit_code == 0
    assert len(read_table(tmp_path / "rows.csv")) == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["MODEL", "test.csv", "--out", "o.txt"], "no ending"),
        (["MODEL", "none.csv", "--out", "o.csv"], "does not exist"),
        (["MODEL", "wrong.csv", "--out", "o.csv"], "no column 'north'"),
        (["MODEL", "test.csv", "--out", "test.csv"], "the input itself"),
        (["MODEL", "test.csv", "--out", "o.csv", "--interval", "0.95"], "in per cent"),
        (
            ["MODEL", "test.csv", "--out", "o.csv", "--exceed", "50%"],
            "--exceed must be one threshold, a finite number, or several",
        ),
        (["MODEL", "test.csv", "--out", "o.csv", "--exceed", "nan"], "--exceed must be one threshold"),
        (["MODEL", "test.csv", "--out", "o.csv", "--exceed", "1", "--no-std"], "leave out --no-std"),
        (["MODEL", "test.csv", "--out", "o.csv", "--stop-share", "5"], "share must be between 0 and 1"),
        (["MODEL", "test.csv", "--out", "o.csv", "--solver", "x"], "--solver must be one of"),
        (["MODEL", "test.csv", "--out", "o.csv", "--iterations", "3"], "no meaning for Cholesky"),
        (["MODEL", "test.csv", "--out", "o.csv", "--batch", "0"], "batch"),
        (["test.csv", "test.csv", "--out", "o.csv"], "not a folder"),
        (["nowhere", "test.csv", "--out", "o.csv"], "not a folder"),
    ],
)
def test_wrong_use(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    shutil.copy(folder / "test.csv", tmp_path)
    (tmp_path / "wrong.csv").write_text("east,south\n1,2\n")
    monkeypatch.chdir(tmp_path)
    before = snapshot(tmp_path)
    result = call("predict", *(folder / "model" if each == "MODEL" else each for each in arguments))
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.stderr.split())
    assert snapshot(tmp_path) == before


def test_a_model_without_names(tmp_path: Path) -> None:
    write_small(tmp_path / "test.csv", 5)
    cagp.Prior(cagp.RBF()).condition(np.eye(3), np.ones(3)).save(tmp_path / "model")
    result = call("predict", tmp_path / "model", tmp_path / "test.csv", "--out", tmp_path / "o.csv")
    assert result.exit_code == 2
    assert "about=cagp.saving.About(features=" in result.stderr
    assert "x0, x1 and x2" in " ".join(result.stderr.split())
    test = np.random.default_rng(0).random((4, 3))
    write_table(tmp_path / "x.csv", {f"x{i}": test[:, i] for i in (2, 0, 1)})
    result = call("predict", tmp_path / "model", tmp_path / "x.csv", "--out", tmp_path / "o.csv")
    assert result.exit_code == 0, result.output
    expected = cagp.load(tmp_path / "model").predict(test).mean
    np.testing.assert_allclose(read_table(tmp_path / "o.csv").columns["mean"], expected, rtol=1e-12)
    about = cagp.saving.About(features=["east", "north", "height"], target="y")
    cagp.load(tmp_path / "model").save(tmp_path / "named", about=about)
    assert call("predict", tmp_path / "named", tmp_path / "test.csv", "--out", tmp_path / "p.csv").exit_code == 0


def era5(latitude: str, longitude: str, values: np.ndarray | None = None) -> xr.Dataset:
    """A small field as ERA5 has it, with a time of one value, under these names."""
    names = ("valid_time", latitude, longitude)
    attributes = {"units": "K", "long_name": "2 metre temperature", "standard_name": "air_temperature"}
    attributes["cell_methods"] = "area: mean"
    coordinates = {
        "valid_time": ("valid_time", [np.datetime64("2024-01-01T06:00", "ns")]),
        latitude: (latitude, np.linspace(90, -90, 5), {"units": "degrees_north", "standard_name": "latitude"}),
        longitude: (longitude, np.arange(6) * 60.0, {"units": "degrees_east"}),
        "number": ((), 0),
        "step": ("valid_time", [3]),
    }
    return xr.Dataset({} if values is None else {"t2m": (names, values, attributes)}, coordinates)


def test_a_grid_as_the_accessor_writes_it(tmp_path: Path) -> None:
    """Other names for latitude and longitude, coordinates of one value, and the same CF attributes."""
    values = 280 + np.random.default_rng(0).normal(size=(1, 5, 6))
    values[:, [0, -1]] = 270.0
    field, grid = era5("latitude", "longitude", values), era5("lat", "lon")
    field.to_netcdf(tmp_path / "field.nc", engine="h5netcdf")
    grid.to_netcdf(tmp_path / "grid.nc", engine="h5netcdf")
    options = [
        "--no-fit",
        "--lengthscale",
        2000,
        "--variance",
        2,
        "--noise-variance",
        0.1,
        "--no-report",
        "--solver",
        "cholesky",
        "--recalibrate",
    ]
    assert call("fit", tmp_path / "field.nc", "--target", "t2m", *options, "--out", tmp_path / "m").exit_code == 0
    region = " ".join(call("info", tmp_path / "m").stdout.split())
    assert "region latitude -90 … 90, longitude 0 … 300 degrees" in region
    result = call("predict", tmp_path / "m", tmp_path / "grid.nc", "--out", tmp_path / "out.nc")
    assert result.exit_code == 0, result.output
    assert "'latitude' of the model is 'lat' in" in result.stdout
    prior = saving.read(tmp_path / "m").prior
    conditioned = interop.condition(field["t2m"], prior, solver="cholesky", recalibrate=True)
    expected = conditioned.predict(grid, level=0.95)
    with xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf", decode_timedelta=False) as out:
        xr.testing.assert_allclose(out.load(), expected)  # the coordinates as well
        assert out["valid_time"].values == grid["valid_time"].values
        assert set(out.coords) == {"lat", "lon", "valid_time", "number", "step"}
        for name in ("mean", "std", "lower", "upper", "lat", "lon"):
            assert out[name].attrs == expected[name].attrs
        assert out["std"].attrs["units_metadata"] == "temperature: difference"
        assert out.attrs["cagp_interval"] == "lower and upper hold 95%"
        differ = {"history", "cagp_status", "cagp_interval"}  # the time, how G was kept, what Parquet needs
        assert {k: v for k, v in out.attrs.items() if k not in differ} == {
            k: v for k, v in expected.attrs.items() if k not in differ
        }
        assert out.attrs["cagp_observations_copies"] == 10
    arguments = ["predict", tmp_path / "m", tmp_path / "grid.nc", "--out", tmp_path / "o.nc"]
    assert call(*arguments, "--no-std", "--prefix", "p_").exit_code == 0
    with xr.open_dataset(tmp_path / "o.nc", engine="h5netcdf") as out:
        assert "ancillary_variables" not in out["p_mean"].attrs


def test_remedies_are_options(folder: Path, tmp_path: Path) -> None:
    arguments = ["predict", folder / "model", folder / "test.csv", "--solver", "GaussSeidel(1)", "--out"]
    result = call(*arguments, tmp_path / "a.csv")
    assert "--iterations" in result.stdout
    assert "--stop-share" in result.stdout
    assert "computational_variance" not in result.stdout
    result = call(*arguments[:4], "GaussSeidel(2)", "--out", tmp_path / "b.csv", "--stop-share", 1e-6)
    assert "more --iterations get further" in " ".join(result.stdout.split())


# --- interrupted and killed -------------------------------------------------------------------------------------------


def test_killed_and_continued(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    write_small(tmp_path / "test.csv", 100, seed=1)
    arguments = ["predict", folder / "model", tmp_path / "test.csv", "--out", out, "--solver", "GaussSeidel(300)"]
    arguments += ["--batch", 10]
    running = start(3, tmp_path / "talk", *arguments)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert not out.exists()
    kept = sorted((tmp_path / "out.csv.parts").glob("*/batch-*.npz"))
    assert len(kept) == 3
    kept[0].write_bytes(kept[0].read_bytes()[:100])
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    assert "Continuing: 2 of 10 batches were finished before" in result.stdout
    assert not (tmp_path / "out.csv.parts").exists()
    whole = call("predict", *arguments[1:4], tmp_path / "whole.csv", *arguments[5:])
    assert whole.exit_code == 0, whole.output
    assert (tmp_path / "whole.csv").read_bytes() == out.read_bytes()


def test_interrupted_is_honest(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in iteration 37 of the second of three batches: each row is exactly what its iterations give.

    The trend comes first, with a hundred sweeps of its own.
    """
    out, calls = tmp_path / "out.parquet", []

    def interrupted_sweep(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 237:
            signal.raise_signal(signal.SIGINT)
        return sweep(*arguments, **options)

    write_small(tmp_path / "test.csv", 60, seed=1)
    test = read_table(tmp_path / "test.csv").matrix(["east", "north"])
    arguments = ["predict", folder / "model", tmp_path / "test.csv", "--out", out, "--solver", "GaussSeidel(100)"]
    arguments += ["--batch", 20]
    monkeypatch.setattr("cagp.solvers.gauss_seidel.sweep", interrupted_sweep)
    result = call(*arguments)
    monkeypatch.undo()
    assert result.exit_code == 130, result.output
    assert (
        "Interrupted: 20 rows after iteration 100, 20 rows after iteration 37, 20 rows after iteration 0. "
        "Iteration 0 is the prior. The error bars are right for what was computed."
    ) in result.stderr
    table = read_table(out)
    assert table.columns["iterations"].tolist() == [100] * 20 + [37] * 20 + [0] * 20
    model = saving.load(folder / "model", solver=cagp.GaussSeidel(100))
    (second,) = model.iterate(test[20:40], only=[37])
    reached = (
        (slice(0, 20), model.predict(test[:20])),
        (slice(20, 40), second),
        (slice(40, 60), model.prior_at(test[40:])),
    )
    for rows, post in reached:
        np.testing.assert_allclose(table.columns["mean"][rows], post.mean, rtol=1e-9)
        np.testing.assert_allclose(table.columns["std"][rows], post.std, rtol=1e-9)
    again = call(*arguments)
    assert again.exit_code == 0, again.output
    assert "Continuing: 1 of 3 batches" in again.stdout
    assert "iterations" not in read_table(out).columns
    assert not (tmp_path / "out.parquet.parts").exists()


def test_a_mixture_that_is_interrupted_in_a_later_component_says_so_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in the second of two components, in the second of three batches."""
    rng = np.random.default_rng(0)
    X = rng.random((30, 2))
    priors = [cagp.Prior(cagp.Matern32(length), noise_variance=0.02) for length in (0.3, 0.6)]
    conditioned = [prior.condition(X, np.sin(5 * X[:, 0]), cagp.GaussSeidel(10)) for prior in priors]
    model = cagp.Model([each.components[0] for each in conditioned], [0.6, 0.4])
    model.save(tmp_path / "model", about=saving.About(("east", "north"), "height"))
    write_small(tmp_path / "test.csv", 15, seed=1)
    test = read_table(tmp_path / "test.csv").matrix(["east", "north"])
    out, calls = tmp_path / "out.csv", []

    def interrupted_sweep(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 34:
            signal.raise_signal(signal.SIGINT)
        return sweep(*arguments, **options)

    arguments = ["predict", tmp_path / "model", tmp_path / "test.csv", "--out", out, "--batch", 5]
    with monkeypatch.context() as patch:
        patch.setattr("cagp.solvers.gauss_seidel.sweep", interrupted_sweep)
        result = call(*arguments)
    assert result.exit_code == 130, result.output
    assert "Interrupted: 5 rows after iteration 10, 5 rows after iteration 4, 5 rows after iteration 0" in result.stderr
    assert len(calls) == 34
    table = read_table(out)
    assert table.columns["iterations"].tolist() == [10] * 5 + [4] * 5 + [0] * 5
    np.testing.assert_allclose(table.columns["std"][:5], model.predict(test[:5]).std, rtol=1e-9)
    np.testing.assert_allclose(table.columns["std"][10:], model.prior_at(test[10:]).std, rtol=1e-9)
    again = call(*arguments)
    assert again.exit_code == 0, again.output
    assert "Continuing: 1 of 3 batches" in again.stdout
    np.testing.assert_allclose(read_table(out).columns["std"], model.predict(test).std, rtol=1e-9)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_interrupted_process(folder: Path, tmp_path: Path, name: str) -> None:
    out = tmp_path / "out.csv"
    write_small(tmp_path / "test.csv", 100, seed=1)
    arguments = ["predict", folder / "model", tmp_path / "test.csv", "--out", out, "--batch", 5]
    running = start(2, tmp_path / "talk", *arguments, "--solver", "GaussSeidel(300)")
    number = getattr(signal, name)
    running.send_signal(number)
    (tmp_path / "talk" / "go on").touch()
    _, errors = running.communicate(timeout=300)
    assert running.returncode == 128 + number, errors
    assert "The error bars are right for what was computed" in errors
    assert "Traceback" not in errors
    iterations = read_table(out).columns["iterations"]
    assert iterations.tolist() == [300] * 10 + [0] * 90


def test_interrupted_in_the_first_batch_can_be_continued(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted_sweep(*arguments: Any, **options: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return sweep(*arguments, **options)

    arguments = ["predict", folder / "model", folder / "test.csv", "--out", tmp_path / "out.csv", "--solver"]
    arguments += ["GaussSeidel(3)"]
    with monkeypatch.context() as patch:
        patch.setattr("cagp.solvers.gauss_seidel.sweep", interrupted_sweep)
        result = call(*arguments)
    assert result.exit_code == 130, result.output
    assert "the same command continues" in result.stderr
    again = call(*arguments)
    assert again.exit_code == 0, again.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv"]


def test_another_process_may_finish_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, other = (Pieces(tmp_path / "out.csv", "a" * 64) for _ in range(2))
    write = Path.write_bytes

    def removed_before_it_has_its_name(path: Path, content: bytes) -> None:
        write(path, content)
        other.remove()

    monkeypatch.setattr(Path, "write_bytes", removed_before_it_has_its_name)
    mine.save(0, 3, means=np.arange(3.0))
    monkeypatch.undo()
    mine.remove()
    assert list(tmp_path.iterdir()) == []


def test_pieces(tmp_path: Path) -> None:
    pieces = Pieces(tmp_path / "out.csv", "a" * 64)
    means = np.arange(6.0).reshape(2, 3)
    assert pieces.load(0, 3) is None
    pieces.save(0, 3, means=means, iterations=np.arange(3))
    kept = pieces.load(0, 3)
    assert kept is not None
    np.testing.assert_array_equal(kept["means"], means)
    assert Pieces(tmp_path / "out.csv", "b" * 64).load(0, 3) is None  # of another model or input
    (tmp_path / "out.csv.parts" / "mine.txt").write_text("keep me")
    Pieces(tmp_path / "out.csv", "b" * 64).remove()
    assert [path.name for path in (tmp_path / "out.csv.parts").iterdir()] == ["mine.txt"]


# --- damaged model folders and tables through the command line --------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # h5netcdf's own cleaning up
@pytest.mark.usefixtures("garbage_collected")
@examples(25)
@given(seed=st.integers(0, 2**32))
def test_damage_is_a_message(folder: Path, tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    rng = random.Random(seed)
    place = tmp_path_factory.mktemp("damage")
    shutil.copytree(folder / "model", place / "model")
    shutil.copy(folder / "test.csv", place)
    table = rng.choice(["test.csv", "test.parquet", "test.nc"])
    if table != "test.csv":
        write_table(place / table, read_table(folder / "test.csv").columns)
    victim = rng.choice([*sorted((place / "model").iterdir()), place / table])
    content = bytearray(victim.read_bytes())
    if rng.random() < 0.5:
        content = content[: rng.randrange(len(content) - 1)]
    else:
        spot = rng.randrange(len(content))
        content[spot : spot + 8] = rng.randbytes(8)
    victim.write_bytes(content)
    before = snapshot(place)
    result = call("predict", place / "model", place / table, "--out", place / "out.csv", "--quiet")
    assert result.exit_code in (0, 1, 2)
    assert "Traceback" not in result.output
    if result.exit_code:
        assert result.stderr.startswith("Error: ")
        assert len(result.stderr.splitlines()) <= 3
        assert snapshot(place) == before
    else:  # a number in the table that is another number now
        assert victim.name == table


def test_without_a_name_it_is_written_beside_the_table(folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "test.csv", tmp_path / "new.csv")
    result = call("predict", folder / "model", tmp_path / "new.csv")
    assert result.exit_code == 0, result.output
    assert f"Written: {tmp_path / 'new-predicted.csv'}" in result.stdout.replace("\n", "")
    assert len(read_table(tmp_path / "new-predicted.csv")) == len(read_table(tmp_path / "new.csv"))
    assert call("predict", folder / "model", tmp_path / "new.csv").exit_code == 2  # nothing is replaced unasked


def test_a_field_saved_from_xarray_keeps_names_and_units(tmp_path: Path) -> None:
    """From the file of a field to that of its prediction, whichever of the two doors each half goes through."""
    said = {"units": "degC", "long_name": "sea surface temperature", "standard_name": "sea_surface_temperature"}
    lat, lon = np.arange(-60.0, 61.0, 20.0), np.arange(20.0, 380.0, 40.0)
    values = 15 + np.cos(np.deg2rad(lat))[:, None] + np.sin(np.deg2rad(lon))
    depth = xr.Variable("lat", np.arange(7.0), {"units": "m"})
    field = xr.DataArray(values, {"lat": lat, "lon": lon}, ("lat", "lon"), "sst", said).assign_coords(depth=depth)
    kernel = cagp.Geographic(cagp.Matern32(0.5)).on(0, 1) * cagp.RBF(5.0).on(2)
    prior = cagp.Prior(kernel, mean=15.0, noise_variance=0.01)
    conditioned = interop.condition(field, prior, coords=("lat", "lon", "depth"))
    saved = saving.read(conditioned.save(tmp_path / "model"))
    assert saved.about.features == ("lat", "lon", "depth")
    assert saved.about.target == "sst"
    assert saved.about.units == {"lat": "degrees_north", "lon": "degrees_east", "depth": "m", "sst": "degC"}

    grid = field.isel(lat=slice(1, 3), lon=slice(0, 4)).coords.to_dataset()
    grid = grid.assign_coords(lon=(grid.lon + 180) % 360 - 180)
    grid.reset_coords("depth").to_netcdf(tmp_path / "grid.nc")
    done = call("predict", tmp_path / "model", tmp_path / "grid.nc", "--out", tmp_path / "out.nc")
    assert done.exit_code == 0, done.output
    expected = conditioned.predict(grid)
    with xr.open_dataset(tmp_path / "out.nc") as found:
        for name in ("mean", "std"):
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-9)
            for attribute in ("units", "standard_name", "long_name"):
                assert found[name].attrs[attribute] == expected[name].attrs[attribute]

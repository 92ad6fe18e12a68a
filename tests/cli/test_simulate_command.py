"""``cagp simulate``: the fields of the library, in files, and continued where it was stopped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from cagp import saving
from cagp.support.pieces import Pieces
from cagp.tables import read_table
from cli.small import VALUES, call, write_small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, test.csv and grid.nc."""
    place = tmp_path_factory.mktemp("simulate")
    write_small(place / "train.csv", 60)
    write_small(place / "test.csv", 30, seed=1)
    axes = {"north": np.linspace(0, 1, 5), "east": np.linspace(0, 1, 4)}
    grid = xr.Dataset({"mask": (("north", "east"), np.ones((5, 4)))}, axes)
    grid.to_netcdf(place / "grid.nc", engine="h5netcdf")
    arguments = ["fit", place / "train.csv", "--target", "height", "--out", place / "model", *VALUES, "--no-report"]
    assert call(*arguments).exit_code == 0
    return place


def expected(folder: Path, X: np.ndarray, n: int, **settings: object) -> np.ndarray:
    return np.asarray(saving.load(folder / "model").simulate(X, n, seed=3, **settings).fields)


def _flat(dataset: xr.Dataset) -> np.ndarray:
    fields = dataset["height"].transpose("realisation", "east", "north").values
    return fields.reshape(len(fields), -1)


def test_fields_on_a_grid(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "fields.nc"
    arguments = ["simulate", folder / "model", folder / "grid.nc", "--n", 7, "--seed", 3, "--batch", 3, "--out", out]
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    assert "exact" in result.output
    with xr.open_dataset(out, engine="h5netcdf") as dataset:
        assert set(dataset["height"].dims) == {"realisation", "north", "east"}
        assert dataset["realisation"].attrs["standard_name"] == "realization"
        assert dataset.attrs["cagp_seed"] == 3
        X = np.stack(np.meshgrid(dataset["east"], dataset["north"], indexing="ij"), axis=-1).reshape(-1, 2)
        np.testing.assert_allclose(_flat(dataset), expected(folder, X, 7), rtol=1e-10)
    assert [path.name for path in tmp_path.iterdir()] == ["fields.nc"]
    assert call(*arguments).exit_code == 2  # it is there already


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".nc"])
def test_fields_at_the_rows_of_a_table(folder: Path, tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"fields{ending}"
    arguments = ["simulate", folder / "model", folder / "test.csv", "--n", 2, "--seed", 3, "--observed", "--out", out]
    assert call(*arguments).exit_code == 0
    X = read_table(folder / "test.csv").matrix(["east", "north"])
    if ending == ".nc":
        with xr.open_dataset(out, engine="h5netcdf") as dataset:
            found = dataset["height"].values
            np.testing.assert_array_equal(dataset["east"].values, X[:, 0])
    else:
        table = read_table(out)
        assert list(table.columns) == ["east", "north", "height_0", "height_1"]
        found = np.stack([table.columns["height_0"], table.columns["height_1"]])
    np.testing.assert_allclose(found, expected(folder, X, 2, observed=True), rtol=1e-10)


def test_the_same_command_continues(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "fields.nc"
    arguments = ["simulate", folder / "model", folder / "grid.nc", "--n", 6, "--seed", 3, "--batch", 2, "--out", out]
    save, saved = Pieces.save, []

    def killed(self: Pieces, start: int, stop: int, **arrays: np.ndarray) -> None:
        save(self, start, stop, **arrays)
        saved.append(start)
        if len(saved) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Pieces, "save", killed)
    stopped = call(*arguments)
    assert stopped.exit_code == 130
    assert "continues" in stopped.output
    damaged = next(out.with_name("fields.nc.parts").glob("*/batch-0-2.npz"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    result = call(*arguments)
    assert result.exit_code == 0, result.output
    assert "1 of 3 batches were finished before" in result.output
    assert saved == [0, 2, 0, 4]
    assert [path.name for path in tmp_path.iterdir()] == ["fields.nc"]
    with xr.open_dataset(out, engine="h5netcdf") as dataset:
        X = np.stack(np.meshgrid(dataset["east"], dataset["north"], indexing="ij"), axis=-1).reshape(-1, 2)
        np.testing.assert_allclose(_flat(dataset), expected(folder, X, 6), rtol=1e-10)


def test_bad_use_is_refused(folder: Path, tmp_path: Path) -> None:
    for wrong, said in ((["--out", tmp_path / "a.txt"], "ending"), (["--out", folder / "grid.nc"], "input itself")):
        result = call("simulate", folder / "model", folder / "grid.nc", *wrong)
        assert result.exit_code == 2
        assert said in result.output

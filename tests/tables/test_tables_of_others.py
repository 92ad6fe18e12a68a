"""Tables from others, and for others: none unpacks to more than there is memory, and no spreadsheet runs a cell."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray as xr

from cagp.errors import TableError
from cagp.tables import read_table, read_training_table, write_table
from cagp.tables.columns import ColumnsAsked

LARGEST = "CAGP_LARGEST_TABLE"


def test_a_compressed_table_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("x,y\n" + "1,2\n" * 500_000)
    monkeypatch.setenv(LARGEST, "1_000_000")
    with pytest.raises(TableError, match=r"unpacks to more than 977 KiB.*CAGP_LARGEST_TABLE"):
        read_table(path)
    monkeypatch.setenv(LARGEST, "3e6")
    assert len(read_table(path)) == 500_000
    monkeypatch.delenv(LARGEST)
    assert len(read_table(path)) == 500_000


def test_without_a_limit_of_ones_own_it_is_the_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("x,note\n" + "1,abc\n" * 10_000)
    monkeypatch.setattr("cagp.tables.table.available_bytes", lambda device: 10_000)
    with pytest.raises(TableError, match=r"unpacks to more than 9.77 KiB, the memory that is free"):
        read_table(path)


def test_a_limit_that_is_no_number_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("x\n1\n")
    monkeypatch.setenv(LARGEST, "plenty")
    with pytest.raises(TableError, match=r"CAGP_LARGEST_TABLE must be a number of bytes, got 'plenty'"):
        read_table(path)


def test_a_grid_that_claims_to_be_huge_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "huge.nc"
    coordinates = {"lat": np.arange(4.0), "lon": np.arange(5.0)}
    xr.Dataset({"t": (("lat", "lon"), np.ones((4, 5)))}, coordinates).to_netcdf(path, engine="h5netcdf")
    monkeypatch.setenv(LARGEST, "479")
    with pytest.raises(TableError, match=r"takes 480 B.*CAGP_LARGEST_TABLE"):
        read_table(path)
    monkeypatch.setenv(LARGEST, "480")
    assert len(read_table(path)) == 20


def test_a_coordinate_that_claims_to_be_huge_is_not_read(tmp_path: Path) -> None:
    """A terabyte of which nothing was ever written: a file of a few kilobytes."""
    path = tmp_path / "huge.nc"
    with h5py.File(path, "w") as file:
        for name in ("x", "t"):
            file.create_dataset(name, shape=(2**42,), dtype="f8", chunks=(2**16,))
        file["x"].make_scale("x")
        file["t"].dims[0].attach_scale(file["x"])
    assert path.stat().st_size < 100_000
    with pytest.raises(TableError, match=r"takes 32 TiB"):
        read_table(path)


TEXTS = ["=1+1", "+49 30", "-cmd|' /C calc'!A0", "@SUM(1)", "-1.5", "plain", "it's", "'quoted'"]


@pytest.mark.parametrize("ending", [".csv", ".csv.gz"])
def test_no_text_in_a_written_csv_begins_like_a_formula(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"out{ending}"
    n = len(TEXTS)
    columns = {"=name": np.array(TEXTS, dtype=object), "y": np.linspace(-1, 1, n), "-y": -np.arange(n)}
    write_table(path, columns)
    create = gzip.open if ending == ".csv.gz" else open
    with create(path, "rt", newline="") as file:
        names, *rows = csv.reader(file)
    assert names == ["'=name", "y", "'-y"]
    shown = ["'=1+1", "'+49 30", "'-cmd|' /C calc'!A0", "'@SUM(1)", "-1.5", "plain", "it's", "'quoted'"]
    assert [row[0] for row in rows] == shown
    assert [float(row[1]) for row in rows] == columns["y"].tolist()  # numbers are never touched
    assert [float(row[2]) for row in rows] == columns["-y"].tolist()


def test_what_was_written_comes_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    texts = ["=a", "@b", "+c", "=a", "@b", "+c"]
    write_table(path, {"=kind": np.array(texts, dtype=object), "y": np.arange(6.0)})
    table, features = read_training_table(path, ["=kind"], ["y"], ColumnsAsked())
    assert table.given["=kind"].tolist() == texts
    assert len(features) == 2

"""Tables: exact numbers in and out, and a clear refusal of everything that is not quite a table of numbers."""

from __future__ import annotations

import csv
import gzip
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cagp.errors import InputError, TableError
from cagp.tables import ENDINGS, WITH_POINTS, read_columns, read_table, write_table
from random_examples import examples

PLAIN = [each for each in ENDINGS if each not in WITH_POINTS]  # files of points have coordinates


def table_file(folder: Path, text: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# --- numbers in and out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", PLAIN)
@examples(15)
@given(
    values=arrays(np.float64, (7,), elements=st.floats(allow_nan=False, allow_infinity=False, width=64)),
    names=st.lists(st.text("abcß ,\"'_é1", min_size=1, max_size=8), min_size=2, max_size=2, unique=True),
)
def test_numbers_come_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, ending: str, values: np.ndarray, names: list[str]
) -> None:
    if ending == ".nc" or any(name != name.strip() or name.isdigit() for name in names):
        names = ["a", "länge b"]  # HDF5 has its own rules for names
    path = tmp_path_factory.mktemp("table") / f"data{ending}"
    write_table(path, {names[0]: values, names[1]: np.arange(7)})
    table = read_table(path)
    assert tuple(table.columns) == tuple(names)
    np.testing.assert_array_equal(table.columns[names[0]], values)
    np.testing.assert_array_equal(table.columns[names[1]], np.arange(7.0))
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_csv_is_what_pandas_writes_and_reads(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.random.default_rng(0).normal(size=50), 'odd, "name" ': np.arange(50) / 7})
    frame.to_csv(tmp_path / "in.csv", index=False)
    table = read_table(tmp_path / "in.csv")
    for name in frame:
        np.testing.assert_array_equal(table.columns[name], frame[name])
    write_table(tmp_path / "out.csv.gz", table.columns)
    with gzip.open(tmp_path / "out.csv.gz", "rt", newline="") as file:
        names, *rows = csv.reader(file)
    assert names == list(frame)
    np.testing.assert_array_equal(np.array(rows, dtype=float), frame.to_numpy())


def test_chosen_columns_and_awkward_but_right_files(tmp_path: Path) -> None:
    text = "\ufeffa,name,b\r\n1,Ann,1e3\r\n\r\n -2.5 ,Bob,+3\r\n"
    table = read_table(table_file(tmp_path, text), ["b", "a"])
    assert table.matrix(["a", "b"]).tolist() == [[1, 1000], [-2.5, 3]]
    assert read_columns(tmp_path / "data.csv").names == ("a", "name", "b")


def test_a_late_change_of_type(tmp_path: Path) -> None:
    """Integers for the first megabyte, then a fraction."""
    rows = [f"{i},{i}" for i in range(200_000)] + ["0.5,1e-3"]
    table = read_table(table_file(tmp_path, "\n".join(["a,b", *rows])))
    assert table.columns["a"][-1] == 0.5
    assert len(table) == 200_001


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n", "has no columns: all of its lines are empty"),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", "two columns called 'a'"),
        ("a,,c\n1,2,3\n", "column 2 has no name"),
        ("a,b\n1,2\n3\n", "line 3 has 1 fields where 2 are expected"),
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 fields where 2 .*complete the line"),
        ("a,b\n1,2\n3,oops\n", r"column 'b' is not numeric, in row 2 .* 'oops'.*--exclude"),
        ("a,b\n1,2\n3,1.000.000\n", "not numeric"),
        ("a,b\n1,2\n3,true\n", "not numeric"),
        (
            "a,b\n1,\n3,4\n5,NA\n",
            r"2 missing values in column 'b', the first in row 1 .*in 2 of 3 rows.*--drop-missing",
        ),
        ("a\n1\n\n3\n", "1 missing values in column 'a', the first in row 2"),
        ("a,b\n1,inf\n", "column 'b' is infinite in row 1"),
        ("a,b\n1,-1e999\n", "infinite"),
        ("a,b\n1,9007199254740993\n", r"integer 9007199254740993, beyond 2\*\*53.*offset"),
        ("a,b\n1,123456789012345678901\n", r"beyond 2\*\*53"),
        (f"a,b\n1,{'9' * 350}\n", r"integer 9{40}…, beyond 2\*\*53"),
        (f"a,b\n1,{'9' * 5000}\n", r"beyond 2\*\*53"),
        ("1.5,2\n3,4\n", "begins with numbers"),
        ('a,"b\n1,2\n', "CSV"),
        (b"\x00\x01\x02\x03", "."),
    ],
)
def test_bad_csv(tmp_path: Path, text: str | bytes, words: str) -> None:
    path = table_file(tmp_path, text)
    with pytest.raises(TableError, match=words) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_large_but_exact_integers_pass(tmp_path: Path) -> None:
    table = read_table(table_file(tmp_path, f"a\n{2**60}\n1e300\n"))
    assert table.columns["a"].tolist() == [2.0**60, 1e300]


def test_text_in_a_column_that_is_not_needed(tmp_path: Path) -> None:
    path = table_file(tmp_path, b"a,b,c\n1,2,\xe9\n3,4,x\n")
    assert read_table(path, ["a", "b"]).matrix(["b"]).ravel().tolist() == [2, 4]
    with pytest.raises(TableError):
        read_table(path, ["a", "c"])


def test_missing_columns_and_files(tmp_path: Path) -> None:
    path = table_file(tmp_path, "a,b\n1,2\n")
    with pytest.raises(TableError, match="no column 'c'; it has 'a', 'b'"):
        read_table(path, ["a", "c"])
    with pytest.raises(TableError, match="asked for twice"):
        read_table(path, ["a", "a"])
    for name, words in [("none.csv", "does not exist"), ("data.xlsx", "no ending"), (".csv", "no ending")]:
        with pytest.raises(InputError, match=words):
            read_table(tmp_path / name)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match="not a file"):
        read_table(tmp_path / "folder.csv")


def test_dropping_missing_rows(tmp_path: Path) -> None:
    table = read_table(table_file(tmp_path, "a,b\n1,2\n,3\n4,NaN\n5,6\n"), drop_missing=True)
    assert (table.dropped, table.rows.tolist()) == (2, [0, 3])
    assert table.matrix(["a", "b"]).tolist() == [[1, 2], [5, 6]]
    with pytest.raises(TableError, match="every row has a missing value"):
        read_table(table_file(tmp_path, "a,b\n1,\n,3\n"), drop_missing=True)


def test_parquet(tmp_path: Path) -> None:
    frame = pd.DataFrame({"i": np.array([1, 2], dtype="int8"), "f": np.array([0.1, 2], dtype="float32")})
    frame = frame.assign(t=pd.to_datetime(["2020-01-01", "2020-01-02"]), s=["a", "b"], flag=[True, False])
    frame = frame.assign(d=pd.to_timedelta([1, 2], "D"), big=[1, 2**60 + 1], gap=pd.array([1, None], dtype="Int64"))
    path = tmp_path / "data.parquet"
    frame.to_parquet(path)
    table = read_table(path, ["i", "f", "flag"])
    assert table.columns["f"].tolist() == [float(np.float32(0.1)), 2.0]
    assert table.columns["flag"].tolist() == [1.0, 0.0]
    assert read_table(path, ["t"]).columns["t"].tolist() == [18262.0, 18263.0]
    for name, words in [("d", "type duration"), ("s", "not numeric"), ("big", "beyond"), ("gap", "1 missing")]:
        with pytest.raises(TableError, match=words):
            read_table(path, ["i", name])
    write_table(path, {"a": np.ones(2)}, units={"a": "m"}, notes={"status": "fine"})
    assert read_table(path).units == {"a": "m"}


# --- grids ------------------------------------------------------------------------------------------------------------


def grid_file(path: Path, **options: object) -> xr.Dataset:
    rng = np.random.default_rng(0)
    dataset = xr.Dataset(
        {
            "t2m": (("time", "lat", "lon"), rng.normal(size=(2, 3, 4)).astype("float32"), {"units": "K"}),
            "height": (("lat", "lon"), rng.normal(size=(3, 4))),
        },
        {
            "time": pd.to_datetime(["2024-01-01T00:00", "2024-01-02T12:00"]),
            "lat": ("lat", [10.0, 20, 30], {"units": "degrees_north"}),
            "lon": ("lon", [0.0, 1, 2, 3], {"units": "degrees_east"}),
        },
    )
    dataset.to_netcdf(path, **options)  # type: ignore[call-overload]
    return dataset


@pytest.mark.parametrize("options", [{"engine": "h5netcdf"}, {"engine": "scipy", "format": "NETCDF3_64BIT"}])
def test_grids_become_rows_and_grids_again(tmp_path: Path, options: dict[str, object]) -> None:
    dataset = grid_file(tmp_path / "grid.nc", **options)
    raw = read_columns(tmp_path / "grid.nc")
    assert raw.globe == ("lat", "lon")
    assert set(raw.names) == {"time", "lat", "lon", "t2m", "height"}
    table = read_table(tmp_path / "grid.nc")
    frame = dataset.to_dataframe(dim_order=["time", "lat", "lon"]).reset_index()
    for name in ("lat", "lon", "t2m", "height"):
        np.testing.assert_array_equal(table.columns[name], frame[name])
    assert sorted(set(table.columns["time"])) == [19723.0, 19724.5]
    assert table.units["t2m"] == "K"
    write_table(tmp_path / "out.nc", {"lat": table.columns["lat"], "mean": table.columns["t2m"]}, grid=table.grid)
    with xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as back:
        np.testing.assert_array_equal(back["mean"].values, dataset["t2m"].values)
        for name in ("time", "lat", "lon"):
            np.testing.assert_array_equal(back[name].values, dataset[name].values)


def test_gaps_in_a_grid(tmp_path: Path) -> None:
    dataset = grid_file(tmp_path / "full.nc", engine="h5netcdf")
    dataset["height"][1, 2] = np.nan
    dataset.to_netcdf(tmp_path / "gap.nc", engine="h5netcdf")
    with pytest.raises(TableError, match="missing values in column 'height'"):
        read_table(tmp_path / "gap.nc", ["lat", "lon", "height"])
    table = read_table(tmp_path / "gap.nc", ["lat", "lon", "height"], drop_missing=True)
    assert (len(table), table.dropped) == (11, 1)
    write_table(tmp_path / "out.nc", {"mean": table.columns["height"]}, grid=table.grid, rows=table.rows)
    with xr.open_dataset(tmp_path / "out.nc", engine="h5netcdf") as back:
        np.testing.assert_array_equal(back["mean"].values, dataset["height"].values)


def test_netcdf_without_numbers(tmp_path: Path) -> None:
    xr.Dataset({"name": ("row", ["a", "b"]), "x": ("row", [1, 2])}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    with pytest.raises(TableError, match="not numeric"):
        read_table(tmp_path / "a.nc")
    assert read_table(tmp_path / "a.nc", ["x"]).columns["x"].tolist() == [1, 2]
    xr.Dataset(attrs={"nothing": "here"}).to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    with pytest.raises(TableError, match="no columns"):
        read_table(tmp_path / "b.nc")


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # h5netcdf's own cleaning up
@pytest.mark.usefixtures("garbage_collected")
@pytest.mark.parametrize("ending", PLAIN)
@examples(25)
@given(seed=st.integers(0, 2**32))
def test_damaged_files(tmp_path_factory: pytest.TempPathFactory, ending: str, seed: int) -> None:
    """Cut off or overwritten anywhere: an error of ours, or a table of finite numbers; never anything else."""
    rng = random.Random(seed)
    path = tmp_path_factory.mktemp("damaged") / f"data{ending}"
    write_table(path, {"a": np.linspace(0, 1, 50), "b": np.arange(50)}, units={"a": "m"})
    content = bytearray(path.read_bytes())
    if rng.random() < 0.5:
        content = content[: rng.randrange(len(content))]
    else:
        start = rng.randrange(len(content))
        content[start : start + 16] = rng.randbytes(16)
    path.write_bytes(content)
    try:
        table = read_table(path)
        assert all(np.isfinite(values).all() for values in table.columns.values())
    except TableError as error:
        message = str(error)
    else:
        message = str(path)
    assert str(path) in message
    assert path.read_bytes() == content
    assert len(list(path.parent.iterdir())) == 1


def test_truncated_gzip(tmp_path: Path) -> None:
    rows = "\n".join(f"{i},{i * 0.37}" for i in range(50_000))
    content = gzip.compress(f"a,b\n{rows}\n".encode())
    with pytest.raises(TableError, match="CSV"):
        read_table(table_file(tmp_path, content[: len(content) // 2], "data.csv.gz"))

"""Tables as people have them: ``cagp fit`` and ``cagp predict`` take them as one would expect, or say what is wrong.

Each case is a pair of files, to fit to and to predict from, and either the numbers that are meant, which a dense
computation in NumPy starts from, or a sentence that names the column, the row and the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from cagp import saving
from cagp.errors import TableError
from cagp.tables import read_table, read_training_table
from cagp.tables.columns import ColumnsAsked
from cli.small import VALUES, call

N = 12
RNG = np.random.default_rng(0)
A, B, Y = RNG.integers(0, 300, N) / 100, RNG.integers(0, 300, N) / 100, RNG.integers(-99, 100, N) / 100
NEW_A, NEW_B = np.array([0.25, 1.5, 2.75]), np.array([1.25, 0.5, 2.0])


def lines(columns: dict[str, object], sep: str = ",", end: str = "\n") -> str:
    """A file with these columns, values as they are."""
    rows = zip(*(list(each) for each in columns.values()), strict=True)
    return end.join(sep.join(map(str, row)) for row in [tuple(columns), *rows]) + end


def pair(make: Callable[[dict[str, object]], str | bytes], **more: tuple[object, object]) -> tuple[bytes, bytes]:
    """The table to fit to and that to predict from, with ``more`` columns, written by ``make``."""
    train = {"a": A, "b": B, **{name: both[0] for name, both in more.items()}, "y": Y}
    new = {"a": NEW_A, "b": NEW_B, **{name: both[1] for name, both in more.items()}}
    made = [make(train), make(new)]
    return made[0] if isinstance(made[0], bytes) else made[0].encode(), (
        made[1] if isinstance(made[1], bytes) else made[1].encode()
    )


@dataclass(frozen=True)
class Case:
    """Files, what is said about them, and the columns beside a and b that the features must have."""

    files: tuple[bytes, bytes]
    said: str = ""
    more: tuple[np.ndarray, ...] = ()
    more_new: tuple[np.ndarray, ...] = ()
    options: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def comma(text: object) -> str:
    return str(text).replace(".", ",")


COLOURS = np.array(["red", "blue", "green", "red", "blue", "blue", "red", "green", "red", "blue", "green", "red"])
HOT = tuple((level == COLOURS).astype(float) for level in ("green", "red"))
NEW_COLOURS = np.array(["green", "red", "red"])
NEW_HOT = tuple((level == NEW_COLOURS).astype(float) for level in ("green", "red"))
DAYS = pd.date_range("2024-01-11", periods=N, freq="31h")
NEW_DAYS = pd.date_range("2024-02-13 12:30", periods=3, freq="D")
FLAGS = RNG.random(N) < 0.5
NEW_FLAGS = np.array([True, False, True])


def dates(form: str) -> tuple[object, object]:
    return DAYS.strftime(form), NEW_DAYS.strftime(form)


def since(dates: pd.DatetimeIndex, unit: str = "min") -> np.ndarray:
    return ((dates.floor(unit) - pd.Timestamp("1970-01-01")) / pd.Timedelta("1D")).to_numpy()


def flags(no: str, yes: str) -> tuple[object, object]:
    return np.where(FLAGS, yes, no), np.where(NEW_FLAGS, yes, no)


BY_MINUTE = {"more": (since(DAYS),), "more_new": (since(NEW_DAYS),)}
BY_DAY = {"more": (since(DAYS, "D"),), "more_new": (since(NEW_DAYS, "D"),)}
BY_FLAG = {"more": (FLAGS.astype(float),), "more_new": (NEW_FLAGS.astype(float),)}
MIXED_CASE = np.where(FLAGS, np.resize(["True", "TRUE", "true"], N), np.resize(["false", "False"], N))
PLAIN = pair(lines)

GOOD = {
    "headers with spaces": Case(
        (PLAIN[0].replace(b"a,b", b'wind speed ,"b, in m"', 1), PLAIN[1].replace(b"a,b", b' wind speed,"b, in m"', 1)),
        names=("wind speed ", "b, in m"),
    ),
    "semicolons": Case(pair(lambda c: lines(c, ";")), "separated by semicolons"),
    "decimal commas": Case(
        pair(lambda c: lines({k: [comma(v) for v in each] for k, each in c.items()}, ";")), "decimal commas"
    ),
    "byte-order mark": Case(tuple(b"\xef\xbb\xbf" + file for file in PLAIN)),
    "UTF-16 with its mark": Case(tuple(file.decode().encode("utf-16") for file in PLAIN), "UTF-16"),
    "empty rows": Case(
        (b"\n\n" + PLAIN[0].replace(b"\n", b"\n\n,,\n", 2) + b",,\n\n", b"\n" + PLAIN[1] + b",\n"),
        "3 of its rows are empty",
    ),
    "trailing delimiter": Case(tuple(file.replace(b"\n", b",\n") for file in PLAIN)),
    "trailing delimiter in rows": Case(tuple(f.replace(b"\n", b",\n").replace(b",\n", b"\n", 1) for f in PLAIN)),
    "one category only": Case(pair(lines, place=(["here"] * N, ["here"] * 3)), "one value only: 'place'"),
    "categories": Case(
        pair(lines, colour=(COLOURS, NEW_COLOURS)),
        r"'colour' holds 3 categories \('blue', 'green', 'red'\)",
        HOT,
        NEW_HOT,
        names=("colour=green", "colour=red"),
    ),
    "two categories": Case(
        pair(lines, side=(np.where(FLAGS, "right", "left"), np.where(NEW_FLAGS, "right", "left"))),
        "each but 'left'",
        **BY_FLAG,
        names=("side=right",),
    ),
    "numbers that are categories": Case(
        pair(lines, zone=(np.where(FLAGS, 7, 12), np.where(NEW_FLAGS, 7, 12))),
        "2 categories",
        **BY_FLAG,
        options=("--categories", "zone"),
        names=("zone=7",),
    ),
    "a column without values": Case(pair(lines, gap=(["NaN"] * N, [""] * 3)), "no value at all: 'gap'"),
    "ISO dates": Case(pair(lines, day=dates("%Y-%m-%d")), "'day' holds dates: days since 1970-01-01", **BY_DAY),
    "ISO times": Case(pair(lines, day=dates("%Y-%m-%dT%H:%M:%S.000")), "holds dates", **BY_MINUTE),
    "dates with dots": Case(pair(lines, day=dates("%d.%m.%Y %H:%M")), "holds dates", **BY_MINUTE),
    "month first": Case(pair(lines, day=dates("%m/%d/%Y %I:%M %p")), "read with the month first", **BY_MINUTE),
    "time zones": Case(
        pair(
            lines,
            day=tuple([f"{each + pd.Timedelta('2h'):%Y-%m-%d %H:%M}+02:00" for each in d] for d in (DAYS, NEW_DAYS)),
        ),
        "times in UTC",
        **BY_MINUTE,
    ),
    "true and false": Case(pair(lines, flag=(MIXED_CASE, flags("FALSE", "true")[1])), "as 1 and 0", **BY_FLAG),
    "yes and no": Case(pair(lines, flag=flags("no", "Yes")), "as 1 and 0", **BY_FLAG),
    "T and F": Case(pair(lines, flag=flags("F", "T")), "as 1 and 0", **BY_FLAG),
    "constant and duplicated columns": Case(
        pair(lines, one=([1] * N, [1] * 3), again=(A, NEW_A)), "'one'.*repeat another column: 'again' is 'a' again"
    ),
    "thousands separators": Case(
        pair(lines, big=([f'"{1000 * v:,.2f}"' for v in A[::-1]], ['"1,000"', '"2,000"', '"500"'])),
        "thousands separators",
        (1000 * A[::-1],),
        (np.array([1000.0, 2000.0, 500.0]),),
    ),
    "tabs": Case(pair(lambda c: lines(c, "\t")), "separated by tabs"),
    "Windows line ends": Case(pair(lambda c: lines(c, end="\r\n"))),
    "Latin-1": Case(
        pair(
            lambda c: lines(c).encode("latin-1"),
            größe=(np.where(FLAGS, "groß", "klein"), np.where(NEW_FLAGS, "groß", "klein")),
        ),
        "Windows-1252",
        (1.0 - FLAGS,),
        (1.0 - NEW_FLAGS,),
        names=("größe=klein",),
    ),
    "spaces around values": Case(
        pair(lambda c: lines({k: [f"  {v} " for v in each] for k, each in c.items()}), flag=flags("no", "yes")),
        "as 1 and 0",
        **BY_FLAG,
    ),
}


def meant(case: Case) -> tuple[np.ndarray, np.ndarray]:
    return np.column_stack([A, B, *case.more]), np.column_stack([NEW_A, NEW_B, *case.more_new])


def written(folder: Path, files: tuple[bytes, bytes]) -> tuple[Path, Path]:
    for name, content in zip(("train.csv", "new.csv"), files, strict=True):
        (folder / name).write_bytes(content)
    return folder / "train.csv", folder / "new.csv"


def fit(train: Path, *options: str) -> tuple[int, str]:
    done = call(
        "fit", train, "--target", "y", "--out", train.parent / "m", *VALUES, "--no-report", "--no-recalibrate", *options
    )
    return done.exit_code, " ".join((done.stdout if done.exit_code == 0 else done.stderr).split())


def dense_mean(X: np.ndarray, y: np.ndarray, X_new: np.ndarray) -> np.ndarray:
    """Ordinary kriging with the hyperparameters of VALUES."""

    def k(P: np.ndarray, Q: np.ndarray) -> np.ndarray:
        r = np.sqrt(3.0) * np.linalg.norm(P[:, None] - Q[None], axis=2) / 0.4
        return (1 + r) * np.exp(-r)

    G, one = k(X, X) + 0.01 * np.eye(len(X)), np.ones(len(X))
    level = one @ np.linalg.solve(G, y) / (one @ np.linalg.solve(G, one))
    return level + k(X_new, X) @ np.linalg.solve(G, y - level)


@pytest.mark.parametrize("name", GOOD)
def test_what_one_would_expect(tmp_path: Path, name: str) -> None:
    case = GOOD[name]
    train, new = written(tmp_path, case.files)
    code, said = fit(train, *case.options)
    assert code == 0, said
    assert re.search(case.said, said), said
    X, X_new = meant(case)
    saved = saving.read(tmp_path / "m")
    np.testing.assert_allclose(saved.X, X, rtol=1e-14)
    np.testing.assert_array_equal(saved.y, Y)
    assert set(case.names) <= set(saved.about.features or ())
    done = call("predict", tmp_path / "m", new, "--out", tmp_path / "out.csv")
    assert done.exit_code == 0, done.stderr
    np.testing.assert_allclose(read_table(tmp_path / "out.csv", ["mean"]).columns["mean"], dense_mean(X, Y, X_new))


def spoilt(row: int, name: str, value: object, **more: tuple[object, object]) -> bytes:
    """The table to fit to with another value in one row, counted from 0."""
    columns = {"a": A, "b": B, **{each: both[0] for each, both in more.items()}, "y": Y}
    columns[name] = [value if i == row else each for i, each in enumerate(columns[name])]
    return lines(columns).encode()


SLASHES = [f"0{1 + i % 3}/0{1 + i % 5}/2024" for i in range(N)]
BAD = {
    "mixed types": (spoilt(3, "b", "oops"), r"column 'b' .*row 4 \(line 5 of the file\).*'oops'.*--exclude"),
    "an underscore": (spoilt(3, "b", "1_000"), r"column 'b' .*\(line 5 of the file\).*'1_000'"),
    "mixed target": (spoilt(3, "y", "oops"), r"column 'y' .*\(line 5 of the file\).*'oops'.*correct it"),
    "below a limit": (spoilt(3, "y", "<3.5"), r"column 'y' .*\(line 5 .*'<3.5', a value below a limit.*write half of"),
    "above a limit": (
        spoilt(3, "b", "> 20"),
        r"column 'b' .*\(line 5 .*'> 20', a value above a limit.*write the limit in",
    ),
    "ambiguous dates": (pair(lines, day=(SLASHES, SLASHES[:3]))[0], r"'day' .*\(line 2 .*--dates day-first"),
    "short years": (pair(lines, d=(["1.2.24"] * N, [0] * 3))[0].replace(b"1.2", b"2.1", 1), r"'d' .*\(line 2 .*digits"),
    "no such date": (spoilt(5, "d", "30.02.2024", d=dates("%d.%m.%Y")), r"'d' .*'30.02.2024' .*\(line 7 .*correct"),
    "dates in two forms": (
        spoilt(5, "d", "2024-02-03", d=dates("%d.%m.%Y")),
        r"'d' .*\(line 7 .*write all dates alike",
    ),
    "a zone missing": (spoilt(2, "d", "2024-02-03 10:00", d=dates("%Y-%m-%d %H:%MZ")), r"'d' .*\(line 4 .*time zone"),
    "infinite": (spoilt(1, "a", "inf"), r"column 'a' is infinite in row 2 \(line 3 of the file\); replace it"),
    "missing feature": (spoilt(1, "a", ""), r"column 'a', the first in row 2 \(line 3 .*--drop-missing"),
    "n.a.": (spoilt(4, "b", "n.a."), r"column 'b', the first in row 5 \(line 6 .*--drop-missing"),
    "missing target": (spoilt(4, "y", "NA"), r"column 'y', the first in row 5 \(line 6 .*--drop-missing"),
    "line too long": (PLAIN[0].replace(b"\n", b",7\n", 3).replace(b",7\n", b"\n", 2), "line 3 has 4 fields where 3"),
    "line too short": (PLAIN[0] + b"1.0,2.0\n", "line 14 has 2 fields where 3 .*'a', 'b', 'y'; complete the line"),
    "names of rows": (pair(lines, id=([f"S{i}" for i in range(N)], [0] * 3))[0], r"'id' .*\(line 2 .*--exclude 'id'"),
    "many texts": (
        lines({"a": A[[0] * 122], "t": [f"t{i % 61}" for i in range(122)], "y": Y[[0] * 122]}).encode(),
        "'t'",
    ),
    "names twice": (PLAIN[0].replace(b"a,b", b"a,a", 1), "two columns called 'a'; rename"),
    "no names": (PLAIN[0].split(b"\n", 1)[1], "begins with numbers"),
    "empty file": (b"", "is empty"),
    "only empty lines": (b"\n\n\n", "lines are empty"),
    "only names": (b"a,b,y\n", "no rows"),
    "nothing varies": (lines({"a": [1] * N, "b": ["x"] * N, "y": Y}).encode(), "no feature varies"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_and_what_to_do(tmp_path: Path, name: str) -> None:
    content, words = BAD[name]
    train, _ = written(tmp_path, (content, b""))
    code, said = fit(train)
    assert code == 2, said
    assert re.search(words, said), said
    assert str(train) in said
    assert said.count("Error") == 1
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("impute", [(), ("--impute", "median")])
def test_infinity_is_no_category(tmp_path: Path, impute: tuple[str, ...]) -> None:
    zone = (np.where(FLAGS, 7, 12), np.where(NEW_FLAGS, 7, 12))
    train, new = written(tmp_path, pair(lines, zone=zone))
    words = "column 'zone' holds {} in row 3 (line 4 of the file), "
    good = train.read_bytes()
    for text, shown in (("inf", "inf"), ("-1e999", "-inf")):
        train.write_bytes(spoilt(2, "zone", text, zone=zone))
        code, said = fit(train, "--categories", "zone", *impute)
        assert (code, said.count("Error")) == (2, 1), said
        assert words.format(shown) + "which is no category; replace it or leave it empty" in said
    train.write_bytes(good)
    assert fit(train, "--categories", "zone", *impute)[0] == 0
    new.write_bytes(new.read_bytes().rstrip().rsplit(b",", 1)[0] + b",inf\n")
    refused = call("predict", tmp_path / "m", new, "--out", tmp_path / "out.csv")
    assert refused.exit_code == 2, refused.output
    assert words.format("'inf'") + "a category that the model has never seen" in " ".join(refused.stderr.split())


def test_ambiguous_dates_when_it_is_said_which(tmp_path: Path) -> None:
    train, new = written(tmp_path, pair(lines, day=(SLASHES, SLASHES[:3])))
    code, said = fit(train, "--dates", "day-first")
    assert code == 0, said
    meant = pd.to_datetime(pd.Series(SLASHES), format="%d/%m/%Y")
    np.testing.assert_array_equal(saving.read(tmp_path / "m").X[:, 2], since(pd.DatetimeIndex(meant)))
    # what was said is remembered, also where the new table alone would be clear or wrong
    assert call("predict", tmp_path / "m", new, "--out", tmp_path / "out.csv").exit_code == 0
    new.write_bytes(new.read_bytes().replace(b"02/02/2024", b"02/13/2024"))
    refused = call("predict", tmp_path / "m", new, "--out", tmp_path / "out.csv", "--overwrite")
    assert "'02/13/2024' in row 2 (line 3 of the file), which is no date with the day first" in refused.stderr


def test_new_tables_that_do_not_fit_the_model(tmp_path: Path) -> None:
    more = {"colour": (COLOURS, NEW_COLOURS), "day": dates("%Y-%m-%d"), "flag": flags("no", "yes")}
    train, new = written(tmp_path, pair(lines, **more))
    assert fit(train)[0] == 0
    good = new.read_bytes()
    for old, other, words in [
        (b"green", b"pink", "'colour' holds 'pink' in row 1 (line 2 of the file), a category that the model has never"),
        (b"2024-02-14", b"2024-02-14Z", "without a time zone"),
        (b"2024-02-14", b"soon", "'soon' in row 2 (line 3 of the file), which is not a date"),
        (b",no", b",maybe", "'maybe' in row 2 (line 3 of the file), where the model has yes and no"),
        (b"colour", b"color", "has no column 'colour'; it has 'a', 'b', 'color'"),
    ]:
        new.write_bytes(good.replace(old, other, 1))
        refused = call("predict", tmp_path / "m", new, "--out", tmp_path / "out.csv")
        assert refused.exit_code == 2
        assert words in " ".join(refused.stderr.split())
    new.write_bytes(good)
    assert call("predict", tmp_path / "m", new, "--out", tmp_path / "out.parquet").exit_code == 0
    back = pd.read_parquet(tmp_path / "out.parquet")
    assert list(back)[:5] == ["a", "b", "colour", "day", "flag"]
    assert back["colour"].tolist() == NEW_COLOURS.tolist()


def test_missing_values_left_out_or_filled_in(tmp_path: Path) -> None:
    columns = {"a": A, "b": [*B[:-2], "", B[-1]], "colour": [*COLOURS[:-1], ""], "y": ["NA", *Y[1:]]}
    train, new = written(tmp_path, (lines(columns).encode(), b"a,b,colour\n1.5,,red\n2.5,2.5,\n"))
    code, said = fit(train)
    assert code == 2
    said = " ".join(said.split())
    assert "1 missing values in column 'b', the first in row 11" in said
    told = "1 in 'colour' and 1 in 'y', in 3 of 12 rows; fill them in, those of features with --impute median, or leave"
    assert f"{told} these rows out with --drop-missing" in said
    code, said = fit(train, "--drop-missing")
    assert code == 0, said
    np.testing.assert_array_equal(saving.read(tmp_path / "m").X[:, 0], A[1:-2])
    code, said = fit(train, "--drop-missing", "--impute", "median", "--overwrite")
    median = f"{np.median(np.delete(B, -2)):.4g}"
    assert f"1 missing value of 'b' is filled in by {median}, the median of the data" in said
    assert "1 missing value of 'colour' is filled in by 'blue', the most" in said or "by 'red', the most" in said
    X = saving.read(tmp_path / "m").X
    assert X.shape == (N - 1, 4)
    assert X[-2, 1] == np.median(np.delete(B, -2))
    done = call("predict", tmp_path / "m", new, "--out", tmp_path / "out.csv")
    assert done.exit_code == 0, done.stderr
    assert "filled in by" in done.stdout
    assert "as --impute asked" not in done.stdout  # which was asked long ago
    assert len(read_table(tmp_path / "out.csv", ["mean"])) == 2
    rows = (tmp_path / "out.csv").read_text().replace('"', "").splitlines()[1:]
    assert [row.split(",")[:3] for row in rows] == [["1.5", "", "red"], ["2.5", "2.5", ""]]  # as they came


def test_a_parquet_file_with_every_kind_of_column(tmp_path: Path) -> None:
    zoned = DAYS.tz_localize("UTC").tz_convert("Europe/Berlin")
    frame = pd.DataFrame({"a": A, "t": zoned, "flag": FLAGS, "c": pd.Categorical(COLOURS), "y": np.arange(N)})
    frame.to_parquet(tmp_path / "train.parquet")
    code, said = fit(tmp_path / "train.parquet")
    assert code == 0, said
    saved = saving.read(tmp_path / "m")
    np.testing.assert_allclose(saved.X, np.column_stack([A, since(DAYS), FLAGS, *HOT]), rtol=1e-14)
    assert saved.about.units == {"t": "days since 1970-01-01"}
    done = call("predict", tmp_path / "m", tmp_path / "train.parquet", "--out", tmp_path / "out.csv")
    assert done.exit_code == 0, done.stderr
    assert pd.read_csv(tmp_path / "out.csv")["t"].str.startswith("2024-01-11").sum() == 1


def test_times_of_a_grid_and_dates_of_a_table_are_the_same(tmp_path: Path) -> None:
    """A model of a NetCDF file predicts from a CSV file with dates, and the other way round."""
    when = pd.date_range("2024-03-01", periods=N, freq="D")
    grid = xr.Dataset({"y": ("time", Y)}, {"time": when.to_numpy()})
    grid.to_netcdf(tmp_path / "grid.nc", engine="h5netcdf")
    (tmp_path / "table.csv").write_text(lines({"time": when.strftime("%d.%m.%Y"), "y": Y}))
    means = []
    for fitted, other in (("grid.nc", "table.csv"), ("table.csv", "grid.nc")):
        code, said = fit(tmp_path / fitted, "--overwrite")
        assert code == 0, said
        assert "'time' holds dates: days since 1970-01-01" in said
        done = call("predict", tmp_path / "m", tmp_path / other, "--out", tmp_path / f"{fitted}.csv")
        assert done.exit_code == 0, done.stderr
        means.append(read_table(tmp_path / f"{fitted}.csv", ["mean"]).columns["mean"])
    np.testing.assert_allclose(means[0], means[1])


def test_repeated_rows(tmp_path: Path) -> None:
    """Kept, and told; averaged where their noise is known, which changes no prediction."""
    rows = np.resize(np.arange(5), N)
    train, new = written(tmp_path, (lines({"a": A[rows], "b": B[rows], "s": 0.01 + 0 * A, "y": Y}).encode(), PLAIN[1]))
    said = fit(train, "--exclude", "s")[1]
    assert "at 5 different points; each is an observation of its own" in said
    assert len(saving.read(tmp_path / "m").y) == N
    values = ("--no-fit", "--lengthscale", "0.4", "--variance", "1", "--noise-column", "s", "--no-report")
    done = call("fit", train, "--target", "y", "--out", tmp_path / "n", *values, "--no-recalibrate")
    assert "at 5 different points: those at the same point are averaged" in " ".join(done.stdout.split())
    assert len(saving.read(tmp_path / "n").y) == 5
    meant = dense_mean(np.column_stack([A, B])[rows], Y, np.column_stack([NEW_A, NEW_B]))
    for model in ("m", "n"):
        done = call("predict", tmp_path / model, new, "--out", tmp_path / f"{model}.csv")
        assert done.exit_code == 0, done.stderr
        np.testing.assert_allclose(read_table(tmp_path / f"{model}.csv", ["mean"]).columns["mean"], meant)


@pytest.mark.slow
def test_a_million_rows(tmp_path: Path) -> None:
    """Categories and dates among them; the one bad value far down is found in its line."""
    n = 10**6
    frame = pd.DataFrame({"a": np.random.default_rng(0).random(n), "c": np.resize(["u", "v", "w"], n)})
    frame["t"] = pd.date_range("2000-01-01", periods=n, freq="min").strftime("%Y-%m-%d %H:%M")
    frame["y"] = np.arange(n) % 7
    frame.to_csv(tmp_path / "train.csv", index=False)
    asked = ColumnsAsked()
    table, features = read_training_table(tmp_path / "train.csv", ["a", "c", "t"], ["y"], asked)
    assert features == ["a", "c=v", "c=w", "t"]
    np.testing.assert_allclose(np.diff(table.columns["t"]), 1 / 1440, rtol=1e-6)
    with open(tmp_path / "train.csv", "a") as file:
        file.write("0.5,u,2000-13-01 00:00,1\n")
    with pytest.raises(TableError, match=r"row 1000001 \(line 1000002 of the file\)"):
        read_training_table(tmp_path / "train.csv", ["a", "c", "t"], ["y"], asked)

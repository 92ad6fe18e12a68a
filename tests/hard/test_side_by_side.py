"""Two processes on one model folder, a full disk, a folder that cannot be written to."""

from __future__ import annotations

import gc
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import rasterio
import xarray
from pyarrow import parquet as pq

import cagp
from cagp.support.atomic_files import remove, remove_partial
from cagp.tables import read_table, write_table
from cli.small import VALUES, call, write_small
from hard.killing import as_folder, done, killed_after, start

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
SLOW = ("shards", "predict", "simulate", "average", "several", "several predicted", "nc", "zarr", "page")
VERBS = ["fit", "shards predicted", "tif", *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)]
SEARCH = ("--no-report", "--kernel", "matern32", "--no-mixture", "--no-uncertainty")
FIT = ("--target", "height", "--no-report", "--no-recalibrate", *VALUES)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Two tables to fit to, and one to predict from."""
    write_small(tmp_path / "a.csv", 30)
    write_small(tmp_path / "b.csv", 30, seed=1)
    write_small(tmp_path / "new.csv", 20, seed=2)
    return tmp_path


def means(folder: Path) -> np.ndarray:
    return np.asarray(cagp.load(folder).predict([[0.2, 0.3], [0.7, 0.6]]).mean)


def both(tables: Path) -> tuple[np.ndarray, np.ndarray]:
    """What the models of the two tables predict."""
    for name in ("a", "b"):
        done("fit", tables / f"{name}.csv", "--out", tables / f"alone-{name}", *FIT)
    return means(tables / "alone-a"), means(tables / "alone-b")


@pytest.mark.parametrize("rounds", [1, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("overwrite", [False, True])
def test_two_fits_into_one_folder(tables: Path, rounds: int, overwrite: bool) -> None:
    alone, out = both(tables), tables / "model"
    for i in range(rounds):
        if not overwrite or i == 0:
            shutil.rmtree(out, ignore_errors=True)
        options = (*FIT, *(["--overwrite"] if overwrite else []))
        running = [start(tables / f"log-{n}", "fit", tables / f"{n}.csv", "--out", out, *options) for n in "ab"]
        codes = [each.wait() for each in running]
        said = [each.said for each in running]
        assert codes == [0, 0] if overwrite else sorted(codes) == [0, 2], said
        for code, words in zip(codes, said, strict=True):
            assert code == 0 or "already holds a model" in words, words
        now = means(out)
        assert any(np.array_equal(now, each) for each in alone), "the model is neither of the two"
        assert overwrite or np.array_equal(now, alone[codes.index(0)]), "the model is not the one that was reported"
    assert not list(tables.glob(".partial-*"))


@pytest.mark.parametrize("rounds", [1, pytest.param(60, marks=pytest.mark.slow)])
def test_predictions_while_another_process_overwrites_the_model(tables: Path, rounds: int) -> None:
    alone, out = both(tables), tables / "model"
    shutil.copytree(tables / "alone-a", out)
    expected = []
    for name in ("a", "b"):
        done("predict", tables / f"alone-{name}", tables / "new.csv", "--out", tables / f"{name}-new.csv")
        expected.append(read_table(tables / f"{name}-new.csv", ["mean"]).columns["mean"])
    for i in range(rounds):
        writer = start(tables / "w", "fit", tables / f"{'ba'[i % 2]}.csv", "--out", out, *FIT, "--overwrite")
        table = tables / f"p{i}.csv"
        reader = start(tables / "r", "predict", out, tables / "new.csv", "--out", table)
        codes = writer.wait(), reader.wait()
        assert codes == (0, 0), (writer.said, reader.said)
        found = read_table(table, ["mean"]).columns["mean"]
        assert any(np.array_equal(found, each) for each in expected), "a prediction of neither model"
    assert any(np.array_equal(means(out), each) for each in alone)


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("rounds", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_two_fits_of_the_same_shards(tables: Path, rounds: int) -> None:
    """Who comes later waits for the shards, and takes them."""
    data, store = as_folder(tables / "pieces", write_small(tables / "many.csv", 300)), tables / "pieces-shards-height"
    command = ("fit", data, "--target", "height", "--no-varying", *SEARCH, "--overwrite", "--out")
    done(*command, tables / "wanted")
    for i in range(rounds):
        shutil.rmtree(store)
        outs = [tables / "model", tables / ("model" if i % 2 else "other")]
        running = [start(tables / f"log-{n}", *command, out) for n, out in enumerate(outs)]
        assert [each.wait() for each in running] == [0, 0], [each.said for each in running]
        for out in outs:
            assert np.array_equal(means(out), means(tables / "wanted")), "another model"
        assert sorted(each.name for each in store.iterdir()) == ["sample.parquet", "split.json", "store.json", "tiles"]
        assert not list(tables.rglob(".partial-*")), "something is left behind"


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("rounds", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_two_predictions_in_shards_into_one_folder(tables: Path, rounds: int) -> None:
    """Of the same points one waits, of others one is refused."""
    data, out = as_folder(tables / "pieces", write_small(tables / "many.csv", 300)), tables / "out"
    done("fit", data, "--target", "height", "--no-varying", *SEARCH, "--out", tables / "model")
    points = [as_folder(tables / f"points-{n}", write_small(tables / "p.csv", 400, seed=n)) for n in (1, 2)]
    wanted = []
    for n, each in enumerate(points):
        done("predict", tables / "model", each, "--out", tables / f"wanted-{n}")
        wanted.append(numbers_in(tables / f"wanted-{n}"))
    for i in range(rounds):
        shutil.rmtree(out, ignore_errors=True)
        asked = [points[0], points[i % 2]]
        running = [
            start(tables / f"log-{n}", "predict", tables / "model", p, "--out", out) for n, p in enumerate(asked)
        ]
        codes, said = [each.wait() for each in running], [each.said for each in running]
        assert sorted(codes) == ([0, 2] if i % 2 else [0, 0]), said
        assert i % 2 == 0 or "for other points" in said[codes.index(2)]
        np.testing.assert_allclose(numbers_in(out), wanted[codes.index(0) * (i % 2)], rtol=1e-10, atol=1e-12)
        assert not list(out.rglob(".partial-*")), "something is left behind"


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("rounds", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_two_predictions_of_a_grid_into_one_store(tables: Path, rounds: int) -> None:
    """Also where a third one was killed before."""
    data, out, rng = (
        as_folder(tables / "pieces", write_small(tables / "p.csv", 300)),
        tables / "o.zarr",
        random.Random(0),
    )
    done("fit", data, "--target", "height", "--no-varying", *SEARCH, "--out", tables / "model")
    east, north = np.linspace(0, 1, 20), np.linspace(0, 1, 15)
    grid = xarray.Dataset({"z": (("east", "north"), np.zeros((20, 15)))}, {"east": east, "north": north})
    grid.chunk({"east": 4}).to_zarr(tables / "grid.zarr", zarr_format=2)
    command = ("predict", tables / "model", tables / "grid.zarr", "--out")
    done(*command, tables / "wanted.zarr")
    for i in range(rounds):
        shutil.rmtree(out, ignore_errors=True)
        if i % 2:
            killed_after(rng.uniform(0, 0.4), tables / "log", *command, out)
        running = [start(tables / f"log-{n}", *command, out) for n in "ab"]
        assert [each.wait() for each in running] == [0, 0], [each.said for each in running]
        assert np.array_equal(numbers_in(out), numbers_in(tables / "wanted.zarr"))
        assert not list(tables.glob("*.parts")), "something is left behind"


def test_a_folder_that_another_process_removes_is_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there when the search begins, and gone when its files are listed."""
    folder = tmp_path / "o.zarr.parts"
    folder.mkdir()

    def late(path: Path, pattern: str) -> list[str]:
        path.rmdir()
        return os.listdir(path)

    monkeypatch.setattr(Path, "glob", late)
    remove_partial(folder)


def test_two_savings_that_alternate_leave_a_model(tables: Path) -> None:
    """One process saves the same data again and again, another one two kinds in turn."""
    both(tables)
    models = [cagp.load(tables / f"alone-{name}") for name in "ab"]
    out = tables / "model"
    models[0].save(out)
    for pid in [_saving(models[:1], out), _saving(models, out)]:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert any(np.array_equal(means(out), means(tables / f"alone-{name}")) for name in "ab")


def _saving(models: list[cagp.Model], out: Path) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for i in range(20):
            models[i % len(models)].save(out, overwrite=True)
        code = 0
    finally:
        os._exit(code)


# --- disks ------------------------------------------------------------------------------------------------------------


def mounted(place: Path, *options: str) -> bool:
    return subprocess.run(["mount", *options, str(place)], capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tables: Path) -> Iterator[Path]:
    """A disk of 4 MiB; only root can make one."""
    place = tables / "disk"
    place.mkdir()
    if sys.platform != "linux" or os.geteuid() or not mounted(place, "-t", "tmpfs", "-o", "size=4m", "tmpfs"):
        pytest.skip("needs root, to mount a small disk")
    yield place
    gc.collect()  # who holds on to an error holds on to its files
    subprocess.run(["umount", str(place)], check=True)


OUT = {"fit": "model", "several": "model", "shards": "model", "shards predicted": "out", "page": "map.html"}
OUT |= {each: f"map.{each}" for each in ("tif", "nc", "zarr")}


def writing(tables: Path, verb: str, place: Path) -> tuple[object, ...]:
    """A command that writes ``OUT[verb]`` into a folder, a table by default."""
    columns, of = write_small(tables / "many.csv", 1500), tables / "model"
    done("fit", tables / "a.csv", "--out", of, *FIT)
    if "several" in verb:
        write_table(
            tables / "ab.csv", {name: each[:60] for name, each in columns.items()} | {"b": columns["east"][:60]}
        )
        of = ("fit", tables / "ab.csv", "--target", "height,b", *SEARCH)
    if "shards" in verb:
        as_folder(tables / "pieces", {name: each[:300] for name, each in columns.items()})
        as_folder(tables / "points", {name: each[:600] for name, each in columns.items()})
        of = ("fit", tables / "pieces", "--target", "height", "--no-varying", *SEARCH)
    if verb in ("several predicted", "shards predicted"):
        done(*of, "--out", tables / "other")
        of = tables / "other"
    commands: dict[str, tuple[object, ...]] = {
        "fit": ("fit", tables / "many.csv", "--solver", "NearestNeighbours(5)", *FIT),
        "simulate": ("simulate", of, tables / "many.csv", "--n", 3),
        "average": ("average", of, tables / "new.csv"),
        "page": ("predict", of, tables / "new.csv", "--out", tables / "out.csv", "--overwrite", "--map"),
        "shards predicted": ("predict", of, tables / "points"),
    }
    commands |= dict.fromkeys(("several", "shards"), of) | dict.fromkeys(
        ("predict", "several predicted"), ("predict", of, tables / "many.csv")
    )
    commands |= dict.fromkeys(("tif", "nc", "zarr"), ("predict", of, "--grid", "0.05"))
    return (*commands[verb], *([] if verb == "page" else ["--out"]), place / OUT.get(verb, "out.csv"))


def filled(disk: Path, room: int) -> Path:
    """Leaves so many KiB, by a file that is returned."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - 2**10 * room))
    return filler


def numbers_in(out: Path) -> np.ndarray:
    """What an output says, which must be whole."""
    if out.suffix == ".html":
        return np.array(out.stat().st_size)
    if out.suffix in (".tif", ".nc", ".zarr"):
        with rasterio.open(out) if out.suffix == ".tif" else xarray.open_dataset(out) as file:
            return np.asarray(file.read(1) if out.suffix == ".tif" else file["mean"].values)
    if out.is_dir() and list(out.glob("part-*")):
        return pq.read_table(out)["mean"].to_numpy()
    return means(out) if out.is_dir() else next(iter(read_table(out).columns.values()))


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("rooms", [(0, 24), pytest.param(range(0, 64, 6), marks=pytest.mark.slow)])
@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk(tables: Path, small_disk: Path, verb: str, rooms: Sequence[int]) -> None:
    """Wherever it is found to be full, that is said and nothing half is left; when there is room it goes on."""
    command = writing(tables, verb, small_disk)
    out, said = small_disk / OUT.get(verb, "out.csv"), set[int]()
    done(*command[:-1], tables / f"whole{out.suffix}")
    wanted = numbers_in(tables / f"whole{out.suffix}")
    for room in rooms:
        filler = filled(small_disk, room)
        result = call(*command)
        said.add(result.exit_code)
        if result.exit_code:
            assert_told(result.exit_code, result.stderr, "No space left on device")
            kept = {"filler", f"{out.name}.parts", *([out.name] if verb == "shards predicted" else [])}
            assert {each.name for each in small_disk.iterdir()} <= kept, "a file is left half"
            filler.unlink()
            done(*command)
        np.testing.assert_allclose(numbers_in(out), wanted, rtol=1e-10, atol=1e-12)
        remove(out)
    assert 1 in said, "the disk was never full"


@pytest.mark.slow
@pytest.mark.usefixtures("small_shards")
def test_a_disk_without_room_for_shards(tables: Path, small_disk: Path) -> None:
    """They lie beside the data, on the same disk."""
    columns = write_small(tables / "many.csv", 300)
    as_folder(tables / "pieces", columns)
    done("fit", tables / "pieces", "--target", "height", "--no-varying", *SEARCH, "--out", tables / "wanted")
    data = as_folder(small_disk / "pieces", columns)
    store = small_disk / "pieces-shards-height"
    command = ("fit", data, "--target", "height", "--no-varying", *SEARCH, "--out", tables / "model", "--overwrite")
    for room in range(0, 24, 4):
        filled(small_disk, room)
        result = call(*command)
        assert_told(result.exit_code, result.stderr, "No space left on device")
        assert str(store) in result.stderr
        assert not (store / "store.json").exists(), "shards are there that are not"
        assert not (tables / "model").exists()
        del result
    gc.collect()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    result = call(*command)
    assert_told(result.exit_code, result.stderr, "Read-only file system")
    assert str(store) in result.stderr
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    (small_disk / "filler").unlink()
    done(*command)
    assert np.array_equal(means(tables / "model"), means(tables / "wanted"))
    assert sorted(each.name for each in store.iterdir()) == ["sample.parquet", "split.json", "store.json", "tiles"]


@pytest.fixture
def read_only(tables: Path) -> Iterator[Path]:
    """A folder that nobody can write to, not even root."""
    place = tables / "shelf"
    place.mkdir()
    if sys.platform != "linux" or os.geteuid() or not mounted(place, "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs"):
        pytest.skip("needs root, to mount a folder that cannot be written to")
    yield place
    gc.collect()  # who holds on to an error holds on to its files
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_that_cannot_be_written_to(tables: Path, read_only: Path, verb: str) -> None:
    result = call(*writing(tables, verb, read_only))
    assert_told(result.exit_code, result.stderr, "Read-only file system")
    assert not list(read_only.iterdir())


def assert_told(code: int, said: str, words: str) -> None:
    """One sentence that names the trouble, and the code of a failure."""
    assert code == 1, said
    assert words in said
    assert len(said.strip().splitlines()) == 1, said
    assert "nothing was written" in said or ".parts" in said, said
    assert ".partial-" not in said, "a temporary name that nobody knows"

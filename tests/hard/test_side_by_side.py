"""Two processes on one model folder, a full disk, a folder that cannot be written to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import cagp
from cagp.tables import read_table
from cli.small import VALUES, call, snapshot, write_small
from hard.killing import done, start

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
VERBS = ["fit", *(pytest.param(each, marks=pytest.mark.slow) for each in ("predict", "simulate", "average"))]
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
    """A disk of 64 KiB; only root can make one."""
    place = tables / "disk"
    place.mkdir()
    if sys.platform != "linux" or os.geteuid() or not mounted(place, "-t", "tmpfs", "-o", "size=64k", "tmpfs"):
        pytest.skip("needs root, to mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("verb", VERBS)
def test_a_full_disk(tables: Path, small_disk: Path, verb: str) -> None:
    write_small(tables / "many.csv", 4000)
    done("fit", tables / "a.csv", "--out", tables / "model", *FIT)
    out = small_disk / ("model" if verb == "fit" else "out.csv")
    commands: dict[str, tuple[object, ...]] = {
        "fit": ("fit", tables / "many.csv", "--solver", "NearestNeighbours(5)", *FIT),
        "predict": ("predict", tables / "model", tables / "many.csv"),
        "simulate": ("simulate", tables / "model", tables / "many.csv", "--n", 3),
        "average": ("average", tables / "model", tables / "new.csv"),
    }
    if verb == "average":
        with suppress(OSError), open(small_disk / "filler", "wb", buffering=0) as filler:
            while filler.write(bytes(4096)):
                pass
    before = snapshot(small_disk)
    result = call(*commands[verb], "--out", out)
    assert_told(result.exit_code, result.stderr, "No space left on device")
    left = snapshot(small_disk)
    assert {name: content for name, content in left.items() if ".parts" not in name} == before, "a file is left half"


@pytest.fixture
def read_only(tables: Path) -> Iterator[Path]:
    """A folder that nobody can write to, not even root."""
    place = tables / "shelf"
    place.mkdir()
    if sys.platform != "linux" or os.geteuid() or not mounted(place, "-t", "tmpfs", "-o", "ro,size=64k", "tmpfs"):
        pytest.skip("needs root, to mount a folder that cannot be written to")
    yield place
    subprocess.run(["umount", str(place)], check=True)


@pytest.mark.parametrize("verb", VERBS)
def test_a_folder_that_cannot_be_written_to(tables: Path, read_only: Path, verb: str) -> None:
    done("fit", tables / "a.csv", "--out", tables / "model", *FIT)
    first = ("fit", tables / "a.csv", *FIT) if verb == "fit" else (verb, tables / "model", tables / "new.csv")
    result = call(*first, "--out", read_only / ("model" if verb == "fit" else "out.csv"))
    assert_told(result.exit_code, result.stderr, "Read-only file system")
    assert not list(read_only.iterdir())


def assert_told(code: int, said: str, words: str) -> None:
    """One sentence that names the trouble, and the code of a failure."""
    assert code == 1, said
    assert words in said
    assert len(said.strip().splitlines()) == 1, said
    assert "nothing was written" in said or ".parts" in said, said
    assert ".partial-" not in said, "a temporary name that nobody knows"

"""kill -9 of workers and of the process that began it: what was reported done stays, and the rest is done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import psutil
import pytest
from numpy.testing import assert_allclose

import cagp
from cagp.errors import InputError, MemoryBudgetError
from cagp.shards import ShardedModel, sharded, work
from cagp.shards.work import workers
from cagp.shards.writing import write
from shards.test_shards import HERE, NEAR, PRIORS, plane, table

parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("distributed")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kill -9")

PIECE, POINTS = 100, 3000
SCRIPT = """
import os, signal, sys
from cagp import load
from cagp.shards import sharded

folder, points, out, n_jobs, die = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])
sharded._PIECE, whole, begun = 100, sharded.whole_file, []

def dying(path):
    begun.append(path)
    if len(begun) == die:
        with whole(path) as temporary:
            temporary.write_bytes(b"a part")
            os.kill(os.getpid(), signal.SIGKILL)
    return whole(path)

sharded.whole_file = dying
load(folder).predict_to(points, out, n_jobs=n_jobs, memory_limit=2**30)
"""


class Place:
    """A model in shards, points, and what is predicted there when nobody is killed."""

    def __init__(self, folder: Path) -> None:
        X, y = plane(4000)
        store = write(table(folder / "table", X, y), "z", folder / "store", HERE, tile=800, block=100)
        self.model = ShardedModel.of(PRIORS["trend"].condition(X[:300], y[:300], NEAR), store, HERE)
        self.folder = self.model.save(folder / "model")
        self.points = table(folder / "points", np.random.default_rng(1).random((POINTS, 2)), files=1)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sharded, "_PIECE", PIECE)
            self.wanted = self.read(self.model.predict_to(self.points, folder / "wanted", n_jobs=1))

    @staticmethod
    def read(out: Path) -> np.ndarray:
        """The means of all points, from files that must be whole."""
        return np.concatenate([parquet.read_table(path)["mean"].to_numpy() for path in sorted(out.glob("part-*"))])

    def begun(self, out: Path, n_jobs: int, die: int = 0) -> subprocess.Popen[bytes]:
        """A process that predicts, and kills itself as it writes its file number ``die``."""
        arguments = [self.folder, self.points, out, n_jobs, die]
        return subprocess.Popen([sys.executable, "-c", SCRIPT, *map(str, arguments)])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The same for all tests."""
    return Place(tmp_path_factory.mktemp("killed"))


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_the_first_process_is_killed(kills: int, place: Place, tmp_path: Path) -> None:
    done: dict[Path, int] = {}
    for number in range(kills):
        running = place.begun(tmp_path / "out", 1, die=2)  # one file is done each time
        assert running.wait(300) == -signal.SIGKILL
        assert len(list((tmp_path / "out").glob("part-*"))) == number + 1
    done = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    assert list((tmp_path / "out").glob(".partial-*"))
    assert place.begun(tmp_path / "out", 1).wait(300) == 0
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert_allclose(place.read(tmp_path / "out"), place.wanted, rtol=1e-10, atol=1e-12)
    assert not list((tmp_path / "out").glob(".partial-*"))


def test_what_a_kill_has_left_before_the_first_file_is_not_in_the_way(place: Place, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for left in (".partial-0-_job.json", ".partial-1-_model/parts"):
        (out / left).mkdir(parents=True)
    with pytest.raises(InputError, match="other things in it"):
        cagp.load(place.folder).predict_to(place.points, tmp_path, n_jobs=1)
    cagp.load(place.folder).predict_to(place.points, out, n_jobs=1)
    assert_allclose(place.read(out), place.wanted, rtol=1e-10, atol=1e-12)
    assert not list(out.glob(".partial-*"))


@pytest.mark.slow
def test_nobody_is_left_when_the_first_process_is_killed(place: Place, tmp_path: Path) -> None:
    running, out = place.begun(tmp_path / "out", 2), tmp_path / "out"
    while not list(out.glob("part-*")):
        assert running.poll() is None
        time.sleep(0.01)
    others = psutil.Process(running.pid).children(recursive=True)
    assert others
    running.kill()
    running.wait()
    gone, left = psutil.wait_procs(others, timeout=60)
    assert gone
    assert not left
    kept = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert place.begun(out, 1).wait(300) == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert_allclose(place.read(out), place.wanted, rtol=1e-10, atol=1e-12)


class Killer(Thread):
    """kill -9 of workers of this process, one of them each time that predictions in ``out`` have gone on."""

    def __init__(self, out: Path, kills: int) -> None:
        super().__init__(daemon=True)
        self.out, self.kills, self.killed, self.over = out, kills, 0, False
        self.done: dict[Path, int] = {}  # what was there at some kill, and since when

    def run(self) -> None:
        rng, before = np.random.default_rng(0), len(list(self.out.glob("part-*")))
        while self.killed < self.kills and not self.over:
            there, at_work = list(self.out.glob("part-*")), self.workers()
            if len(there) > before and at_work:
                time.sleep(rng.uniform(0, 0.05))  # at any moment of a file
                with suppress(psutil.NoSuchProcess):
                    at_work[rng.integers(len(at_work))].kill()
                    self.killed, before = self.killed + 1, len(there)
                    self.done |= {path: path.stat().st_mtime_ns for path in there if path not in self.done}
            time.sleep(0.005)

    @staticmethod
    def workers() -> list[psutil.Process]:
        """Who does the work: neither keepers nor their helpers."""
        found = []
        for each in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if any("spawn_main" in word for word in each.cmdline()):
                    found.append(each)
        return found


@pytest.mark.parametrize("kills", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_workers_are_killed_while_they_predict(kills: int, place: Place, tmp_path: Path) -> None:
    model, killer = cagp.load(place.folder), Killer(tmp_path / "out", kills)
    killer.start()
    model.predict_to(place.points, tmp_path / "out", batch_size=POINTS // (3 * kills + 9), n_jobs=2, progress=False)
    killer.over = True
    killer.join()
    assert killer.killed == kills
    assert {path: path.stat().st_mtime_ns for path in killer.done} == killer.done, "what was done is done again"
    assert_allclose(place.read(tmp_path / "out"), place.wanted, rtol=1e-10, atol=1e-12)
    assert not list((tmp_path / "out").glob(".partial-*"))


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_workers_are_killed(kills: int, tmp_path: Path) -> None:
    def dying(number: int, folder: Path) -> int:
        mine = folder / str(number)
        if number < 2 * kills and number % 2 == 0 and not mine.exists():
            mine.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with open(folder / "done", "a") as file:
            file.write(f"{number}\n")
        return number

    calls: list[tuple[Any, ...]] = [(number, tmp_path) for number in range(2 * kills + 4)]
    with workers(2, 2**30, False) as by:
        assert by.all_of(dying, calls, "numbers") == [number for number, _ in calls]
    done = sorted(map(int, (tmp_path / "done").read_text().split()))
    assert sorted(set(done)) == [number for number, _ in calls]
    assert len([path for path in tmp_path.iterdir() if path.name != "done"]) == kills


def test_a_worker_that_dies_while_it_is_ended_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[psutil.Process] = []

    def late(process: psutil.Process) -> None:
        kill(process)
        ended.append(process)
        if len(ended) < 3:
            raise psutil.NoSuchProcess(process.pid)

    before = psutil.Process().children(recursive=True)
    with workers(2, 2**30, False) as by:
        assert by.all_of(abs, [(-1,), (-2,)], "numbers") == [1, 2]
        others = set(psutil.Process().children(recursive=True)) - set(before)
        kill = psutil.Process.kill
        monkeypatch.setattr(psutil.Process, "kill", late)
    assert len(ended) > 2
    assert not psutil.wait_procs(others, timeout=60)[1]


def test_a_worker_that_fails_says_why(tmp_path: Path) -> None:
    def failing(number: int) -> None:
        raise ValueError(f"number {number}")

    with workers(2, 2**30, False) as by, pytest.raises(ValueError, match="number"):
        by.all_of(failing, [(1,), (2,)], "numbers")


def test_workers_have_the_memory_limit_that_was_given() -> None:
    def limit(number: int) -> int:
        from distributed import get_worker

        return int(get_worker().memory_manager.memory_limit)

    with workers(2, 5e8, False) as by:
        assert by.all_of(limit, [(1,), (2,)], "limits") == [500_000_000] * 2


@pytest.mark.parametrize("by_joblib", [False, True])
def test_a_client_that_is_there_does_the_work(by_joblib: bool) -> None:
    import joblib
    from distributed import Client

    def address(number: int) -> str:
        from distributed import get_worker

        return str(get_worker().address)

    with ExitStack() as stack:
        there = Client(n_workers=1, processes=False, dashboard_address=None, set_as_default=not by_joblib)
        client = stack.enter_context(there)
        if by_joblib:
            stack.enter_context(joblib.parallel_config(backend="dask", client=client))
        own = set(client.scheduler_info()["workers"])
        with workers(None, None, False) as by:
            assert set(by.all_of(address, [(1,), (2,)], "addresses")) == own
        with pytest.raises(InputError, match="have limits of their own"), workers(None, 1e9, False):
            pass


@pytest.mark.slow
def test_a_memory_limit_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_DEATHS", 1)

    def greedy(size: int) -> int:
        return len(b"1" * size)

    with workers(2, 4e8, False) as by:
        assert by.all_of(greedy, [(10**6,), (10**7,)], "numbers") == [10**6, 10**7]
        with pytest.raises(MemoryBudgetError, match="larger one, or fewer workers"):
            by.all_of(greedy, [(10**6,), (15 * 10**8,)], "numbers")

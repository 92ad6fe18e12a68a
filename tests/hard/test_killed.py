"""kill -9 at random moments, and before every file operation: nothing is lost that was reported done."""

from __future__ import annotations

import os
import shutil
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet as pq

import cagp
from cagp.quantities import QuantitiesModel
from cagp.shards import ShardedModel
from cagp.shards.work import Workers
from cagp.shards.writing import write
from cagp.tables import read_table, write_table
from cli.small import VALUES, write_small
from hard.killing import as_folder, done, dying_at, killed_after, start

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
KILLS = int(os.environ.get("CAGP_KILLS", "10"))
"""So many kills of each command; CAGP_KILLS=100 for a long run."""
IN_SHARDS = max(KILLS, 20)  # where they take little time
LONG = pytest.mark.skipif("CAGP_KILLS" not in os.environ, reason="workers whose cluster is gone stay for five minutes")
MANY = 20  # of fewer kills it may be chance that none finds the command at work

FIT = ("--target", "height", "--no-report", "--kernel", "matern32", "--no-mixture", "--no-uncertainty")

MODELS = ("fit", "several", "shards", "update")  # what writes a model, and not a table


class Place:
    """A folder with a model, a table to predict from, and what each command gives where nobody kills it."""

    def __init__(self, folder: Path, rows: int, batches: int) -> None:
        self.folder, self.log = folder, folder / "log"
        columns = write_small(folder / "train.csv", 40)
        deep = -columns["height"] + 0.1 * columns["east"]
        write_table(folder / "several.csv", {**columns, "depth": deep})
        as_folder(folder / "pieces", write_small(folder / "many.csv", 300))
        write_small(folder / "other.csv", 30, seed=1)
        write_small(folder / "new.csv", rows, seed=2)
        done("fit", folder / "train.csv", "--out", folder / "model", *VALUES, *FIT[:3])
        self.batch = -(-rows // batches)

    def command(self, verb: str, out: Path) -> tuple[object, ...]:
        if verb == "fit":
            return ("fit", self.folder / "train.csv", "--out", out, *FIT, "--overwrite")
        if verb == "several":
            both = ("--target", "height,depth", *FIT[2:])
            return ("fit", self.folder / "several.csv", "--out", out, *both, "--overwrite")
        if verb == "shards":
            return ("fit", self.folder / "pieces", "--out", out, *FIT, "--no-varying", "--overwrite")
        if verb == "update":
            return ("update", self.folder / "model", self.folder / "other.csv", "--out", out, "--overwrite")
        more: dict[str, tuple[object, ...]] = {
            "predict": ("--batch", self.batch, "--solver", "GaussSeidel(60)"),
            "simulate": ("--n", 20, "--batch", 1),
            "average": (),
        }
        return (verb, self.folder / "model", self.folder / "new.csv", "--out", out, *more[verb], "--overwrite")

    def content(self, verb: str, out: Path) -> np.ndarray | None:
        """The numbers of an output that is there; it must be whole."""
        if not out.exists():
            return None
        if verb in MODELS:
            return np.asarray(cagp.load(out).predict(np.linspace(0, 1, 8).reshape(4, 2)).mean)
        name = "mean" if verb != "simulate" else "height_19"
        return read_table(out, [name]).columns[name]

    def old(self, verb: str, out: Path) -> None:
        """Something that was there before."""
        if verb in MODELS:
            done("fit", self.folder / "other.csv", "--out", out, *VALUES, *FIT[:3], "--overwrite")
        else:
            out.write_text("mean,height_19\n1.0,1.0\n")


def killed_often(tmp_path: Path, verb: str, times: int, rows: int, jobs: int = 1) -> tuple[int, int]:
    """How many kills found the command at work, and how many of its outputs there were; all laws hold."""
    place, store = Place(tmp_path, rows, 20), tmp_path / "pieces-shards-height"
    out, threads = tmp_path / ("out" if verb in MODELS else "out.csv"), partial(torch.set_num_threads, jobs)
    done(*place.command(verb, out))
    shutil.rmtree(store, ignore_errors=True)
    began = time.monotonic()
    assert start(place.log, *place.command(verb, out), before=threads).wait() == 0
    seconds = time.monotonic() - began
    right = place.content(verb, out)
    assert right is not None
    before: np.ndarray | None = right
    rng = np.random.default_rng(0)
    at_work = finished = 0
    for i in range(times):
        if i % 4 == 0:
            place.old(verb, out)
            before = place.content(verb, out)
            shutil.rmtree(store, ignore_errors=True)
        share = rng.uniform(0.7, 1.3) if i % 2 else rng.uniform(0.0, 1.0)
        said = killed_after(share * seconds, place.log, *place.command(verb, out), before=threads)
        now = place.content(verb, out)
        reported = ("Model: " if verb in MODELS else "Written: ") in said
        assert now is not None, "what was there before is gone"
        whole = now.shape == right.shape and np.allclose(now, right, rtol=1e-9, atol=0)
        assert whole or np.array_equal(now, np.asarray(before)), "neither the old one nor the new one"
        assert whole or not reported, "it was reported done, and is not there"
        at_work += not reported
        finished += whole
        before = now
    done(*place.command(verb, out))
    np.testing.assert_allclose(place.content(verb, out), right, rtol=1e-9)
    assert not (tmp_path / "out.csv.parts").exists(), "finished batches are left behind"
    if verb == "shards":
        left = sorted(each.name for each in store.iterdir())
        assert left == ["sample.parquet", "split.json", "store.json", "tiles"], "something is left behind"
    assert not list(out.rglob(".partial-*")), "something is left behind"
    return at_work, finished


def test_a_command_that_is_killed_at_once_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would say what the one before it has said, which is that it was done."""
    fork, log = os.fork, tmp_path / "log"
    log.write_text("Written: out.csv")
    monkeypatch.setattr(os, "fork", lambda: fork() or os.kill(os.getpid(), signal.SIGKILL))
    running = start(log, "info")
    assert running.wait() == -signal.SIGKILL
    assert running.said == ""


def models_of(kind: str, folder: Path) -> tuple[Any, Any]:
    """Two models, of which the second is to take the place of the first."""
    X = np.random.default_rng(0).random((30, 2))

    def simple(y: float, solver: Any = "cholesky") -> cagp.Model:
        return cagp.Prior(cagp.Matern32(0.3), noise_variance=0.1 + y).condition(X, y + X[:, 0], solver)

    def several(y: float) -> QuantitiesModel:
        return QuantitiesModel(["a", "b"], models=[simple(y), simple(2 * y)])

    if kind != "shards":
        made = {"one": simple, "several": several}
        first, then = kind.split(" over ")[::-1]
        return made[first](0.0), made[then](5.0)
    columns = dict(zip(("x0", "x1", "z"), (*X.T, X[:, 0]), strict=True))
    pq.write_table(pa.table(columns), folder / "table.parquet")
    store = write(folder / "table.parquet", "z", folder / "store", Workers())
    solver = cagp.NearestNeighbours(10, shared=False)
    return tuple(ShardedModel.of(simple(y, solver), store, Workers()) for y in (0.0, 5.0))


@pytest.mark.parametrize(
    "kind",
    [
        "several over one",
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("one over one", "several over several", "shards")),
        "one over several",
    ],
)
@pytest.mark.parametrize("there", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_saving_is_killed_before_every_file_operation(kind: str, there: bool, tmp_path: Path) -> None:
    """The model is the old one or the new one, and the same call again ends with the new one and nothing else."""
    models, out, at = models_of(kind, tmp_path), tmp_path / "out", [[0.2, 0.3]]
    before, after = (np.asarray(each.predict(at).mean) for each in models)
    for operation in range(60):
        shutil.rmtree(out, ignore_errors=True)
        if there:
            models[0].save(out)
        pid = os.fork()
        if not pid:
            try:
                dying_at(operation)()
                models[1].save(out, overwrite=True)
            finally:
                os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        now = np.asarray(cagp.load(out).predict(at).mean) if there or code == 0 else after
        assert any(np.array_equal(now, each) for each in (before, after)), "neither the old one nor the new one"
        models[1].save(out, overwrite=True)
        assert np.array_equal(cagp.load(out).predict(at).mean, after)
        if code == 0:
            break
    assert code == 0, "more file operations than were tried"
    models[1].save(tmp_path / "fresh")
    assert len(list(out.rglob("*"))) == len(list((tmp_path / "fresh").rglob("*"))), "something is left behind"


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["fit", "several", "update", "predict", "simulate", "average"])
def test_killed_often(tmp_path: Path, verb: str) -> None:
    at_work, finished = killed_often(tmp_path, verb, KILLS, 3000)
    assert at_work or KILLS < MANY
    print(f"{verb}: {at_work} of {KILLS} kills found it at work, {finished} outputs were whole and new")


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=LONG)])
@pytest.mark.parametrize("times", [1, pytest.param(IN_SHARDS, marks=pytest.mark.slow)])
def test_a_fit_in_shards_is_killed_often(tmp_path: Path, times: int, jobs: int) -> None:
    at_work, finished = killed_often(tmp_path, "shards", times, 20, jobs)
    assert at_work or times < MANY
    print(f"{jobs} workers: {at_work} of {times} kills found it at work, {finished} models were whole and new")


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=LONG)])
@pytest.mark.parametrize("times", [2, pytest.param(IN_SHARDS, marks=pytest.mark.slow)])
def test_predictions_in_shards_are_killed_often(tmp_path: Path, times: int, jobs: int) -> None:
    """A file that was there stays as it was; all of them are those of a run that nobody kills."""
    place, model, threads = Place(tmp_path, 20, 1), tmp_path / "sharded", partial(torch.set_num_threads, jobs)
    done(*place.command("shards", model))
    points = as_folder(tmp_path / "points", write_small(tmp_path / "points.csv", 2000, seed=3))
    wanted = pq.read_table(cagp.load(model).predict_to(points, tmp_path / "wanted", n_jobs=1))
    out, rng = tmp_path / "out", np.random.default_rng(0)
    command = ("predict", model, points, "--out", out)
    began = time.monotonic()
    assert start(place.log, *command, before=threads).wait() == 0
    seconds, at_work = time.monotonic() - began, 0
    for i in range(times):
        if i % 4 == 0:
            shutil.rmtree(out)
        there = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
        said = killed_after(rng.uniform(0, 1.1) * seconds, place.log, *command, before=threads)
        assert {path: path.stat().st_mtime_ns for path in there} == there, "what was done is done again, or gone"
        for path in out.glob("part-*"):
            pq.read_table(path)
        assert "Written" not in said or len(list(out.glob("part-*"))) == 52, "it was reported done, and is not there"
        at_work += "Written" not in said
    assert start(place.log, *command, before=threads).wait() == 0, place.log.read_text()
    found = pq.read_table(out)
    for name in wanted.column_names:
        np.testing.assert_allclose(found[name].to_numpy(), wanted[name].to_numpy(), rtol=1e-10, atol=1e-12)
    assert not list(out.rglob(".partial-*")), "something is left behind"
    print(f"{jobs} workers: {at_work} of {times} kills found it at work")


@pytest.mark.parametrize(
    "verb", ["predict", *(pytest.param(each, marks=pytest.mark.slow) for each in ("fit", "simulate", "average"))]
)
def test_killed_before_every_file_operation(tmp_path: Path, verb: str) -> None:
    place = Place(tmp_path, 30, 1)
    out = tmp_path / ("out" if verb == "fit" else "out.csv")
    command = place.command(verb, out)
    if verb == "fit":
        command = (*command[:4], *VALUES, *FIT[:3], "--no-recalibrate", "--overwrite")
    if verb == "simulate":
        command = (*command[:5], "--n", 2, "--batch", 1, "--overwrite")
    done(*command)
    if verb != "fit":
        out.unlink()
    # the quick version tries every third of them: each leaves another state for the next
    for operation in range(0, 60, 3 if verb == "predict" else 1):
        there = place.content(verb, out) if verb != "simulate" else out.exists()
        running = start(place.log, *command, before=dying_at(operation))
        code = running.wait()
        if code == 0:
            break
        assert code == -9, running.said
        now = place.content(verb, out) if verb != "simulate" else out.exists()
        assert there is None or now is not None, "what was there is gone"
        assert "Written" not in running.said
    assert operation >= 3
    assert code == 0, "more file operations than were tried"
    whole = out.read_bytes() if out.is_file() else place.content(verb, out)
    fresh = tmp_path / f"fresh{out.suffix}"
    done(*[fresh if each == out else each for each in command])
    again = fresh.read_bytes() if out.is_file() else place.content(verb, fresh)
    assert np.array_equal(np.asarray(whole), np.asarray(again)), "a continued run gives something else"

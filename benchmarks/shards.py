"""Observations in shards: time and memory of writing, fitting and predicting, and how right the predictions are.

    python benchmarks/shards.py [--rows 1000000] [--test 1000000] [--workers 1] [--limit 2.0] [--folder FOLDER]

The field is that of ``ten_million.py``; its table is made in files of a million rows, so that no process ever holds all
of it. Memory is that of this process and all that it has started, together, looked at five times a second; pages that
processes share count for each of them. ``--limit`` is that of a worker in GiB; one worker is this process, where it has
no meaning. The folder, by default a temporary one, is for the table, shards and predictions: 100 bytes a row.
"""

from __future__ import annotations

import argparse
import pickle
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import parquet
from record import table
from ten_million import NOISE, field

from cagp import shards
from cagp.shards.work import Workers, workers
from cagp.shards.writing import write as write_shards

CHUNK = 1_000_000


class Steps:
    """What was done, in seconds and seconds of processors, with the peak of the memory of all processes during it."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """A step that is timed."""
        peak, worked, over = [0], dict[int, float](), threading.Event()
        before = time.process_time()

        def look() -> None:
            own = psutil.Process()
            while not over.wait(0.2):
                total = 0
                for each in (own, *own.children(recursive=True)):
                    with suppress(psutil.Error):  # it has ended
                        total += each.memory_info().rss
                        worked[each.pid] = sum(each.cpu_times()[:2])
                peak[0] = max(peak[0], total)

        watcher, began = threading.Thread(target=look, daemon=True), time.perf_counter()
        watcher.start()
        yield
        over.set()
        watcher.join()
        worked[psutil.Process().pid] = time.process_time() - before
        seconds = time.perf_counter() - began, sum(worked.values())
        self.rows.append([what, *(f"{each:.1f}" for each in seconds), f"{peak[0] / 2**30:.2f}"])
        print(*self.rows[-1], flush=True)


def make(folder: Path, rows: int, seed: int, observed: bool) -> Path:
    """Files of at most a million rows: places in the unit square and, where ``observed``, the field with noise."""
    for number, start in enumerate(range(0, rows, CHUNK)):
        path = folder / f"part-{number:05d}.parquet"
        if path.exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng((seed, number))
        X = rng.random((min(CHUNK, rows - start), 2))
        columns = {"east": X[:, 0], "north": X[:, 1]}
        if observed:
            columns["height"] = field(X) + NOISE * rng.normal(size=len(X))
        parquet.write_table(pa.table(columns), path.with_suffix(".partial"), use_dictionary=False)
        path.with_suffix(".partial").rename(path)
    return folder


def counted(sent: list[int]) -> None:
    """From now on ``sent`` gets the bytes of all calls and of all results, as they would travel."""
    plain = Workers.all_of

    def all_of(self: Workers, task: Any, calls: Any, what: str, **how: Any) -> list[Any]:
        found = plain(self, task, calls, what, **how)
        sent.append(sum(len(pickle.dumps(each)) for each in (*calls, *found)))
        return found

    Workers.all_of = all_of  # type: ignore[assignment, method-assign]


def judged(out: Path) -> tuple[float, float]:
    """The RMSE of the means, and the coverage of 95% intervals, for the field itself."""
    squares, inside, size = 0.0, 0, 0
    for path in sorted(out.glob("part-*.parquet")):
        found = {name: column.to_numpy() for name, column in zip(*_columns(path), strict=True)}
        truth = field(np.column_stack([found["east"], found["north"]]))
        squares += float(np.square(found["mean"] - truth).sum())
        inside += int(((found["lower_95"] <= truth) & (truth <= found["upper_95"])).sum())
        size += len(truth)
    return (squares / size) ** 0.5, inside / size


def _columns(path: Path) -> tuple[list[str], list[Any]]:
    read = parquet.read_table(path)
    return read.column_names, read.columns


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--test", type=float, default=1e6)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--limit", type=float, default=2.0)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    rows, test, steps, sent = int(asked.rows), int(asked.test), Steps(), list[int]()
    counted(sent)
    how: dict[str, Any] = {"n_jobs": asked.workers, "memory_limit": asked.limit * 2**30, "progress": False}
    with tempfile.TemporaryDirectory() as temporary:
        place = (asked.folder or Path(temporary)) / f"{rows}"
        with steps.step("the table"):
            make(place / "table", rows, 1, True)
            make(place / f"points-{test}", test, 2, False)
        with steps.step("shards"), workers(asked.workers, asked.limit * 2**30, False) as by:
            store = write_shards(place / "table", "height", place / "shards", by)
        with steps.step("fit"):
            model = shards.fit(store.folder, **how)
        print(model.story, flush=True)
        with steps.step(f"{test:,} predictions"):
            out = model.predict_to(place / f"points-{test}", place / f"predicted-{test}-{asked.workers}", **how)
        rmse, coverage = judged(out)
    notes = (
        f"{asked.workers} workers. RMSE of the field {rmse:.5f}, noise {NOISE:g}; 95% intervals hold {coverage:.2%}. "
        f"Sent to workers and back: {sum(sent) / 2**20:.1f} MiB."
    )
    columns = ["what", "seconds", "of processors", "peak GiB"]
    table(f"{rows:,} observations in the plane", columns, steps.rows, notes)


if __name__ == "__main__":
    main()

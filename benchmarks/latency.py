"""A model behind a service: how long a single point takes, how many a second come from threads, loading, memory.

Models of 200 stations, saved and loaded again: one prior, and what ``cagp.fit`` makes of them, which is a mixture;
recalibrated, and of a transform. An answer is the mean and the 95% interval of a new observation.
scikit-learn's GaussianProcessRegressor gives the mean and the standard deviation, of one prior, on the same data.

    python benchmarks/latency.py [--quick]
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
from record import Table, options, table, write
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

import cagp

Answer = Callable[[np.ndarray], object]
THREADS, STATIONS = 8, 200
BATCHES = (1, 100, 1000)


def stations(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((n, 2))
    return X, np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.1 * rng.normal(size=n)


def answer(model: cagp.Model) -> Answer:
    def of(X: np.ndarray) -> object:
        found = model.predict(X).observed()
        return found.mean, found.interval(0.95)

    return of


def of_scikit_learn(X: np.ndarray, y: np.ndarray) -> Answer:
    kernel = ConstantKernel(1.0) * Matern(0.3, nu=1.5) + WhiteKernel(0.01)
    model = GaussianProcessRegressor(kernel, random_state=0).fit(X, y)
    return lambda test: model.predict(test, return_std=True)


def models(X: np.ndarray, y: np.ndarray) -> dict[str, cagp.Model]:
    fitted = cagp.fit(X, y, seed=0)
    skewed = cagp.fit(X, np.exp(y), transform="log", seed=0)
    one = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01).condition(X, y)
    found = {"one prior": one, "mixture": fitted, "mixture, recalibrated": fitted.recalibrated()}
    return found | {"mixture, recalibrated, of a logarithm": skewed.recalibrated()}


def milliseconds(ask: Answer, at: np.ndarray) -> float:
    started = time.perf_counter()
    ask(at)
    return 1e3 * (time.perf_counter() - started)


def latency(name: str, components: int, ask: Answer, questions: np.ndarray) -> list[str]:
    """The first answer, the median and the quickest tenth of further ones, and what they take of the processor."""
    first = milliseconds(ask, questions[:1])
    started = time.process_time()
    each = [milliseconds(ask, at[None]) for at in questions]
    processor = 1e3 * (time.process_time() - started) / len(each)
    tenth = statistics.quantiles(each, n=10)[0]
    return [name, str(components), *(f"{t:.3g}" for t in (first, statistics.median(each), tenth, processor))]


def rates(name: str, ask: Answer, questions: np.ndarray) -> list[str]:
    """Points a second, asked for so many at a time, from one thread and from eight at once."""
    cells = []
    for size in BATCHES:
        some = questions[: 400 * size]
        parts = np.array_split(some, max(THREADS, len(some) // size))
        for threads in (1, THREADS):
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(ask, parts[:THREADS]))
                started = time.perf_counter()
                list(pool.map(ask, parts))
            cells.append(f"{len(some) / (time.perf_counter() - started):,.0f}")
    return [name, *cells]


_LOADED = """
import sys, time
import torch
started, before = time.perf_counter(), time.process_time()
import cagp
model = cagp.load(sys.argv[1])
loaded, processor = time.perf_counter() - started, time.process_time() - before
started = time.perf_counter()
model.predict([[0.3, 0.4]]).observed().interval(0.95)
print(loaded, processor, time.perf_counter() - started)
"""


def loading(folder: Path, n: int, rounds: int) -> list[str]:
    """In a process of its own, after torch has been imported: medians."""
    X, y = stations(n)
    prior = cagp.Prior(cagp.Matern32(0.1), mean=cagp.Constant(), noise_variance=0.01)
    prior.condition(X, y, "nearest-neighbours").recalibrated(n=min(n, 20_000)).save(folder)
    times = []
    for _ in range(rounds):
        command = [sys.executable, "-c", _LOADED, str(folder)]
        times.append([float(each) for each in subprocess.check_output(command, text=True).split()])
    return [f"{n:,}", *(f"{statistics.median(each):.3g}" for each in zip(*times, strict=True))]


def memory(ask: Answer, calls: int) -> list[list[str]]:
    """What the process holds after so many single answers."""
    questions, rows, process = np.random.default_rng(1).random((1000, 1, 2)), [], psutil.Process()
    marks = {calls // 100, calls // 10, calls // 2, calls}
    for number in range(1, calls + 1):
        ask(questions[number % 1000])
        if number in marks:
            rows.append([f"{number:,}", f"{process.memory_info().rss / 2**20:.1f}"])
    return rows


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--calls", type=int, default=100_000, help="single answers that memory is looked at over")
    args = parser.parse_args()
    calls = 200 if args.quick else args.calls
    asked, points = (20, 80) if args.quick else (300, 4000)
    X, y = stations(40 if args.quick else STATIONS)
    questions = np.random.default_rng(1).random((points, 2))
    slow, fast, sizes = [], [], (500,) if args.quick else (STATIONS, 100_000)
    with tempfile.TemporaryDirectory() as place:
        saved = {}
        for number, (name, model) in enumerate(models(X, y).items()):
            saved[name] = model.save(Path(place) / str(number)), len(model.components)
        for name, (folder, components) in saved.items():
            slow.append(latency(name, components, answer(cagp.load(folder)), questions[:asked]))
            fast.append(rates(name, answer(cagp.load(folder)), questions))
        slow.append(latency("scikit-learn, one prior", 1, of_scikit_learn(X, y), questions[:asked]))
        fast.append(rates("scikit-learn, one prior", of_scikit_learn(X, y), questions))
        loaded = [loading(Path(place) / f"of {n}", n, 3) for n in sizes]
        held = memory(answer(cagp.load(saved["one prior"][0])), calls)
    headings = [f"{size:,} at a time, {n} thread{'s' if n > 1 else ''}" for size in BATCHES for n in (1, THREADS)]
    tables: list[Table] = [
        table(
            f"A single point with its interval, milliseconds; {len(X)} stations",
            ["model", "components", "first", "median", "quickest tenth", "processor time"],
            slow,
            "scikit-learn: mean and standard deviation.",
        ),
        table("Points a second", ["model", *headings], fast, "Points are asked for in calls of so many."),
        table(
            "Loading a model of nearest neighbours, recalibrated, seconds",
            ["observations", "load, beyond torch", "processor time of it", "first answer"],
            loaded,
            "Medians of three processes; the load has the import of cagp and SciPy in it.",
        ),
        table("Memory of the process over single answers of one prior", ["answers", "MiB"], held),
    ]
    write(args.out, "latency", "A model behind a service", tables, args.quick)


if __name__ == "__main__":
    main()

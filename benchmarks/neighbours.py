"""Nearest neighbours: cells that test points share against neighbours of their own, an older release, and the floor.

Whole predictions from the same model settings, in turn: search, kernel matrices, factorisation, mean and variance.
The variance with shared neighbours is smaller on average; the tables say how much. ``--released`` is the folder ``src``
of an older release, which predicts in a process of its own, in turn with this one. With ``CAGP_DATA``, also scattered
points of a field of the KAUST competition, and the gaps of Heaton's simulated field by a mixture of three.

    CAGP_DATA=... python benchmarks/neighbours.py [--released PATH/src] [--quick]
"""

from __future__ import annotations

import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from record import Table, gemm_rate, options, table, write
from timing import medians

import cagp


def cells(rows: int, columns: int) -> np.ndarray:
    """The cells of a grid in the unit square, (rows · columns, 2)."""
    axes = np.meshgrid(np.linspace(0, 1, columns), np.linspace(0, 1, rows))
    return np.stack(axes, axis=-1).reshape(-1, 2)


def clouds(points: np.ndarray, share: float) -> np.ndarray:
    """Which points (n, 2) are hidden, (n,): discs of all sizes until they hide that share of them."""
    rng, hidden = np.random.default_rng(1), np.zeros(len(points), dtype=bool)
    while hidden.mean() < share:
        centre, radius = rng.random(2), 0.01 + 0.08 * rng.random() ** 2
        hidden |= np.square(points - centre).sum(axis=1) < radius**2
    return hidden


def row(name: str, X: np.ndarray, X_test: np.ndarray, k: int, rounds: int) -> list[str]:
    prior = cagp.Prior(cagp.Matern32(0.05), noise_variance=0.01)
    solvers = [cagp.NearestNeighbours(k, shared=together) for together in (True, False)]
    shared, own = (prior.condition(X, X[:, 0], solver, storage="tiles") for solver in solvers)
    for model in (shared, own):
        model.predict(X_test[:1], progress=False)  # the search tree
    models = {"own": own, "shared": shared}
    calls = {each: functools.partial(model.predict, X_test, progress=False) for each, model in models.items()}
    seconds = medians(calls, rounds, warm_up=False)
    less = 1 - shared.predict(X_test[:4000]).variance.mean() / own.predict(X_test[:4000]).variance.mean()
    ratio = seconds["own"] / seconds["shared"]
    sizes = [f"{len(X):,}", f"{len(X_test):,}", f"{k}"]
    return [name, *sizes, f"{seconds['own']:.2f}", f"{seconds['shared']:.2f}", f"{ratio:.1f}", f"{100 * less:.2g}%"]


def tables(scale: int, rounds: int, many: int) -> list[Table]:
    rng = np.random.default_rng(0)
    grid = cells(300 // scale, 500 // scale)
    hidden = clouds(grid, 0.28)
    scattered = rng.random((100_000 // scale**2, 2))
    side = many // scale
    rows = [
        row("gaps of a grid", grid[~hidden], grid[hidden], 200 // scale, rounds),
        row("a grid among scattered points", scattered, cells(200 // scale, 210 // scale), 200 // scale, rounds),
        row("a fine grid among scattered points", scattered, cells(side, side), 50, 1),
        row("scattered points", scattered, rng.random((20_000 // scale**2, 2)), 50, 3 * rounds),
    ]
    return [
        table(
            "NearestNeighbours(k): each test point with its own neighbours, or with those of its cell",
            ["test points", "d", "T", "k", "own, s", "shared, s", "own / shared", "mean variance less by"],
            rows,
            f"Whole predictions. Medians of {rounds} rounds in which the two take turns, one for the fine grid.",
        )
    ]


Case = tuple[np.ndarray, np.ndarray, np.ndarray, int]  # X, y, test points, k


def cases(scale: int) -> dict[str, Case]:
    """The two grids, and what there is of real data."""
    grid, few = cells(300 // scale, 500 // scale), slice(None, None, scale**2)
    hidden, scattered = clouds(grid, 0.28), np.random.default_rng(0).random((100_000 // scale**2, 2))
    found: dict[str, Case] = {
        "gaps of a grid": (grid[~hidden], grid[~hidden][:, 0], grid[hidden], 200 // scale),
        "a grid among scattered points": (scattered, scattered[:, 0], cells(200 // scale, 210 // scale), 200 // scale),
    }
    if data := os.environ.get("CAGP_DATA"):
        field = pd.read_csv(Path(data) / "kaust2021_nu15.csv.gz")
        train, test = (field[field.test == which].to_numpy()[few] for which in (0, 1))
        found["scattered points of a KAUST field"] = (train[:, :2], train[:, 2], test[:, :2], 100)
    return found


def timed(path: str) -> None:
    """For each line on standard input the seconds of processor time of one prediction; PYTHONPATH says by what."""
    problem = np.load(path)
    prior = cagp.Prior(cagp.Matern32(0.05, variance=1.5), noise_variance=0.001)
    model = prior.condition(problem["X"], problem["y"], cagp.NearestNeighbours(int(problem["k"])), storage="tiles")
    model.predict(problem["test"], progress=False)
    for _ in sys.stdin:
        start = time.process_time()
        model.predict(problem["test"], progress=False)
        print(time.process_time() - start, flush=True)


def beside(case: Case, sources: dict[str, Path], rounds: int) -> dict[str, float]:
    """Median seconds of predictions by the packages in ``sources``, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "problem.npz")
        X, y, test, k = case
        np.savez(path, X=X, y=y, test=test, k=np.array(k))
        command, pipe = [sys.executable, __file__, "--timed", path], subprocess.PIPE
        others = os.pathsep.join(sys.path)  # what this file imports beside the package
        running = {
            name: subprocess.Popen(
                command,
                stdin=pipe,
                stdout=pipe,
                text=True,
                env=os.environ | {"PYTHONPATH": f"{each}{os.pathsep}{others}"},
            )
            for name, each in sources.items()
        }
        seconds: dict[str, list[float]] = {name: [] for name in sources}
        for _ in range(rounds):
            for name, process in running.items():
                assert process.stdin is not None
                assert process.stdout is not None
                print("go", file=process.stdin, flush=True)
                seconds[name].append(float(process.stdout.readline()))
        for process in running.values():
            process.communicate()
    return {name: statistics.median(each) for name, each in seconds.items()}


def floor(case: Case, rate: float) -> float:
    """Seconds that the factorisations of k neighbours for every test point take at the ``rate`` of a matrix product."""
    return len(case[2]) * case[3] ** 3 / 3 / rate


def released(scale: int, rounds: int, older: Path | None) -> Table:
    rate, rows = gemm_rate(torch.float64, 600), []
    sources = {"now": Path(cagp.__file__).parents[1]} | ({} if older is None else {"released": older})
    for name, case in cases(scale).items():
        seconds = beside(case, sources, rounds)
        now, before, least = seconds["now"], seconds.get("released"), floor(case, rate)
        sizes = [f"{len(case[0]):,}", f"{len(case[2]):,}", f"{case[3]}", f"{now:.2f}"]
        ratio = ["", ""] if before is None else [f"{before:.2f}", f"{now / before:.2f}"]
        rows.append([name, *sizes, *ratio, f"{least:.2f}", f"{now / least:.1f}"])
    columns = ["test points", "d", "T", "k", "now, s", "released, s", "now / released", "floor, s", "now / floor"]
    note = (
        f"Processor time on one thread, medians of {rounds} predictions in turn. The floor is k³/3 operations for "
        f"every test point at the rate of a matrix product, {rate / 1e9:.0f}·10⁹ a second: no kernel, no search."
    )
    return table("NearestNeighbours(k) as it is", columns, rows, note)


def mixture(scale: int, rounds: int) -> Table:
    """Heaton's gaps by one prior, and by a mixture of it and two others."""
    field = pd.read_csv(Path(os.environ["CAGP_DATA"]) / "heaton_simulated.csv.gz").to_numpy()[:: scale**2]
    gap = np.isnan(field[:, 2])
    X, y, test = field[~gap, :2], field[~gap, 2], field[gap, :2]
    mean = cagp.Constant()
    priors = [
        cagp.Prior(cagp.Matern12((0.885, 0.895), 10.5), mean=mean, noise_variance=0.0585),
        cagp.Prior(cagp.Matern32((0.35, 0.36), 8.0), mean=mean, noise_variance=0.1),
        cagp.Prior(cagp.Matern12((0.7, 0.9), 9.0), mean=cagp.Polynomial(1), noise_variance=0.06),
    ]
    one, *others = (prior.condition(X, y, cagp.NearestNeighbours()) for prior in priors)
    three = one.replace(components=[each.components[0] for each in (one, *others)], weights=[0.5, 0.3, 0.2])
    calls = {name: functools.partial(m.predict, test, progress=False) for name, m in (("one", one), ("three", three))}
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(1 + rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            taken[name].append(time.process_time() - start)
    seconds = {name: statistics.median(each[1:]) for name, each in taken.items()}
    rows = [[f"{len(X):,}", f"{len(test):,}", f"{seconds['one']:.2f}", f"{seconds['three']:.2f}"]]
    rows[0].append(f"{seconds['three'] / seconds['one']:.2f}")
    columns = ["d", "T", "one prior, s", "mixture of three, s", "three / one"]
    return table(
        "Gaps of Heaton's simulated field by a mixture", columns, rows, f"Processor time, medians of {rounds} in turn."
    )


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--released", type=Path, help="the folder src of an older release")
    parser.add_argument("--timed", help="for the processes that this one starts")
    arguments = parser.parse_args()
    if arguments.timed:
        torch.set_num_threads(1)
        timed(arguments.timed)
        return
    scale, rounds = (20, 1) if arguments.quick else (1, 5)
    found = [released(scale, rounds, arguments.released)]
    if "CAGP_DATA" in os.environ:
        found.append(mixture(scale, rounds))
    found += tables(20, 1, 400) if arguments.quick else tables(1, 3, 1000)
    write(arguments.out, "neighbours", "Shared neighbourhoods", found, arguments.quick)


if __name__ == "__main__":
    main()

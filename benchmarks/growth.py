"""How cost grows: a pass with d and T, nearest neighbours with d.

A pass costs O(d² T), so twice the points should cost four times as much and twice the test points twice as much.
Nearest neighbours cost the same per test point whatever d is, but for the depth of the search tree.

    python benchmarks/growth.py [--quick]
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np
import torch
from problem import PRIOR, data
from record import Table, options, table, write
from timing import medians

import cagp
from cagp.algebra.sweeps import sweep


def one_pass(d: int, T: int, storage: str) -> Callable[[], object]:
    X, y, X_test = data(d, T)
    gram = PRIOR.condition(X, y, cagp.GaussSeidel(1, order="natural"), storage=storage).gram
    embedded = PRIOR.kernel.embed(torch.from_numpy(X_test), torch.from_numpy(X).mean(dim=0))
    V = gram.cross(embedded).matrix
    W = torch.zeros_like(V)
    return lambda: sweep(gram, W, V, backward=True)


def passes(d: int, T: int, rounds: int) -> Table:
    rows = []
    for name, storage in (("dense", "dense"), ("matrix-free", "tiles")):
        sizes = {"": (d, T), f"d = {d:,} → {2 * d:,}": (2 * d, T), f"T = {T} → {2 * T}": (d, 2 * T)}
        seconds = medians({what: one_pass(*size, storage) for what, size in sizes.items()}, rounds)
        base = seconds.pop("")
        rows += [[name, what, f"{1e3 * base:.0f}", f"{1e3 * s:.0f}", f"{s / base:.2f}"] for what, s in seconds.items()]
    return table(
        f"A Gauss-Seidel pass from d = {d:,}, T = {T}, float64",
        ["G", "what doubles", "ms before", "ms after", "ratio"],
        rows,
        f"Medians of {rounds} rounds, in which the three sizes take turns.",
    )


def neighbours(sizes: list[int], k: int, T: int, rounds: int) -> Table:
    rng = np.random.default_rng(0)
    X_test, trees, models = rng.random((T, 2)), {}, {}
    for d in sizes:
        X = rng.random((d, 2))
        # the same number of points within a lengthscale at every d, so that only the search differs
        prior = cagp.Prior(cagp.Matern32(0.1 * (1e4 / d) ** 0.5), noise_variance=0.01)
        models[f"{d:,}"] = model = prior.condition(X, X[:, 0], cagp.NearestNeighbours(k))
        start = time.perf_counter()
        model.predict(X_test[:1], progress=False)
        trees[f"{d:,}"] = time.perf_counter() - start
    predictions = {d: functools.partial(model.predict, X_test, progress=False) for d, model in models.items()}
    seconds = medians(predictions, rounds)
    first = next(iter(seconds.values()))
    return table(
        f"NearestNeighbours({k}), {T:,} random test points in the plane",
        ["d", "tree and first point, s", "µs per test point", "/ the first"],
        [[d, f"{trees[d]:.2f}", f"{1e6 * each / T:.1f}", f"{each / first:.2f}"] for d, each in seconds.items()],
        "Search, kernel matrices, factorisation, mean and variance. "
        f"Medians of {rounds} rounds, in which the sizes take turns.",
    )


def main() -> None:
    arguments = options(__doc__).parse_args()
    if arguments.quick:
        tables = [passes(200, 8, 1), neighbours([300, 600], 5, 50, 1)]
    else:
        tables = [passes(10_000, 25, 9), neighbours([10**4, 10**5, 10**6], 50, 20_000, 9)]
    write(arguments.out, "growth", "How cost grows", tables, arguments.quick)


if __name__ == "__main__":
    main()

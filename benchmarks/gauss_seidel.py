"""CAGP-GS on the CPU at the paper's timing point: d = 10,638, T = 25, m = 80, float64, points in the plane.

Contenders, side by side in one run: the library dense and matrix-free; Algorithm 2 as printed in plain NumPy and SciPy
(solve_triangular, full products, a T × T accumulation in every step); ConjugateGradient. The floor of a sweep is
2 d² T floating-point operations at the rate of a large matrix product on this machine.

    python benchmarks/gauss_seidel.py [--points D] [--iterations M] [--rounds N]
"""

from __future__ import annotations

import argparse
import functools
import statistics
import time

import numpy as np
import torch
from peak_memory import peak_bytes
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist
from timing import medians

import cagp

LENGTHSCALE, NOISE, T = 0.1, 0.01, 25
PRIOR = cagp.Prior(cagp.Matern32(LENGTHSCALE), noise_variance=NOISE)


def data(d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((d, 2))
    return X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=d), rng.random((T, 2))


def matern32(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    r = np.sqrt(3) * cdist(A, B) / LENGTHSCALE
    return (1 + r) * np.exp(-r)


def plain_algorithm_2(X: np.ndarray, y: np.ndarray, X_test: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 2 as printed."""
    G = matern32(X, X) + NOISE * np.eye(len(X))
    V = matern32(X_test, X)
    L, U, root = np.tril(G), np.triu(G, 1), np.sqrt(np.diag(G))[:, None]
    Z = solve_triangular(L.T, V.T, lower=False)
    z = solve_triangular(L, y, lower=True)
    v, downdate = z, (root * Z).T @ (root * Z)
    for _ in range(2, m + 1):
        v = z - solve_triangular(L, U @ v, lower=True)
        Z = solve_triangular(L.T, U.T @ Z, lower=False)
        downdate += (root * Z).T @ (root * Z)
    return V @ v, np.diag(matern32(X_test, X_test) - downdate)


def gemm_rate() -> float:
    """Floating-point operations per second of a large float64 matrix product."""
    A = torch.rand(3000, 3000, dtype=torch.float64)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        A @ A
        times.append(time.perf_counter() - start)
    return 2 * 3000**3 / statistics.median(times[1:])


def solve(d: int, m: int, storage: str, solver: str = "gs") -> cagp.Posterior:
    X, y, X_test = data(d)
    method = cagp.GaussSeidel(m, order="natural") if solver == "gs" else cagp.ConjugateGradient(m)
    return PRIOR.condition(X, y, method, storage=storage).predict(X_test, progress=False)


def warm(d: int) -> int:
    """A small solve first, so that libraries and thread pools are not counted; returns d."""
    solve(300, 2, "dense")
    return d


def dense_work(d: int) -> None:
    solve(d, 2, "dense")


def tiles_work(d: int) -> None:
    solve(d, 2, "tiles")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=int, default=10_638)
    parser.add_argument("--iterations", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    d, m = options.points, options.iterations
    X, y, X_test = data(d)

    mean, variance = plain_algorithm_2(X, y, X_test, 3)
    ours = solve(d, 3, "dense")
    assert np.allclose(ours.mean, mean, rtol=1e-8)
    assert np.allclose(ours.variance, variance, rtol=1e-8)

    seconds = medians(
        {
            "GaussSeidel, dense": lambda: solve(d, m, "dense"),
            "GaussSeidel, matrix-free": lambda: solve(d, m, "tiles"),
            "Algorithm 2, NumPy/SciPy": lambda: plain_algorithm_2(X, y, X_test, m),
            "ConjugateGradient, dense": lambda: solve(d, m, "dense", "cg"),
        },
        rounds=options.rounds,
    )
    models = {
        storage: PRIOR.condition(X, y, cagp.GaussSeidel(1, order="natural"), storage=storage)
        for storage in ("dense", "tiles")
    }
    sweeps = medians(
        {name: lambda model=model: model.predict(X_test, progress=False) for name, model in models.items()},  # type: ignore[misc]
        rounds=9,
    )
    rate = gemm_rate()
    floor = 2 * d * d * T / rate
    ours_total = seconds["GaussSeidel, dense"]

    print(f"\nd = {d}, T = {T}, m = {m}, float64; {torch.get_num_threads()} threads; GEMM {rate / 1e9:.0f} GFLOP/s\n")
    print(f"| {'contender':28} | seconds | / GaussSeidel dense |")
    print(f"|{'-' * 30}|---------|---------------------|")
    for name, value in seconds.items():
        print(f"| {name:28} | {value:7.2f} | {value / ours_total:19.2f} |")
    dense_sweep, tiles_sweep = sweeps["dense"], sweeps["tiles"]
    print(
        f"\none sweep, medians of nine: dense {1e3 * dense_sweep:.0f} ms = {dense_sweep / floor:.2f} × the floor of ",
        end="",
    )
    print(f"{1e3 * floor:.0f} ms; matrix-free {1e3 * tiles_sweep:.0f} ms = {tiles_sweep / dense_sweep:.2f} × dense")
    dense, free = (peak_bytes(functools.partial(warm, d), work) for work in (dense_work, tiles_work))
    print(f"peak memory, dense: {dense / (8 * d * d):.2f} × the Gram matrix; matrix-free: {free / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()

"""Gauss-Seidel on the CPU at the paper's timing point: d = 10,638, T = 25, m = 80, Matérn 3/2, points in the plane.

One pass against the BLAS calls it stands for, and whole solves against Algorithm 2 in plain NumPy and SciPy
(solve_triangular, full products, a T × T accumulation in every step), side by side in one run. The floor of a pass is
2 d² T floating-point operations at the rate of a large matrix product on this machine.

    python benchmarks/gauss_seidel.py [--quick]
"""

from __future__ import annotations

import functools

import numpy as np
import torch
from peak_memory import peak_bytes
from problem import PRIOR, data, plain_algorithm_2, solve
from record import Table, gemm_rate, options, table, write
from scipy.linalg import blas
from timing import medians

import cagp
from cagp.algebra.sweeps import sweep

T = 25


def natural(m: int) -> cagp.Solver:
    return cagp.GaussSeidel(m, order="natural")


def passes(d: int, rounds: int, gemm: int) -> Table:
    """One pass over G in every way."""
    X, y, X_test = data(d, T)
    grams = {
        key: PRIOR.condition(X, y, natural(1), storage=storage, dtype=dtype).gram
        for key, storage, dtype in (
            ("dense", "dense", torch.float64),
            ("free", "tiles", torch.float64),
            ("single", "dense", torch.float32),
        )
    }
    dense, free, single = grams["dense"], grams["free"], grams["single"]
    embedded = PRIOR.kernel.embed(torch.from_numpy(X_test), torch.from_numpy(X).mean(dim=0))
    V = dense.cross(embedded).matrix
    W, W_single = torch.zeros_like(V), torch.zeros(V.shape)
    with dense.block(0, d, 0, d) as stored:  # a stored matrix lends itself
        G = stored.numpy()
    columns, fortran = np.ascontiguousarray(V.numpy().T), np.asfortranarray(V.numpy().T)
    # G is symmetric: its transpose is in the order of Fortran without a copy
    trmm = functools.partial(blas.dtrmm, 1.0, G.T, fortran, lower=1)
    trsm = functools.partial(blas.dtrsm, 1.0, G.T, fortran, lower=0)
    contenders = {
        "sweep, dense": lambda: sweep(dense, W, V, backward=True),
        "sweep, dense, float32": lambda: sweep(single, W_single, V.float(), backward=True),
        "sweep, matrix-free": lambda: sweep(free, W, V, backward=True),
        "product, dense": lambda: dense.matmul(W),
        "product, matrix-free": lambda: free.matmul(W),
        "SciPy dtrmm + dtrsm": lambda: (trmm(), trsm()),
        "NumPy G @ W": lambda: G @ columns,
        "torch W @ G": lambda: W @ stored,
    }
    # one contender at a time: thread pools of two libraries in turn wait for each other
    seconds = {name: medians({name: call}, rounds)[name] for name, call in contenders.items()}
    rate = {dtype: gemm_rate(dtype, gemm) for dtype in (torch.float64, torch.float32)}
    scipy, product = seconds["SciPy dtrmm + dtrsm"], min(seconds["NumPy G @ W"], seconds["torch W @ G"])
    rows = []
    for name, value in seconds.items():
        floor = 2 * d * d * T / rate[torch.float32 if "float32" in name else torch.float64]
        cells = [1e3 * value, 1e3 * floor]
        rows.append(
            [name, *(f"{cell:.0f}" for cell in cells)] + [f"{value / other:.2f}" for other in (floor, scipy, product)]
        )
    return table(
        f"One pass over G, d = {d:,}, T = {T}, float64 unless said otherwise",
        ["what", "ms", "floor, ms", "/ floor", "/ SciPy dtrmm + dtrsm", "/ the faster of NumPy's and torch's G W"],
        rows,
        f"Medians of {rounds}. Floor: 2d²T operations at the rate of a large product, "
        f"{rate[torch.float64] / 1e9:.0f} GFLOP/s in float64 and {rate[torch.float32] / 1e9:.0f} in float32; reading "
        "the matrix and computing its entries are not counted.",
    )


def solves(d: int, m: int, rounds: int) -> Table:
    """m sweeps with the construction of the Gram matrix."""
    X, y, X_test = data(d, T)
    mean, variance = plain_algorithm_2(X, y, X_test, 3)
    for dtype, tolerance in ((None, 1e-8), ("float32", 1e-3)):
        ours = solve(d, T, natural(3), "dense", dtype)
        assert np.allclose(ours.variance, variance, rtol=tolerance)
        assert np.allclose(ours.mean, mean, rtol=tolerance, atol=tolerance)
    seconds = medians(
        {
            "GaussSeidel, dense": lambda: solve(d, T, natural(m), "dense"),
            "GaussSeidel, dense, sweeps in float32, certificate in float64": lambda: solve(
                d, T, natural(m), "dense", "float32"
            ),
            "GaussSeidel, matrix-free": lambda: solve(d, T, natural(m), "tiles"),
            "Algorithm 2, NumPy and SciPy": lambda: plain_algorithm_2(X, y, X_test, m),
            "the same with check_finite=False": lambda: plain_algorithm_2(X, y, X_test, m, check_finite=False),
        },
        rounds,
        warm_up=False,
    )
    plain = seconds["Algorithm 2, NumPy and SciPy"]
    return table(
        f"{m} sweeps with the construction of the Gram matrix, d = {d:,}, T = {T}",
        ["what", "seconds", "times faster than Algorithm 2"],
        [[name, f"{value:.2f}", f"{plain / value:.1f}"] for name, value in seconds.items()],
        ("One run each" if rounds == 1 else f"Medians of {rounds}")
        + "; mean and variance after three sweeps agree with Algorithm 2 to 1e-8 (float32: 1e-3).",
    )


def memory(d: int) -> Table:
    """Peak memory in a process of its own."""

    def row(what: str, storage: str) -> list[str]:
        peak = peak_bytes(functools.partial(warm, d), functools.partial(work, storage))
        return [what, f"{peak / 2**20:.0f}", f"{peak / (8 * d * d):.2f}"]

    rows = [row("GaussSeidel, dense", "dense"), row("GaussSeidel, matrix-free", "tiles")]
    return table(f"Peak memory, d = {d:,}, T = {T}", ["what", "MiB", "/ the Gram matrix"], rows)


def warm(d: int) -> int:
    """A small solve first, so that libraries and thread pools are not counted; returns d."""
    solve(300, T, natural(2), "dense")
    return d


def work(storage: str, d: int) -> None:
    solve(d, T, natural(2), storage)


def main() -> None:
    arguments = options(__doc__).parse_args()
    quick = arguments.quick
    d, m, rounds = (400, 4, 1) if quick else (10_638, 80, 9)
    tables = [passes(d, rounds, 200 if quick else 3000), solves(d, m, 1), memory(d)]
    write(arguments.out, "gauss_seidel", "Gauss-Seidel sweeps on a CPU", tables, quick)


if __name__ == "__main__":
    main()

"""Excess variance of every solver on three real data sets, on one GPU: one call does all.

    python benchmarks/gpu/excess.py DATA_FOLDER [OUT_FOLDER]

DATA_FOLDER holds era5.npz, kin40k.npz and protein.npz with arrays X and y (``benchmarks/gpu/export.py`` writes them).
Excess is mean(variance − exact variance) / mean(exact variance), the exact variance from a float64 Cholesky solve.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cagp
from cagp import CalibratedCG, GaussSeidel, NearestNeighbours, Nystrom, SymmetricGaussSeidel
from cagp.stopping import ComputationalShare
from problems import era5_grid

MARKS = (1, 2, 5, 10, 15, 20, 40)
BUDGET = 120e9


def synchronised() -> float:
    torch.cuda.synchronize()
    return time.perf_counter()


class Study:
    """One data set with its exact posterior."""

    def __init__(
        self, name: str, prior: cagp.Prior, X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray
    ):
        self.name, self.prior, self.X, self.y, self.X_test, self.y_test = name, prior, X, y, X_test, y_test
        self.rows: list[dict[str, object]] = []
        start = synchronised()
        exact = self.condition(cagp.Cholesky()).predict(X_test, progress=False)
        seconds = synchronised() - start
        self.exact = exact.variance
        rmse = np.sqrt(np.mean((exact.mean - y_test) ** 2))
        nll = self.nll(exact)
        print(
            f"\n{name}: d = {len(X)}, T = {len(X_test)}; exact RMSE {rmse:.4g}, NLL {nll:.4g}, {seconds:.2f} s",
            flush=True,
        )
        self.record("Cholesky", 1, exact, seconds)
        torch.cuda.empty_cache()

    def nll(self, post: cagp.Prediction) -> float:
        observed = post.observed()
        z = (self.y_test - observed.mean) / observed.std
        return float(np.mean(0.5 * z**2 + np.log(observed.std) + 0.5 * np.log(2 * np.pi)))

    def condition(self, solver: cagp.Solver, **settings: Any) -> cagp.Model:
        return self.prior.condition(self.X, self.y, solver, device="cuda", memory_budget=BUDGET, **settings)

    def record(self, label: str, m: int, post: cagp.Prediction, seconds: float) -> float:
        excess = float((post.variance - self.exact).mean() / self.exact.mean())
        worst = float(((post.variance - self.exact) / self.exact).max())
        rmse = float(np.sqrt(np.mean((post.mean - self.y_test) ** 2)))
        self.rows.append(
            dict(data=self.name, solver=label, m=m, excess=excess, worst=worst, rmse=rmse, nll=self.nll(post),
                 passes=post.passes, seconds=seconds)
        )  # fmt: skip
        return excess

    def stop(self, label: str, solver: cagp.Solver) -> None:
        """Ask for 5% of computational variance, certified and estimated; print what the true excess is."""
        for judged in ("certified", "estimated"):
            start = synchronised()
            post = self.condition(solver).predict(self.X_test, stop=ComputationalShare(0.05, judged), progress=False)
            seconds = synchronised() - start
            true = (post.variance - self.exact) / self.exact
            bounds = post.computational_variance
            ratio = np.median(bounds.upper / (true * self.exact)), np.median(bounds.estimate / (true * self.exact))
            print(
                f"  stop at 5% {judged}, {label}: worst {true.max():.3g}, {np.mean(true <= 0.05):.0%} within; "
                f"iterations {post.iterations.min()}–{post.iterations.max()}; upper / truth {ratio[0]:.2f}, "
                f"estimate / truth {ratio[1]:.2f} [{seconds:.2f} s]\n    {post.status}",
                flush=True,
            )

    def run(self, label: str, solver: cagp.Solver, **settings: Any) -> None:
        start = synchronised()
        model = self.condition(solver, **settings)
        shown = []
        for post in model.iterate(self.X_test):
            m = int(post.iterations[0])
            if m in MARKS:
                shown.append(f"{m}: {self.record(label, m, post, synchronised() - start):.3g}")
        print(f"  {label:46} {'  '.join(shown)}   [{synchronised() - start:.2f} s]", flush=True)
        del model, post
        torch.cuda.empty_cache()


def era5(folder: Path) -> Study:
    return Study("ERA5 64,800", *era5_grid(folder))


def table(folder: Path, name: str) -> Study:
    data = np.load(folder / f"{name}.npz")
    order = np.random.default_rng(0).permutation(len(data["X"]))
    X, y = data["X"][order], data["y"][order]
    n = round(0.9 * len(X))
    start = time.perf_counter()
    prior = cagp.Prior(cagp.Matern32((3.0,) * X.shape[1]), noise_variance=0.05)
    prior = prior.fit(torch.from_numpy(X[:n]).cuda(), torch.from_numpy(y[:n]).cuda(), subset=8000, seed=0, n_restarts=0)
    print(f"\n{name}: fitted on 8,000 points in {time.perf_counter() - start:.1f} s: {prior}", flush=True)
    return Study(name, prior, X[:n], y[:n], X[n : n + 200], y[n : n + 200])


def studies(folder: Path) -> Iterator[Study]:
    yield era5(folder)
    for name in ("kin40k", "protein"):
        yield table(folder, name)


def main() -> None:
    folder = Path(sys.argv[1])
    rows: list[dict[str, object]] = []
    for study in studies(folder):
        try:
            solve(study)
        finally:
            rows += study.rows
            if len(sys.argv) > 2:
                with open(Path(sys.argv[2]) / "excess.csv", "w", newline="") as file:
                    writer = csv.DictWriter(file, list(rows[0]))
                    writer.writeheader()
                    writer.writerows(rows)


def solve(study: Study) -> None:
    if study.name.startswith("ERA5"):
        study.run("GaussSeidel, natural order", GaussSeidel(40, order="natural"))
    study.run("GaussSeidel, random order", GaussSeidel(40))
    study.run("GaussSeidel, spatial blocks of 1024", GaussSeidel(20, block_size=1024, partition="spatial"))
    study.run("ConjugateGradient (on b, not calibrated)", cagp.ConjugateGradient(40))
    study.run("CalibratedCG", CalibratedCG(40))
    study.run("CalibratedCG, SymmetricGaussSeidel(1024)", CalibratedCG(20, SymmetricGaussSeidel(1024)))
    study.run(
        "CalibratedCG, SGS(1024), from 500 neighbours",
        CalibratedCG(20, SymmetricGaussSeidel(1024), start=NearestNeighbours(500)),
    )
    ranks = (1000, 4000) if study.name.startswith("ERA5") else (500, 2000)
    for rank in ranks:
        study.run(f"CalibratedCG, Nystrom({rank})", CalibratedCG(20, Nystrom(rank)))
    study.run(
        f"CalibratedCG, Nystrom({ranks[1]}), float32", CalibratedCG(20, Nystrom(ranks[1])), solve_dtype=torch.float32
    )
    for k in (30, 100, 300, 500):
        study.run(f"NearestNeighbours({k})", NearestNeighbours(k))
    for k, rank in ((100, ranks[0]), (500, ranks[0]), (500, ranks[1])):
        label = f"CalibratedCG, Nystrom({rank}), from {k} neighbours"
        study.run(label, CalibratedCG(20, Nystrom(rank), start=NearestNeighbours(k)))
    study.run("RandomKrylov(10, 64)", cagp.RandomKrylov(10, 64))
    study.stop(f"CalibratedCG(Nystrom({ranks[1]}))", CalibratedCG(100, Nystrom(ranks[1])))
    study.stop("CalibratedCG(SymmetricGaussSeidel)", CalibratedCG(100, SymmetricGaussSeidel(1024)))
    study.stop("from 100 neighbours", CalibratedCG(100, Nystrom(ranks[1]), start=NearestNeighbours(100)))


if __name__ == "__main__":
    main()

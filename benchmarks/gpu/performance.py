"""Speed on one GPU: fused products, a million points, and peers. One call does all.

    python benchmarks/gpu/performance.py DATA_FOLDER [--out gpu.json] [--only SECTION,…]

DATA_FOLDER holds era5.npz with arrays X and y (``benchmarks/gpu/export.py`` writes it). The JSON is what
``benchmarks/performance_page.py`` makes tables of.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cagp
from cagp.algebra.sweeps import sweep
from cagp.gram import Gram
from cagp.kernels import embedding_leaves, map_embedding, slice_embedding
from problems import era5_grid, era5_prior

T_MILLION = 128
BUDGET = 40 * 2**30

Table = dict[str, Any]


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The median time of ``work`` after a first run that is not counted."""
    taken = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken[1:])


def table(caption: str, columns: list[str], rows: list[list[str]], notes: str = "") -> Table:
    print(f"\n{caption}\n  " + " | ".join(columns))
    for row in rows:
        print("  " + " | ".join(row))
    print(f"  {notes}", flush=True)
    return {"caption": caption, "columns": columns, "rows": rows, "notes": notes}


class Bench:
    def __init__(self, folder: Path) -> None:
        data = np.load(folder / "era5.npz")
        self.X, self.y = data["X"].astype(np.float64), data["y"].astype(np.float64)
        self.prior = era5_prior()
        self.folder = folder
        self.rates: dict[str, float] = {}

    def ceilings(self) -> Table:
        """What the machine gives: a copy, and large matrix products."""
        rows = []
        big = torch.empty(2**30, device="cuda")
        other = torch.empty_like(big)
        rate = 2 * big.numel() * 4 / seconds(lambda: other.copy_(big), 9)
        rows.append(["copy, read and write", f"{rate / 1e12:.2f} TB/s"])
        for dtype in (torch.float16, torch.float32, torch.float64):
            A = torch.randn(8192, 8192, device="cuda").to(dtype)
            name = str(dtype).removeprefix("torch.")
            self.rates[name] = 2 * 8192**3 / seconds(lambda A=A: A @ A, 9)  # type: ignore[misc]
            rows.append([f"{name} matrix product", f"{self.rates[name] / 1e12:.0f} TFLOP/s"])
        return table("Measured ceilings", ["what", "rate"], rows)

    def accuracy(self) -> Table:
        """Relative error of K·W against float64, for kernels of every kind."""
        rng = torch.Generator(device="cuda").manual_seed(0)
        n, m, T = 60_000, 2000, 64
        kernels = {
            "Matern32 on the globe": (cagp.Geographic(cagp.Matern32(0.174, 123.0)), 2),
            "Matern12, 3 columns": (cagp.Matern12(0.5), 3),
            "Matern52, 9 columns, one lengthscale each": (cagp.Matern52(tuple(np.linspace(1, 4, 9))), 9),
            "RBF, 32 columns": (cagp.RBF(8.0), 32),
            "RationalQuadratic, alpha = 2": (cagp.RationalQuadratic(0.7, alpha=2.0), 4),
            "Matern32 + 0.3 RBF × Periodic": (cagp.Matern32(0.4) + 0.3 * cagp.RBF(1.0) * cagp.Periodic(1.0), 2),
        }
        rows = []
        for name, (kernel, columns) in kernels.items():
            X = torch.rand(n, columns, device="cuda", dtype=torch.float64, generator=rng)
            X = X * torch.tensor([180.0, 360.0], device="cuda").double() - 90 if "globe" in name else X * 4
            embedding = kernel.embed(X, X.mean(0))
            W = torch.randn(T, n, device="cuda", generator=rng) * torch.rand(T, n, device="cuda", generator=rng) ** 8
            chosen = torch.randperm(n, device="cuda", generator=rng)[:m]
            reference = torch.zeros(T, m, dtype=torch.float64, device="cuda")
            columns_of = map_embedding(embedding, lambda part: part[:, chosen])  # noqa: B023
            for start in range(0, n, 20_000):
                block = kernel.evaluate(slice_embedding(embedding, start, start + 20_000), columns_of)
                reference += W[:, start : start + 20_000].double() @ block
            row = [name]
            for accurate, dtype in ((True, torch.float32), (False, torch.float32), (True, torch.float64)):
                cast = map_embedding(embedding, lambda part: part.to(dtype))  # noqa: B023
                noise = torch.full((n,), 1e-20, dtype=dtype, device="cuda")
                gram = Gram(kernel, cast, noise, storage="tiles", budget=BUDGET, accurate=accurate)
                assert gram.fused
                product = gram.matmul(W.to(dtype))[:, chosen]
                row.append(f"{float((product - reference).norm() / reference.norm()):.1e}")
            rows.append(row)
        return table(
            f"Relative error of K·W, {n:,} points, against float64 by another route",
            ["kernel", "float32", "tf32", "float64"],
            rows,
        )

    def million(self) -> Table:
        """One Gauss-Seidel pass over all ERA5 points, and its certificate."""
        held = np.random.default_rng(0).choice(len(self.X), T_MILLION, replace=False)
        keep = np.ones(len(self.X), bool)
        keep[held] = False
        rows = [row for arithmetic in ("float32", "tf32") for row in self._passes(keep, arithmetic)]
        return table(
            f"ERA5, {keep.sum():,} points, {T_MILLION} test columns",
            ["what", "seconds", "floor, s", "× floor", "peak GiB"],
            rows,
            "Floor: the multiplications alone at the measured rate of float16 (three for float32, two for tf32) or of "
            "float64; the kernel values are not counted.",
        )

    def _passes(self, keep: np.ndarray, arithmetic: str) -> list[list[str]]:
        """A pass in blocks and point by point, a product, and after float32 the certificate."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        solver = cagp.GaussSeidel(3, block_size=2048)
        X, y, X_test = self.X[keep], self.y[keep], torch.as_tensor(self.X[~keep], device="cuda")
        model = self.prior.condition(X, y, solver, solve_dtype=arithmetic, device="cuda", memory_budget=BUDGET)
        cross, gram = model.components[0].cross(X_test), model.prepared.gram
        V = gram.cross(cross.test).matrix
        W = torch.zeros_like(V)
        blocks = model.prepared._blocks  # type: ignore[attr-defined]
        multiplications = 2 * len(X_test) * gram.size**2
        floor = multiplications * (3 if arithmetic == "float32" else 2) / self.rates["float16"]

        def row(what: str, work: Callable[[], object], floor: float, repeats: int = 3) -> list[str]:
            torch.cuda.reset_peak_memory_stats()
            taken = seconds(work, repeats)
            peak = torch.cuda.max_memory_allocated() / 2**30
            return [what, f"{taken:.2f}", f"{floor:.2f}", f"{taken / floor:.1f}", f"{peak:.1f}"]

        rows = [
            row(
                f"Gauss-Seidel pass, blocks of 2048, {arithmetic}",
                lambda: sweep(gram, W, V, backward=True, blocks=blocks),
                floor,
            ),
            row(f"Gauss-Seidel pass, point by point, {arithmetic}", lambda: sweep(gram, W, V, backward=True), floor),
            row(f"product K·W, {arithmetic}", lambda: gram.matmul(W), floor),
        ]
        if arithmetic == "float32":
            exact = multiplications / self.rates["float64"]
            rows.append(row("float64 certificate", lambda: model.gram.matmul(W.double()), exact, 1))
        return rows

    def grid(self) -> Table:
        """Predictive variances of 100 points from 64,800: solvers, Cholesky, and GPyTorch."""
        prior, X, y, X_test, _ = era5_grid(self.folder)
        results: dict[str, tuple[float, np.ndarray]] = {}

        def measure(name: str, work: Callable[[], np.ndarray]) -> None:
            kept: list[np.ndarray] = []
            try:
                results[name] = (seconds(lambda: kept.append(work()), 2), kept[0])
            except torch.OutOfMemoryError:
                print(f"{name}: out of memory", flush=True)
            torch.cuda.empty_cache()

        def ours(solver: cagp.Solver, solve_dtype: str = "float64") -> Callable[[], np.ndarray]:
            settings: dict[str, Any] = {"device": "cuda", "memory_budget": 120e9, "solve_dtype": solve_dtype}
            return lambda: np.asarray(
                prior.condition(X, y, solver, **settings).predict(X_test, progress=False).variance
            )

        measure("Cholesky, float64", ours(cagp.Cholesky()))
        for k in (30, 100, 300):
            measure(f"NearestNeighbours({k}), float64", ours(cagp.NearestNeighbours(k)))
        near = cagp.NearestNeighbours(100)
        for rank in (500, 1000, 2000, 4000):
            measure(
                f"CalibratedCG(10, Nystrom({rank})), float32",
                ours(cagp.CalibratedCG(10, cagp.Nystrom(rank)), "float32"),
            )
        started = cagp.CalibratedCG(5, cagp.Nystrom(1000), start=near)
        measure("CalibratedCG(5, Nystrom(1000)) from 100 neighbours, float32", ours(started, "float32"))
        for iterations in (1, 10, 40):
            solver = cagp.GaussSeidel(iterations, block_size=2048, partition="spatial")
            measure(f"GaussSeidel({iterations}), spatial blocks of 2048, float32", ours(solver, "float32"))
        measure("GaussSeidel(40), spatial blocks of 2048, tf32", ours(solver, "tf32"))
        for tolerance in (1.0, 0.01):
            for dtype in (torch.float32, torch.float64):
                name = f"GPyTorch, conjugate gradients to {tolerance:g}, {str(dtype).removeprefix('torch.')}"
                measure(name, lambda t=tolerance, d=dtype: gpytorch_variances(X, y, X_test, t, d))  # type: ignore[misc]
        _, exact = results["Cholesky, float64"]
        rows = []
        for name, (taken, variance) in results.items():
            error = (variance - exact) / exact
            mean = float((variance - exact).mean() / exact.mean())
            rows.append([name, f"{taken:.3f}", f"{mean:.2g}", f"{error.min():.2g} … {error.max():.2g}"])
        return table(
            f"ERA5, {len(X):,} points, variances of {len(X_test)} held-out points, from the data to the variances",
            ["method", "seconds", "mean excess", "relative error of a variance, least … most"],
            rows,
            "Excess: (variance − exact) / exact. A negative error is an error bar that promises too much.",
        )

    def neighbours(self) -> Table:
        """Neighbour search, a map of all points, and a nearest-neighbour likelihood at a million points."""
        X, y = torch.as_tensor(self.X, device="cuda"), torch.as_tensor(self.y, device="cuda")
        rows = []
        model = self.prior.condition(X, y, cagp.NearestNeighbours(50), memory_budget=BUDGET)
        taken = seconds(lambda: model.predict(X[:100], progress=False), 2)
        rows.append(["NearestNeighbours(50), 100 test points", f"{taken:.3f}"])
        taken = seconds(lambda: model.predict(X, progress=False), 1)
        rows.append([f"NearestNeighbours(50), {len(X):,} test points", f"{taken:.2f}"])
        likelihood = functools.partial(
            self.prior.fit, X, y, likelihood="nearest-neighbours", n_neighbours=30, terms="all"
        )
        start = time.perf_counter()
        fitted = likelihood(subset=200_000, seed=0, n_restarts=0)
        rows.append(["maximum likelihood through 30 neighbours, 200,000 points", f"{time.perf_counter() - start:.1f}"])
        return table(f"ERA5, {len(X):,} training points", ["what", "seconds"], rows, f"Fitted: {fitted}")


def gpytorch_variances(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, tolerance: float, dtype: torch.dtype
) -> np.ndarray:
    """Predictive variances of f by GPyTorch's conjugate gradients, with the same kernel and noise."""
    import gpytorch

    sphere = cagp.Geographic(cagp.Matern32(1.0))
    origin = torch.zeros(2, dtype=torch.float64)
    train, test = (
        embedding_leaves(sphere.embed(torch.as_tensor(part), origin))[0].T.to("cuda", dtype) for part in (X, X_test)
    )

    class Exact(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(train, torch.as_tensor(y, device="cuda", dtype=dtype), likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=1.5))

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().to("cuda", dtype)
    model = Exact().to("cuda", dtype)
    model.covar_module.base_kernel.lengthscale = 0.174
    model.covar_module.outputscale = 11.1**2
    likelihood.noise = 1.17**2
    model.mean_module.constant.data.fill_(float(y.mean()))
    model.eval()
    with (
        torch.no_grad(),
        gpytorch.settings.cg_tolerance(tolerance),
        gpytorch.settings.eval_cg_tolerance(tolerance),
        gpytorch.settings.max_cg_iterations(1000),
        gpytorch.settings.max_preconditioner_size(100),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # that iterations ran out shows in the table
        return np.asarray(model(test).variance.double().cpu())


SECTIONS = ("ceilings", "accuracy", "million", "grid", "neighbours")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default=",".join(SECTIONS))
    arguments = parser.parse_args()
    bench = Bench(arguments.folder)
    kept = json.loads(arguments.out.read_text())["tables"] if arguments.out and arguments.out.exists() else []
    tables = {each["caption"]: each for each in kept}  # what this run does not measure stays as it was
    for name in ["ceilings", *(section for section in arguments.only.split(",") if section != "ceilings")]:
        measured = getattr(bench, name)()
        tables[measured["caption"]] = measured
        if arguments.out:
            result = {
                "title": "One GPU",
                "command": "python benchmarks/gpu/performance.py DATA_FOLDER --out benchmarks/results/gpu.json",
                "machine": f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
                + time.strftime(", on %-d %B %Y"),
                "tables": list(tables.values()),
            }
            arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

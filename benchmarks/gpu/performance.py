"""Speed on one GPU: fused products, a million points, and peers. One call does all.

    python benchmarks/gpu/performance.py DATA_FOLDER [--out gpu.json] [--only SECTION,…]

DATA_FOLDER holds era5.npz with arrays X and y (``benchmarks/gpu/export.py`` writes it). The JSON is what
``benchmarks/performance_page.py`` makes tables of.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cagp
from cagp.kernels import map_embedding, slice_embedding
from cagp.sweeps import sweep

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
        kernel = cagp.Geographic(cagp.Matern32(0.174, 11.1**2))
        self.prior = cagp.Prior(kernel, mean=cagp.Constant(), noise_variance=1.17**2)
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
                gram = cagp.Gram(kernel, cast, noise, storage="tiles", budget=BUDGET, accurate=accurate)
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
            "Floor: the multiplications alone at the measured rate of float16 (three for float32, one for tf32) or of "
            "float64; the kernel values are not counted.",
        )

    def _passes(self, keep: np.ndarray, arithmetic: str) -> list[list[str]]:
        """A pass in blocks and point by point, a product, and after float32 the certificate."""
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        solver = cagp.GaussSeidel(3, block_size=2048)
        X, y, X_test = self.X[keep], self.y[keep], torch.as_tensor(self.X[~keep], device="cuda")
        model = self.prior.condition(X, y, solver, solve_dtype=arithmetic, device="cuda", memory_budget=BUDGET)
        (cross,) = model._crosses(X_test, None)
        gram, V = model.prepared.gram, model.solver_cross(cross).matrix
        W = torch.zeros_like(V)
        blocks = model.prepared._blocks  # type: ignore[attr-defined]
        multiplications = 2 * len(X_test) * gram.size**2
        floor = multiplications * (3 if arithmetic == "float32" else 1) / self.rates["float16"]

        def row(what: str, work: Callable[[], object], floor: float) -> list[str]:
            torch.cuda.reset_peak_memory_stats()
            taken = seconds(work, 2)
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
            rows.append(row("float64 certificate", lambda: model.gram.matmul(W.double()), exact))
        return rows


SECTIONS = ("ceilings", "accuracy", "million")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default=",".join(SECTIONS))
    arguments = parser.parse_args()
    bench = Bench(arguments.folder)
    tables = [
        getattr(bench, name)() for name in ["ceilings", *[s for s in arguments.only.split(",") if s != "ceilings"]]
    ]
    machine = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    result = {
        "title": "One GPU",
        "command": "python benchmarks/gpu/performance.py DATA_FOLDER --out benchmarks/results/gpu.json",
        "machine": machine,
        "tables": tables,
    }
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

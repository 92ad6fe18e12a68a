"""cagp beside GPyTorch's exact Gaussian process on one GPU: fit and prediction of the field of ``peers.py``.

    PYTHONPATH=src python benchmarks/gpu/beside_gpytorch.py [--size 10000] [--out benchmarks/results/gpu-gpytorch.json]

GPyTorch takes 50 Adam steps in float32, as its first example, by Cholesky and by conjugate gradients (its default
beyond 800 points); KeOps is not used. cagp computes in float64. All are scored as normal predictions of noisy
observations with the mean and standard deviation that they give. ``--device cpu --size 500`` tells whether it runs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cagp

sys.path.insert(0, str(Path(__file__).parents[1]))
from contenders.contender import Fit, Gaussian, Predict
from contenders.gpytorch_models import exact
from contenders.problems import TESTS, Problem, field

PLAIN = {"mixture": False, "uncertainty": False, "recalibrate": False, "transform": None}


def ours(X: np.ndarray, y: np.ndarray, device: str, **options: Any) -> Predict:
    model = cagp.fit(X, y, device=device, progress=False, **options)

    def predict(X_test: np.ndarray) -> Gaussian:
        found = model.predict(X_test, progress=False).observed()
        mean, std = (torch.as_tensor(each).cpu().numpy() for each in (found.mean, found.std))
        return Gaussian(mean, std)

    return predict


def contenders(device: str) -> dict[str, Fit]:
    one: dict[str, Any] = {"kernel": "matern32", "mean": "constant", **PLAIN}
    return {
        "cagp, `cagp.fit(X, y, device=...)`": partial(ours, device=device),
        "cagp, one kernel": partial(ours, device=device, **one),
        "cagp, one kernel, predictions by Cholesky": partial(ours, device=device, solver=cagp.Cholesky(), **one),
        "GPyTorch, Cholesky": partial(exact, cholesky_up_to=10**9, device=device),
        "GPyTorch, conjugate gradients": partial(exact, cholesky_up_to=None, device=device),
    }


def timed(work: Callable[[], Any], device: str) -> tuple[Any, float]:
    start = time.perf_counter()
    result = work()
    if device != "cpu":
        torch.cuda.synchronize()
    return result, time.perf_counter() - start


def row(name: str, fit: Fit, problem: Problem, device: str) -> list[str]:
    """Seconds, peak memory on the GPU, and scores; a small problem first loads and compiles."""
    small = problem.first(100)
    fit(small.X, small.y)(small.X_test)
    memory = "—"
    if device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    try:
        predict, fitting = timed(lambda: fit(problem.X, problem.y), device)
        predicted, predicting = timed(lambda: predict(problem.X_test), device)
    except torch.OutOfMemoryError:
        return [name, "out of memory", *(["—"] * 6)]
    if device != "cpu":
        memory = f"{torch.cuda.max_memory_allocated() / 2**30:.1f}"
    scores = predicted.scores(problem.y_test, np.ones(len(problem.y_test), bool))
    shares = [f"{100 * scores[level]:.1f}" for level in ("50", "95")]
    return [
        name,
        f"{fitting:.2f}",
        f"{predicting:.2f}",
        memory,
        f"{scores['rmse']:.4f}",
        f"{scores['crps']:.4f}",
        *shares,
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, action="append", help="training points; 10000 by default")
    parser.add_argument("--tests", type=int, default=TESTS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    tables = []
    for n in arguments.size or [10_000]:
        problem = field(n, tests=arguments.tests)
        rows = []
        for name, fit in contenders(arguments.device).items():
            rows.append(row(name, fit, problem, arguments.device))
            print(f"n = {n:,}: {' | '.join(rows[-1])}", flush=True)
        tables.append(
            {
                "caption": f"A field in the plane, {n:,} observations, {len(problem.y_test):,} test points",
                "columns": ["what", "fit, s", "predict, s", "GiB on the GPU", "RMSE", "CRPS", "in 50%", "in 95%"],
                "rows": rows,
                "notes": "Hyperparameters are fitted by each: GPyTorch takes 50 Adam steps in float32, cagp's "
                "likelihood is that of `cagp.fit`, in float64. Scored are noisy observations, as normal predictions.",
            }
        )
    if arguments.out:
        cuda = arguments.device != "cpu"
        result = {
            "title": "cagp beside GPyTorch on one GPU",
            "command": "python benchmarks/gpu/beside_gpytorch.py --out benchmarks/results/gpu-gpytorch.json",
            "machine": f"{torch.cuda.get_device_name() if cuda else 'CPU'}, torch {torch.__version__}"
            + time.strftime(", on %-d %B %Y"),
            "tables": tables,
        }
        arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

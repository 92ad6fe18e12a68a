"""Left-out predictions and recalibration on a GPU: the same numbers as on the CPU, and how long a million takes.

PYTHONPATH=src python benchmarks/gpu/left_out.py --out left_out.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cagp


def _field(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scattered points and a function of them that is rougher to the right, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    y = np.sin(20 * X[:, 0]) * np.cos(15 * X[:, 1]) * 10 ** X[:, 0] + 0.1 * rng.standard_normal(n)
    return X, y


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return result, time.perf_counter() - start


def agreement(n: int = 5000) -> dict[str, float]:
    """How far the left-out predictions and the recalibrated error bars of both devices are apart, relatively."""
    X, y = _field(n)
    prior = cagp.Prior(cagp.Matern32(0.1), mean=cagp.Constant(), noise_variance=0.01)
    test = torch.from_numpy(np.random.default_rng(1).random((500, 2)))
    found = {}
    for device in ("cpu", "cuda"):
        model = prior.condition(X, y, cagp.NearestNeighbours(50), device=device)
        left_out = model.left_out(progress=False)
        prediction = model.recalibrated(progress=False).predict(test.to(device))
        found[device] = left_out.mean, left_out.std, prediction.std.cpu().numpy()
    pairs = zip(("left-out mean", "left-out std", "recalibrated std"), found["cpu"], found["cuda"], strict=True)
    return {name: float(np.abs(a - b).max() / np.abs(a).max()) for name, a, b in pairs}


def times(n: int) -> dict[str, float]:
    """Seconds for all left-out predictions of n points with 50 neighbours, and for a recalibration."""
    X, y = _field(n)
    prior = cagp.Prior(cagp.Matern32(0.1), mean=cagp.Constant(), noise_variance=0.01)
    model = prior.condition(X, y, cagp.NearestNeighbours(50, far=0), device="cuda")
    _timed(lambda: model.left_out(n=1000, progress=False))
    _, left_out = _timed(lambda: model.left_out(n=n, progress=False))
    recalibrated, whole = _timed(lambda: model.recalibrated(progress=False))
    _, predicted = _timed(lambda: recalibrated.predict(X[:100_000], progress=False))
    return {"left out": left_out, "recalibrated": whole, "predict 100,000": predicted}


def picked() -> dict[str, str]:
    """What Auto picks on the GPU, and what it said."""
    said = {}
    for n, tests in ((2000, 500), (20_000, 2000), (200_000, 20_000)):
        X, y = _field(n)
        model = cagp.Prior(cagp.Matern32(0.1), noise_variance=0.01).condition(X, y, "auto", device="cuda")
        post, seconds = _timed(partial(model.predict, _field(tests, 9)[0], progress=False))
        said[f"d={n:,}, T={tests:,}"] = f"{post.status} [{seconds:.2f} s]"
    return said


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=Path("left_out.json"))
    arguments = parser.parse_args()
    results = {"device": torch.cuda.get_device_name(), "agreement": agreement(), "auto": picked()}
    results["seconds"] = {f"{arguments.points:,}": times(arguments.points)}
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))

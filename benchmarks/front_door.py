"""Does ``cagp.fit`` choose well? Held-out CRPS of what it gives beside that of each kernel by itself.

    CAGP_DATA=... python benchmarks/front_door.py [--sets concrete,bike] [--rows 50000] [--seed 0]

Every kernel by itself goes through the front door, too: fitted, its trend chosen, recalibrated where needed. Nothing is
chosen by looking at held-out values. Eight data sets: ERA5 temperature, scattered points and gaps of 5° held out;
the simulated field of Heaton et al. 2019 in its cloud gaps; Concrete, Bike, kin40k and protein, a tenth held out; and a
smooth field.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cagp
from cagp import datasets
from cagp.calibration import evaluate

KINDS = ("matern32", "matern12", "matern52", "rbf", "short and long")

Case = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]
"""X, y, X_test, y_test, and the options of ``cagp.fit``."""


def era5(rng: np.random.Generator, rows: int, gaps: bool) -> Case:
    data = datasets.era5()
    lat, lon = np.deg2rad(data.X).T
    sphere = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    if gaps:
        centres = sphere[rng.choice(len(data), 60, replace=False)]
        held = (sphere @ centres.T).max(axis=1) > np.cos(np.deg2rad(5.0))
        test = rng.choice(np.flatnonzero(held), 2000, replace=False)
    else:
        test = rng.choice(len(data), 2000, replace=False)
        held = np.isin(np.arange(len(data)), test)
    train = np.flatnonzero(~held)
    train = np.sort(rng.choice(train, min(rows, len(train)), replace=False))
    X_test = data.X[test]
    return data.X[train], data.y[train], X_test, data.y[test], {"globe": (0, 1), "like": X_test if gaps else None}


def heaton(rng: np.random.Generator, rows: int) -> Case:
    data = datasets.heaton()
    return data.X, data.y, data.X_gaps, data.y_gaps, {"like": data.X_gaps}


def table(data: datasets.Dataset, rng: np.random.Generator, rows: int) -> Case:
    X, y = data.X, data.y
    order = rng.permutation(len(y))
    test, train = np.split(order, [len(y) // 10])
    return X[train[:rows]], y[train[:rows]], X[test], y[test], {}


def smooth(rng: np.random.Generator) -> Case:
    X = rng.random((4000, 2))
    waves = rng.normal(size=(200, 2)) * 5.0
    f = np.sqrt(2 / 200) * np.cos(X @ waves.T + 2 * np.pi * rng.random(200)) @ rng.normal(size=200)
    y = f + 0.05 * rng.normal(size=len(X))
    return X[:3000], y[:3000], X[3000:], y[3000:], {}


CASES: dict[str, Callable[[np.random.Generator, int], Case]] = {
    "concrete": lambda rng, rows: table(datasets.concrete(), rng, rows),
    "smooth": lambda rng, rows: smooth(rng),
    "bike": lambda rng, rows: table(datasets.bike(), rng, rows),
    "kin40k": lambda rng, rows: table(datasets.kin40k(), rng, rows),
    "protein": lambda rng, rows: table(datasets.protein(), rng, rows),
    "era5 scattered": lambda rng, rows: era5(rng, rows, gaps=False),
    "era5 gaps": lambda rng, rows: era5(rng, rows, gaps=True),
    "heaton": heaton,
}


def scored(case: Case, **options: Any) -> tuple[Any, float, Any]:
    """The held-out scores, the seconds of the fit, and the model."""
    X, y, X_test, y_test, own = case
    started = time.perf_counter()
    model = cagp.fit(X, y, progress=False, **{**own, **options})
    seconds = time.perf_counter() - started
    return evaluate(model.predict(X_test, progress=False), y_test, "observed"), seconds, model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(CASES))
    parser.add_argument("--rows", type=int, default=50_000, help="at most so many training rows")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(f"{'data':15} {'what':15} {'CRPS':>8} {'RMSE':>8} {'50%':>6} {'95%':>6} {'fit [s]':>8}", flush=True)
    for name in asked.sets.split(","):
        case = CASES[name](np.random.default_rng(asked.seed), asked.rows)
        best = float("inf")
        for kind in (*KINDS, "cagp.fit"):
            alone = {} if kind == "cagp.fit" else {"kernel": kind, "mixture": False, "uncertainty": False}
            found, seconds, model = scored(case, **alone)
            half, most = 100 * found.coverage([0.5, 0.95])
            words = f"{found.crps:8.4f} {found.rmse:8.4f} {half:6.1f} {most:6.1f} {seconds:8.1f}"
            if kind == "cagp.fit":
                words += f"   {100 * (found.crps / best - 1):+.1f}% of the best alone"
            best = min(best, found.crps)
            print(f"{name:15} {kind:15} {words}", flush=True)
        print(model.story, flush=True)


if __name__ == "__main__":
    main()

"""How long does ``cagp.fit`` take with nothing said, and how well does it then predict? An older release beside it.

    CAGP_DATA=... python benchmarks/fit_time.py [--cases concrete,made300x6] [--released PATH/src]
        [--sklearn] [--seconds 5]

Every fit runs in a process of its own, which has fitted a few rows before, so that nothing is compiled while the clock
runs. Held-out data are never looked at by the fit. Made tables have columns that matter, columns that do not, and
columns of a few values; ``field`` is a random function of the plane with noise.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from front_door import CASES as FRONT_DOOR
from front_door import Case
from scipy.stats import norm
from ten_million import NOISE, field

from cagp import datasets


def made(rows: int, columns: int, seed: int = 0) -> Case:
    """A table whose target depends on six columns at most, smoothly, by jumps and together, with noise of 5%."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows + 1000, columns))
    X[:, columns // 2] = np.round(X[:, columns // 2])
    X[:, -1] += X[:, 0]
    a, b, c, d, e, f = (X[:, i % columns] for i in (0, 1, 2, columns // 2, columns // 3, 3))
    y = np.sin(1.5 * a) + 0.5 * a * b + np.tanh(2 * c) + 0.3 * np.abs(d) + 0.2 * e**2 * np.cos(f)
    y += 0.05 * y.std() * rng.normal(size=len(y))
    return X[:rows], y[:rows], X[rows:], y[rows:], {}


def plane(rows: int) -> Case:
    """So many observations of a random function in the unit square."""
    rng = np.random.default_rng(1)
    X = rng.random((rows + 2000, 2))
    y = field(X) + NOISE * rng.normal(size=len(X))
    return X[:rows], y[:rows], X[rows:], y[rows:], {}


def kaust(name: str) -> Case:
    """A Gaussian field of KAUST's competition of 2021: 90,000 places to fit to, 10,000 to predict."""
    with gzip.open(Path(os.environ["CAGP_DATA"]) / f"kaust2021_{name}.csv.gz", "rt") as lines:
        table = np.loadtxt(lines, delimiter=",", skiprows=1)
    train = table[:, 3] == 0
    return table[train, :2], table[train, 2], table[~train, :2], table[~train, 2], {}


def satellite() -> Case:
    """The satellite half of the competition of Heaton et al.: clouds to be predicted."""
    with gzip.open(Path(os.environ["CAGP_DATA"]) / "heaton_satellite.csv.gz", "rt") as lines:
        table = np.genfromtxt(lines, delimiter=",", skip_header=1)
    train = np.isfinite(table[:, 2])
    test = ~train & np.isfinite(table[:, 3])
    return table[train, :2], table[train, 2], table[test, :2], table[test, 3], {"like": table[test, :2]}


def million() -> Case:
    """The ERA5 field at all cells but those of a gap of 30° × 50°, some of which are to be predicted."""
    data = datasets.era5()
    gap = (np.abs(data.X[:, 0] - 50) < 15) & (np.abs(data.X[:, 1] - 60) < 25)
    test = np.random.default_rng(0).choice(np.flatnonzero(gap), 2000, replace=False)
    return data.X[~gap], data.y[~gap], data.X[test], data.y[test], {"like": data.X[test], "globe": (0, 1)}


def known(name: str) -> Callable[[], Case]:
    """A case of front_door.py, kin40k with 10,000 rows."""
    rows = 10_000 if name == "kin40k" else 50_000
    return lambda: FRONT_DOOR[name](np.random.default_rng(0), rows)


CASES: dict[str, Callable[[], Case]] = {
    "made300x6": lambda: made(300, 6),
    "made700x8": lambda: made(700, 8),
    "concrete": known("concrete"),
    "made1400x11": lambda: made(1400, 11),
    "made3700x26": lambda: made(3700, 26),
    "made13500x26": lambda: made(13_500, 26),
    **{name: known(name) for name in FRONT_DOOR if name != "concrete"},
    **{f"field1e{k}": lambda k=k: plane(10**k) for k in (4, 5, 6)},  # type: ignore[misc]
    **{f"kaust {name}": lambda name=name: kaust(name) for name in ("nu06", "nu15", "nu23", "nu23_nugget")},  # type: ignore[misc]
    "satellite": satellite,
    "globe1e6": million,
}
SMALL = ("made300x6", "made700x8", "concrete", "made1400x11")


def with_sklearn(X: np.ndarray, y: np.ndarray, X_test: np.ndarray) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Seconds to fit one kernel of scikit-learn and to predict, mean and standard deviation of new observations."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    centre, spread = X.mean(axis=0), X.std(axis=0)
    kernel = ConstantKernel() * Matern(np.ones(X.shape[1]), (1e-2, 1e3), nu=1.5) + WhiteKernel(0.1)
    began = time.perf_counter()
    fitted = GaussianProcessRegressor(kernel, normalize_y=True).fit((X - centre) / spread, y)
    between = time.perf_counter()
    mean, std = fitted.predict((X_test - centre) / spread, return_std=True)
    return between - began, time.perf_counter() - between, mean, std


def measure(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """One fit and one prediction, in this process."""
    import cagp

    X, y, X_test, y_test, own = CASES[name]()
    if options.pop("sklearn", False):
        fit, predict, mean, std = with_sklearn(X, y, X_test)

        def interval(level: float) -> tuple[np.ndarray, np.ndarray]:
            return mean + norm.ppf((1 - level) / 2) * std, mean + norm.ppf((1 + level) / 2) * std

        return {"fit": fit, "predict": predict, **scores(mean, interval, y_test), "story": ""}
    for rows in (60, 600, 2100):  # what is compiled is compiled now
        some = np.random.default_rng(0).choice(len(X), min(rows, len(X)), replace=False)
        near = {"like": own["like"][:50]} if own.get("like") is not None else {}
        cagp.fit(X[some], y[some], kernel="matern32", mixture=False, progress=False, **{**own, **near})
    began = time.perf_counter()
    model = cagp.fit(X, y, progress=False, **own, **options)
    fitted = time.perf_counter()
    prediction = model.predict(X_test, progress=False).observed()
    found = {"fit": fitted - began, "predict": time.perf_counter() - fitted}
    return {**found, **scores(prediction.mean, prediction.interval, y_test), "story": str(model.story)}


def scores(mean: np.ndarray, interval: Callable[[float], Any], y: np.ndarray) -> dict[str, float]:
    """CRPS, RMSE, and how many per cent 50% and 95% intervals hold; the CRPS is twice the average pinball loss."""
    levels = (np.arange(100) + 0.5) / 100
    loss, held = [], {}
    for level in (*levels, 0.5, 0.95):
        ends = interval(level)
        held[level] = 100 * float(np.mean((ends[0] <= y) & (y <= ends[1])))
        for p, q in zip(((1 - level) / 2, (1 + level) / 2), ends, strict=True):
            loss.append(np.mean(2 * ((y <= q) - p) * (q - y)))
    error = {"crps": float(np.mean(loss[:-4])), "rmse": float(np.sqrt(np.mean((mean - y) ** 2)))}
    return {**error, "half": held[0.5], "most": held[0.95]}


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--released", type=Path, help="the folder src of an older release")
    parser.add_argument("--sklearn", action="store_true", help="one kernel of scikit-learn beside it, up to 1,500 rows")
    parser.add_argument("--seconds", type=float, help="a budget for each fit; for this code alone")
    parser.add_argument("--story", action="store_true", help="print how each model came about")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    options: dict[str, Any] = {} if asked.seconds is None else {"seconds": asked.seconds}
    if asked.one:
        options |= {"sklearn": asked.sklearn}
        print(json.dumps(measure(asked.one, options)))
        return
    here = Path(__file__).resolve().parents[1] / "src"
    print(
        f"{'data':15} {'by':9} {'fit [s]':>8} {'predict':>8} {'CRPS':>9} {'RMSE':>9} {'50%':>6} {'95%':>6}", flush=True
    )
    for name in asked.cases.split(","):
        peer = here if asked.sklearn and name in SMALL else None
        for by, source in (("sklearn", peer), ("released", asked.released), ("now", here)):
            if source is None:
                continue
            budget = ["--seconds", str(asked.seconds)] if asked.seconds is not None and by == "now" else []
            budget += ["--sklearn"] if by == "sklearn" else []
            done = subprocess.run(
                [sys.executable, __file__, "--one", name, *budget],
                env={**os.environ, "PYTHONPATH": os.pathsep.join([str(source), os.environ.get("PYTHONPATH", "")])},
                stdout=subprocess.PIPE,
                text=True,
            )
            if done.returncode:
                print(f"{name:15} {by:9} failed", flush=True)
                continue
            found = json.loads(done.stdout.splitlines()[-1])
            numbers = f"{found['fit']:8.1f} {found['predict']:8.1f} {found['crps']:9.5f} {found['rmse']:9.5f}"
            print(f"{name:15} {by:9} {numbers} {found['half']:6.1f} {found['most']:6.1f}", flush=True)
            if asked.story:
                print(found["story"], flush=True)


if __name__ == "__main__":
    main()

"""Does a regressor as the trend pay? Held-out scores of ``cagp.fit`` with and without ``mean="trees"``.

    CAGP_DATA=... python benchmarks/regression_trend.py [--tables bike,jura] [--rows 3000] [--seed 0] [--seconds 60]

Each table is split once by ``seed``: at most so many rows to fit to, up to 4,000 others to score. Jura has its own
validation set, the satellite image its own gaps, which are given as ``like``. Lines are the CRPS and the RMSE of
held-out rows, how often 50%, 80% and 95% intervals hold, in per cent, the CRPS that left-out observations promised, and
processor seconds.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import cagp

_SCORED = 4_000

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]
"""X, y, X_test, y_test and like."""


def split(X: np.ndarray, y: np.ndarray, rows: int, rng: np.random.Generator) -> Split:
    order = rng.permutation(len(y))
    n = min(rows, len(y) * 4 // 5)
    some, others = order[:n], order[n : n + _SCORED]
    return X[some], y[some], X[others], y[others], None


def named(load: Callable[[], cagp.datasets.Dataset]) -> Callable[[int, np.random.Generator], Split]:
    def made(rows: int, rng: np.random.Generator) -> Split:
        data = load()
        return split(np.asarray(data.X), np.asarray(data.y), rows, rng)

    return made


def jura(rows: int, rng: np.random.Generator) -> Split:
    """Cadmium, from the place, land use and rock."""
    table = pd.read_csv(Path(os.environ["CAGP_DATA"]) / "jura.csv")
    kinds = pd.get_dummies(table[["Landuse", "Rock"]].astype(str))
    X, y = np.column_stack([table[["Xloc", "Yloc"]], kinds]).astype(float), table["Cd"].to_numpy()
    known = (table["set"] == "prediction").to_numpy()
    return X[known], y[known], X[~known], y[~known], None


def satellite(rows: int, rng: np.random.Generator) -> Split:
    table = pd.read_csv(Path(os.environ["CAGP_DATA"]) / "heaton_satellite.csv.gz")
    X, seen, truth = table[["Lon", "Lat"]].to_numpy(), table["MaskTemp"].to_numpy(), table["TrueTemp"].to_numpy()
    some = rng.permutation(np.flatnonzero(np.isfinite(seen)))[:rows]
    gaps = rng.permutation(np.flatnonzero(np.isnan(seen) & np.isfinite(truth)))[:_SCORED]
    return X[some], seen[some], X[gaps], truth[gaps], X[gaps]


TABLES: dict[str, Callable[[int, np.random.Generator], Split]] = {
    "concrete": named(cagp.datasets.concrete),
    "bike": named(cagp.datasets.bike),
    "protein": named(cagp.datasets.protein),
    "kin40k": named(cagp.datasets.kin40k),
    "jura": jura,
    "satellite": satellite,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--means", default="none,trees")
    for name, default in (("rows", 3_000), ("seed", 0), ("seconds", 60)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    for table in asked.tables.split(","):
        X, y, X_test, y_test, like = TABLES[table](asked.rows, np.random.default_rng(asked.seed))
        for mean in asked.means.split(","):
            began = time.process_time()
            given = None if mean == "none" else mean
            model = cagp.fit(X, y, mean=given, like=like, seconds=asked.seconds, progress=False)
            took = time.process_time() - began
            found = model.predict(X_test, progress=False).observed()
            score = cagp.calibration.evaluate(found, y_test, of="observed")
            ends = [found.interval(level) for level in (0.5, 0.8, 0.95)]
            held = " ".join(f"{100 * np.mean((low <= y_test) & (y_test <= high)):.0f}" for low, high in ends)
            error, promised = np.sqrt(np.mean((found.mean - y_test) ** 2)), min(c.crps for c in model.candidates)
            print(
                f"{table} ({len(y):,} × {X.shape[1]}), mean {mean}: CRPS {score.crps:.4g}, RMSE {error:.4g}, {held} %, "
                f"left out {promised:.4g}, {took:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()

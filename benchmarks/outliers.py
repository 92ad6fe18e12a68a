"""``python benchmarks/outliers.py``: what a few wrong observations do to the predictions of ``cagp.fit``.

Draws of a Matérn 3/2 field in the plane, with noise; then 2% of the observations are off, up or down, by ten standard
deviations of the noise, or by ten of the observations. The table has the CRPS of f and of new observations without an
error at 500 other points, as a multiple of that of the fit to clean data: the average of all seeds, and the worst one;
the same without a noise of their own for outliers; how many fits have given any observation such a noise, and what
share of those that are off. ``CAGP_DATA=... python benchmarks/outliers.py --data`` has real data instead, with and
without, on random splits.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import cagp

_OFF, _SIZE, _TEST = 0.02, 10.0, 500
WITHOUT = {"known_noise": 0.0}
"""Options of a fit that says all about the noise, as far as this step of the search is concerned."""


def field(n: int, noise: float, lengthscale: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (n + 500, 2), a field of variance one there, and noise of a standard deviation."""
    rng = np.random.default_rng(seed)
    X = rng.random((n + _TEST, 2))
    f = np.asarray(cagp.Prior(cagp.Matern32(lengthscale)).sample(X, 1, seed))[0]
    return X, f, noise * rng.standard_normal(len(X))


def crps(model: cagp.Model, X: np.ndarray, f: np.ndarray, y: np.ndarray) -> list[float]:
    """Of f and of y at X."""
    found = model.predict(X, progress=False)
    return [
        float(cagp.calibration.evaluate(found, f, "latent").crps),
        float(cagp.calibration.evaluate(found.observed(), y, "observed").crps),
    ]


def fields(n: int, noise: float, lengthscale: float, seeds: int) -> None:
    """One table."""
    kinds = "clean", f"{_SIZE:g} × noise", f"{_SIZE:g} × y"
    scores: dict[tuple[str, bool], list[list[float]]] = {}
    called: dict[str, list[tuple[int, float]]] = {kind: [] for kind in kinds}
    seconds: dict[str, float] = dict.fromkeys(kinds, 0.0)
    for seed in range(seeds):
        X, f, errors = field(n, noise, lengthscale, seed)
        y, rng = f[:n] + errors[:n], np.random.default_rng(1000 + seed)
        for kind, size in zip(kinds, (0.0, _SIZE * noise, _SIZE * y.std()), strict=True):
            spoilt, rows = y.copy(), rng.choice(n, max(1, round(_OFF * n)), replace=False)
            spoilt[rows] += size * rng.choice([-1, 1], len(rows))
            for robust in (True, False):
                began = time.process_time()
                options: dict[str, Any] = {} if robust else {"fit_options": WITHOUT}
                model = cagp.fit(X[:n], spoilt, progress=False, **options)
                seconds[kind] += (time.process_time() - began) * robust
                scores.setdefault((kind, robust), []).append(crps(model, X[n:], f[n:], f[n:] + errors[n:]))
                if robust:
                    found = model.prior.outliers
                    called[kind].append((len(found), float(np.isin(rows, found).mean())))
    clean = np.array(scores["clean", False])
    print(f"\n{n:,} observations, noise {noise:g}, lengthscale {lengthscale:g}, {seeds} seeds")
    print("| data | CRPS of f | worst | of y | worst | without: of f | of y | fits with outliers | found | seconds |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind in kinds:
        ours, without = (np.array(scores[kind, robust]) for robust in (True, False))
        average, worst = ours.mean(axis=0) / clean.mean(axis=0), (ours / clean).max(axis=0)
        plain, (any_, share) = without.mean(axis=0) / clean.mean(axis=0), np.array(called[kind]).T
        found = "" if kind == "clean" else f"{share.mean():.0%}"
        print(
            f"| {kind} | {average[0]:.3f} | {worst[0]:.3f} | {average[1]:.3f} | {worst[1]:.3f} | {plain[0]:.3f} | "
            f"{plain[1]:.3f} | {int((any_ > 0).sum())} | {found} | {seconds[kind] / seeds:.1f} |",
            flush=True,
        )


def table(name: str) -> list[dict[str, str]]:
    """The rows of a file in the folder of data."""
    path = Path(os.environ["CAGP_DATA"]) / name
    with gzip.open(path, "rt") if name.endswith("gz") else path.open() as file:
        return list(csv.DictReader(file))


def real(name: str, seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """X and y in a random order (cadmium of Jura first as published), and how many are for training."""
    if name == "jura":
        rows = sorted(table("jura.csv"), key=lambda row: row["set"] != "prediction")
        X, y, n = np.array([[row["Xloc"], row["Yloc"]] for row in rows], float), [row["Cd"] for row in rows], 259
    elif name == "meuse":
        rows = table("meuse.csv")
        X, y, n = np.array([[row["x"], row["y"]] for row in rows], float), [row["zinc"] for row in rows], 115
    elif name == "concrete":
        values = np.array([list(row.values()) for row in table("concrete.csv")], float)
        X, y, n = values[:, :-1], list(values[:, -1]), 700
    else:
        rows = table("kaust2021_nu15.csv.gz")
        X, y, n = np.array([[row["x"], row["y"]] for row in rows], float), [row["z"] for row in rows], 3000
    order = np.arange(len(y)) if name == "jura" and not seed else np.random.default_rng(seed).permutation(len(y))
    return X[order[: n + 2000]], np.array(y, float)[order[: n + 2000]], n


def real_data(seeds: int) -> None:
    """CRPS, RMSE and coverage with and without a noise of their own for outliers."""
    print("| data | seed | outliers | CRPS with | without | RMSE with | without | 95% hold with | without |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in ("concrete", "jura", "meuse", "kaust"):
        for seed in range(seeds):
            X, y, n = real(name, seed)
            cells = []
            for options in ({}, WITHOUT):
                model = cagp.fit(X[:n], y[:n], progress=False, fit_options=options, seconds=600)
                cells.append(
                    (model, cagp.calibration.evaluate(model.predict(X[n:], progress=False), y[n:], "observed"))
                )
            numbers = [[s.crps, s.rmse, 100 * s.coverage(0.95)] for _, s in cells]
            shown = " | ".join(f"{number:.4g}" for pair in zip(*numbers, strict=True) for number in pair)
            print(f"| {name} | {seed} | {len(cells[0][0].prior.outliers)} | {shown} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, nargs="*", default=[300, 3000])
    parser.add_argument("--noise", type=float, nargs="*", default=[0.1, 0.2, 0.3])
    parser.add_argument("--lengthscale", type=float, default=0.3)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--data", action="store_true")
    asked = parser.parse_args()
    if asked.data:
        real_data(asked.seeds)
    else:
        for n in asked.n:
            for noise in asked.noise:
                fields(n, noise, asked.lengthscale, asked.seeds)

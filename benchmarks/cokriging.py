"""How long does ``cagp.fit`` of three quantities take, together and each by itself, and what is gained?

    python benchmarks/cokriging.py [--places 100000] [--seconds 60]

Three made fields of the unit square, with correlations of 0.8, −0.5 and −0.1 and noise; the first is measured at a
fifth of the places. Processor seconds are of all threads; a few places are fitted before, so that nothing is compiled
while the clock runs. Errors are those of the fields at 1,000 further places.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import cagp

MIXTURE = np.array([[1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [-0.5, 0.5, 0.7]])
NOISE, NEW = 0.3, 1000


def fields(X: np.ndarray, waves: int = 2000) -> np.ndarray:
    """Three fields (n, 3) at X (n, 2), about Matérn 3/2 with a lengthscale of 0.05: sums of random waves."""
    found = np.empty((len(X), 3))
    for i in range(3):
        rng = np.random.default_rng(i)
        frequencies = rng.normal(size=(waves, 2)) / np.sqrt(rng.chisquare(3, size=(waves, 1)) / 3) / 0.05
        phases = 2 * np.pi * rng.random(waves)
        parts = (np.cos(X @ frequencies[j : j + 100].T + phases[j : j + 100]).sum(axis=1) for j in range(0, waves, 100))
        found[:, i] = np.sqrt(2 / waves) * sum(parts)
    return found @ MIXTURE.T


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.random((asked.places + NEW, 2))
    F = fields(X)
    Y = F + NOISE * rng.normal(size=F.shape)
    Y[rng.random(len(X)) < 0.8, 0] = np.nan
    near: dict[str, Any] = {"solver": cagp.NearestNeighbours(20), "likelihood": "nearest-neighbours"}
    cagp.fit(X[:300], Y[:300], together=True, progress=False, **near)
    for together in (False, True):
        wall, processor = time.perf_counter(), time.process_time()
        model = cagp.fit(X[:-NEW], Y[:-NEW], together=together, seconds=asked.seconds, progress=False)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        began = time.process_time()
        prediction = model.predict(X[-NEW:], progress=False)
        each = 1e3 * (time.process_time() - began) / NEW
        errors = np.sqrt(np.square(prediction.mean - F[-NEW:]).mean(axis=0)).round(4)
        how = "together" if getattr(model, "together", False) else "by itself"
        print(f"{how}: fit {processor:.1f} s of processor time, {wall:.1f} s; {each:.2f} ms a place; RMSE {errors}")


if __name__ == "__main__":
    main()

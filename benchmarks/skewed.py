"""Do means of counts, rain and prices hold, and does what is positive stay positive? Made data, 20 draws of each.

    python benchmarks/skewed.py [--tables counts,rain,prices,plume] [--seeds 20] [--first 0]

Every draw is fitted twice, with the defaults of ``cagp.fit`` and with ``transform=None``, and scored on held-out rows.
A table's lines are the median, the least and the most over the draws: whether the defaults took a transform; their RMSE
and CRPS as shares of those without one; how far the furthest mean lies outside of the range of y, as a share of the
width of the 99% interval without a transform there; the share of held-out rows whose mean, and whose lower end of a 95%
interval, is below zero, and that without a transform; and how often 50%, 80% and 95% intervals hold. Means of
``CAGPRegressor`` have to be the same, which the first draw checks.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

import cagp
from cagp.calibration import evaluate

Case = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""X, y, X_test, y_test."""


def field(X: np.ndarray, scale: float, rng: np.random.Generator) -> np.ndarray:
    """A draw of a Gaussian process, Matérn 3/2 of variance 1, at X (n, p), shape (n,)."""
    factor = np.linalg.cholesky(cagp.Matern32(scale)(X) + 1e-9 * np.eye(len(X)))
    return np.asarray(factor @ rng.normal(size=len(X)))


def halves(X: np.ndarray, y: np.ndarray, n: int) -> Case:
    return X[:n], y[:n], X[n:], y[n:]


def counts(rng: np.random.Generator) -> Case:
    """Overdispersed counts, 80% of them 0, in five columns."""
    X = rng.normal(size=(800, 5))
    rate = np.exp(X[:, :3] @ [1.1, 0.8, -0.5] - 2.1) * rng.gamma(0.7, 1 / 0.7, 800)
    return halves(X, rng.poisson(rate).astype(float), 400)


def rain(rng: np.random.Generator) -> Case:
    """A day of rain at places in a square: a field to the power of three where it is positive, else 0."""
    X = rng.random((800, 2))
    f = field(X, 0.25, rng) + 0.3 * rng.normal(size=800)
    return halves(X, 4.0 * np.maximum(f - 0.1, 0.0) ** 3, 400)


def prices(rng: np.random.Generator) -> Case:
    """Positive prices over four columns: exponentials, one in ten with errors three times as large as the others."""
    X = rng.random((800, 4))
    f = 2.0 * np.sin(4 * X[:, 0]) * X[:, 1] + 1.5 * X[:, 2]
    errors = np.where(rng.random(800) < 0.1, 1.2, 0.4) * rng.normal(size=800)
    return halves(X, 100.0 * np.exp(f + errors), 400)


def plume(rng: np.random.Generator) -> Case:
    """Doses at 200 stations of 400 by 500 km: a background near 100, and a narrow plume over two or three of them."""
    X = rng.random((1000, 2)) * [400.0, 500.0]
    doses = 100.0 + 15.0 * field(X / 150.0, 1.0, rng) + 4.0 * rng.normal(size=1000)
    while True:
        centre, angle = rng.random(2) * [300.0, 400.0] + 50.0, np.pi * rng.random()
        along = (X - centre) @ [np.cos(angle), np.sin(angle)]
        across = (X - centre) @ [-np.sin(angle), np.cos(angle)]
        added = 1400.0 * np.exp(-0.5 * (along / 25.0) ** 2 - 0.5 * (across / 10.0) ** 2)
        if (added[:200] > 100.0).sum() in (2, 3):
            return halves(X, doses + added, 200)


TABLES: dict[str, Callable[[np.random.Generator], Case]] = {
    "counts": counts,
    "rain": rain,
    "prices": prices,
    "plume": plume,
}


def measured(name: str, seed: int) -> dict[str, float]:
    """One draw of a table: the numbers of a line."""
    X, y, X_test, y_test = TABLES[name](np.random.default_rng(seed))
    model = cagp.fit(X, y, progress=False)
    plain = model if model.transform is None else cagp.fit(X, y, transform=None, progress=False)
    found, without = (each.predict(X_test, progress=False).observed() for each in (model, plain))
    scores, other = evaluate(found, y_test, "observed"), evaluate(without, y_test, "observed")
    low, high = without.interval(0.99)
    outside = np.maximum(found.mean - y.max(), y.min() - found.mean) / (high - low)
    held = dict(zip(("50%", "80%", "95%"), scores.coverage([0.5, 0.8, 0.95]), strict=True))
    if seed == 0:
        regressor = cagp.CAGPRegressor().fit(X, y)
        np.testing.assert_allclose(regressor.predict(X_test), found.mean, rtol=1e-6)
    return {
        "transformed": float(model.transform is not None),
        "RMSE": scores.rmse / other.rmse,
        "CRPS": scores.crps / other.crps,
        "outside": float(outside.max()),
        "mean < 0": float((found.mean < 0).mean()),
        "end < 0": float((found.interval(0.95)[0] < 0).mean()),
        "without < 0": float((without.interval(0.95)[0] < 0).mean()),
        **held,
    }


def main() -> None:
    """As the module says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    asked = parser.parse_args()
    for name in asked.tables.split(","):
        draws = [measured(name, seed) for seed in range(asked.first, asked.first + asked.seeds)]
        print(f"{name:8}" + "".join(f"{each:>13}" for each in draws[0]))
        for line, of in (("median", np.median), ("least", np.min), ("most", np.max)):
            values = "".join(f"{of([each[key] for each in draws]):13.3f}" for key in draws[0])
            print(f"{line:8}{values}", flush=True)


if __name__ == "__main__":
    main()

"""The kinds of problems: each makes one from a seed, does everything with it, and holds what comes out to the laws.

``python tests/hard/run.py KIND FIRST N`` runs the problems FIRST … FIRST + N − 1 of a kind and prints those that fail.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import cagp
from cagp import transforms
from cagp.stopping import ComputationalShare, Iterations, Seconds
from hard.laws import check_prediction, numbers
from hard.ugly import damage, kernel, laid_out, locations, mean, observations, pick, scale, spoilt
from solver_cases import CASES

SOLVERS = [case.solver for case in CASES]
METHODS = ("auto", "dense", "circulant", "vecchia")


class Problem:
    """Points X, observations y and test points of one seed, with their units."""

    def __init__(self, rng: np.random.Generator, largest: int = 40, calm: float = 0.0, p: int | None = None) -> None:
        """A share ``calm`` of them is in ordinary units: what is far out, many a door refuses at once."""
        self.rng = rng
        n = int(rng.integers(1, 6) if rng.random() < 0.4 else rng.integers(1, largest + 1))
        self.p = p or int(rng.integers(1, 4))
        self.x_unit, self.y_unit = (1.0, 1.0) if calm and rng.random() < calm else (scale(rng), scale(rng))
        self.X = locations(rng, n, self.p, self.x_unit)
        self.y = observations(rng, self.X, self.y_unit)
        T = int(rng.integers(1, 8))
        beyond = float(pick(rng, (1.0, 1.0, 10.0, 1e6)))
        around = self.X[rng.integers(n, size=T)] + beyond * self.x_unit * rng.normal(size=(T, self.p))
        self.X_test = np.concatenate([self.X[:2], around]) if rng.random() < 0.7 else around

    def prior(self) -> cagp.Prior:
        rng = self.rng
        variance = self.y_unit * self.y_unit if rng.random() < 0.7 else scale(rng)
        noise: Any = variance * float(10.0 ** rng.uniform(*pick(rng, ((-3, 0), (-3, 0), (-16, 4), (-300, 300)))))
        if rng.random() < 0.2:
            noise = noise * rng.random(len(self.y))
        if rng.random() < 0.02:
            noise = pick(rng, (0.0, -1.0, np.nan, np.inf, None, "small", [], np.zeros(3)))
        length = self.x_unit if rng.random() < 0.8 else scale(rng)
        return cagp.Prior(
            kernel(rng, self.p, length, variance), mean=mean(rng, self.y_unit, len(self.y)), noise_variance=noise
        )

    def settings(self) -> dict[str, Any]:
        rng, chosen = self.rng, {}
        if rng.random() < 0.2:
            chosen["storage"] = pick(rng, ("tiles", "dense"))
        if rng.random() < 0.2:
            chosen["memory_budget"] = float(10.0 ** rng.uniform(2, 9))
        if rng.random() < 0.2:
            chosen |= pick(rng, ({"dtype": "float32"}, {"solve_dtype": "float32"}))
        return chosen

    def maybe_spoilt(self, array: np.ndarray) -> Any:
        return spoilt(self.rng, array) if self.rng.random() < 0.03 else laid_out(self.rng, array)

    def model(self) -> cagp.Model:
        X, y = self.maybe_spoilt(self.X), self.maybe_spoilt(self.y)
        return self.prior().condition(X, y, pick(self.rng, SOLVERS), **self.settings())


def condition(seed: int, folder: Path) -> str:
    """``Prior.condition`` with every solver, and all that a prediction has."""
    problem = Problem(np.random.default_rng([1, seed]))
    rng = problem.rng
    model = problem.model()
    options: dict[str, Any] = {}
    if rng.random() < 0.2:
        options["stop"] = pick(rng, (ComputationalShare(0.05), Iterations(2), Seconds(1e-9)))
    if rng.random() < 0.2:
        options["batch_size"] = int(rng.integers(1, 4))
    prediction = model.predict(problem.maybe_spoilt(problem.X_test), **options)
    check_prediction(prediction)
    T = len(prediction)
    covariance = numbers(prediction.covariance(), "covariance", (T, T))
    variance = numbers(prediction.variance, "variance", (T,))
    assert np.allclose(np.diag(covariance), variance, rtol=1e-3, atol=1e-6 * variance.max(initial=0.0))
    computational = prediction.computational_variance
    lower, upper = numbers(computational.lower, "lower"), numbers(computational.upper, "upper")
    assert (lower >= 0).all()
    assert (lower <= upper * (1 + 1e-9)).all()
    if np.ndim(model.prior.noise_variance) == 0:
        check_prediction(prediction.observed())
        numbers(model.predict_mean(problem.X_test), "predict_mean", (len(problem.X_test),))
    assert str(prediction.status)
    assert repr(model)
    return "predicted"


def fields(seed: int, folder: Path) -> str:
    """Averages and simulations."""
    problem = Problem(np.random.default_rng([2, seed]), 25)
    rng = problem.rng
    model = problem.model()
    X_test = laid_out(rng, problem.X_test)
    T = len(problem.X_test)
    asked: dict[str, Any] = pick(
        rng,
        (
            lambda: {},
            lambda: {"weights": rng.normal(size=T)},
            lambda: {"weights": rng.random((2, T))},
            lambda: {"by": rng.integers(2, size=T)},
            lambda: {"by": np.array(["ä", "b b"])[rng.integers(2, size=T)], "weights": rng.random(T)},
            lambda: {"weights": scale(rng) * rng.random(T)},
            lambda: {"weights": np.zeros(T)},
            lambda: {"by": [None] * T},
            lambda: {"weights": spoilt(rng, rng.random(T))},
            lambda: {"by": spoilt(rng, rng.random(T))},
        ),
    )()
    if rng.random() < 0.5:
        average = model.average(X_test, **asked)
        check_prediction(average)
        numbers(average.covariance(), "covariance", (len(average), len(average)))
        return "averaged"
    method = pick(rng, METHODS)
    n, first = int(rng.integers(1, 4)), int(rng.integers(0, 3))
    observed = bool(rng.random() < 0.3 and np.ndim(model.prior.noise_variance) == 0)
    some = model.simulate(X_test, n, 5, method=method, first=first, observed=observed, progress=False)
    drawn = numbers(some.fields, "fields", (n, T))
    again = model.simulate(X_test, n + first, 5, method=method, observed=observed, progress=False)
    same = numbers(again.fields, "fields")[first:]
    far = np.abs(drawn).max()
    assert np.allclose(drawn, same, rtol=1e-3, atol=1e-3 * far), "a field depends on how many are drawn"
    return "simulated"


def transformed(seed: int, folder: Path) -> str:
    """Transforms with any parameters, around any model."""
    problem = Problem(np.random.default_rng([3, seed]), 25)
    rng = problem.rng
    wide = float(pick(rng, (1.0, 1.0, 5.0)))
    kind = pick(
        rng,
        (
            lambda: transforms.Log(),
            lambda: transforms.BoxCox(float(wide * rng.normal())),
            lambda: transforms.YeoJohnson(float(wide * rng.normal()), 0.0, problem.y_unit),
            lambda: transforms.SinhArcsinh(float(wide * rng.normal()), float(rng.exponential()), 0.0, problem.y_unit),
            lambda: transforms.Logit(),
            lambda: transforms.Logit(-problem.y_unit, problem.y_unit),
            lambda: pick(rng, ("log", "logit", "box-cox", "", None, 3)),
        ),
    )()
    y = np.abs(problem.y) if rng.random() < 0.6 else problem.y
    if isinstance(kind, transforms.Logit):
        y = kind.low + (kind.high - kind.low) / (1 + np.exp(-np.clip(problem.y / problem.y_unit, -30, 30)))
    variance = float(10.0 ** rng.uniform(-2, 1.0))
    prior = cagp.Prior(
        kernel(rng, problem.p, problem.x_unit, variance),
        mean=mean(rng, 0.0, len(y)),
        noise_variance=variance * rng.random(),
    ).transformed(kind)
    model = prior.condition(problem.maybe_spoilt(problem.X), problem.maybe_spoilt(y), pick(rng, SOLVERS))
    prediction = model.predict(problem.X_test)
    inside = model.replace(transform=None).predict(problem.X_test)
    check_transformed(prediction, model.transform, inside)
    check_transformed(prediction.observed(), model.transform, inside.observed())
    values = np.asarray(model.simulate(problem.X_test, 2, progress=False).fields)
    assert not np.isnan(values).any(), "a field is NaN"
    assert np.isfinite(values[:, in_range(inside)]).all(), "a field is infinite"
    assert (values >= model.transform.lower).all()
    assert (values <= model.transform.upper).all()
    return "predicted"


def in_range(inside: Any) -> np.ndarray:
    """Where exponentials of a prediction on the scale of the Gaussian process can be written in float64 (T,)."""
    return np.abs(np.asarray(inside.mean)) + 6 * np.asarray(inside.std) < 100


def check_transformed(prediction: Any, transform: transforms.Transform, inside: Any) -> None:
    """As any prediction, but that what is beyond float64 is infinite, and moments of a heavy tail; never NaN."""
    quantiles = np.asarray(prediction.quantile([0.01, 0.5, 0.99]))
    assert not np.isnan(quantiles).any(), "a quantile is NaN"
    assert np.isfinite(quantiles[in_range(inside)]).all() or wide(transform), "a quantile is infinite"
    assert (quantiles[:, 0] <= quantiles[:, 1]).all()
    assert (quantiles[:, 1] <= quantiles[:, 2]).all()
    assert (quantiles >= transform.lower).all()
    assert (quantiles <= transform.upper).all()
    mean, std = np.asarray(prediction.mean), np.asarray(prediction.std)
    assert not np.isnan(mean).any(), "mean is NaN"
    assert not np.isnan(std).any(), "std is NaN"
    assert (std >= 0).all()
    middle = np.asarray(prediction.median)
    if np.isfinite(middle).all():
        probability = numbers(prediction.cdf(middle), "cdf")
        assert ((probability >= 0) & (probability <= 1)).all()
        assert not np.isnan(np.asarray(prediction.log_density(middle))).any(), "a log density is NaN"


def wide(transform: transforms.Transform) -> bool:
    """Whether g is bounded on a side where y is not, so that an infinite y has a probability, or its tails are wild."""
    return not 0 <= getattr(transform, "power", 1.0) <= 2 or getattr(transform, "tail", 1.0) < 0.25


def saved(seed: int, folder: Path) -> str:
    """A model that is saved predicts the same when it is loaded; one that was damaged is refused, or is the same."""
    problem = Problem(np.random.default_rng([4, seed]), 20)
    rng = problem.rng
    model: Any = problem.model()
    if rng.random() < 0.3:
        model = model.replace(transform=transforms.SinhArcsinh(0.1, 1.0, 0.0, problem.y_unit))
    place = folder / "model"
    shutil.rmtree(place, ignore_errors=True)
    model.save(place)
    before = np.asarray(model.predict(problem.X_test).mean)
    loaded = cagp.load(place, memory_budget=model.recipe.budget)
    assert np.array_equal(np.asarray(loaded.predict(problem.X_test).mean), before, equal_nan=True), "not bit for bit"
    file = pick(rng, sorted(place.iterdir()))
    how = damage(rng, file)
    try:
        damaged = cagp.load(place, memory_budget=model.recipe.budget)
    except cagp.SavedModelError:
        return "refused as damaged"
    assert np.array_equal(np.asarray(damaged.predict(problem.X_test).mean), before, equal_nan=True), f"{how} unseen"
    return "loaded the same"


KINDS: dict[str, Callable[[int, Path], str]] = {
    "condition": condition,
    "fields": fields,
    "transformed": transformed,
    "saved": saved,
}

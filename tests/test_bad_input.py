"""Bad input gets a clear error that names the argument and the remedy, before any work is done."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch

import cagp
from problems import make_problem

P = make_problem(d=10, T=3)
GS = cagp.GaussSeidel(1)
LIMITED = pd.DataFrame({"a": P.y, "b": [">= 9", *map(str, P.y[1:])]})


def condition(X: object = P.X, y: object = P.y, solver: object = GS, **settings: object) -> cagp.Model:
    return P.prior.condition(X, y, solver, **settings)


def predict(X_test: object, **settings: object) -> cagp.Posterior:
    return condition().predict(X_test, **settings)


def spoiled(array: np.ndarray, value: float) -> np.ndarray:
    copy = array.copy()
    copy.flat[4] = value
    return copy


ROWS: list[tuple[str, Callable[[], object], str]] = [
    ("X one-dimensional", lambda: condition(X=P.X[:, 0]), r"X must have shape .* got \(10,\); reshape\(-1, 1\)"),
    ("X three-dimensional", lambda: condition(X=P.X[None]), r"X must have shape .* got \(1, 10, 2\)"),
    ("X empty", lambda: condition(X=np.empty((0, 2)), y=[]), r"X is empty, shape \(0, 2\)"),
    ("X without columns", lambda: condition(X=np.empty((10, 0))), r"X is empty, shape \(10, 0\)"),
    ("X with NaN", lambda: condition(X=spoiled(P.X, np.nan)), r"X has 1 values .* first at index \(2, 0\)"),
    ("X with inf", lambda: condition(X=spoiled(P.X, np.inf)), "X has 1 values that are NaN or infinite"),
    ("X complex", lambda: condition(X=P.X + 0j), "X is complex"),
    ("X complex torch", lambda: condition(X=torch.from_numpy(P.X + 0j)), "X is complex"),
    ("X objects", lambda: condition(X=np.array([[0.0, 1j]] * 10, object)), "X has type object, which is not numeric"),
    ("X huge objects", lambda: condition(X=np.full((10, 2), 2**60, object)), r"integers beyond 2\*\*53"),
    ("X text", lambda: condition(X=P.X.astype(str)), "X has type .* not numeric"),
    ("X ragged", lambda: condition(X=[[1, 2], [3]]), "X is not a rectangular array"),
    ("X dictionaries", lambda: condition(X=[{"a": 1.0}]), r"X has dictionaries; .*pandas\.DataFrame\(X\)"),
    ("X_test dictionary", lambda: predict({"a": 1.0}), r"pandas\.DataFrame\(\[X_test\]\)"),
    ("kernel prior", lambda: cagp.fit(P.X, P.y, kernel=P.prior), "of a prior take prior.kernel"),
    ("y ragged", lambda: cagp.fit([[0.0], [1.0]], [1.0, [2.0, 3.0]]), "y is not a rectangular array"),
    ("X wide floats", lambda: condition(X=P.X.astype(np.longdouble)), "wider than float64"),
    ("X huge integers", lambda: condition(X=np.full((10, 2), 2**60)), r"integers beyond 2\*\*53"),
    ("X huge unsigned", lambda: condition(X=np.full((10, 2), 2**63, np.uint64)), r"integers beyond 2\*\*53"),
    ("y row", lambda: condition(y=P.y[None]), r"y must have shape \(10,\), got \(1, 10\); .* np.ravel\(y\)"),
    ("y None", lambda: condition(y=[None, *P.y[1:]]), r"y has 1 values .* index \(0,\)"),
    (
        "y below a limit",
        lambda: cagp.fit(P.X, ["<3.5", *P.y[1:]]),
        "y holds '<3.5', a value below a limit.*write half of",
    ),
    ("X above a limit", lambda: cagp.fit(LIMITED, P.y), "'b' of X holds '>= 9' at index 0, .*write the limit"),
    ("y below, estimator", lambda: cagp.CAGPRegressor().fit(P.X, ["< 9", *P.y[1:]]), "y holds '< 9', a value below a"),
    ("y numbers as text", lambda: cagp.CAGPRegressor().fit(P.X, P.y.astype(str)), "y has texts, which are not numeric"),
    ("y None, estimator", lambda: cagp.CAGPRegressor(P.prior.kernel).fit(P.X, [None, *P.y[1:]]), "y has 1 values"),
    ("y dates", lambda: cagp.CAGPRegressor().fit(P.X, np.arange(10).astype("M8[D]")), "y has dates"),
    ("y short", lambda: condition(y=P.y[:5]), "y has 5 values for 10 training points"),
    ("y NaN", lambda: condition(y=spoiled(P.y, np.nan)), r"y has 1 values .* index \(4,\)"),
    ("y inf", lambda: condition(y=spoiled(P.y, -np.inf)), "y has 1 values"),
    ("y complex", lambda: condition(y=P.y + 1j), "y is complex"),
    ("y text", lambda: condition(y=["a"] * 10), "y has type"),
    ("X_test columns", lambda: predict(P.X_test[:, :1]), "X_test has 1 columns, the training points have 2"),
    ("X_test one-dimensional", lambda: predict(P.X_test[0]), r"X_test must have shape"),
    ("X_test empty", lambda: predict(np.empty((0, 2))), "X_test is empty"),
    ("X_test NaN", lambda: predict(spoiled(P.X_test, np.nan)), "X_test has 1 values"),
    ("X_test inf", lambda: predict(spoiled(P.X_test, np.inf)), "X_test has 1 values"),
    ("batch_size zero", lambda: predict(P.X_test, batch_size=0), "batch_size must be at least 1, got 0"),
    ("solver name", lambda: condition(solver="gauss"), "unknown solver 'gauss'; known are auto, "),
    ("solver class", lambda: condition(solver=cagp.GaussSeidel), r"pass an instance, GaussSeidel\(...\)"),
    ("solver other", lambda: condition(solver=3), "solver must be a solver such as"),
    ("storage", lambda: condition(storage="sparse"), "storage must be one of 'auto', 'dense', 'tiles', got 'sparse'"),
    (
        "budget negative",
        lambda: condition(memory_budget=-1),
        "memory_budget must be a positive number of bytes, got -1",
    ),
    ("budget text", lambda: condition(memory_budget="4G"), "memory_budget must be a positive number of bytes"),
    ("dtype", lambda: condition(dtype=torch.float16), 'dtype must be "float64" or "float32", got torch.float16'),
    ("iterations negative", lambda: cagp.GaussSeidel(-1), "iterations must be at least 0, got -1"),
    ("iterations float", lambda: cagp.ConjugateGradient(2.5), "iterations must be an integer, got 2.5"),
    ("iterations bool", lambda: cagp.RandomDirections(True), "iterations must be an integer, got True"),
    ("seed", lambda: cagp.RandomDirections(3, seed=-1), "seed must be at least 0"),
    (
        "order name",
        lambda: cagp.GaussSeidel(1, order="best"),
        "order must be one of 'random', 'natural', 'maximin' or a",
    ),
    (
        "order short",
        lambda: condition(solver=cagp.GaussSeidel(1, order=[0, 1])),
        "permutation of the 10 training points",
    ),
    ("order repeats", lambda: condition(solver=cagp.GaussSeidel(1, order=[0] * 10)), "each index 0…9 once"),
    ("subset nothing", lambda: cagp.Subset(), "either size or indices"),
    ("subset both", lambda: cagp.Subset(3, indices=[1]), "either size or indices"),
    ("subset large", lambda: condition(solver=cagp.Subset(11)), r"Subset\(size=11\) is larger than the 10"),
    ("subset beyond", lambda: condition(solver=cagp.Subset(indices=[10])), "index 10 is beyond the 10"),
    ("subset repeats", lambda: cagp.Subset(indices=[1, 1]), "distinct"),
    ("subset negative", lambda: cagp.Subset(indices=[-1]), "indices must be at least 0"),
    ("method", lambda: cagp.Stationary("newton"), "method must be one of 'richardson'"),
    ("relaxation", lambda: cagp.Stationary("sor", relaxation=0.0), "relaxation must be positive, got 0.0"),
    ("relaxation of a function", lambda: cagp.Stationary(len, relaxation=1.0), "relaxation has no meaning"),
    (
        "function shape",
        lambda: condition(solver=cagp.Stationary(lambda gram, R: R[:, :2])),
        r"must return a tensor of shape \(1, 10\)",
    ),
    ("lengthscale zero", lambda: cagp.Matern32(0.0), "lengthscale must be positive, got 0.0"),
    ("lengthscale negative", lambda: cagp.RBF((1.0, -2.0)), r"lengthscale\[1\] must be positive, got -2.0"),
    ("lengthscale NaN", lambda: cagp.RBF(np.nan), "lengthscale must be finite, got nan"),
    ("lengthscale text", lambda: cagp.RBF("long"), "lengthscale must be a real number|got 'long'"),
    ("lengthscale empty", lambda: cagp.RBF(()), "lengthscale is empty"),
    ("lengthscale count", lambda: cagp.RBF((1.0, 1.0, 1.0))(P.X), "3 values of lengthscale, the points have 2 columns"),
    ("period count", lambda: cagp.Periodic(period=(1.0,) * 3)(P.X), "3 values of period"),
    ("variance zero", lambda: cagp.Matern12(1.0, 0.0), "variance must be positive, got 0.0"),
    ("variance infinite", lambda: cagp.Matern12(1.0, np.inf), "variance must be finite"),
    ("alpha", lambda: cagp.RationalQuadratic(alpha=-1), "alpha must be positive, got -1"),
    ("factor", lambda: -2 * cagp.RBF(1.0), "the factor of a kernel must be positive, got -2"),
    ("noise zero", lambda: cagp.Prior(cagp.RBF(), noise_variance=0.0), "noise_variance must be positive.*1e-8 times"),
    ("noise negative", lambda: cagp.Prior(cagp.RBF(), noise_variance=-1), "noise_variance must be positive, got -1"),
    ("noise NaN", lambda: cagp.Prior(cagp.RBF(), noise_variance=np.nan), "noise_variance must be finite"),
    ("noise text", lambda: cagp.Prior(cagp.RBF(), noise_variance="low"), "noise_variance must be a real number"),
    ("noises", lambda: cagp.Prior(cagp.RBF(), noise_variance=[1.0, 0.0]), "positive everywhere, got 0 at index 1"),
    ("noises square", lambda: cagp.Prior(cagp.RBF(), noise_variance=np.eye(2)), r"got shape \(2, 2\)"),
    (
        "noises count",
        lambda: cagp.Prior(cagp.RBF(), noise_variance=[1.0, 2.0]).condition(P.X, P.y, GS),
        "noise_variance has 2 values for 10 observations",
    ),
    ("kernel", lambda: cagp.Prior(1.0), "kernel must be a kernel such as"),
    ("mean", lambda: cagp.Prior(cagp.RBF(), mean="flat"), "mean must be a real number, got 'flat'"),
    ("constant", lambda: cagp.Constant(np.nan), "value must be finite"),
    ("degree", lambda: cagp.Polynomial(-1), "degree must be at least 0"),
    ("geographic columns", lambda: cagp.Geographic(cagp.RBF())(np.ones((3, 3))), r"Geographic\(kernel\).on\(0, 1\)"),
    ("latitude", lambda: cagp.Geographic(cagp.RBF())([[120.0, 10.0]]), "latitude of magnitude 120"),
    ("longitude", lambda: cagp.Geographic(cagp.RBF())([[12.0, 1000.0]]), r"longitude of magnitude 1000 .*% 360"),
    ("geographic kernel", lambda: cagp.Geographic(0.1), "Geographic wraps a kernel"),
    ("weights", lambda: condition().posterior(P.X_test, np.ones((3, 10))), r"weights must have shape \(10, 3\)"),
    ("samples", lambda: predict(P.X_test).sample(0), "n must be at least 1"),
]


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_bad_input(call: Callable[[], object], message: str) -> None:
    with pytest.raises(cagp.InputError, match=message):
        call()


def test_errors_are_builtin_errors_too() -> None:
    assert issubclass(cagp.InputError, ValueError)
    assert issubclass(cagp.InputTypeError, TypeError)
    assert issubclass(cagp.MemoryBudgetError, MemoryError)
    assert issubclass(cagp.NotPositiveDefiniteError, np.linalg.LinAlgError)


def test_observations_in_other_containers_are_the_same() -> None:
    """As scikit-learn takes them: one column, and numbers that stand in an array of objects."""
    asked = {"kernel": "matern32", "mean": "constant", "uncertainty": False, "transform": None, "progress": False}
    X, y = np.linspace(0, 1, 30)[:, None], np.sin(np.linspace(0, 6, 30))
    expected = cagp.fit(X, y, **asked).predict(X).mean
    for same in (y[:, None], y.astype(object), y[:, None].astype(object), list(y)):
        np.testing.assert_array_equal(cagp.fit(X, same, **asked).predict(X).mean, expected)
    regressor = cagp.CAGPRegressor("matern32", mean="constant", uncertainty=False, target_transform=None)
    np.testing.assert_array_equal(
        regressor.fit(X, y[:, None].astype(object)).predict(X), regressor.fit(X, y).predict(X)
    )

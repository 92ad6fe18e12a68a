"""Random problems, ugly on purpose: no negative variance, no NaN, no exception but the documented ones.

CAGP_FUZZ sets how many examples are tried; the slow version tries 10,000.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as sk

import cagp
from cagp.estimator import CAGPRegressor
from cagp.hyperparameters import FitWarning
from random_examples import examples

EXAMPLES = int(os.environ.get("CAGP_FUZZ", "100"))
DOCUMENTED = (
    cagp.InputError,
    cagp.NotPositiveDefiniteError,
    cagp.DivergenceError,
    cagp.MemoryBudgetError,
)
CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
SOLVERS = [
    "auto",
    cagp.Cholesky(),
    cagp.GaussSeidel(3),
    cagp.GaussSeidel(2, block_size=4),
    cagp.CalibratedCG(3),
    cagp.CalibratedCG(3, cagp.Nystrom(2)),
    cagp.NearestNeighbours(5),
    cagp.RandomDirections(3),
    cagp.ConjugateGradient(3),
    cagp.Subset(1),
]
LAYOUTS = ["float64", "float32", "int", "fortran", "sliced", "reversed", "list", "pandas", "readonly"]
ARITHMETICS = [None, None, None, {"dtype": "float32"}, {"solve_dtype": "float32"}, {"storage": "tiles"}]
scales = st.floats(-8, 8).map(lambda e: 10.0**e)
lengthscales = st.floats(-6, 6).map(lambda e: 10.0**e)


def laid_out(array: np.ndarray, layout: str) -> Any:
    """The same numbers, or the nearest the type has, in another form."""
    if layout == "float32":
        return array.astype(np.float32)
    if layout == "int":
        return np.round(np.clip(array, -1e15, 1e15)).astype(np.int64)
    if layout == "fortran":
        return np.asfortranarray(array)
    if layout == "sliced":
        wide = np.zeros((2 * len(array), *array.shape[1:]))
        wide[::2] = array
        return wide[::2]
    if layout == "reversed":
        return np.ascontiguousarray(array[::-1])[::-1]
    if layout == "list":
        return array.tolist()
    if layout == "pandas":
        return pd.DataFrame(array) if array.ndim == 2 else pd.Series(array)
    if layout == "readonly":
        array = array.copy()
        array.setflags(write=False)
    return array


@st.composite
def problems(draw: st.DrawFn) -> dict[str, Any]:
    """Data, a regressor and test points."""
    n, p, outputs = draw(st.integers(1, 60)), draw(st.integers(1, 4)), draw(st.sampled_from([0, 0, 0, 1, 3]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x_scale, y_scale = draw(scales), draw(scales)
    X = x_scale * (rng.normal(size=(n, p)) + draw(st.sampled_from([0.0, 0.0, 100.0, 1e6])))
    duplicates = draw(st.sampled_from(["none", "some", "all", "column"]))
    if duplicates == "some" and n > 1:
        X[n // 2 :] = X[: n - n // 2]
    elif duplicates == "all":
        X[:] = X[0]
    elif duplicates == "column":
        X[:, -1] = X[0, -1]
    y = y_scale * rng.normal(size=(n, outputs) if outputs else n)
    if draw(st.booleans()):
        y = y_scale * (np.sin(X[:, 0] / x_scale) if not outputs else np.sin(X[:, :1] / x_scale) + np.zeros(outputs))
    if draw(st.integers(0, 9)) == 0:
        y = np.full_like(y, draw(st.sampled_from([0.0, y_scale])))
    length, ratio = draw(lengthscales) * x_scale, 10.0 ** draw(st.floats(-10, 2))
    variance = y_scale**2
    kernel = draw(
        st.sampled_from(
            [
                None,
                cagp.Matern32(length, variance),
                cagp.Matern12((length,) * p, variance),
                cagp.RBF(length, variance) + cagp.Matern52(length, variance),
                cagp.Periodic(1.0, variance, period=length),
                sk.ConstantKernel(1.0, (1e-5, 1e5)) * sk.RBF(1.0, (1e-5, 1e5)) + sk.WhiteKernel(0.1, (1e-10, 1e3)),
                sk.Matern(1.0, (1e-5, 1e5), nu=2.5) * sk.RationalQuadratic(1.0, 1.0),
                sk.DotProduct(1.0) + sk.WhiteKernel(1.0),
            ]
        )
    )
    noise = None
    if isinstance(kernel, cagp.Kernel):
        noise = draw(st.sampled_from([None, variance * ratio, np.full(n, variance * ratio)]))
    options = {
        "kernel": kernel,
        "noise_variance": noise,
        "solver": draw(st.sampled_from(SOLVERS)),
        "optimizer": draw(st.sampled_from([None, None, None, "fmin_l_bfgs_b"])),
        "normalize_y": draw(st.booleans()),
        "fit_options": {"max_iterations": 5},
        "mean": draw(st.sampled_from([None, None, cagp.Constant(), cagp.Polynomial(1), 3.0])),
        "condition_options": draw(st.sampled_from(ARITHMETICS)),
    }
    X_new = np.concatenate([X[:2], x_scale * rng.normal(size=(3, p)), np.full((1, p), 1e3 * x_scale)])
    return {
        "options": options,
        "X": laid_out(X, draw(st.sampled_from(LAYOUTS))),
        "y": laid_out(y, draw(st.sampled_from(LAYOUTS))),
        "X_new": laid_out(X_new, draw(st.sampled_from(["float64", "list", "fortran"]))),
    }


def holds(problem: dict[str, Any]) -> None:
    """Fit and predict in every way; whatever comes out is finite, and no variance is negative."""
    regressor = CAGPRegressor(**problem["options"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        if isinstance(problem["X"], pd.DataFrame):
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
        try:
            regressor.fit(problem["X"], problem["y"])
            X_new = problem["X_new"]
            alone = regressor.predict(X_new)
            mean, std = regressor.predict(X_new, return_std=True)
            _, covariance = regressor.predict(X_new, return_cov=True)
            draws = regressor.sample_y(X_new, 2)
            likelihood = regressor.log_marginal_likelihood_value_
        except DOCUMENTED:
            return
    outputs = np.shape(problem["y"])[1] if np.ndim(problem["y"]) == 2 else 1
    shape = (len(X_new), outputs) if outputs > 1 else (len(X_new),)
    assert alone.shape == mean.shape == std.shape == shape
    assert np.isfinite(alone).all()
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()
    assert np.isfinite(covariance).all()
    diagonal = np.einsum("ii...->i...", covariance)
    assert (diagonal >= 0).all()
    assert np.allclose(np.sqrt(diagonal), std, rtol=1e-6, atol=0)
    assert np.isfinite(draws).all()
    assert np.isfinite(likelihood)


@settings(examples(EXAMPLES), suppress_health_check=CHECKS)
@given(problems())
@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_any_small_problem(problem: dict[str, Any]) -> None:
    holds(problem)


@pytest.mark.slow
@settings(max_examples=max(EXAMPLES, 10_000), suppress_health_check=CHECKS)
@given(problems())
@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_ten_thousand_small_problems(problem: dict[str, Any]) -> None:
    holds(problem)

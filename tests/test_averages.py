"""Averages against dense algebra: labels, sparse weights, noise, layers, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.testing import assert_allclose
from scipy.special import ndtr

import cagp
from cagp.averages import Average
from cagp.gram.weighted import form, form_diagonal, weighted
from fields_problem import functional_covariance, rows_of_weights
from problems import make_problem

PROBLEM = make_problem(d=60, T=20)
A = rows_of_weights(20, m=4)
MODEL = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky())
POINTS = MODEL.predict(PROBLEM.X_test)


def test_dense_sparse_and_one_row_are_the_same() -> None:
    dense = MODEL.average(PROBLEM.X_test, A)
    assert_allclose(dense.mean, A @ POINTS.mean, rtol=1e-10)
    assert_allclose(dense.covariance(), A @ POINTS.covariance() @ A.T, rtol=1e-8, atol=1e-12)
    for other in (sp.csc_matrix(A), sp.coo_array(A)):
        assert_allclose(MODEL.average(PROBLEM.X_test, other).covariance(), dense.covariance(), rtol=1e-12)
    assert_allclose(MODEL.average(PROBLEM.X_test, A[2]).variance, dense.variance[2:3], rtol=1e-10)
    assert_allclose(MODEL.average(PROBLEM.X_test).mean, POINTS.mean.mean()[None], rtol=1e-10)
    assert "4 averages of 20 points" in str(dense.status)
    low, high = dense.interval(0.9)
    assert_allclose((low + high) / 2, dense.mean, rtol=1e-10)
    assert dense.sample(3, seed=1).shape == (3, 4)


def test_labels_with_and_without_weights() -> None:
    rng = np.random.default_rng(0)
    labels, counts = np.array(["b", "a", "c"])[rng.integers(0, 3, 20)], rng.random(20)
    for weights in (None, counts):
        found = MODEL.average(PROBLEM.X_test, weights, by=labels)
        each = np.ones(20) if weights is None else weights
        rows = np.stack([np.where(labels == name, each, 0) / each[labels == name].sum() for name in "abc"])
        assert found.groups is not None
        assert found.groups.tolist() == ["a", "b", "c"]
        assert_allclose(found.mean, rows @ POINTS.mean, rtol=1e-9)
        assert_allclose(found.covariance(), rows @ POINTS.covariance() @ rows.T, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("trend", [None, cagp.Polynomial(1)], ids=["no trend", "linear trend"])
@pytest.mark.parametrize("far", [0, 6])
def test_neighbours_add_up_and_are_corrected(trend: cagp.Mean | None, far: int) -> None:
    """More data than the correction has: the variance is that of the weights, and no worse than of their plain sum."""
    problem = make_problem(d=1200, T=60, seed=4)
    prior = problem.prior if trend is None else cagp.Prior(problem.prior.kernel, mean=trend, noise_variance=0.05)
    model = prior.condition(problem.X, problem.y, cagp.NearestNeighbours(30, far=far), storage="tiles")
    labels = (problem.X_test[:, 0] > 0.5).astype(int)
    found = model.average(problem.X_test, by=labels)
    rows = np.stack([(labels == g) / (labels == g).sum() for g in (0, 1)])
    C = functional_covariance(problem, rows, found.weights)
    assert_allclose(found.covariance(), C, rtol=1e-7)
    assert_allclose(found.variance, np.diag(C), rtol=1e-7)
    summed = model.predict(problem.X_test).weights @ rows.T
    assert (found.variance <= np.diag(functional_covariance(problem, rows, summed)) * (1 + 1e-9)).all()
    exact = np.diag(functional_covariance(problem, rows, problem.exact_weights @ rows.T))
    assert (found.variance < (1.05 if trend is None else 1.3) * exact).all()
    if trend is not None:
        assert_allclose(found.weights.sum(axis=0), 1, rtol=1e-9)
        assert_allclose(problem.X.T @ found.weights, problem.X_test.T @ rows.T, rtol=1e-8)


def test_averages_of_observations() -> None:
    found = MODEL.average(PROBLEM.X_test, A).observed()
    assert_allclose(found.covariance(), A @ (POINTS.covariance() + 0.05 * np.eye(20)) @ A.T, rtol=1e-8)
    assert_allclose(found.variance, np.diag(found.covariance()), rtol=1e-12)
    each = np.linspace(0.1, 1, 20)
    some = MODEL.average(PROBLEM.X_test, A).observed(each)
    assert_allclose(some.covariance(), A @ (POINTS.covariance() + np.diag(each)) @ A.T, rtol=1e-8)
    with pytest.raises(cagp.InputError, match="one number, or one per point"):
        MODEL.average(PROBLEM.X_test, A).observed(each[:4])


@pytest.mark.parametrize("compiled", [False, True])
def test_sums_in_tiles(monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    """More points than a tile and a strip have, with sparse and dense weights, against plain products."""
    monkeypatch.setattr("cagp.gram.weighted._TILE", {"cpu": (50, 70)})
    monkeypatch.setattr("cagp.gram.weighted._STRIP", 300)
    if compiled:
        pytest.importorskip("numba")
        monkeypatch.setattr("cagp.kernels.plan.COMPILED_FROM", 0)
    gram, rng = make_problem(d=3).gram("tiles"), np.random.default_rng(1)
    P, Q = (torch.from_numpy(rng.random((2, n))) for n in (700, 150))
    problem = make_problem()
    K = problem.kernel(P.numpy().T * 0.3, P.numpy().T * 0.3)
    for density in (0.02, 1.0):
        B = sp.random_array((3, 700), density=density, format="csr", rng=rng)
        dense = B.toarray()
        assert_allclose(form(gram, B, P).numpy(), dense @ K @ dense.T, rtol=1e-9)
        assert_allclose(form_diagonal(gram, B, P).numpy(), np.diag(dense @ K @ dense.T), rtol=1e-9)
        V = problem.kernel(P.numpy().T * 0.3, Q.numpy().T * 0.3)
        assert_allclose(weighted(gram, B, P, Q).numpy(), dense @ V, rtol=1e-9)


def test_stopping_rules_and_batches() -> None:
    model = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.GaussSeidel(200))
    found = model.average(PROBLEM.X_test, A, stop=cagp.stopping.ComputationalShare(0.1), batch_size=3)
    exact = np.diag(A @ PROBLEM.exact_covariance @ A.T)
    assert ((exact <= found.variance) & (found.variance <= exact / 0.9)).all()
    assert (found.iterations < 200).all()
    assert (model.average(PROBLEM.X_test, A).variance < found.variance).all()


# --- parts ------------------------------------------------------------------------------------------------------------


def _protocol(found: Average, m: int) -> None:
    """What every average offers, in agreement with itself."""
    assert len(found) == m
    assert_allclose(found.cdf(found.quantile(0.3)), 0.3, atol=1e-8)
    assert_allclose(np.diag(found.covariance()), found.variance, rtol=1e-8)
    assert_allclose(found.std**2, found.variance, rtol=1e-10)
    values = found.mean + found.std * 0.4
    step = 1e-4 * found.std
    slope = (found.cdf(values + step) - found.cdf(values - step)) / (2 * step)
    assert_allclose(np.exp(found.log_density(values)), slope, rtol=1e-5)
    bounds = found.computational_variance
    assert (bounds.lower <= bounds.upper).all()
    assert found.sample(2, seed=0).shape == (2, m)
    assert (found.observed().std > found.std).all()


def _mixture() -> cagp.Model:
    second = cagp.Prior(cagp.Matern12(0.5), noise_variance=0.02)
    other = second.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky())
    return cagp.Model([MODEL.components[0], other.components[0]], [0.7, 0.3])


def test_a_mixture_is_that_of_the_averages() -> None:
    model = _mixture()
    found = model.average(PROBLEM.X_test, A)
    parts = [cagp.Model([each]).average(PROBLEM.X_test, A) for each in model.components]
    points = [cagp.Model([each]).predict(PROBLEM.X_test) for each in model.components]
    mean = sum(w * A @ p.mean for w, p in zip((0.7, 0.3), points, strict=True))
    C = sum(
        w * (A @ p.covariance() @ A.T + np.outer(A @ p.mean - mean, A @ p.mean - mean))
        for w, p in zip((0.7, 0.3), points, strict=True)
    )
    assert_allclose(found.mean, mean, rtol=1e-9)
    assert_allclose(found.covariance(), C, rtol=1e-8)
    values = mean + 0.1
    cdf = sum(w * ndtr((values - p.mean) / p.std) for w, p in zip((0.7, 0.3), parts, strict=True))
    assert_allclose(found.cdf(values), cdf, rtol=1e-9)
    _protocol(found, 4)


@pytest.mark.parametrize("inner", [MODEL, _mixture()], ids=["plain", "mixture"])
def test_a_recalibration_scales_the_field_and_keeps_correlations(inner: Any) -> None:
    model = inner.recalibrated()
    found, before = model.average(PROBLEM.X_test, A), inner.average(PROBLEM.X_test, A)
    factor = model.predict(PROBLEM.X_test).factor
    identity = inner.average(PROBLEM.X_test, np.eye(20)).covariance()
    assert_allclose(found.mean, before.mean, rtol=1e-10)
    assert_allclose(found.covariance(), A @ (factor[:, None] * identity * factor) @ A.T, rtol=1e-7, atol=1e-12)
    assert_allclose(found.factor, found.std / before.std, rtol=1e-9)
    assert found.guarantee.kind == "empirical"
    assert "correlat" in str(found.guarantee) or "together" in str(found.guarantee)
    _protocol(found, 4)
    fitted = inner.recalibrated(calibration=(PROBLEM.X_test, POINTS.mean + 0.1))
    assert_allclose(fitted.average(PROBLEM.X_test, A).std, found.std, rtol=1e-12)


def test_a_transform_has_no_linear_averages() -> None:
    prior = PROBLEM.prior.transformed(cagp.transforms.Log())
    model = prior.condition(PROBLEM.X, np.exp(PROBLEM.y), cagp.Cholesky())
    with pytest.raises(cagp.InputError, match="simulated fields"):
        model.average(PROBLEM.X_test)
    inside = model.replace(transform=None)
    assert_allclose(inside.average(PROBLEM.X_test, A).mean, A @ POINTS.mean, rtol=1e-9)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "by", "words"),
    [
        (np.ones(19), None, r"weights has shape \(19,\) for 20 points"),
        (np.ones((2, 3, 20)), None, "weights has shape"),
        (np.zeros(20), None, "row 0 has no weight but zero"),
        (np.full(20, np.nan), None, "NaN"),
        (sp.csr_array(np.full((1, 20), np.inf)), None, "NaN or infinite"),
        (np.ones((2, 20)), np.zeros(20), "one for each point"),
        (sp.eye_array(20), np.zeros(20), "one number for each point"),
        (-np.ones(20), np.zeros(20), "must not be negative beside by"),
        (np.zeros(20), np.zeros(20), "all zero"),
        (None, np.zeros(4), r"by has shape \(4,\) for 20 points"),
        (None, np.full(20, np.nan), "labels that are missing"),
        (None, np.array([None] * 20), "labels of one kind"),
    ],
)
def test_refused(weights: Any, by: Any, words: str) -> None:
    with pytest.raises(cagp.InputError, match=words):
        MODEL.average(PROBLEM.X_test, weights, by)

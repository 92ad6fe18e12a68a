"""Averages against dense algebra: labels, sparse weights, noise, layers, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.testing import assert_allclose
from scipy.special import ndtr
from scipy.stats import norm

import cagp
from cagp.averages import Average, SimulatedAverage
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
    monkeypatch.setattr("cagp.gram.weighted.STRIP", 300)
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


# --- on the scale of transformed observations -------------------------------------------------------------------------


def _lognormal(mean: np.ndarray, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of exp(f), for f normal with those."""
    expected = np.exp(mean + np.diag(C) / 2)
    return expected, expected[:, None] * expected * np.expm1(C)


LOG = PROBLEM.prior.transformed("log").condition(PROBLEM.X, np.exp(PROBLEM.y), cagp.Cholesky())


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_averages_of_a_transform_are_those_of_the_dense_lognormal_law(noise: float) -> None:
    found = LOG.average(PROBLEM.X_test, A, fields=4000)
    found = found.observed() if noise else found
    expected, C = _lognormal(POINTS.mean, POINTS.covariance() + noise * np.eye(20))
    assert found.includes_noise == bool(noise)
    assert_allclose(found.mean, A @ expected, rtol=1e-9, atol=1e-12)
    std = np.sqrt(np.diag(A @ C @ A.T))
    assert isinstance(found, SimulatedAverage)
    assert (np.abs(found.std - std) < 4 * found.simulation_error).all()
    assert (found.simulation_error < 0.04 * std).all()
    assert_allclose(np.diag(found.covariance()), found.variance, rtol=1e-10)
    assert_allclose(found.covariance() / np.outer(std, std), A @ C @ A.T / np.outer(std, std), atol=0.15)
    # probabilities and quantiles beside draws of the dense posterior, which are made otherwise
    rng = np.random.default_rng(7)
    drawn = rng.multivariate_normal(POINTS.mean, POINTS.covariance() + noise * np.eye(20), 20_000, method="eigh")
    averages = np.exp(drawn) @ A.T
    for p in (0.05, 0.5, 0.9):
        thresholds = np.quantile(averages, 1 - p, axis=0)
        assert_allclose(found.exceedance(thresholds), p, atol=4 * (p * (1 - p) * (1 / 4000 + 1 / 20_000)) ** 0.5)
    assert_allclose(found.cdf(found.quantile(0.3)), 0.3, atol=1 / 4000)
    assert_allclose(found.exceedance(2.0), 1 - found.cdf(2.0), atol=1e-12)
    assert found.sample(3, seed=5).shape == (3, 4)
    assert_allclose(found.sample(50, seed=0), found.sample(60, seed=0)[:50], rtol=1e-9)


def test_a_simulated_average_says_how_exact_it_is() -> None:
    labels = np.arange(20) % 3
    found = LOG.average(PROBLEM.X_test, by=labels, fields=400)
    said = str(found.status)
    assert "3 averages of 20 points in 400 simulated fields" in said
    assert f"{(found.simulation_error / found.std).max():.1%} of the std" in said  # type: ignore[attr-defined]
    assert "2.5% at most for a probability" in said
    assert found.groups is not None
    assert found.groups.tolist() == [0, 1, 2]
    assert not found.is_normal
    again: Any = [LOG.average(PROBLEM.X_test, by=labels, fields=200, seed=seed) for seed in range(1, 41)]
    errors = np.mean([each.simulation_error for each in again], axis=0)
    assert_allclose(np.std([each.std for each in again], axis=0), errors, rtol=0.4)
    in_torch = LOG.average(torch.from_numpy(PROBLEM.X_test), by=labels, fields=400)
    assert isinstance(in_torch.std, torch.Tensor)
    assert_allclose(in_torch.exceedance(2.0), found.exceedance(2.0))
    for each in (found, found.observed()):  # shares of 400 fields, to the last digit
        shares = np.array([[each.exceedance(t), each.cdf(t)] for t in np.quantile(each.mean, [0.0, 0.3, 0.5, 1.0])])
        assert {*shares.ravel().tolist()} <= {k / 400 for k in range(401)}
        assert 0 < shares[:, 0].min(axis=0).max() < 1


@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_simulated_averages_of_one_point_are_its_prediction() -> None:
    """With a mixture, margins and the reach of a transform: moments and probabilities are those of the point."""
    mixture = cagp.Model(_mixture().components, [0.7, 0.3], transform=cagp.transforms.Log())
    near, far = PROBLEM.X_test, 50 + 9 * PROBLEM.X_test  # where the prior reaches beyond all observations
    for model, X in ((mixture, near), (mixture.recalibrated(), near), (mixture.recalibrated(), far)):
        points, found = model.predict(X), model.average(X, np.eye(20), fields=4000)
        assert_allclose(found.mean, points.mean, rtol=1e-9)
        assert (np.abs(found.std - points.std) < 4.5 * found.simulation_error).all()  # type: ignore[attr-defined]
        if X is far:  # 20 points that are nearly independent; without the reach it would be 1.13
            assert np.mean(found.std / points.std) == pytest.approx(1, abs=0.03)
        values = points.quantile(0.8)
        assert_allclose(found.cdf(values), 0.8, atol=4.5 * (0.16 / 4000) ** 0.5)
    assert model.reach is not None
    fitted = model.replace(margins=None).recalibrated(calibration=(PROBLEM.X_test, np.exp(POINTS.mean + 0.1)))
    assert_allclose(fitted.average(PROBLEM.X_test, A).std, model.average(PROBLEM.X_test, A).std, rtol=1e-9)


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda found: found.quantile(0.99999), r"share of 1e-05 .* fields=20\d{4}"),
        (lambda found: found.interval(0.9999), "simulate more"),
        (lambda found: found.log_density(1.0), "log_density is not known of averages of simulated fields"),
        (lambda found: found.factor, "factor is not known"),
        (lambda found: found.weights, "weights is not known"),
        (lambda found: found.exceedance([1.0, 2.0]), r"threshold has shape \(2,\)"),
        (lambda _: LOG.average(PROBLEM.X_test, fields=1), "fields must be"),
        (lambda _: LOG.average(PROBLEM.X_test, seed=-1), "seed must be"),
        (lambda _: LOG.average(PROBLEM.X_test, stop=cagp.stopping.Seconds(1)), "stop has no meaning"),
    ],
)
def test_refused_of_simulated_averages(ask: Any, words: str) -> None:
    with pytest.raises(cagp.InputError, match=words):
        ask(LOG.average(PROBLEM.X_test, fields=100))


# --- the probability of more than a threshold -------------------------------------------------------------------------


def test_exceedance_of_averages() -> None:
    found, thresholds = MODEL.average(PROBLEM.X_test, A), np.array([-0.2, 0.1, 1.0, 3.0])
    std = np.sqrt(np.diag(A @ POINTS.covariance() @ A.T))
    assert_allclose(found.exceedance(thresholds), norm.sf(thresholds, A @ POINTS.mean, std), rtol=1e-7)
    assert_allclose(found.observed().exceedance(0.3), norm.sf(0.3, found.mean, found.observed().std), rtol=1e-9)
    mixed = _mixture().average(PROBLEM.X_test, A)
    assert_allclose(mixed.exceedance(thresholds), 1 - mixed.cdf(thresholds), rtol=1e-9)


@pytest.mark.parametrize("model", [MODEL, LOG], ids=["plain", "log"])
def test_a_recalibration_does_not_say_how_probable_averages_are(model: cagp.Model) -> None:
    """It knows the errors of points alone."""
    known = model.average(PROBLEM.X_test, A).exceedance(0.5)
    mended = model.recalibrated(n=40)
    with pytest.raises(cagp.InputError, match=r"not how they go together.*margins=None"):
        mended.average(PROBLEM.X_test, A).observed().exceedance(0.5)
    assert_allclose(mended.replace(margins=None).average(PROBLEM.X_test, A).exceedance(0.5), known, rtol=1e-9)
    points = mended.predict(PROBLEM.X_test)
    assert_allclose(points.exceedance(0.5), 1 - points.cdf(0.5), atol=1e-12)  # those of points it does know


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


def test_the_covariance_of_many_averages_is_refused_where_it_does_not_fit() -> None:
    X = np.random.default_rng(7).random((600, 2))
    prior = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.1)
    model = prior.condition(X, X[:, 0], cagp.NearestNeighbours(20), storage="tiles", memory_budget=5 * 8 * 500**2)
    averages = model.average(X, by=np.arange(600) % 500, progress=False)
    with pytest.raises(cagp.MemoryBudgetError, match="the covariance of 500 averages needs"):
        averages.covariance()
    few = model.average(X, by=np.arange(600) % 5, progress=False)
    assert few.covariance().shape == (5, 5)

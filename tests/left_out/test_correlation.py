"""The correlation of left-out errors against dense kriging, and left-out predictions as a prediction."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.stats import norm

import cagp
from cagp.left_out import Correlation, StandIns, leave_out, left_out

NOISE = 0.05


def model(solver: cagp.Solver, mean: cagp.Mean | None = None, n: int = 60) -> cagp.Model:
    rng = np.random.default_rng(0)
    X, y = rng.random((n, 2)), rng.normal(size=n)
    own = {} if mean is None else {"mean": mean}
    return cagp.Prior(cagp.Matern32(0.5), noise_variance=NOISE, **own).condition(X, y, solver)


def dense(of: cagp.Model, kept: np.ndarray, trend: bool) -> tuple[float, float]:
    """The average correlation, and squared, of the errors of all points, each predicted from those ``kept`` (n, n)."""
    X = of.X.numpy()
    r = np.sqrt(3) * cdist(X, X) / 0.5
    G = (1 + r) * np.exp(-r) + NOISE * np.eye(len(X))
    a = np.eye(len(X))
    for i, rows in enumerate(kept):
        k = np.flatnonzero(rows)
        size = len(k) + trend
        system, right = np.zeros((size, size)), np.ones(size)
        system[: len(k), : len(k)], right[: len(k)] = G[np.ix_(k, k)], G[k, i]
        if trend:
            system[-1, : len(k)] = system[: len(k), -1] = 1
        a[i, k] = -np.linalg.solve(system, right)[: len(k)]
    C = a @ G @ a.T
    R = (C / np.sqrt(np.outer(C.diagonal(), C.diagonal())))[np.triu_indices(len(X), 1)]
    return float(R.mean()), float(np.square(R).mean())


@pytest.mark.parametrize("mean", [None, cagp.Constant()], ids=["known", "unknown"])
@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.NearestNeighbours(59), cagp.NearestNeighbours(12, far=0)])
def test_that_of_single_points(solver: cagp.Solver, mean: cagp.Mean | None) -> None:
    given = model(solver, mean)
    found = left_out(given, correlated=True).correlation
    X = given.X.numpy()
    k = solver.k if isinstance(solver, cagp.NearestNeighbours) else 59
    rank = np.argsort(np.argsort(cdist(X, X), axis=1), axis=1)
    expected = dense(given, (rank >= 1) & (rank <= k), mean is not None)
    assert found is not None
    assert found.pairs == 60 * 59 // 2
    np.testing.assert_allclose((found.correlation, found.square), expected, rtol=1e-6)


@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.NearestNeighbours(59)])
def test_that_of_given_members(solver: cagp.Solver) -> None:
    given = model(solver)
    kept = np.random.default_rng(1).random((60, 60)) < 0.3
    np.fill_diagonal(kept, False)
    members = torch.from_numpy(np.where(kept, np.arange(60), -1))
    nothing = np.zeros(60)
    chosen = StandIns(torch.arange(60), members, np.arange(60), nothing, nothing, 0.0, "")
    found = leave_out(given, chosen, correlated=True)
    assert found.correlation is not None
    expected = dense(given, kept, trend=False)
    np.testing.assert_allclose((found.correlation.correlation, found.correlation.square), expected, rtol=1e-6)
    assert found.worth == pytest.approx(60 / (1 + 59 * expected[1]))


def test_errors_that_nothing_determines_are_left_out() -> None:
    nothing = torch.tensor([[1.0, 0.5, torch.nan], [0.5, 1.0, torch.nan], [torch.nan, torch.nan, torch.nan]])
    assert Correlation.within(nothing) == Correlation(0.5, 0.25, 1)
    assert Correlation.within(nothing[1:, 1:]) is None
    assert Correlation.within(torch.zeros(3, 3)) is None


def test_that_of_groups_is_the_average_over_pairs() -> None:
    parts = [Correlation(0.1, 0.02, 10), None, Correlation(0.4, 0.2, 30)]
    joined = Correlation.joined(parts)
    assert joined is not None
    assert (joined.correlation, joined.square, joined.pairs) == pytest.approx((0.325, 0.155, 40))
    assert Correlation.joined([None]) is None
    found = left_out(model(cagp.GaussSeidel(3)), correlated=True)
    assert found.correlation is not None
    assert found.correlation.pairs == 5 * 12 * 11 // 2
    assert left_out(model(cagp.GaussSeidel(3))).correlation is None


def test_left_out_predictions_are_normal() -> None:
    found = model(cagp.Cholesky()).left_out()
    prediction, law = found.prediction, norm(found.mean, found.std)
    np.testing.assert_allclose(prediction.quantile(0.3), law.ppf(0.3))
    np.testing.assert_allclose(prediction.quantile([0.1, 0.9])[:, 1], law.ppf(0.9))
    np.testing.assert_allclose(prediction.cdf(found.y), law.cdf(found.y), atol=1e-12)
    np.testing.assert_allclose(prediction.log_density(found.y), law.logpdf(found.y))
    np.testing.assert_allclose(prediction.median, found.mean)
    np.testing.assert_allclose(prediction.variance, found.std**2)
    assert prediction.includes_noise
    assert prediction.guarantee.kind == "under the prior"
    greedy = model(cagp.ConjugateGradient(3)).left_out()
    assert greedy.prediction.guarantee.kind == "none"

"""Jackknife+ intervals: against a loop of refits and MAPIE, and what they hold for a model that is badly wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from mapie.conformity_scores.bounds.std_normalised import StdConformityScore
from mapie.regression import CrossConformalRegressor
from sklearn.gaussian_process.kernels import Matern, WhiteKernel
from sklearn.model_selection import LeaveOneOut

import cagp
from cagp.errors import InputError
from cagp.estimator import CAGPRegressor
from cagp.kernels import Coregionalised
from cagp.means import ByQuantity

RNG = np.random.default_rng(2)
X, X_TEST = RNG.random((40, 2)), RNG.random((9, 2))
Y = 3 * X[:, 0] + np.sin(6 * X[:, 1]) + 0.3 * RNG.normal(size=40)


def by_refits(prior: cagp.Prior, level: float, noise: Any) -> tuple[np.ndarray, np.ndarray]:
    """The definition: n models, each without one observation."""
    n = len(X)
    low, high = np.empty((2, n, len(X_TEST)))
    for i in range(n):
        kept = np.arange(n) != i
        each = prior.noise_variance if np.ndim(prior.noise_variance) == 0 else prior.noise_variance[kept]
        model = cagp.Prior(prior.kernel, mean=prior.mean, noise_variance=each).condition(X[kept], Y[kept], "cholesky")
        own = model.predict(X[i : i + 1]).observed(np.broadcast_to(prior.noise_variance, n)[i])
        score = abs(Y[i] - own.mean[0]) / own.std[0]
        there = model.predict(X_TEST).observed(noise)
        low[i], high[i] = there.mean - score * there.std, there.mean + score * there.std
    rank = int(np.floor((n + 1) * (1 - level) + 1e-9))
    return np.sort(low, axis=0)[rank - 1], np.sort(high, axis=0)[n - rank]


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize(
    "prior",
    [
        cagp.Prior(cagp.Matern32(0.3), noise_variance=0.05),
        cagp.Prior(cagp.Matern32(0.3), mean=cagp.Polynomial(1), noise_variance=0.05),
        cagp.Prior(cagp.RBF(0.5), mean=cagp.Constant(), noise_variance=np.linspace(0.05, 0.5, 40)),
    ],
    ids=["zero mean", "unknown trend", "noise of each"],
)
def test_a_loop_of_refits(prior: cagp.Prior, level: float) -> None:
    noise = 0.1 if np.ndim(prior.noise_variance) else prior.noise_variance
    model = prior.condition(X, Y, "cholesky")
    found = model.jackknife_interval(X_TEST, level, noise_variance=None if noise == 0.05 else noise)
    for ours, theirs in zip(found, by_refits(prior, level, noise), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("level", [0.83, 0.92])  # no whole ranks, which MAPIE may round to the next
def test_mapie(level: float) -> None:
    noisy = Matern(0.3, "fixed", nu=1.5) + WhiteKernel(0.05, "fixed")  # so that its standard deviations have the noise
    regressor = CAGPRegressor(noisy, optimizer=None, alpha=1e-12)
    plus = {"conformity_score": StdConformityScore(), "method": "plus", "cv": LeaveOneOut()}
    theirs = CrossConformalRegressor(regressor, confidence_level=level, **plus).fit_conformalize(X, Y)
    model = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.05).condition(X, Y, "cholesky")
    found = model.jackknife_interval(X_TEST, level)
    np.testing.assert_allclose(np.column_stack(found), theirs.predict_interval(X_TEST)[1][:, :, 0], rtol=1e-7)


def test_auto_and_torch() -> None:
    prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.05)
    expected = prior.condition(X, Y, "cholesky").jackknife_interval(X_TEST)
    found = prior.condition(X, Y).jackknife_interval(torch.from_numpy(X_TEST))
    for ours, theirs in zip(found, expected, strict=True):
        assert isinstance(ours, torch.Tensor)
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-9)


def test_one_of_several_quantities_is_judged_by_its_own_observations() -> None:
    """Of the other one, whose noise is right, 60 errors are small; those of this one are far larger than promised."""
    rng = np.random.default_rng(5)
    Z = np.column_stack([rng.random((90, 2)), np.arange(90) < 60])
    y = np.sin(6 * Z[:, 1]) + np.where(Z[:, 2] == 0, 1.0, 0.1) * rng.normal(size=90)
    kernel = Coregionalised.of(cagp.Matern32(0.5), [[1.0, 0.9], [0.9, 1.0]])
    prior = cagp.Prior(kernel, mean=ByQuantity(2), noise_variance=0.01)
    both = cagp.QuantitiesModel(["rough", "smooth"], prior.condition(Z, y, "cholesky"))
    at, low, high = np.column_stack([X_TEST, np.zeros(9)]), [], []
    for i in np.flatnonzero(Z[:, 2] == 0):
        model = prior.condition(np.delete(Z, i, axis=0), np.delete(y, i), "cholesky")
        own, there = model.predict(Z[i : i + 1]).observed(), model.predict(at).observed()
        score = abs(y[i] - own.mean[0]) / own.std[0]
        low.append(there.mean - score * there.std)
        high.append(there.mean + score * there.std)
    found = both["rough"].jackknife_interval(X_TEST, 0.9)
    for ours, theirs in zip(found, (np.sort(low, axis=0)[2], np.sort(high, axis=0)[-3]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


def test_it_holds_at_least_twice_the_miss_less() -> None:
    """A model whose noise is a hundred times too small; 500 data sets of 30 observations each."""
    rng, held = np.random.default_rng(0), 0
    prior = cagp.Prior(cagp.Matern32(0.5), noise_variance=1e-3)
    for _ in range(500):
        points = rng.random((31, 1))
        values = np.sin(5 * points[:, 0]) + np.where(rng.random(31) < 0.1, 1.0, 0.1) * rng.normal(size=31)
        model = prior.condition(points[:30], values[:30], "cholesky")
        lower, upper = model.jackknife_interval(points[30:], 0.9)
        held += bool(lower[0] <= values[30] <= upper[0])
    assert held / 500 >= 0.8 - 3 * np.sqrt(0.8 * 0.2 / 500)
    assert held / 500 == pytest.approx(0.9, abs=0.05)  # and usually as often as the level says


def test_too_few_observations() -> None:
    model = cagp.Prior(cagp.RBF(0.5), noise_variance=0.1).condition(X[:18], Y[:18], "cholesky")
    lower, upper = model.jackknife_interval(X_TEST, 0.95)
    assert np.isneginf(lower).all()
    assert np.isposinf(upper).all()


def test_wrong_use() -> None:
    prior = cagp.Prior(cagp.RBF(0.5), noise_variance=0.1)
    with pytest.raises(InputError, match="needs an exact model"):
        prior.condition(X, Y, cagp.NearestNeighbours(5)).jackknife_interval(X_TEST)
    model = prior.condition(X, Y, "cholesky")
    with pytest.raises(InputError, match=r"for 95% write 0\.95"):
        model.jackknife_interval(X_TEST, 95)
    with pytest.raises(InputError, match="one number, or one per"):
        model.jackknife_interval(X_TEST, noise_variance=[0.1, 0.2])
    each = cagp.Prior(cagp.RBF(0.5), noise_variance=np.full(40, 0.1)).condition(X, Y, "cholesky")
    with pytest.raises(InputError, match="says nothing about new ones"):
        each.jackknife_interval(X_TEST)

"""The posterior of hyperparameters, against quadrature by dense algebra and against its own prior."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from likelihood_problems import KERNELS, observations, space_of
from numpy.testing import assert_allclose
from scipy.optimize import brentq
from scipy.special import logsumexp, ndtr
from scipy.stats import chi2, kstest

import cagp
from cagp.choosing import integrated
from cagp.hyperparameters import Hyperpriors, posterior
from cagp.hyperparameters.exact import exact_likelihood
from cagp.hyperparameters.importance import WeightedPoints, few_points, importance_sample


@pytest.mark.parametrize("name", sorted(set(KERNELS) - {"geographic"}))
@pytest.mark.parametrize("basis", [False, True])
def test_values_are_those_of_the_likelihood(name: str, basis: bool) -> None:
    data = replace(observations(basis=basis), restricted=basis)
    space = space_of(name)
    likelihood = exact_likelihood(space, data, 2**30)
    somewhere = space.start + 0.3 * np.random.default_rng(0).standard_normal((3, space.size))
    expected = [likelihood(at).log_likelihood for at in somewhere]
    assert_allclose(likelihood.values(somewhere), expected, rtol=1e-9, atol=1e-9)


def test_values_of_larger_data_and_of_singular_matrices() -> None:
    data, space = observations(520, basis=True), space_of("matern52")
    likelihood = exact_likelihood(space, data, 2**30)
    profile = likelihood(space.start)
    assert profile.trend is not None
    (value,) = exact_likelihood(space, replace(data, restricted=True), 2**30).values(space.start[None])
    # the restricted likelihood from the profile: coefficients integrated out
    H = data.basis
    assert H is not None
    gain = torch.logdet(profile.trend.covariance) + torch.logdet(H.T @ H) + H.shape[1] * np.log(2 * np.pi)
    assert_allclose(value, profile.log_likelihood + 0.5 * float(gain), rtol=1e-9)
    for small in (data, observations(40)):  # a point that is there twice, without noise
        singular = space_of("rbf").start + np.array([9.0, 0.0, -90.0])
        assert exact_likelihood(space_of("rbf"), small, 2**30).values(singular[None])[0] == -np.inf


def _matern32(A: np.ndarray, B: np.ndarray, lengthscale: float, variance: float) -> np.ndarray:
    s = 3**0.5 * np.abs(A[:, None] - B) / lengthscale
    return variance * (1 + s) * np.exp(-s)


def _quantile(p: float, weights: np.ndarray, means: np.ndarray, stds: np.ndarray) -> float:
    return float(brentq(lambda z: weights @ ndtr((z - means) / stds) - p, means.min() - 50, means.max() + 50))


@pytest.mark.parametrize("fixed", [("noise_variance",), ("noise_variance", "kernel.variance")])
def test_prediction_is_the_integral(fixed: tuple[str, ...]) -> None:
    """Against quadrature over a fine grid of one or two hyperparameters, with NumPy alone."""
    rng = np.random.default_rng(5)
    X, x, noise, n = rng.random(9), np.array([0.5, 1.2]), 0.02, 9
    y = 2 + np.linalg.cholesky(_matern32(X, X, 0.3, 1.0) + noise * np.eye(n)) @ rng.standard_normal(n)
    prior = cagp.Prior(cagp.Matern32(0.3, 1.0), mean=cagp.Constant(), noise_variance=noise)
    believed = Hyperpriors.of(prior, X[:, None], scale=1.5).by_name
    grid = np.linspace(np.log(0.01), np.log(2000), 70)
    others = [0.0] if len(fixed) == 2 else np.linspace(np.log(0.002), np.log(300), 70).tolist()
    ones, total, means, variances = np.ones(n), [], [], []
    for u in grid:
        for v in others:
            G = _matern32(X, X, np.exp(u), np.exp(v)) + noise * np.eye(n)
            inverse, k = np.linalg.inv(G), _matern32(X, x, np.exp(u), np.exp(v))
            precision = ones @ inverse @ ones
            level = ones @ inverse @ y / precision
            b = y - level
            restricted = -0.5 * (b @ inverse @ b + np.linalg.slogdet(G)[1] + np.log(precision))
            density = float(believed["kernel.lengthscale"].log_density(np.array(u)))
            if len(others) > 1:
                density += float(believed["kernel.variance"].log_density(np.array(v)))
            total.append(restricted + density)
            means.append(level + k.T @ inverse @ b)
            gap = 1 - k.T @ inverse @ ones
            variances.append(np.exp(v) - np.einsum("it,ij,jt->t", k, inverse, k) + gap**2 / precision)
    w, m, s = np.exp(np.array(total) - logsumexp(total)), np.array(means), np.sqrt(variances)
    model = integrated(prior, X[:, None], y, fix=fixed, hyperpriors=Hyperpriors(believed))
    found = model.predict(x[:, None])
    mean = w @ m
    std = np.sqrt(w @ (s**2 + (m - mean) ** 2))
    assert (np.abs(found.mean - mean) < 0.03 * std).all()
    assert_allclose(found.std, std, rtol=0.03)
    for p in (0.025, 0.25, 0.75, 0.975):
        exact = [_quantile(p, w, m[:, t], s[:, t]) for t in range(2)]
        assert (np.abs(found.quantile(p) - exact) < 0.1 * std).all()


def test_a_second_round_is_drawn_only_where_the_first_is_not_enough() -> None:
    believed = Hyperpriors.of(cagp.Prior(cagp.RBF(0.3)), np.arange(9.0)[:, None] / 9, scale=1.0)
    centre, root = np.array([-1.0, 0.5, -2.0]), np.diag([0.1, 0.2, 0.3])

    def log_density(points: np.ndarray) -> np.ndarray:
        return -0.5 * np.square((points - centre) @ np.linalg.inv(root)).sum(axis=1)

    how: dict[str, Any] = {"size": 256, "observations": 10_000, "seed": 0}
    told = importance_sample(log_density, believed, centre, root @ root, **how)
    apart = importance_sample(log_density, believed, centre + 1.5 * np.diag(root), root @ root, **how)
    assert (len(told.points), len(apart.points)) == (128, 256)
    for found in (told, apart):
        assert_allclose(found.mean, centre, atol=0.1 * 0.3)
        assert_allclose(np.sqrt(np.diag(found.covariance)), np.diag(root), rtol=0.1)


def test_few_points_have_the_moments_of_many() -> None:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 3)) + [3.0, 0.0, -2.0]
    weights = rng.random(400)
    sample = WeightedPoints(points, weights / weights.sum())
    chosen, shares = few_points(sample, 30)
    assert len(chosen) <= 30
    assert (shares > 0).all()
    few = WeightedPoints(points[chosen], shares)
    scale = np.sqrt(np.diag(sample.covariance))
    assert_allclose(few.mean, sample.mean, atol=0.02 * scale.min())
    assert_allclose(few.covariance, sample.covariance, atol=0.03 * np.square(scale).max())
    third, exact = (s.weights @ (s.points - s.mean) ** 3 for s in (few, sample))
    assert_allclose(third, exact, atol=0.1 * scale.max() ** 3)
    all_of_them, equal = few_points(WeightedPoints(points[:5], np.full(5, 0.2)), 30)
    assert all_of_them.tolist() == [0, 1, 2, 3, 4]
    assert np.allclose(equal, 0.2)


def simulated(worlds: int, seed: int, **settings: Any) -> tuple[np.ndarray, np.ndarray]:
    """The share of the posterior below the truth: of f at a new point (worlds,), of hyperparameters (worlds, 3).

    Hyperparameters are drawn from their priors, functions from theirs, observations from both: all shares are uniform.
    """
    rng = np.random.default_rng(seed)
    start = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.05)
    X, x = rng.random(10), np.array([0.45])
    believed = Hyperpriors.of(start, X[:, None], scale=1.0)
    below_f, below = [], []
    for world in range(worlds):
        theta = believed.quantile(rng.random((1, 3)))[0]
        lengthscale, variance, noise = np.exp(theta)
        everywhere = np.append(X, x)
        K = _matern32(everywhere, everywhere, lengthscale, variance)
        f = np.linalg.cholesky(K + 1e-9 * variance * np.eye(11)) @ rng.standard_normal(11)
        y = f[:10] + noise**0.5 * rng.standard_normal(10)
        found = posterior(start, X[:, None], y, hyperpriors=believed, seed=world, **settings)
        below.append(found.sample.weights @ (found.sample.points < theta))
        components = [each.condition(X[:, None], y, cagp.Cholesky()).components[0] for each in found.priors]
        model = cagp.Model(components, found.weights)
        below_f.append(float(model.predict(x[:, None]).cdf(f[10:])[0]))
    return np.array(below_f), np.array(below)


def uniform(shares: np.ndarray) -> float:
    """A p-value: that they are uniform, by Kolmogorov and Smirnov and by counting in ten bins; the smaller, doubled."""
    counts = np.histogram(shares, 10, (0, 1))[0]
    expected = len(shares) / 10
    return 2 * min(kstest(shares, "uniform").pvalue, chi2.sf(np.square(counts - expected).sum() / expected, 9))


def test_hyperparameters_from_their_priors() -> None:
    of_f, of_hyperparameters = simulated(30, seed=1, evaluations=96, components=12)
    assert min(uniform(of_f), *map(uniform, of_hyperparameters.T)) > 0.01


@pytest.mark.slow
def test_hyperparameters_from_their_priors_in_many_worlds() -> None:
    # 256 evaluations leave the last hundredths of very long lengthscales out, which predictions do not feel
    of_f, of_hyperparameters = simulated(400, seed=3, evaluations=1024)
    assert min(uniform(of_f), *map(uniform, of_hyperparameters.T)) > 0.01 / 4


@pytest.mark.slow
@pytest.mark.parametrize(("n", "low", "high"), [(15, 0.92, 0.98), (100, 0.93, 0.97)])
def test_intervals_hold_where_hyperparameters_are_not_known(n: int, low: float, high: float) -> None:
    """The experiment of what-calibrated-means, in 600 worlds: the true hyperparameters are one fixed point."""
    rng = np.random.default_rng(6)
    truth = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01)
    X, x = rng.random((n, 1)), np.array([[0.5]])
    factor = np.linalg.cholesky(truth.kernel(np.concatenate([X, x])) + 1e-10 * np.eye(n + 1))
    below = []
    for _ in range(600):
        f = factor @ rng.standard_normal(n + 1)
        model = integrated(truth, X, f[:n] + 0.1 * rng.standard_normal(n))
        below.append(float(model.predict(x).cdf(f[n:])[0]))
    inside = np.abs(2 * np.array(below) - 1)
    assert low < np.mean(inside < 0.95) < high
    assert 0.42 < np.mean(inside < 0.5) < 0.58


def test_the_same_seed_gives_the_same_posterior() -> None:
    rng = np.random.default_rng(3)
    X, prior = rng.random((12, 2)), cagp.Prior(cagp.RBF((0.3, 0.3)), mean=cagp.Constant())
    y = np.sin(5 * X[:, 0])
    one, again, other = (posterior(prior, X, y, evaluations=64, seed=seed) for seed in (0, 0, 1))
    assert one.priors == again.priors
    assert one.priors != other.priors
    assert len(one.priors) <= 30
    assert np.isclose(one.weights.sum(), 1)
    low, high = one.quantile(0.1), one.quantile(0.9)
    assert all(low[name] < high[name] for name in one.names)
    # the second column says nothing, and the prior lets it go
    assert high["kernel.lengthscale[1]"] > 3 * high["kernel.lengthscale[0]"]
    assert "kernel.lengthscale[1]" in str(one)


def test_what_it_is_not_for() -> None:
    prior, X = cagp.Prior(cagp.RBF(0.3)), np.linspace(0, 1, 2001)[:, None]
    with pytest.raises(cagp.InputError, match="at most 2,000 observations, got 2,001"):
        posterior(prior, X, X[:, 0])
    with pytest.raises(cagp.InputError, match="one dimension"):
        posterior(prior, X[:5], np.zeros((5, 2)))
    with pytest.raises(cagp.InputError, match="components"):
        posterior(prior, X[:5], np.zeros(5), components=0)


def test_no_hyperparameters_with_a_likelihood_are_an_error() -> None:
    from cagp.hyperparameters.importance import _weighted

    with pytest.raises(cagp.NotPositiveDefiniteError, match="positive definite"):
        _weighted(np.zeros((4, 1)), np.full(4, -np.inf), np.zeros(4))

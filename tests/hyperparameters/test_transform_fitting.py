"""Parameters by likelihood: beside dense algebra, SciPy's optimiser and scikit-learn's PowerTransformer."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import optimize, stats

import cagp
from cagp.errors import InputError, InputTypeError, NotPositiveDefiniteError
from cagp.hyperparameters.transform_fitting import Profile, most_likely
from cagp.prior import TransformedPrior
from cagp.transforms import BoxCox, Log, SinhArcsinh, YeoJohnson

RNG = np.random.default_rng(8)
X = RNG.random((80, 1))
F = 2 + np.sin(6 * X[:, 0]) + 0.2 * RNG.normal(size=80)
Y = F**2
"""A square: a Box-Cox transform of power one half."""
PRIOR = cagp.Prior(cagp.Matern52(0.3, 0.5), mean=cagp.Constant(), noise_variance=0.05)


def dense(prior: cagp.Prior, z: np.ndarray) -> float:
    """The restricted log-likelihood with a constant integrated out, by dense algebra."""
    n = len(z)
    r = np.sqrt(5) * np.abs(X - X.T) / prior.kernel.lengthscale  # type: ignore[attr-defined]
    variance = prior.kernel.variance  # type: ignore[attr-defined]
    G = variance * (1 + r + r**2 / 3) * np.exp(-r) + prior.noise_variance * np.eye(n)
    G1, Gz, one = np.linalg.solve(G, np.ones(n)), np.linalg.solve(G, z), np.ones(n)
    square = z @ Gz - (one @ Gz) ** 2 / (one @ G1)
    constants = np.log(one @ G1) - np.log(n) + (n - 1) * np.log(2 * np.pi)
    return float(-0.5 * (square + np.linalg.slogdet(G)[1] + constants))


def test_the_likelihood_has_the_slope_in_it() -> None:
    for transform in (Log(), BoxCox(0.4), YeoJohnson(0.6, 4.0, 2.0), SinhArcsinh(0.2, 0.9, 4.0, 2.0)):
        z = transform.forward(torch.from_numpy(Y)).numpy()
        slopes = np.diff(transform.forward(torch.from_numpy(np.stack([Y - 1e-6, Y + 1e-6]))).numpy(), axis=0)[0] / 2e-6
        expected = dense(PRIOR, z) + np.log(slopes).sum()
        assert PRIOR.transformed(transform).log_likelihood(X, Y) == pytest.approx(expected, abs=1e-4)


def test_of_independent_observations_it_is_the_power_transformer() -> None:
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    # a kernel that correlates nothing: what is left is the likelihood of a normal sample
    prior = cagp.Prior(cagp.Matern12(1e-9, 1e-9), mean=cagp.Constant(), noise_variance=1.0)
    profile = Profile(prior, X, Y, Log())
    found, _ = most_likely(BoxCox(1.0), profile)
    expected = preprocessing.PowerTransformer("box-cox", standardize=False).fit(Y[:, None]).lambdas_[0]
    assert found.power == pytest.approx(expected, abs=0.03)
    there, best = (stats.boxcox_llf(each, Y) for each in (found.power, expected))
    assert there == pytest.approx(best, abs=0.01)
    yeo, _ = most_likely(YeoJohnson(1.0), profile)
    expected = preprocessing.PowerTransformer("yeo-johnson", standardize=False).fit(Y[:, None]).lambdas_[0]
    assert yeo.power == pytest.approx(expected, abs=0.03)


def test_the_size_of_the_covariance_follows() -> None:
    def best_size(transform: BoxCox) -> float:
        z = transform.forward(torch.from_numpy(Y)).numpy()

        def cost(log_size: float) -> float:
            size = float(np.exp(log_size))
            kernel = cagp.Matern52(0.3, 0.5 * size)
            return -dense(cagp.Prior(kernel, mean=cagp.Constant(), noise_variance=0.05 * size), z)

        found = optimize.minimize_scalar(cost, bounds=(-9, 9), method="bounded", options={"xatol": 1e-6})
        return float(-found.fun + (len(Y) - 1) * transform.log_slope(torch.from_numpy(Y)).mean())

    profile = Profile(PRIOR, X, Y, Log())
    for transform in (BoxCox(0.0), BoxCox(0.7), BoxCox(2.0)):
        assert profile(transform) == pytest.approx(best_size(transform), abs=1e-5)


def test_parameters_and_hyperparameters_together() -> None:
    fitted = PRIOR.transformed("box-cox").fit(X, Y)
    assert isinstance(fitted.transform, BoxCox)

    def cost(transform: BoxCox, prior: cagp.Prior) -> float:
        z = transform.forward(torch.from_numpy(Y)).numpy()
        return -dense(prior, z) - (len(Y) - 1) * float(transform.log_slope(torch.from_numpy(Y)).mean())

    def of(values: np.ndarray) -> float:
        kernel = cagp.Matern52(*np.exp(values[1:3]).tolist())
        prior = cagp.Prior(kernel, mean=cagp.Constant(), noise_variance=float(np.exp(values[3])))
        return cost(BoxCox(float(np.clip(values[0], 0, 2))), prior)

    start = np.array([0.5, np.log(0.3), 0.0, np.log(0.05)])
    best = optimize.minimize(of, start, method="Nelder-Mead", options={"maxfev": 500, "fatol": 1e-3})
    assert cost(fitted.transform, fitted.prior) < best.fun + 0.1
    assert fitted.transform.power == pytest.approx(0.5, abs=0.3)


def test_known_means_and_known_noise() -> None:
    known = cagp.Prior(cagp.Matern52(0.3, 0.5), mean=cagp.Constant(2.0), noise_variance=0.05)
    assert most_likely(BoxCox(0.5), Profile(known, X, Y, Log()))[0].power < 2
    each = cagp.Prior(cagp.Matern52(0.3, 0.5), mean=cagp.Constant(), noise_variance=np.full(80, 0.05))
    less = float(BoxCox(0.5).log_slope(torch.from_numpy(Y)).mean())
    expected = each.transformed(BoxCox(0.5)).log_likelihood(X, Y) - less
    assert Profile(each, X, Y, Log())(BoxCox(0.5)) == pytest.approx(expected)


def test_two_parameters() -> None:
    skewed = torch.sinh((torch.asinh(torch.from_numpy(F - 2)) + 0.6) / 0.7).numpy()
    profile = Profile(PRIOR, X, skewed, YeoJohnson())
    start = SinhArcsinh.starting(skewed)
    found, likely = most_likely(start, profile)
    assert likely > profile(start) + 3
    grid = [SinhArcsinh(a, b, start.location, start.scale) for a in (-0.5, 0, 0.5) for b in (0.5, 0.8, 1.2)]
    assert likely > max(profile(each) for each in grid)
    assert profile(found) == pytest.approx(likely)


def test_a_name_is_not_enough_to_condition() -> None:
    named = PRIOR.transformed("box-cox")
    with pytest.raises(InputError, match=r'parameters of transform "box-cox" are not known; fit\(X, y\) finds them'):
        named.condition(X, Y)
    assert PRIOR.transformed("log").transform == Log()
    with pytest.raises(InputError, match='transform must be one of "log"'):
        PRIOR.transformed("square")
    with pytest.raises(InputTypeError, match=r"prior must be a cagp\.Prior"):
        TransformedPrior(cagp.Matern52(0.3), transform="log")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="0 at row 0"):
        PRIOR.transformed("log").condition(X, np.zeros(80))


def test_draws_of_the_prior() -> None:
    known = cagp.Prior(cagp.Matern52(0.3), noise_variance=0.1)
    draws = known.transformed("log").sample(X[:5], 3, seed=2)
    np.testing.assert_allclose(draws, np.exp(known.sample(X[:5], 3, seed=2)))


def test_some_of_many_observations_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    exact, _ = most_likely(BoxCox(1.0), Profile(PRIOR, X, Y, Log()))
    monkeypatch.setattr("cagp.hyperparameters.transform_fitting.MOST", 60)
    some = Profile(PRIOR, X, Y, Log(), seed=1)
    assert len(some.y) == 60
    assert most_likely(BoxCox(1.0), some)[0].power == pytest.approx(exact.power, abs=0.2)
    zeros = np.where(Y > 4, Y, 0.0)
    assert len(Profile(PRIOR, X, zeros, BoxCox.starting(zeros)).y) == min(60, int((zeros > 0).sum()))
    alike = cagp.Prior(cagp.RBF(100.0), mean=cagp.Constant(), noise_variance=1e-300)
    with pytest.raises(NotPositiveDefiniteError, match="larger noise_variance"):
        Profile(alike, X, Y, Log())


@pytest.mark.filterwarnings("error")
def test_where_there_is_no_likelihood_anywhere_the_search_ends() -> None:
    profile = Profile(PRIOR, X, Y, SinhArcsinh(), 0)
    profile.__class__ = type("Nowhere", (Profile,), {"__call__": lambda self, transform: -np.inf})
    found, likely = most_likely(SinhArcsinh(), profile)
    assert isinstance(found, SinhArcsinh)
    assert likely < -1e300

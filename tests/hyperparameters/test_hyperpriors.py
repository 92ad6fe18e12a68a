"""Priors of hyperparameters: proper, and on the scale of the data."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import expon, norm

import cagp
from cagp.hyperparameters import Around, Hyperpriors, LongRange, SmallDeviation
from cagp.hyperparameters.hyperpriors import Hyperprior
from cagp.hyperparameters.search_space import Space

EACH = [LongRange(0.7), SmallDeviation(2.0), Around(3.0, 0.8)]


@pytest.mark.parametrize("one", EACH, ids=lambda one: type(one).__name__)
def test_density_and_quantiles_belong_together(one: Hyperprior) -> None:
    for p in (0.03, 0.5, 0.98):
        below = quad(lambda u: float(np.exp(one.log_density(np.array(u)))), -40, float(one.quantile(np.array(p))))[0]
        assert_allclose(below, p, rtol=1e-6)
    for u in (-1.3, 0.4):
        slope = (one.log_density(np.array(u + 1e-5)) - one.log_density(np.array(u - 1e-5))) / 2e-5
        assert_allclose(one.slope(u), slope, rtol=1e-6)


def test_what_they_are() -> None:
    lengthscale, deviation = np.array([0.1, 0.9, 7.0]), np.array([0.3, 5.0])
    density = expon(scale=1 / (np.log(2) * 0.7**0.5)).pdf(lengthscale**-0.5) * 0.5 * lengthscale**-0.5
    assert_allclose(np.exp(LongRange(0.7).log_density(np.log(lengthscale))), density)
    density = expon(scale=2.0).pdf(deviation) * deviation / 2
    assert_allclose(np.exp(SmallDeviation(2.0).log_density(np.log(deviation**2))), density)
    assert_allclose(np.exp(Around(3.0, 0.8).log_density(np.array([0.2]))), norm(np.log(3), 0.8).pdf([0.2]))


def test_they_have_the_scale_of_the_data() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((50, 2)), rng.standard_normal(50)
    prior = cagp.Prior(cagp.RationalQuadratic((0.2, 0.3), alpha=0.6), mean=cagp.Polynomial(1), noise_variance=0.1)
    plain = Hyperpriors.of(prior, X, y).by_name
    # metres in place of kilometres, and a trend that the mean takes away
    other = Hyperpriors.of(prior, X * [1000, 1], 5 * (y + 30 * X[:, 0])).by_name
    assert list(plain) == [*prior.kernel.hyperparameter_names(), "noise_variance"]
    for name, factor in {"kernel.lengthscale[0]": 1000, "kernel.lengthscale[1]": 1, "kernel.alpha": 1}.items():
        assert_allclose(other[name].median, factor * plain[name].median)
    for name in ("kernel.variance", "noise_variance"):
        assert_allclose(other[name].average, 5 * plain[name].average)
    assert_allclose(plain["kernel.lengthscale[1]"].median, 2**0.5 * X[:, 1].std())
    known = Hyperpriors.of(prior, X, scale=4.0).by_name
    assert known["kernel.variance"] == SmallDeviation(2.0)
    assert known["noise_variance"] == SmallDeviation(1.0)


def test_every_kind_of_kernel_has_them() -> None:
    X = np.column_stack([np.linspace(-40, 50, 30), np.linspace(0, 90, 30), np.linspace(0, 5, 30)])
    globe = cagp.Geographic(cagp.Matern32(500.0), radius=6371.0).on(0, 1)
    kernel = globe * cagp.RBF(2.0).on(2) + cagp.Periodic(1.0, 1.0, 0.7).on(2) + cagp.Level(2.0)
    found = Hyperpriors.of(cagp.Prior(kernel, noise_variance=np.full(30, 0.1)), X, scale=1.0).by_name
    assert list(found) == kernel.hyperparameter_names()
    lengthscale = found["kernel.kernels[0].kernels[0].kernel.kernel.lengthscale"]
    assert isinstance(lengthscale, LongRange)
    assert 1000 < lengthscale.median < 8000
    assert found["kernel.kernels[0].kernels[1].kernel.variance"] == Around(1.0)  # a factor: the first has the scale
    assert found["kernel.kernels[1].kernel.period"] == Around(0.7)
    assert found["kernel.kernels[2].variance"] == SmallDeviation(1.0)


def test_what_is_asked_for_must_be_there() -> None:
    prior, X = cagp.Prior(cagp.RBF(0.3)), np.linspace(0, 1, 5)[:, None]
    with pytest.raises(cagp.InputError, match="needs y, or the variance"):
        Hyperpriors.of(prior, X)
    with pytest.raises(cagp.InputError, match=r"no prior of kernel\.variance, noise_variance"):
        Hyperpriors({"kernel.lengthscale": LongRange(1.0)}).among(Space.of(prior))


def test_they_can_allow_for_what_was_fitted() -> None:
    prior = cagp.Prior(cagp.Matern32(lengthscale=(0.1, 900.0), variance=1e8), noise_variance=1e-4)
    expected = Hyperpriors.of(prior, np.random.default_rng(0).random((50, 2)), scale=1.0)
    lengthscales = {"kernel.lengthscale[0]": 0.1, "kernel.lengthscale[1]": 900.0}
    allowing = expected.allowing({**lengthscales, "kernel.variance": 1e8, "noise_variance": 1e-4})
    assert allowing.by_name["kernel.lengthscale[0]"] == expected.by_name["kernel.lengthscale[0]"]
    assert allowing.by_name["kernel.lengthscale[1]"] == LongRange(pytest.approx(900.0))
    assert allowing.by_name["kernel.variance"] == SmallDeviation(pytest.approx(1e4))
    assert allowing.by_name["noise_variance"] == expected.by_name["noise_variance"]

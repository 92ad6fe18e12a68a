"""How far the means of transformed models look: as far as the observations that they have, whichever these are."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import cagp

RNG = np.random.default_rng(0)
X = RNG.random((60, 2))
Y = np.exp(3 * np.sin(6 * X[:, 0]) + 3 + 0.3 * RNG.standard_normal(60))
FAR = np.array([[2.0, 2.0], [0.5, 0.5]])
PRIOR = cagp.Prior(cagp.Matern32(0.3), mean=cagp.Constant(), noise_variance=0.1).transformed("log")


@pytest.fixture(scope="module")
def learned() -> cagp.Model:
    return PRIOR.condition(X, Y).recalibrated(progress=False)


@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_other_observations_are_predicted_as_those_of_a_new_model(learned: cagp.Model) -> None:
    other, new = learned.with_observations(Y * 1e6).predict(FAR), PRIOR.condition(X, Y * 1e6).predict(FAR)
    assert_allclose(other.mean, new.mean, rtol=1e-12)
    assert_allclose(other.std, new.std, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_more_observations_extend_it(learned: cagp.Model) -> None:
    with pytest.warns(cagp.errors.DataWarning, match="The new observation lies further out"):
        more = learned.with_more([[2.0, 2.0]], [1e3 * Y.max()])
    assert (more.reach or (0.0, 0.0))[1] > np.log(1e3 * Y.max())
    assert more.predict([[2.0, 2.0]]).mean[0] > 100 * Y.max()


@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_without_margins_means_are_those_of_the_prior(learned: cagp.Model) -> None:
    plain = PRIOR.condition(X, Y).predict(FAR)
    found = learned.replace(margins=None).predict(FAR)
    assert_allclose(found.mean, plain.mean, rtol=1e-12)
    assert_allclose(found.std, plain.std, rtol=1e-12)


def test_the_end_where_nothing_grows_is_not_folded() -> None:
    """Many observations at the lower end: means between and beyond them are those of the quantiles."""
    counts = RNG.poisson(np.where(X[:, 0] > 0.7, 30, 0.05)).astype(float)
    options = {"kernel": "matern32", "mean": "constant", "rotate": False, "varying": False, "progress": False}
    model = cagp.fit(X, counts, transform="sinh-arcsinh", recalibrate=False, uncertainty=False, **options)
    prediction = model.predict(RNG.random((5, 2)))
    grid = (np.arange(4000) + 0.5) / 4000
    quantiles = np.minimum(prediction.quantile(grid), counts.max() + 30)
    assert_allclose(prediction.mean, quantiles.mean(axis=1), atol=0.1 * counts.max())

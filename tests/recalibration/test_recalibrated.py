"""Error bars from left-out predictions: on data that the prior describes, and on data that it does not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.integrate import quad
from scipy.special import ndtr, ndtri

import cagp
from cagp.calibration import evaluate
from cagp.recalibration import Recalibration
from cagp.recalibration.shape import KNOTS, scores_at, shape_of, values_at

PRIOR = cagp.Prior(cagp.Matern32(lengthscale=0.2), noise_variance=0.01)


def _field(n: int, seed: int, variance: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, 2))
    G = variance * PRIOR.kernel(torch.from_numpy(X), torch.from_numpy(X)).numpy() + 0.01 * variance * np.eye(n)
    return X, np.linalg.cholesky(G) @ rng.standard_normal(n)


def _rough(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A field that is ten times larger in one half than in the other."""
    X, y = _field(n, seed)
    return X, np.where(X[:, 0] < 0.5, y, 10 * y)


@pytest.mark.parametrize("factor", [0.1, 4.0])
def test_a_wrong_scale_is_mended(factor: float) -> None:
    X, y = _field(900, 0, variance=factor)
    train, test = slice(0, 600), slice(600, None)
    model = PRIOR.condition(X[train], y[train], cagp.Cholesky())
    recalibrated = model.recalibrated()
    plain, mended = (each.predict(X[test]) for each in (model, recalibrated))
    np.testing.assert_array_equal(mended.mean, plain.mean)
    np.testing.assert_allclose(mended.std / plain.std, factor**0.5, rtol=0.15)
    scores = evaluate(mended, y[test], "observed")
    assert scores.nll < evaluate(plain, y[test], "observed").nll
    np.testing.assert_allclose(scores.coverage([0.5, 0.8, 0.95]), [0.5, 0.8, 0.95], atol=0.08)
    assert mended.guarantee.kind == "empirical"
    assert plain.guarantee.kind == "under the prior"


def test_nothing_is_broken_where_the_prior_is_right() -> None:
    X, y = _field(1500, 1)
    model = PRIOR.condition(X[:1000], y[:1000], cagp.Cholesky())
    plain, mended = (evaluate(each.predict(X[1000:]), y[1000:], "observed") for each in (model, model.recalibrated()))
    assert mended.crps < 1.01 * plain.crps
    assert mended.nll < plain.nll + 0.02


def test_roughness_is_local() -> None:
    X, y = _rough(2000, 2)
    model = PRIOR.condition(X[:1500], y[:1500], cagp.NearestNeighbours(30))
    recalibrated = model.recalibrated()
    prediction = recalibrated.predict(X[1500:])
    smooth = X[1500:, 0] < 0.45
    rough = X[1500:, 0] > 0.55
    assert np.median(prediction.factor[rough]) > 5 * np.median(prediction.factor[smooth])
    z = evaluate(prediction, y[1500:], "observed").z
    for half in (smooth, rough):
        assert 0.75 < np.sqrt(np.mean(z[half] ** 2)) < 1.35
    assert isinstance(recalibrated.margins, Recalibration)
    assert recalibrated.margins.bands[0].local


def test_the_distribution_is_one() -> None:
    """Quantiles, cdf and density belong together, for f and for y, numpy and torch."""
    X, y = _rough(400, 3)
    y = y + np.random.default_rng(0).standard_t(2, 400)
    model = PRIOR.condition(X, y, cagp.NearestNeighbours(30)).recalibrated()
    test = np.array([[0.2, 0.3], [0.9, 0.9], [3.0, 3.0]])
    for prediction in (model.predict(test), model.predict(test).observed()):
        p = np.array([0.001, 0.05, 0.3, 0.5, 0.9, 0.9999])
        quantiles = prediction.quantile(p)
        assert quantiles.shape == (3, 6)
        assert (np.diff(quantiles, axis=1) > 0).all()
        for column, each in zip(quantiles.T, p, strict=True):
            np.testing.assert_allclose(prediction.cdf(column), each, rtol=1e-9)
            np.testing.assert_array_equal(prediction.quantile(float(each)), column)
        np.testing.assert_array_equal(prediction.median, prediction.quantile(0.5))
        lower, upper = prediction.interval(0.9)
        np.testing.assert_allclose(prediction.cdf(upper) - prediction.cdf(lower), 0.9)
        for i in range(2):
            low, high = prediction.quantile(1e-6)[i], prediction.quantile(1 - 1e-6)[i]
            cuts = prediction.quantile(ndtr(KNOTS[1:-1].numpy()))[i]
            total = quad(lambda v, i=i, p=prediction: np.exp(p.log_density(v))[i], low, high, points=cuts, limit=200)[0]
            assert total == pytest.approx(1.0, abs=1e-4)
    tensors = model.predict(torch.from_numpy(test))
    assert isinstance(tensors.std, torch.Tensor)
    np.testing.assert_allclose(tensors.quantile(0.9).numpy(), model.predict(test).quantile(0.9))


def test_samples_have_the_margins_of_the_prediction() -> None:
    X, y = _rough(300, 4)
    prediction = PRIOR.condition(X, y, cagp.Cholesky()).recalibrated().predict(np.array([[0.3, 0.3], [0.31, 0.3]]))
    draws = prediction.sample(4000, seed=1)
    assert draws.shape == (4000, 2)
    np.testing.assert_array_equal(draws, prediction.sample(4000, seed=1))
    for p in (0.05, 0.5, 0.95):
        np.testing.assert_allclose((draws <= prediction.quantile(p)).mean(axis=0), p, atol=0.02)
    assert np.corrcoef(draws.T)[0, 1] > 0.9  # neighbours are wrong together, as under the plain model


def test_far_from_the_data_gaps_decide() -> None:
    """Of a field with a smaller variance than the prior says only gaps can tell; next to data the noise decides."""
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(3000, 2))
    near = cagp.Prior(cagp.Matern32(lengthscale=0.02), noise_variance=0.01)
    G = 0.01 * near.kernel(torch.from_numpy(X), torch.from_numpy(X)).numpy()
    y = np.linalg.cholesky(G + 1e-8 * np.eye(3000)) @ rng.standard_normal(3000) + 0.1 * rng.standard_normal(3000)
    model = near.condition(X, y, cagp.NearestNeighbours(30))
    like = np.array([[0.5, 0.5]]) + 0.001 * rng.standard_normal((50, 2))
    hole = np.linalg.norm(X - 0.5, axis=1) > 0.1
    model = near.condition(X[hole], y[hole], cagp.NearestNeighbours(30))
    at_hole = model.recalibrated(like=like).predict(like[:5])
    anywhere = model.recalibrated().predict(like[:5])
    # about what is left of the variance 0.01 + noise 0.01, which the prior takes for 1.01
    for prediction in (at_hole, anywhere):
        np.testing.assert_allclose(prediction.observed().std, 0.02**0.5, rtol=0.4)


def test_shapes() -> None:
    rng = np.random.default_rng(0)
    normal = shape_of(torch.from_numpy(rng.standard_normal(10**5)))
    np.testing.assert_allclose(normal, KNOTS, atol=0.2)
    heavy = torch.from_numpy(rng.standard_t(3, 4000))
    values = shape_of(heavy)
    for p in (0.025, 0.25, 0.5, 0.9):
        found = values_at(values[None], torch.tensor([ndtri(p)]))
        assert float((heavy <= found).double().mean()) == pytest.approx(p, abs=0.01)
    z = torch.tensor([-30.0, -1.0, 0.2, 5.0], dtype=torch.float64)
    score, _ = scores_at(values.expand(4, -1), z)
    np.testing.assert_allclose(values_at(values.expand(4, -1), score), z, rtol=1e-12)
    few = shape_of(torch.tensor([3.0, -3.0], dtype=torch.float64))
    np.testing.assert_allclose(few, 3 * KNOTS, atol=1e-12)
    _, density = scores_at(shape_of(torch.zeros(100, dtype=torch.float64))[None], z[:1])
    assert bool(density.isfinite().all())


@pytest.mark.parametrize(("n", "each"), [(10, 1), (20, 10), (60, 1), (40, 5)])
def test_what_a_scale_was_learned_from_widens_intervals(n: int, each: int) -> None:
    """An interval learned from n independent normal values, of which there are several copies ``each``, holds a new
    one as often as it says: its own scale is uncertain."""
    rng = np.random.default_rng(n)
    scores = torch.from_numpy(stats.norm.ppf([[0.25, 0.1, 0.025], [0.75, 0.9, 0.975]]))
    held = []
    for _ in range(4000):
        known, new = 2.5 * rng.standard_normal(n), 2.5 * rng.standard_normal()
        values = shape_of(torch.from_numpy(known.repeat(each)), worth=n)
        lower, upper = values_at(values, scores)
        held.append(((lower <= new) & (new <= upper)).numpy())
    np.testing.assert_allclose(np.mean(held, axis=0), [0.5, 0.8, 0.95], atol=0.025)


def test_bad_input() -> None:
    X, y = _field(30, 0)
    model = PRIOR.condition(X, y, cagp.Cholesky())
    with pytest.raises(cagp.InputError, match="at least 20"):
        PRIOR.condition(X[:10], y[:10], cagp.Cholesky()).recalibrated()
    with pytest.raises(cagp.InputError, match="pair"):
        model.recalibrated(calibration=3)
    with pytest.raises(cagp.InputError, match="between 0 and 1"):
        model.recalibrated().predict(X).interval(95)
    with pytest.raises(cagp.InputError, match="strictly between"):
        model.recalibrated().predict(X).quantile(1.0)


def test_errors_that_all_but_vanish_teach_something_too() -> None:
    """Errors of 1e-179 standard deviations have no density, and the narrowest error bars that there are."""
    X, y = _field(20, 3)
    mended = PRIOR.condition(X, 1e-179 * y, cagp.Cholesky()).recalibrated()
    std = mended.predict(X).std
    assert np.isfinite(std).all()
    assert (std > 0).all()


def test_observations_next_to_each_other_make_no_more_bands() -> None:
    """Thirty at each place, a billionth apart: from there to a quarter of the data is a long way."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.random((40, 2)), 30, axis=0) + 1e-9 * rng.random((1200, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=len(X))
    model = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.01).condition(X, y, cagp.NearestNeighbours(40))
    found = model.recalibrated(n=200, progress=False).margins
    assert len(found.bands) <= 10

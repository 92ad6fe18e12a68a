"""Predictions on the scale of the observations: beside SciPy's log-normal law, quadrature and draws."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import integrate, stats

import cagp
from cagp.errors import InputError, SavedModelError
from cagp.predicting.distributions import NormalMixture, Transformed
from cagp.recalibration import Recalibration
from cagp.saving.saved import Parts, decoded
from cagp.transforms import BoxCox, Log, Logit, SinhArcsinh, Transform, YeoJohnson

RNG = np.random.default_rng(3)
X = RNG.random((150, 2))
Z = np.sin(5 * X[:, 0]) + X[:, 1] + 0.3 * RNG.normal(size=150)
TEST = RNG.random((11, 2)) * 1.2
PRIOR = cagp.Prior(cagp.Matern52(0.5), mean=cagp.Constant(), noise_variance=0.1)
OTHER = cagp.Prior(cagp.Matern12(0.3), mean=cagp.Constant(), noise_variance=0.2)
TRANSFORMS = (
    Log(),
    BoxCox(0.3),
    BoxCox(0.2, 0.5),
    YeoJohnson(0.4, 1.0, 2.0),
    SinhArcsinh(0.5, 0.7, 1.0, 2.0),
    Logit(0, 9),
)
SINH = SinhArcsinh(0.5, 0.7, 1.0, 2.0)
INNER = ("plain", "mixture", "recalibrated", "conformal")


def model(transform: Transform, inner: str = "plain", n: int = 150) -> cagp.Model:
    y = transform.inverse(torch.from_numpy(Z[:n])).numpy()
    if inner == "mixture":
        of = transform.of(torch.from_numpy(y)).numpy()
        both = [prior.condition(X[:n], of, cagp.Cholesky()) for prior in (PRIOR, OTHER)]
        return cagp.Model([each.components[0] for each in both], [0.7, 0.3], transform=transform)
    found = PRIOR.transformed(transform).condition(X[:n], y, cagp.Cholesky())
    if inner == "recalibrated":
        return found.recalibrated(progress=False)
    if inner == "conformal":
        last = slice(n - 60, n)
        return model(transform, n=n - 60).recalibrated(calibration=(X[last], y[last]), progress=False)
    return found


def modelled(whole: cagp.Model) -> cagp.Model:
    """The same on the scale that was modelled."""
    return whole.replace(transform=None)


def test_the_logarithm_is_the_log_normal_law() -> None:
    whole = model(Log())
    inside = modelled(whole).predict(TEST).observed()
    law = stats.lognorm(s=inside.std, scale=np.exp(inside.mean))
    found = whole.predict(TEST).observed()
    np.testing.assert_allclose(found.mean, law.mean(), rtol=1e-12)
    np.testing.assert_allclose(found.std, law.std(), rtol=1e-10)
    np.testing.assert_allclose(found.variance, law.var(), rtol=1e-10)
    np.testing.assert_allclose(found.median, law.median(), rtol=1e-12)
    np.testing.assert_allclose(found.quantile([0.03, 0.9]), np.stack([law.ppf(0.03), law.ppf(0.9)], axis=1), rtol=1e-10)
    values = RNG.random(11) * 4
    np.testing.assert_allclose(found.cdf(values), law.cdf(values), rtol=1e-6)
    np.testing.assert_allclose(found.log_density(values), law.logpdf(values), rtol=1e-10)
    assert (whole.predict(TEST).mean < found.mean).all()  # of g⁻¹(f), without the noise
    np.testing.assert_array_equal(whole.predict_mean(TEST), whole.predict(TEST).mean)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda each: each.in_words)
def test_moments_by_quadrature(transform: Transform) -> None:
    whole = model(transform)
    found, inside = whole.predict(TEST).observed(), modelled(whole).predict(TEST).observed()
    for i in range(0, len(TEST), 4):
        mu, sigma = inside.mean[i], inside.std[i]

        def moment(power: int, mu: float = mu, sigma: float = sigma) -> float:
            def of(u: float) -> float:
                y = float(transform.inverse(torch.tensor(mu + sigma * u, dtype=torch.float64)))
                return float(y**power * stats.norm.pdf(u))

            return float(integrate.quad(of, -9, 9, limit=200, points=[-mu / sigma])[0])

        mean, square = moment(1), moment(2)
        assert found.mean[i] == pytest.approx(mean, rel=1e-4)
        assert found.variance[i] == pytest.approx(square - mean**2, rel=1e-3)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("transform", [Log(), SINH], ids=["log", "sinh-arcsinh"])
def test_what_every_prediction_has(transform: Transform, inner: str) -> None:
    whole = model(transform, inner)
    found, inside = whole.predict(TEST).observed(), modelled(whole).predict(TEST).observed()
    assert not found.is_normal
    assert len(found) == 11
    assert found.includes_noise
    assert found.guarantee == inside.guarantee
    assert found.status == inside.status
    p = np.array([0.1, 0.5, 0.8])
    quantiles = found.quantile(p)
    back = transform.forward(torch.from_numpy(quantiles)).numpy()
    np.testing.assert_allclose(back, inside.quantile(p), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found.median, found.quantile(0.5))
    low, high = found.interval(0.8)
    assert (low < found.median).all()
    assert (found.median < high).all()
    if inner != "conformal":  # whose quantiles are those of calibration observations
        np.testing.assert_allclose(found.cdf(quantiles[:, 2]), 0.8, atol=1e-8)
        np.testing.assert_allclose(found.normal_score(quantiles[:, 2]), stats.norm.ppf(0.8), atol=1e-6)
    # the density is the slope of the cdf, and the mean is that of the density
    middle = found.quantile(0.37)
    step = 1e-4 * (high - low)
    slope = (found.cdf(middle + step) - found.cdf(middle - step)) / (2 * step)
    np.testing.assert_allclose(np.exp(found.log_density(middle)), slope, rtol=0.02)
    if inner in ("plain", "mixture"):  # the others have densities with jumps
        grid = torch.linspace(-7, 9, 161, dtype=torch.float64)
        values = transform.inverse(grid)
        densities = np.stack([np.exp(found.log_density(float(value))) for value in values])
        weights = (0.1 / transform.log_slope(values).exp())[:, None].numpy()
        np.testing.assert_allclose((weights * densities).sum(axis=0), 1, atol=1e-6)
        np.testing.assert_allclose((weights * densities * values.numpy()[:, None]).sum(axis=0), found.mean, rtol=1e-5)
    elif inner == "recalibrated":
        # the mean is that under the prior, as far as it reaches; without a reach, as before 0.3, it has the whole tail,
        # and the std is the size of its errors
        normal = whole.replace(margins=None, transform=None).predict(TEST).observed()
        mean, variance = (torch.as_tensor(each)[None] for each in (normal.mean, normal.variance))
        under = NormalMixture(mean, variance, torch.ones(1, dtype=torch.float64))
        assert whole.reach is not None
        np.testing.assert_allclose(found.mean, Transformed(under, transform, whole.reach).mean, rtol=1e-9)
        far = whole.replace(limited=False).predict(TEST).observed()
        middles = far.quantile((np.arange(20_000) + 0.5) / 20_000)
        errors = np.sqrt(np.square(middles - far.mean[:, None]).mean(axis=1))
        np.testing.assert_allclose(far.std, errors, rtol=0.05)


def test_draws_have_the_moments() -> None:
    found = model(BoxCox(0.3)).predict(TEST)
    draws = found.sample(20_000, seed=1)
    np.testing.assert_allclose(draws.mean(axis=0), found.mean, atol=5 * found.std.max() / 20_000**0.5)
    np.testing.assert_allclose(draws.std(axis=0), found.std, rtol=0.1)
    np.testing.assert_array_equal(found.sample(2, seed=4), found.sample(2, seed=4))


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_positive_data_are_never_predicted_negative(inner: str) -> None:
    for transform in (Log(), BoxCox(0.3), BoxCox(0.5, 2.0)):
        found = model(transform, inner).predict(TEST * 10).observed(4.0)  # far away, with much noise
        assert (found.quantile(np.array([1e-9, 0.01, 0.5])) >= 0).all()
        assert (found.mean > 0).all()
        np.testing.assert_array_equal(found.cdf(-1e-9), 0)
        np.testing.assert_array_equal(found.log_density(-1.0), -np.inf)
        np.testing.assert_array_equal(found.normal_score(-1.0), -np.inf)
    share = model(Logit(0, 9)).predict(TEST * 10).observed(100.0)
    assert (share.interval(0.999)[0] >= 0).all()
    assert (share.interval(0.999)[1] <= 9).all()
    np.testing.assert_array_equal(share.cdf(9.0), 1)
    np.testing.assert_array_equal(share.normal_score(9.5), np.inf)
    np.testing.assert_array_equal(share.cdf(0.0), 0)


def test_zero_has_a_probability_of_its_own() -> None:
    found = model(BoxCox(0.5, 0.3)).predict(TEST).observed(2.0)
    atom = found.cdf(0.0)
    assert (atom > 0.01).all()
    np.testing.assert_array_equal(found.quantile(0.9 * atom.min()), 0)
    draws = modelled(model(BoxCox(0.5, 0.3))).predict(TEST).observed(2.0)
    expected = stats.norm.cdf((float(BoxCox(0.5, 0.3).forward(torch.zeros(()))) - draws.mean) / draws.std)
    np.testing.assert_allclose(atom, expected, rtol=1e-6)


def test_a_variance_beyond_all_numbers_is_infinite() -> None:
    found = model(Log()).predict(TEST).observed(1e6)
    assert np.isinf(found.std).all()
    assert np.isfinite(found.median).all()


def test_fields_are_carried_over() -> None:
    whole = model(Log(), "recalibrated")
    fields, inside = (each.simulate(TEST, 3, seed=2, progress=False).fields for each in (whole, modelled(whole)))
    np.testing.assert_allclose(fields, np.exp(inside), rtol=1e-9)


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("transform", [Log(), BoxCox(0.5, 0.3), SINH], ids=["log", "zeros", "sinh-arcsinh"])
def test_exceedance_beside_draws(transform: Transform, inner: str) -> None:
    """The share of draws beyond a threshold, which know nothing of normal scores; one number, and one each."""
    found = model(transform, inner).predict(TEST).observed()
    draws = found.sample(4000, seed=3)
    for threshold in (0.0, 1.0, np.linspace(0.2, 4.0, 11)):
        p = found.exceedance(threshold)
        assert p.shape == (11,)
        share = (draws > threshold).mean(axis=0) if inner != "conformal" else p  # which promises nothing about draws
        assert (np.abs(p - share) < 4.5 * np.sqrt(p * (1 - p) / 4000) + 1e-3).all()
        np.testing.assert_allclose(p, 1 - found.cdf(threshold), atol=1e-12)
    assert (found.exceedance(1.0) > found.exceedance(2.0)).all()


def test_exceedance_of_a_plain_model_is_the_tail_of_a_normal_law() -> None:
    found = PRIOR.condition(X, Z, cagp.Cholesky()).predict(TEST)
    for seen in (found, found.observed(), found.observed(2.0)):
        for threshold in (0.5, seen.mean + 9 * seen.std, np.linspace(-3, 3, 11)):
            expected = stats.norm.sf(threshold, seen.mean, seen.std)
            np.testing.assert_allclose(seen.exceedance(threshold), expected, rtol=1e-9)  # also far out
    for wrong, words in ((np.zeros(4), r"threshold has shape \(4,\) for 11"), (np.nan, "threshold has 1 values")):
        with pytest.raises(InputError, match=words):
            found.exceedance(wrong)


def test_torch_in_torch_out() -> None:
    found = model(BoxCox(0.3)).predict(torch.from_numpy(TEST)).observed()
    expected = model(BoxCox(0.3)).predict(TEST).observed()
    for name in ("mean", "std", "median", "variance"):
        assert isinstance(getattr(found, name), torch.Tensor)
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert isinstance(found.cdf(1.0), torch.Tensor)
    assert isinstance(found.sample(2), torch.Tensor)


@pytest.mark.parametrize(
    ("transform", "inner"), [*((each, "plain") for each in TRANSFORMS), (Log(), "conformal")], ids=str
)
def test_saved_and_loaded(tmp_path: Path, transform: Transform, inner: str) -> None:
    before = model(transform, inner)
    after: Any = cagp.load(before.save(tmp_path / "model"))
    assert after.transform == transform
    assert after.guarantee == before.guarantee
    for name in ("mean", "std", "median"):
        np.testing.assert_array_equal(getattr(after.predict(TEST), name), getattr(before.predict(TEST), name))
    assert cagp.saving.read(tmp_path / "model").parts.in_words.endswith(transform.in_words)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "cube"}, "unknown"),
        ({"kind": "log"}, "exactly the parameters"),
        ({"power": -3.0}, "between 0 and 2"),
        ({"power": "a"}, "real number"),
    ],
)
def test_what_cannot_be_a_transform_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    whole = model(BoxCox(0.3))
    content = Parts.of(whole).encoded(whole.solver, whole.prior, {})
    content[0]["transform"] |= change
    with pytest.raises((InputError, SavedModelError, TypeError), match=said):
        decoded(content, {}, 150)


def test_recalibration_stays_inside() -> None:
    found = model(Log()).recalibrated(n=100, progress=False)
    assert isinstance(found.margins, Recalibration)
    assert found.guarantee.kind == "empirical"
    assert "the logarithm" in repr(found)
    assert "11 test points" in repr(found.predict(TEST))
    with pytest.raises(InputError, match=r"calibration\[1\] has values .* 0 at row 0"):
        model(Log()).recalibrated(calibration=(X[:3], [0.0, 1.0, 1.0]))


@pytest.mark.parametrize("spread", [1.0, 6.0, 10.0])
def test_means_of_wide_predictions(spread: float) -> None:
    """Far out, where a logarithm is hardly known, its exponential has a mean and a spread that are all in the tail."""
    prior = cagp.Prior(cagp.RBF(1.0, spread**2), noise_variance=1e-4).transformed("log")
    found = prior.condition(np.zeros((1, 1)), np.ones(1)).predict(np.array([[100.0]]))
    law = stats.lognorm(s=spread)
    np.testing.assert_allclose([found.mean[0], found.std[0]], [law.mean(), law.std()], rtol=1e-6)


def test_the_name_of_the_target_stays() -> None:
    y = pd.Series(np.exp(np.sin(np.arange(9.0))), name="zinc")
    prior = cagp.Prior(cagp.Matern32(2.0), noise_variance=0.1)
    X = np.arange(9.0)[:, None]
    assert prior.transformed("log").condition(X, y).target_name == prior.condition(X, y).target_name == "zinc"

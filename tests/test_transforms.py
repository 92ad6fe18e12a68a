"""The maps themselves: their inverses, slopes and ends, beside SciPy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from cagp.errors import InputError
from cagp.transforms import KINDS, BoxCox, Log, Logit, SinhArcsinh, Transform, YeoJohnson, named
from random_examples import examples

POWERS = st.floats(1e-6, 2.0) | st.sampled_from([0.0, 1e-9, 1.0, 2.0])
TRANSFORMS = st.one_of(
    st.just(Log()),
    st.builds(BoxCox, POWERS, st.floats(0.0, 3.0)),
    st.builds(YeoJohnson, POWERS, st.floats(-5.0, 5.0), st.floats(0.1, 10.0)),
    st.builds(SinhArcsinh, st.floats(-2.0, 2.0), st.floats(0.25, 2.0), st.floats(-5.0, 5.0), st.floats(0.1, 10.0)),
    st.builds(Logit, st.floats(-3.0, 0.0), st.floats(12.0, 100.0)),
)
VALUES = torch.tensor([0.01, 0.3, 1.0, 2.5, 7.0, 11.0], dtype=torch.float64)
"""Inside of what every one of them takes."""


@examples(60)
@given(TRANSFORMS)
def test_there_and_back(transform: Transform) -> None:
    there = transform.of(VALUES)
    assert (there.diff() > 0).all()
    np.testing.assert_allclose(transform.inverse(there), VALUES, rtol=1e-7, atol=1e-9)


@examples(60)
@given(TRANSFORMS)
def test_the_slope_is_the_derivative(transform: Transform) -> None:
    values = VALUES.clone().requires_grad_()
    transform.forward(values).sum().backward()  # type: ignore[no-untyped-call]
    assert values.grad is not None
    np.testing.assert_allclose(transform.log_slope(VALUES), values.grad.log(), rtol=1e-9, atol=1e-9)
    step = 1e-6 * VALUES
    difference = (transform.forward(VALUES + step) - transform.forward(VALUES - step)) / (2 * step)
    np.testing.assert_allclose(transform.log_slope(VALUES).exp(), difference, rtol=1e-5)


@examples(40)
@given(TRANSFORMS, st.floats(-50.0, 50.0))
def test_nothing_is_predicted_where_observations_cannot_be(transform: Transform, z: float) -> None:
    value = float(transform.inverse(torch.tensor(z, dtype=torch.float64)))
    assert transform.lower <= value <= transform.upper
    ends = transform.inverse(torch.tensor([-math.inf, math.inf], dtype=torch.float64))
    np.testing.assert_array_equal(ends, [transform.lower, transform.upper])


@pytest.mark.parametrize("power", [0.0, 0.3, 1.0, 1.7, 2.0])
def test_like_scipy(power: float) -> None:
    positive = VALUES.numpy()
    np.testing.assert_allclose(BoxCox(power).forward(VALUES), special.boxcox(positive, power), rtol=1e-13)
    np.testing.assert_allclose(BoxCox(power, 0.5).forward(VALUES), special.boxcox(positive + 0.5, power), rtol=1e-13)
    any_sign = np.array([-8.0, -1.0, 0.0, 0.5, 20.0])
    expected = stats.yeojohnson((any_sign - 1.5) / 2.0, power)
    np.testing.assert_allclose(YeoJohnson(power, 1.5, 2.0).forward(torch.from_numpy(any_sign)), expected, rtol=1e-12)
    np.testing.assert_allclose(Logit().forward(VALUES[:2]), special.logit(positive[:2]), rtol=1e-13)


def test_what_cannot_be_transformed_is_named() -> None:
    y = torch.tensor([1.0, 0.0, 2.0, -3.0], dtype=torch.float64)
    with pytest.raises(InputError, match=r'"log" cannot take, 0 at row 1, -3 at row 3: .*"yeo-johnson"'):
        Log().of(y)
    with pytest.raises(InputError, match=r'0 at row 1: .*"box-cox" takes these'):
        Log().of(y[:3])
    with pytest.raises(InputError, match=r"0 at row 1: .*shift"):
        BoxCox(0.3).of(y[:3])
    assert BoxCox(0.3, 0.1).of(y[:3]).isfinite().all()
    with pytest.raises(InputError, match=r"-3 at row 3: .*yeo-johnson"):
        BoxCox(0.3, 0.1).of(y)
    with pytest.raises(InputError, match=r"1 at row 0, 0 at row 1, 2 at row 2, -3 at row 3: shares lie strictly"):
        Logit().of(y)
    with pytest.raises(InputError, match="and 45 more"):
        Log().of(torch.zeros(50, dtype=torch.float64))


def test_parameters_are_checked() -> None:
    with pytest.raises(InputError, match=r"power of box-cox must lie between 0 and 2, got -1"):
        BoxCox(-1.0)
    with pytest.raises(InputError, match="shift of box-cox must not be negative"):
        BoxCox(0.5, -1.0)
    with pytest.raises(InputError, match="scale must be positive"):
        YeoJohnson(0.5, 0.0, 0.0)
    with pytest.raises(InputError, match="scale must be positive"):
        SinhArcsinh(scale=-1.0)
    with pytest.raises(InputError, match="low of logit must be below high"):
        Logit(1.0, 1.0)
    with pytest.raises(InputError, match='transform must be one of "log"'):
        named("logarithm")


def test_zeros_get_a_shift() -> None:
    y = np.array([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    low, high = np.quantile(y[2:], [0.25, 0.75])
    assert BoxCox.starting(y).shift == pytest.approx(low**2 / high)
    assert BoxCox.starting(y[2:]).shift == 0
    assert BoxCox.starting(y).telling(y).tolist() == [False, False, True, True, True, True, True]


@pytest.mark.parametrize("kind", KINDS)
def test_words(kind: str) -> None:
    found = KINDS[kind].starting(np.array([0.2, 0.4, 0.5]))
    assert found.in_words
    assert "\n" not in found.in_words

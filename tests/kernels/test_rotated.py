"""Turned axes: the kernel against explicit matrices, and all that must not change when everything is turned alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from pykrige.ok import OrdinaryKriging
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation

import cagp
from cagp.errors import InputError, InputTypeError
from cagp.gram.previous_neighbours import previous_neighbours
from cagp.kernels.rotated import angles_of, directions_in_words, rotation
from random_examples import examples
from solver_cases import CASES

RNG = np.random.default_rng(5)
X = RNG.uniform(-3, 4, (40, 2))
POINTS = RNG.uniform(-3, 4, (7, 2))
Y = np.sin(X[:, 0]) + X[:, 1]


def plane(degrees: float) -> np.ndarray:
    """The turned axes as rows, by hand."""
    a = np.deg2rad(degrees)
    return np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])


def space(azimuth: float, dip: float, roll: float) -> np.ndarray:
    """The same in space, by SciPy: turned around the third column, then up, then around themselves."""
    return Rotation.from_euler("ZYX", [azimuth, -dip, roll], degrees=True).as_matrix().T


@pytest.mark.parametrize("angle", [30.0, -75.0, 90.0, 0.0])
def test_two_columns_are_as_by_hand(angle: float) -> None:
    scaled = X @ plane(angle).T / [4.0, 1.0]
    r = np.sqrt(3) * cdist(scaled, scaled)
    found = cagp.Rotated(cagp.Matern32((4.0, 1.0), 2.0), angle)(X)
    assert_allclose(found, 2.0 * (1 + r) * np.exp(-r), rtol=1e-12)


def test_three_columns_are_as_by_scipy() -> None:
    A, scales, angle = RNG.standard_normal((20, 3)), np.array([3.0, 1.0, 0.4]), (30.0, 20.0, -40.0)
    scaled = A @ space(*angle).T / scales
    found = cagp.Rotated(cagp.RBF(tuple(scales)), angle)(A)
    assert_allclose(found, np.exp(-0.5 * cdist(scaled, scaled, "sqeuclidean")), rtol=1e-12)


def test_the_long_axis_points_where_the_angle_says() -> None:
    kernel = cagp.Rotated(cagp.Matern32((4.0, 1.0)), 30.0)
    along, across = (
        np.array([[np.cos(np.pi / 6), np.sin(np.pi / 6)]]),
        np.array([[-np.sin(np.pi / 6), np.cos(np.pi / 6)]]),
    )
    zero = np.zeros((1, 2))
    assert_allclose(kernel(zero, along), cagp.Matern32(4.0)(zero, np.array([[1.0, 0.0]])), rtol=1e-12)
    assert_allclose(kernel(zero, across), cagp.Matern32(1.0)(zero, np.array([[1.0, 0.0]])), rtol=1e-12)


@examples(30)
@given(st.tuples(*[st.floats(-720, 720)] * 3))
def test_every_turn_has_an_equal_in_the_half_circle(angle: tuple[float, float, float]) -> None:
    A = np.array([[1.0, 0.3, -0.5], [0.2, 2.0, 0.4], [-1.0, 0.1, 0.7]])
    scaled = A @ space(*angle).T / [3.0, 1.0, 0.4]
    kernel = cagp.Rotated(cagp.RBF((3.0, 1.0, 0.4)), angle)
    assert isinstance(kernel.angle, tuple)
    assert all(-90 <= each <= 90 for each in kernel.angle)
    assert_allclose(kernel(A), np.exp(-0.5 * cdist(scaled, scaled, "sqeuclidean")), rtol=1e-9)
    again = angles_of(rotation(torch.tensor(kernel.angle, dtype=torch.float64)).numpy())
    assert_allclose(cagp.Rotated(cagp.RBF((3.0, 1.0, 0.4)), again)(A), kernel(A), rtol=1e-9)
    flat = cagp.Rotated(cagp.RBF((3.0, 1.0)), angle[0])
    assert -90 < flat.angle <= 90
    assert_allclose(flat.angle, angles_of(plane(angle[0])) if abs(flat.angle) < 89.9 else flat.angle, atol=1e-9)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_turning_data_and_kernel_together_changes_nothing(case) -> None:
    turn, inner = plane(25.0), cagp.Matern32((2.0, 0.7), 1.5)
    turned = cagp.Prior(cagp.Rotated(inner, 25.0), mean=cagp.Constant(), noise_variance=0.2)
    plain = cagp.Prior(inner, mean=cagp.Constant(), noise_variance=0.2)
    found = turned.condition(X, Y, case.solver).predict(POINTS)
    expected = plain.condition(X @ turn.T, Y, case.solver).predict(POINTS @ turn.T)
    assert_allclose(found.mean, expected.mean, atol=1e-7)
    assert_allclose(found.std, expected.std, atol=1e-7)


@examples(15)
@given(st.floats(-90, 90), st.floats(0.2, 5.0), st.floats(0.2, 5.0), st.floats(-180, 180))
def test_a_turned_world_has_the_same_predictions(angle: float, long: float, short: float, by: float) -> None:
    turn = plane(by)
    first, second = (cagp.Rotated(cagp.Matern52((long, short)), a) for a in (angle, angle - by))
    one = cagp.Prior(first, noise_variance=0.1).condition(X, Y).predict(POINTS)
    two = cagp.Prior(second, noise_variance=0.1).condition(X @ turn.T, Y).predict(POINTS @ turn.T)
    assert_allclose(one.mean, two.mean, atol=1e-8)
    assert_allclose(one.std, two.std, atol=1e-8)


def test_neighbours_are_those_of_its_own_metric() -> None:
    A = RNG.random((300, 2))
    kernel = cagp.Rotated(cagp.Matern32((4.0, 0.5)), 40.0)
    scaled = A @ plane(40.0).T / [4.0, 0.5]
    distance = cdist(scaled, scaled)
    found = previous_neighbours(kernel, torch.from_numpy(A), 8).numpy()
    unscaled = previous_neighbours(cagp.Matern32((4.0, 0.5)), torch.from_numpy(A), 8).numpy()
    for i in range(8, 300):
        nearest = np.argsort(distance[i, :i])[:8]
        assert set(found[i]) == set(nearest)
    assert (found != unscaled).mean() > 0.3


def test_ordinary_kriging_is_that_of_pykrige() -> None:
    # PyKrige stretches the second axis by the scaling; its range of an exponential model is three lengthscales
    angle, long, short = 35.0, 3.0, 1.2
    theirs = OrdinaryKriging(
        X[:, 0], X[:, 1], Y, "exponential", {"psill": 1.7, "range": 3 * long, "nugget": 0.3},
        anisotropy_scaling=long / short, anisotropy_angle=angle, exact_values=False,
    )  # fmt: skip
    mean, variance = theirs.execute("points", *POINTS.T)
    prior = cagp.Prior(cagp.Rotated(cagp.Matern12((long, short), 1.7), angle), mean=cagp.Constant(), noise_variance=0.3)
    found = prior.condition(X, Y).predict(POINTS).observed()
    assert_allclose(found.mean, mean, atol=1e-8)
    assert_allclose(found.variance, variance, atol=1e-8)


def test_it_composes_prints_and_is_saved(tmp_path: Path) -> None:
    A = RNG.random((30, 3))
    kernel = 2.0 * cagp.Rotated(cagp.Matern32((4.0, 1.0)) + cagp.RBF((2.0, 0.1)), 30).on(0, 2) * cagp.RBF(0.4).on(1)
    scaled = A[:, [0, 2]] @ plane(30.0).T
    inside = cagp.Matern32((4.0, 1.0))(scaled) + cagp.RBF((2.0, 0.1))(scaled)
    assert_allclose(kernel(A), 2.0 * inside * cagp.RBF(0.4)(A[:, 1:2]), rtol=1e-12)
    assert "Rotated(" in repr(kernel)
    assert "angle=30.0" in repr(kernel)
    assert kernel.angle_names() == {"kernel.kernels[0].kernel.angle"}
    model = cagp.Prior(kernel, noise_variance=0.1).condition(A, A[:, 0])
    model.save(tmp_path / "model")
    loaded = cagp.load(tmp_path / "model")
    assert loaded.prior.kernel == kernel
    assert_allclose(loaded.predict(A[:3]).mean, model.predict(A[:3]).mean, rtol=1e-12)


def test_axes_are_told_from_the_longest_on() -> None:
    major, minor = cagp.Rotated(cagp.Matern32((1.0, 4.0)), -60.0).axes[0]
    assert (major.lengthscale, minor.lengthscale) == (4.0, 1.0)
    assert major.azimuth == pytest.approx(30.0)
    assert minor.azimuth == pytest.approx(-60.0)
    (first, _, _) = cagp.Rotated(cagp.Matern32((4.0, 1.0, 0.5)), (30.0, 20.0, 70.0)).axes[0]
    assert (first.azimuth, first.dip) == pytest.approx((30.0, 20.0))
    (said,) = directions_in_words(cagp.Rotated(cagp.Matern32((1.0, 4.0)), -60.0), ["east", "north"], np.ones((1, 2)))
    assert "30° (counter-clockwise from east towards north)" in said


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: cagp.Rotated(3, 30), InputTypeError, "wraps a kernel"),
        (lambda: cagp.Rotated(cagp.Matern32(2.0), 30), InputError, "one lengthscale in all directions"),
        (lambda: cagp.Rotated(cagp.Geographic(cagp.Matern32(2.0)), 30), InputError, "radial kernels"),
        (lambda: cagp.Rotated(cagp.Matern32((2.0, 1.0)), (30, 20)), InputError, "azimuth, dip, roll"),
        (lambda: cagp.Rotated(cagp.Matern32((2.0, 1.0)), "30"), InputTypeError, "angle must be a real number"),
        (lambda: cagp.Rotated(cagp.Matern32((2.0, 1.0)), 30)(RNG.random((4, 3))), InputError, "needs 2 columns"),
    ],
)
def test_what_cannot_be_is_refused(make, error, words) -> None:
    with pytest.raises(error, match=words):
        make()

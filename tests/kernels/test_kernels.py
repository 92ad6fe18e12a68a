"""Kernels against scikit-learn's and against formulas written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as sk

import cagp
from radial_kernels import RADIAL, names_without
from random_examples import examples

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(9, 3)), RNG.normal(size=(5, 3))
LENGTHSCALES = (0.5, 2.0, 1.1)
SMOOTH_AND_ROUGH = (cagp.Matern12, cagp.Matern32, cagp.Matern52, cagp.RBF, cagp.RationalQuadratic, cagp.Spherical)


def sines(A: np.ndarray, B: np.ndarray | None = None) -> np.ndarray:
    """Periodic, written out for three columns."""
    sine = np.sin(np.pi * (A[:, None] - (A if B is None else B)[None]) / [0.6, 1.0, 3.0]) / [0.8, 2.0, 1.0]
    return 1.5 * np.exp(-2 * (sine**2).sum(-1))


def spherical(A: np.ndarray, B: np.ndarray | None = None) -> np.ndarray:
    """The share of a ball that two balls share, whose diameter 2.5 is the range, by the volume of two caps."""
    h = np.minimum(cdist(A, A if B is None else B), 2.5)
    radius, height = 1.25, 1.25 - h / 2
    return 2.0 * 2 * (np.pi * height**2 * (3 * radius - height) / 3) / (4 / 3 * np.pi * radius**3)


PAIRS = [
    (cagp.Spherical(2.5, 2.0), spherical),
    (cagp.Matern12(0.7, 2.0), 2.0 * sk.Matern(0.7, nu=0.5)),
    (cagp.Matern32(0.7, 2.0), 2.0 * sk.Matern(0.7, nu=1.5)),
    (cagp.Matern52(0.7, 2.0), 2.0 * sk.Matern(0.7, nu=2.5)),
    (cagp.RBF(0.7, 2.0), 2.0 * sk.RBF(0.7)),
    (cagp.RationalQuadratic(0.7, 2.0, alpha=0.3), 2.0 * sk.RationalQuadratic(0.7, alpha=0.3)),
    (cagp.Periodic((0.8, 2.0, 1.0), 1.5, (0.6, 1.0, 3.0)), sines),
    (cagp.Matern32(LENGTHSCALES), sk.Matern(LENGTHSCALES, nu=1.5)),
    (cagp.RBF(LENGTHSCALES), sk.RBF(LENGTHSCALES)),
    (cagp.Matern32(0.7) + cagp.RBF(2.0), sk.Matern(0.7, nu=1.5) + sk.RBF(2.0)),
    (cagp.Matern32(0.7) * cagp.RBF(2.0), sk.Matern(0.7, nu=1.5) * sk.RBF(2.0)),
    (2.5 * (cagp.Matern32(0.7) + cagp.RBF(2.0)), 2.5 * (sk.Matern(0.7, nu=1.5) + sk.RBF(2.0))),
    (
        (cagp.Matern12(1.0) + cagp.RBF(2.0)) * cagp.RBF(1.0) * 3,
        3 * (sk.Matern(1.0, nu=0.5) + sk.RBF(2.0)) * sk.RBF(1.0),
    ),
]


def test_every_built_in_function_of_the_distance_is_compared() -> None:
    missing = names_without(RADIAL, [ours for ours, _ in PAIRS])
    assert not missing, "add them to PAIRS of tests/kernels/test_kernels.py, each with an independent formula"


def called(one: object) -> str:
    """The same in every process: functions by their names."""
    return getattr(one, "__name__", repr(one)[:50])


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=called)
def test_equals_an_independent_formula(ours: cagp.Kernel, theirs: object) -> None:
    assert_allclose(ours(A, B), theirs(A, B), rtol=1e-12)
    assert_allclose(ours(A), theirs(A), rtol=1e-12)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS, ids=called)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_in_place_tiles_are_the_same_kernel(ours: cagp.Kernel, theirs: object, dtype: torch.dtype) -> None:
    """The tiles of the Gram matrix are filled in place; kernel(A, B) is the differentiable route."""
    prior = cagp.Prior(ours, noise_variance=0.1)
    model = prior.condition(A, np.zeros(9), cagp.GaussSeidel(0, order="natural"), storage="tiles", dtype=dtype)
    expected = theirs(A, A) + 0.1 * np.eye(9)
    with model.gram.block(0, 9, 0, 9) as block:
        assert_allclose(block.numpy(), expected, rtol=1e-12, atol=0 if dtype == torch.float64 else 2e-6)
    assert_allclose(model.gram.diagonal().numpy(), np.diag(theirs(A, A)) + 0.1, rtol=1e-6)


def test_periodic() -> None:
    x, z = A[:, :1], B[:, :1]
    ours = cagp.Periodic(lengthscale=0.8, variance=1.5, period=0.6)
    assert_allclose(ours(x, z), 1.5 * sk.ExpSineSquared(0.8, 0.6)(x, z), rtol=1e-11)
    assert_allclose(ours(x, x + 0.6), ours(x, x), rtol=1e-11)


def test_geographic_measures_chords() -> None:
    latlon = np.column_stack([RNG.uniform(-90, 90, 20), RNG.uniform(-180, 360, 20)])
    lat, lon = np.deg2rad(latlon).T
    sphere = np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    ours = cagp.Geographic(cagp.Matern32(0.4, 3.0))
    assert_allclose(ours(latlon), 3.0 * sk.Matern(0.4, nu=1.5)(sphere), rtol=1e-10)
    pole = ours(np.array([[90.0, 0.0], [90.0, 123.0]]))
    assert_allclose(pole, 3.0, rtol=1e-12)  # the pole is one point
    seam = ours(np.array([[10.0, 359.99]]), np.array([[10.0, -0.01]]))
    assert_allclose(seam, 3.0, rtol=1e-12)
    haversine = 2 * np.arcsin(cdist(sphere, sphere) / 2)
    assert haversine.max() <= np.pi
    assert ours.kernel.variance == 3.0
    assert (2 * ours).kernel.variance == 6.0


def test_on_columns() -> None:
    kernel = cagp.Matern32(0.5).on(2, 0) * cagp.RBF(1.0).on(1)
    expected = sk.Matern(0.5, nu=1.5)(A[:, [2, 0]], B[:, [2, 0]]) * sk.RBF(1.0)(A[:, [1]], B[:, [1]])
    assert_allclose(kernel(A, B), expected, rtol=1e-12)
    with pytest.raises(cagp.InputError, match="needs column 3"):
        cagp.RBF(1.0).on(3)(A, B)
    with pytest.raises(cagp.InputError, match="distinct"):
        cagp.RBF(1.0).on(1, 1)


def test_custom_kernel() -> None:
    def linear(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b.T + 1

    kernel = 2.0 * cagp.CustomKernel(linear)
    assert_allclose(kernel(A, B), 2 * (A @ B.T + 1), rtol=1e-12)
    gram = cagp.Prior(kernel, noise_variance=0.1).condition(A, np.zeros(9), cagp.Cholesky()).gram
    assert_allclose(gram.diagonal().numpy(), 2 * ((A**2).sum(1) + 1) + 0.1)
    with pytest.raises(cagp.InputError, match=r"shape \(9, 5\), it returned \(5, 9\)"):
        cagp.CustomKernel(lambda a, b: b @ a.T)(A, B)
    with pytest.raises(TypeError, match="function"):
        cagp.CustomKernel(3)  # type: ignore[arg-type]


EXAMPLES = [ours for ours, _ in PAIRS] + [
    cagp.Periodic(0.8, 1.5, 0.6),
    cagp.Geographic(cagp.Matern32(0.4)).on(0, 1) * cagp.RBF(1.0).on(2),
    cagp.Matern32((1.0, 2.0)) + 2 * cagp.Geographic(cagp.RBF(0.1) + cagp.Matern12(0.2)),
]


@pytest.mark.parametrize("kernel", EXAMPLES, ids=repr)
def test_repr_is_what_one_would_write(kernel: cagp.Kernel) -> None:
    assert eval(repr(kernel), vars(cagp)) == kernel


@pytest.mark.parametrize("kernel", EXAMPLES[:8], ids=repr)
def test_immutable(kernel: cagp.Kernel) -> None:
    with pytest.raises(AttributeError):
        kernel.variance = 3.0  # type: ignore[attr-defined]


def test_single_precision_keeps_its_digits_far_from_the_origin() -> None:
    """Inputs shifted by 50 with lengthscale 0.2: expanding |a − b|² would leave errors of 5e-2."""
    X = 50 + RNG.random((60, 2))
    prior = cagp.Prior(cagp.Matern32(0.2), noise_variance=1e-3)
    model = prior.condition(X, np.zeros(60), cagp.GaussSeidel(0, order="natural"), dtype=torch.float32)
    expected = sk.Matern(0.2, nu=1.5)(X) + 1e-3 * np.eye(60)
    with model.gram.block(0, 60, 0, 60) as block:
        assert_allclose(block.numpy(), expected, atol=2e-6)


def test_gradients_are_finite_at_zero_distance() -> None:
    for kind in SMOOTH_AND_ROUGH:
        lengthscale = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        kernel = kind(lengthscale)
        E = kernel.embed(torch.from_numpy(A), torch.zeros(3, dtype=torch.float64))
        kernel.evaluate(E, E).sum().backward()
        step = 1e-6
        numeric = (kind(0.7 + step)(A).sum() - kind(0.7 - step)(A).sum()) / (2 * step)
        assert_allclose(lengthscale.grad.item(), numeric, rtol=1e-6)


@examples(50)
@given(
    seed=st.integers(0, 10**6),
    lengthscale=st.floats(1e-3, 1e3),
    scale=st.floats(1e-3, 1e3),
    kind=st.sampled_from([*SMOOTH_AND_ROUGH, cagp.Periodic]),
)
def test_positive_semidefinite(seed: int, lengthscale: float, scale: float, kind: type) -> None:
    X = scale * np.random.default_rng(seed).normal(size=(12, 2))
    K = kind(lengthscale)(X)
    assert_allclose(K, K.T, rtol=1e-12, atol=1e-14)
    assert np.linalg.eigvalsh(K).min() > -1e-12
    assert (K <= 1 + 1e-12).all()


def test_geographic_in_kilometres() -> None:
    latlon = np.column_stack([RNG.uniform(-90, 90, 5), RNG.uniform(-180, 180, 5)])
    kilometres = cagp.Geographic(cagp.Matern32(637.1), radius=6371)
    assert_allclose(kilometres(latlon), cagp.Geographic(cagp.Matern32(0.1))(latlon), rtol=1e-12)
    assert (2 * kilometres).radius == 6371
    with pytest.raises(cagp.InputError, match="radius must be positive"):
        cagp.Geographic(cagp.RBF(), radius=0)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (cagp.kernels.Level(1.3), lambda A, B: np.full((len(A), len(B)), 1.3)),
        (cagp.kernels.Linear(0.7, 2.0), lambda A, B: 0.7 * (2.0 + A @ B.T)),
        (cagp.kernels.Power(cagp.kernels.Linear(0.7, 2.0), 3), lambda A, B: (0.7 * (2.0 + A @ B.T)) ** 3),
        (
            cagp.FractionalBrownian(0.7, 1.4),
            lambda A, B: 0.7 * ((A**2).sum(1)[:, None] ** 0.7 + (B**2).sum(1) ** 0.7 - cdist(A, B) ** 1.4),
        ),
        (2.0 * cagp.kernels.Power(cagp.RBF(0.5), 2), lambda A, B: 2.0 * cagp.RBF(0.5)(A, B) ** 2),
    ],
    ids=lambda value: repr(value) if isinstance(value, cagp.Kernel) else "",
)
def test_algebraic_kernels(kernel: cagp.Kernel, expected: object) -> None:
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(30, 3)), rng.normal(size=(7, 3))
    assert_allclose(kernel(A, B), expected(A, B), rtol=1e-12)  # type: ignore[operator]
    prior = cagp.Prior(kernel, noise_variance=0.1)
    post = {
        storage: prior.condition(A, A[:, 0], cagp.Cholesky(), storage=storage).predict(B)
        for storage in ("dense", "tiles")
    }
    K, V = expected(A, A), expected(B, A)  # type: ignore[operator]
    variance = np.diag(expected(B, B) - V @ np.linalg.solve(K + 0.1 * np.eye(30), V.T))  # type: ignore[operator]
    assert_allclose(post["dense"].variance, variance, rtol=1e-6, atol=1e-9)
    assert_allclose(post["tiles"].variance, variance, rtol=1e-6, atol=1e-9)
    neighbours = prior.condition(A, A[:, 0], cagp.NearestNeighbours(30)).predict(B)
    assert_allclose(neighbours.variance, variance, rtol=1e-6, atol=1e-9)

"""Translated kernels are scikit-learn's own numbers, and translate back."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk

import cagp
from cagp.interop import from_sklearn

C, W = sk.ConstantKernel, sk.WhiteKernel
EXACT = [
    sk.RBF(0.7),
    sk.Matern(0.7, nu=0.5),
    2.0 * sk.Matern(0.7, nu=1.5),
    C(3.0) * C(0.5) * sk.Matern(0.7, nu=2.5),
    sk.Matern(0.7, nu=np.inf) * 2.0,
    sk.RationalQuadratic(0.7, 1.4),
    sk.DotProduct(0.6),
    0.3 * sk.DotProduct(0.6) ** 2,
    sk.RBF(0.7) ** 3 + C(2.0),
    C(2.0) * (sk.RBF(0.7) + sk.RationalQuadratic(0.3, 0.2)),
    C(2.0) * sk.RBF(0.7) * sk.Matern(0.9, nu=1.5) * C(0.4) * C(0.5),
    (C(2.0) * sk.RBF(0.7)) ** 2,
]
ONE_COLUMN = [
    sk.ExpSineSquared(0.8, 1.3),
    2.0**2 * sk.RBF(100.0) * sk.ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed") + 0.5 * sk.RationalQuadratic(0.3),
]
SEVERAL_COLUMNS = [sk.RBF((0.5, 1.0, 2.0)), 2.0 * sk.Matern((0.5, 1.0, 2.0), nu=1.5)]
OPAQUE = [sk.Matern(0.7, nu=0.8), sk.PairwiseKernel(metric="laplacian"), sk.RBF(0.5) ** 1.5]


def points(p: int, n: int = 12, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, p)) + 3.0


@pytest.mark.parametrize(
    ("kernel", "p"),
    [*((k, p) for k in EXACT for p in (1, 3)), *((k, 1) for k in ONE_COLUMN), *((k, 3) for k in SEVERAL_COLUMNS)],
    ids=str,
)
def test_exact(kernel: sk.Kernel, p: int) -> None:
    found = from_sklearn(kernel, p)
    assert not found.opaque
    assert "CustomKernel" not in repr(found.kernel)
    assert found.kernel is not None
    A, B = points(p), points(p, 5, 1)
    assert_allclose(found.kernel(A, B), kernel(A, B), rtol=1e-10, atol=1e-14)
    assert_allclose(found.kernel(A), kernel(A), rtol=1e-10, atol=1e-14)
    assert len(found.bounds) == kernel.n_dims
    assert_allclose(sorted(np.log(list(found.bounds.values())).ravel()), sorted(_scaled_bounds(kernel)), rtol=1e-10)


def _scaled_bounds(kernel: sk.Kernel) -> list[float]:
    """The bounds of theta; those of sigma_0 twice, since cagp's offset is its square."""
    names = [h.name for h in kernel.hyperparameters if not h.fixed for _ in range(h.n_elements)]
    return [
        b * (2 if name.endswith("sigma_0") else 1)
        for name, pair in zip(names, kernel.bounds, strict=True)
        for b in pair
    ]


@pytest.mark.parametrize("kernel", [*EXACT, *ONE_COLUMN], ids=str)
def test_back_again_with_other_values(kernel: sk.Kernel) -> None:
    found = from_sklearn(kernel, 1)
    rng = np.random.default_rng(0)
    values: dict[str, float] = {}

    def other(name: str, value: float) -> float:
        values[name] = value if name in found.fixed else value * rng.uniform(0.5, 2.0)
        return values[name]

    assert found.kernel is not None
    changed = found.kernel.with_hyperparameters(other)
    back = found.to_sklearn(values)
    assert_allclose(changed(points(1)), back(points(1)), rtol=1e-9, atol=1e-14)
    assert back != kernel
    assert str(kernel) == str(found.source)  # what was given is not changed


def test_fixed_stays_fixed() -> None:
    kernel = C(2.0, "fixed") * sk.RBF(0.7) + sk.ExpSineSquared(1.0, 1.0, periodicity_bounds="fixed") + W(0.1, "fixed")
    found = from_sklearn(kernel, 1)
    assert set(found.bounds) == {"kernel.kernels[0].lengthscale", "kernel.kernels[1].lengthscale"}
    assert "kernel.kernels[1].period" in found.fixed
    assert not found.noise_is_free


@pytest.mark.parametrize(
    ("kernel", "noise", "back"),
    [
        (sk.RBF() + W(0.1), 0.1, {"k2__noise_level": 0.4}),
        (W(0.1) + sk.RBF(), 0.1, {"k1__noise_level": 0.4}),
        (sk.RBF() + C(3.0) * W(0.1), 0.3, {"k2__k2__noise_level": 0.4 / 3}),
        (sk.RBF() + C(3.0) * W(0.1, "fixed"), 0.3, {"k2__k1__constant_value": 4.0}),
        (sk.RBF() + W(0.1) + W(0.1, "fixed"), 0.2, {"k1__k2__noise_level": 0.3}),
        (sk.RBF() + W(0.1) + W(0.3), 0.4, {"k1__k2__noise_level": 0.1, "k2__noise_level": 0.3}),
    ],
    ids=str,
)
def test_white_kernels_are_noise(kernel: sk.Kernel, noise: float, back: dict[str, float]) -> None:
    found = from_sklearn(kernel, 2)
    assert_allclose(found.noise_variance, noise)
    X = points(2)
    assert found.kernel is not None
    assert_allclose(found.kernel(X) + noise * np.eye(12), kernel(X), rtol=1e-12)
    fitted = found.to_sklearn({}, 0.4).get_params()
    for name, value in back.items():
        assert_allclose(fitted[name], value)


@pytest.mark.parametrize("kernel", [2.0 * (sk.RBF() + W()), sk.RBF() * W(), (sk.RBF() + W()) ** 2], ids=str)
def test_white_kernel_in_brackets_is_refused(kernel: sk.Kernel) -> None:
    with pytest.raises(cagp.InputError, match="multiply the brackets out"):
        from_sklearn(kernel, 1)


@pytest.mark.parametrize("kernel", [*OPAQUE, 2.0 * sk.Matern(0.7, nu=0.8) + sk.RBF(0.4)], ids=str)
@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.GaussSeidel(500), cagp.NearestNeighbours(40)], ids=repr)
def test_other_kernels_are_asked_block_by_block(kernel: sk.Kernel, solver: cagp.Solver) -> None:
    found = from_sklearn(kernel, 2)
    assert found.opaque
    X, X_test = points(2, 40), points(2, 6, 1)
    y = np.sin(X[:, 0])
    expected = GaussianProcessRegressor(kernel, alpha=0.1, optimizer=None).fit(X, y)
    assert found.kernel is not None
    model = cagp.Prior(found.kernel, noise_variance=0.1).condition(X, y, solver)
    mean, std = expected.predict(X_test, return_std=True)
    assert_allclose(model.predict(X_test).mean, mean, rtol=1e-6, atol=1e-8)
    assert_allclose(model.predict(X_test).std, std, rtol=1e-6)
    assert_allclose(pickle.loads(pickle.dumps(model)).predict(X_test).mean, mean, rtol=1e-6, atol=1e-8)


def test_periodic_in_the_distance_is_not_periodic_in_each_column() -> None:
    kernel = 2.0 * sk.ExpSineSquared(1.0, 3.0)
    found = from_sklearn(kernel, 2)
    assert found.opaque
    assert found.kernel is not None
    assert_allclose(found.kernel(points(2)), kernel(points(2)))


def test_a_subclass_is_not_taken_for_its_parent() -> None:
    class Twice(sk.RBF):
        def __call__(self, X, Y=None, eval_gradient=False):  # type: ignore[no-untyped-def]
            return 2 * super().__call__(X, Y)

    found = from_sklearn(Twice(0.5), 1)
    assert found.opaque
    assert found.kernel is not None
    assert_allclose(found.kernel(points(1)), 2 * sk.RBF(0.5)(points(1)))


def test_what_is_no_kernel() -> None:
    with pytest.raises(cagp.InputTypeError, match=r"sklearn\.gaussian_process"):
        from_sklearn("rbf", 1)  # type: ignore[arg-type]

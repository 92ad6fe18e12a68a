"""The kernel of several quantities: its matrix, its gradients, and who is near."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import cagp
from cagp.errors import InputError
from cagp.hyperparameters.exact import ExactLikelihood
from cagp.hyperparameters.observations import observations
from cagp.hyperparameters.search_space import Space
from cagp.hyperparameters.terms import Terms
from cagp.hyperparameters.vecchia import VecchiaLikelihood
from cagp.kernels import Coregionalised, NoiseByQuantity
from cagp.kernels.nearness import coordinates_of, near_coordinates
from cagp.means import ByQuantity

B = np.array([[1.0, 0.8, -0.5], [0.8, 2.0, 0.1], [-0.5, 0.1, 0.7]])


def points(n: int = 25) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.column_stack([rng.random((n, 2)), rng.integers(0, 3, n)])


def test_it_is_the_matrix_between_quantities_times_the_kernel_between_places() -> None:
    X, Z = points(), points()[::2]
    plain = cagp.Matern52((0.2, 0.5))
    kernel = Coregionalised.of(plain, B)
    between = B[np.ix_(X[:, 2].astype(int), Z[:, 2].astype(int))]
    np.testing.assert_allclose(kernel(X, Z), between * plain(X[:, :2], Z[:, :2]), rtol=1e-12)
    np.testing.assert_allclose(kernel.B, B, atol=1e-12)
    np.testing.assert_allclose((3.0 * kernel)(X), 3 * kernel(X))
    np.testing.assert_allclose(kernel.correlations[0, 1], 0.8 / 2**0.5)


def test_of_two_quantities_the_correlation_is_the_cosine_of_the_angle() -> None:
    kernel = Coregionalised(cagp.RBF(1.0), (2.0, 3.0), (60.0,))
    np.testing.assert_allclose(kernel.B, [[4.0, 3.0], [3.0, 9.0]])


def prior() -> cagp.Prior:
    kernel = Coregionalised.of(cagp.Matern32((0.2, 0.3)), B) + Coregionalised.of(cagp.Matern12(0.9), B + np.eye(3))
    levels = NoiseByQuantity((0.3, 0.5, 0.2))
    return cagp.Prior(kernel, mean=ByQuantity(3, degree=1), noise_variance=1.3, noise_pattern=levels)


@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("kind", ["exact", "nearest-neighbours"])
def test_gradients_are_finite_differences(kind: str, outliers: bool) -> None:
    X, y = points(), np.random.default_rng(1).normal(size=25)
    own = prior()
    if outliers:
        factors = np.where(np.arange(25) % 9 == 0, 4.0, 1.0)
        own = cagp.Prior(
            own.kernel, mean=own.mean, noise_variance=1.3, noise_pattern=own.noise_pattern, noise_factors=factors
        )
    space = Space.of(own, fix=["variance"])
    assert {"noise_variance", "noise_pattern.values[2]", "kernel.kernels[1].angle[2]"} <= set(space.names)
    data = observations(own, X, y, None)
    if kind == "exact":
        likelihood = ExactLikelihood(space, data, 2**30)
        value = own.log_likelihood(X, y)
        assert likelihood(space.start).log_likelihood == pytest.approx(value)
    else:
        neighbours = torch.stack([(torch.arange(9) + 1 + i) % 25 for i in range(25)])
        likelihood = VecchiaLikelihood(space, data, Terms.all_of(neighbours), 2**30)
    with torch.enable_grad():
        found = likelihood(space.start).gradient
    for i in range(space.size):
        step = np.zeros(space.size)
        step[i] = 1e-5
        slope = (likelihood.value(space.start + step) - likelihood.value(space.start - step)) / 2e-5
        assert found[i] == pytest.approx(slope, rel=1e-5, abs=1e-6), space.names[i]


def test_the_likelihood_is_that_of_dense_algebra() -> None:
    X, y, own = points(), np.random.default_rng(1).normal(size=25), prior()
    quantity = X[:, 2].astype(int)
    G = own.kernel(X) + np.diag(1.3 * np.square([0.3, 0.5, 0.2])[quantity])
    H = np.column_stack([np.eye(3)[quantity] * column[:, None] for column in (np.ones(25), X[:, 0], X[:, 1])])
    inner = H.T @ np.linalg.solve(G, H)
    beta = np.linalg.solve(inner, H.T @ np.linalg.solve(G, y))
    left = y - H @ beta
    logs = np.linalg.slogdet(G)[1] + np.linalg.slogdet(inner)[1] - np.linalg.slogdet(H.T @ H)[1]
    value = -0.5 * (left @ np.linalg.solve(G, left) + logs + (25 - 9) * np.log(2 * np.pi))
    assert own.log_likelihood(X, y) == pytest.approx(value)


def test_a_fit_finds_what_the_data_were_drawn_from() -> None:
    rng = np.random.default_rng(3)
    places = rng.random((150, 2))
    X = np.column_stack([places.repeat(2, axis=0), np.tile([0.0, 1.0], 150)])
    truth = Coregionalised.of(cagp.Matern32(0.3), [[1.0, -1.6], [-1.6, 4.0]])
    G = truth(X) + np.diag(np.where(X[:, 2] == 0, 0.01, 0.25))
    y = np.linalg.cholesky(G) @ rng.normal(size=300) + np.where(X[:, 2] == 0, 100.0, 0.0)
    start = cagp.Prior(
        Coregionalised.of(cagp.Matern32(0.1), np.eye(2)),
        mean=ByQuantity(2),
        noise_variance=1.0,
        noise_pattern=NoiseByQuantity((0.3, 0.3)),
    )
    found = start.fit(X, y, fix=["variance", "noise_variance"], n_restarts=0)
    assert found.kernel.correlations[0, 1] == pytest.approx(-0.8, abs=0.1)
    np.testing.assert_allclose(np.square(found.noise_pattern.values), [0.01, 0.25], rtol=0.5)


def test_all_quantities_of_near_places_are_near() -> None:
    X = torch.from_numpy(points())
    for kernel in (Coregionalised.of(cagp.Matern32(0.2), B), prior().kernel, prior().kernel + cagp.RBF(0.5)):
        embedding = kernel.embed(X, X.mean(dim=0))
        coordinates = coordinates_of(near_coordinates(kernel, embedding), embedding)
        assert bool(coordinates.isfinite().all())
    one = Coregionalised.of(cagp.Matern32(0.2), B)
    embedding = one.embed(X, X.mean(dim=0))
    coordinates = coordinates_of(near_coordinates(one, embedding), embedding)
    torch.testing.assert_close(coordinates, (X[:, :2] - X[:, :2].mean(dim=0)) / 0.2)


def test_quantities_of_very_different_size_are_searched() -> None:
    """A covariance between a small and a large quantity is larger than the variance of the small one."""
    rng = np.random.default_rng(0)
    places = rng.random((40, 2))
    X = np.column_stack([places.repeat(2, axis=0), np.tile([0.0, 1.0], 40)])
    big = np.array([[1.0, 900.0], [900.0, 1e6]])
    kernel = Coregionalised.of(cagp.Matern32(0.2), big) + Coregionalised.of(cagp.Matern12(1.0), big)
    noise = NoiseByQuantity((0.1, 100.0))
    model = cagp.Prior(kernel, mean=ByQuantity(2), noise_variance=1.0, noise_pattern=noise).condition(
        X, rng.normal(size=80), cagp.NearestNeighbours(20)
    )
    assert np.isfinite(model.predict(X[:5]).mean).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Coregionalised(cagp.RBF(1.0), (1.0,), ()), "two or more"),
        (lambda: Coregionalised(cagp.RBF(1.0), (1.0, 2.0), (10.0, 20.0)), "2 angles"),
        (lambda: Coregionalised(cagp.RBF(1.0), (1.0, -2.0), (10.0,)), r"deviations\[1\] must be positive"),
        (lambda: Coregionalised.of(cagp.RBF(1.0), [[1.0, 2.0], [2.0, 1.0]]), "positive definite"),
        (lambda: Coregionalised.of(cagp.RBF(1.0), [[1.0, 0.2], [0.3, 1.0]]), "symmetric"),
        (lambda: Coregionalised.of(cagp.RBF(1.0), np.eye(2))([[0.0, 2.0]]), "number of a quantity, 0 to 1, got 2"),
        (lambda: Coregionalised.of(cagp.RBF(1.0), np.eye(2))([[0.0, 0.5]]), "number of a quantity, 0 to 1, got 0.5"),
        (lambda: Coregionalised.of(cagp.RBF(1.0), np.eye(2))([[0.0]]), "the number of the quantity last"),
        (lambda: NoiseByQuantity((1.0, 0.0)), r"values\[1\] must be positive"),
        (lambda: ByQuantity(0), "quantities must be at least 1"),
    ],
)
def test_what_cannot_be_is_refused(make: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()  # type: ignore[operator]

"""Unknown coefficients are integrated out: the likelihood of what the data say whatever the trend is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from likelihood_problems import KERNELS, observations, space_of
from numpy.testing import assert_allclose

import cagp
from cagp.gram.previous_neighbours import previous_neighbours
from cagp.hyperparameters.exact import ExactLikelihood
from cagp.hyperparameters.observations import Observations
from cagp.hyperparameters.search_space import Space
from cagp.hyperparameters.terms import Terms
from cagp.hyperparameters.vecchia import VecchiaLikelihood


def contrasts(space: Space, data: Observations, log_values: torch.Tensor) -> torch.Tensor:
    """log p of n − q orthonormal contrasts Kᵀy with KᵀH = 0, for each output, by torch.distributions."""
    values = list(log_values.exp())
    kernel, origin = space.kernel(values), data.X.mean(dim=0)
    G = kernel.evaluate(kernel.embed(data.X, origin), kernel.embed(data.X, origin))
    noise = data.noise if data.noise is not None else space.noise(values) * torch.ones_like(data.X[:, 0])
    G = G + torch.diag(noise + data.jitter)
    K = torch.linalg.qr(data.basis, mode="complete").Q[:, data.basis.shape[1] :]
    normal = torch.distributions.MultivariateNormal(torch.zeros_like(K[0]), K.T @ G @ K)
    return sum(normal.log_prob(K.T @ y) for y in data.y.reshape(data.size, -1).unbind(1))


def restricted(noise: bool, outputs: int = 1) -> Observations:
    data = replace(observations(basis=True, noise=noise), restricted=True)
    if outputs == 1:
        return data
    several = torch.stack([data.y, data.y.flip(0), 3 * data.y + 1], dim=1)
    return replace(data, y=several, mean=torch.zeros_like(several))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("route", ["exact", "all neighbours"])
def test_value_and_gradient(name: str, noise: bool, outputs: int, route: str) -> None:
    space, data = space_of(name, noise=not noise), restricted(noise, outputs)
    at = space.start + 0.2 * np.cos(np.arange(len(space.start)))
    if route == "exact":
        found = ExactLikelihood(space, data, 2**30)(at)
    else:
        near = previous_neighbours(space.kernel(np.exp(at).tolist()), data.X, data.size - 1)
        found = VecchiaLikelihood(space, data, Terms.all_of(near), 2**30)(at)
    log_values = torch.from_numpy(at).requires_grad_()
    expected = contrasts(space, data, log_values)
    expected.backward()
    assert_allclose(found.log_likelihood, float(expected.detach()), rtol=1e-9)
    assert_allclose(found.gradient, log_values.grad, rtol=1e-6, atol=1e-6)


def test_gradient_with_few_neighbours_is_that_of_the_value() -> None:
    space, data = space_of("matern32-ard"), restricted(False)
    near = previous_neighbours(KERNELS["matern32-ard"], data.X, 6)
    likelihood = VecchiaLikelihood(space, data, Terms.all_of(near), 2**30)
    step = 1e-5
    for i in range(len(space.start)):
        shift = step * np.eye(len(space.start))[i]
        slope = (likelihood(space.start + shift).log_likelihood - likelihood(space.start - shift).log_likelihood) / (
            2 * step
        )
        assert_allclose(likelihood(space.start).gradient[i], slope, rtol=1e-5, atol=1e-6)


def test_the_trend_is_that_of_generalised_least_squares() -> None:
    space, data = space_of("matern32-ard"), restricted(False)
    assert data.basis is not None
    kernel, values, X = KERNELS["matern32-ard"], space.values(space.start), data.X.numpy()
    near = previous_neighbours(kernel, data.X, data.size - 1)
    found = VecchiaLikelihood(space, data, Terms.all_of(near), 2**30).trend(space.start)
    assert found is not None
    solved = np.linalg.solve(kernel(X, X) + np.diag(data.diagonal(space.noise(values)).numpy()), data.basis.numpy())
    covariance = np.linalg.inv(data.basis.numpy().T @ solved)
    assert_allclose(found.coefficients, covariance @ (solved.T @ data.y.numpy()), rtol=1e-8)
    assert_allclose(found.covariance, covariance, rtol=1e-8)


@pytest.mark.parametrize("kind", ["exact", "nearest-neighbours"])
def test_a_trend_in_the_data_does_not_matter(kind: str) -> None:
    """Neither to the fitted prior nor to the likelihood."""
    rng = np.random.default_rng(0)
    X = rng.random((80, 2))
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=80)
    prior = cagp.Prior(cagp.Matern32(0.3), mean=cagp.Polynomial(1), noise_variance=0.02)
    plain = cagp.hyperparameters.fit(prior, X, y, likelihood=kind, n_restarts=0)
    moved = cagp.hyperparameters.fit(prior, X, y + 100 * X[:, 0] - 30, likelihood=kind, n_restarts=0)
    assert_allclose(moved.log_likelihood, plain.log_likelihood, rtol=1e-6)
    assert_allclose(moved.prior.kernel.lengthscale, plain.prior.kernel.lengthscale, rtol=1e-3)
    assert plain.prior.mean == cagp.Polynomial(1)  # still unknown
    for name, shift in (("mean.coefficients[0]", -30), ("mean.coefficients[1]", 100), ("mean.coefficients[2]", 0)):
        assert_allclose(moved.values[name] - plain.values[name], shift, atol=0.02)
    assert_allclose(
        prior.log_likelihood(X, y, likelihood=kind),
        prior.log_likelihood(X, y + 5 * X[:, 1], likelihood=kind),
        rtol=1e-9,
    )


def test_the_profile_likelihood_plugs_in() -> None:
    rng = np.random.default_rng(0)
    X = rng.random((60, 1))
    y = 3 + np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=60)
    prior = cagp.Prior(cagp.Matern32(0.3), mean=cagp.Constant(), noise_variance=0.02)
    plugged = prior.fit(X, y, refit_mean=True)
    assert plugged.mean.value is not None
    assert prior.fit(X, y).mean == cagp.Constant()


def test_restricted_variances_are_not_too_small() -> None:
    """White noise about a quadratic in few points: the average fitted variance is that of the noise, not less."""
    X = np.linspace(0, 1, 9)[:, None]
    prior = cagp.Prior(cagp.Level(1e-12), mean=cagp.Polynomial(2), noise_variance=1.0)
    rng = np.random.default_rng(1)
    draws = rng.normal(size=(120, 9))
    options = {"fix": ["kernel"], "n_restarts": 0, "standard_errors": False}
    fitted = [cagp.hyperparameters.fit(prior, X, y, **options).prior.noise_variance for y in draws]
    profiled = [cagp.hyperparameters.fit(prior, X, y, refit_mean=True, **options).prior.noise_variance for y in draws]
    assert_allclose(fitted, (9 / 6) * np.array(profiled), rtol=1e-3)  # n / (n − q), the textbook's correction
    assert abs(np.mean(fitted) - 1) < 3 * np.std(fitted) / np.sqrt(120)

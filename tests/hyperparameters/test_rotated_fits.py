"""Angles in likelihoods and fits: gradients in every route, and what a turned field tells of itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from cagp.hyperparameters.directions import promise, turned
from cagp.hyperparameters.exact import CompiledExactLikelihood, ExactLikelihood, exact_likelihood
from cagp.hyperparameters.fitting import log_likelihoods
from cagp.hyperparameters.observations import observations
from cagp.hyperparameters.search_space import Space
from cagp.hyperparameters.terms import sample_terms
from cagp.hyperparameters.vecchia import CompiledVecchiaLikelihood, NeighbourSetting, VecchiaLikelihood

BUDGET = 2**30

KERNELS = {
    "two columns": cagp.Rotated(cagp.Matern32((0.5, 0.2)), 30.0).on(0, 1),
    "varying": cagp.Varying(
        cagp.Rotated(cagp.Matern32((0.5, 0.2)), 30.0).on(0, 1),
        cagp.Pattern(cagp.RBF(0.4), [[0.2, 0.2, 0.2], [0.8, 0.8, 0.8]], [0.7, 1.4]),
    ),
    "three columns": cagp.Rotated(cagp.Matern52((0.5, 0.2, 0.3)), (30.0, -20.0, 50.0)),
    "a sum, beside another": cagp.Rotated(cagp.Matern12((0.5, 0.2)) + cagp.RationalQuadratic((0.1, 0.7)), -70.0).on(
        0, 2
    )
    * cagp.Matern12(0.3).on(1),
}


def field(n: int, kernel: cagp.Kernel, seed: int, columns: int = 2) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed)
    X = draws.uniform(0, 10, (n, columns))
    return X, np.linalg.cholesky(kernel(X) + 0.05 * np.eye(n)) @ draws.standard_normal(n)


def differences(likelihood, at: np.ndarray) -> np.ndarray:
    steps = 1e-5 * np.eye(len(at))
    return np.array([likelihood(at + s).log_likelihood - likelihood(at - s).log_likelihood for s in steps]) / 2e-5


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("beyond", [0.0, 2.2])
def test_gradients_are_those_of_differences(name: str, beyond: float) -> None:
    """Also at angles ``beyond`` the half circle, where the kernel has equal ones with axes that point the other way."""
    X, y = np.random.default_rng(1).random((90, 3)), np.random.default_rng(2).standard_normal(90)
    prior = cagp.Prior(KERNELS[name], mean=cagp.Constant(), noise_variance=0.3)
    space, data = Space.of(prior), observations(prior, X, y, None)
    at = space.start + beyond * np.array(["angle" in each for each in space.names])
    torch_route = ExactLikelihood(space, data, BUDGET)
    expected = torch_route(at).gradient
    assert_allclose(expected, differences(torch_route, at), atol=1e-5)
    near = VecchiaLikelihood(
        space, data, NeighbourSetting(space, data, sample_terms(90, 90, np.random.default_rng(0)), 12, BUDGET)
        .likelihood(at).terms, BUDGET,
    )  # fmt: skip
    assert_allclose(near(at).gradient, differences(near, at), atol=1e-5)
    pytest.importorskip("numba")
    compiled = exact_likelihood(space, data, BUDGET)
    assert isinstance(compiled, CompiledExactLikelihood)
    assert_allclose(compiled(at).gradient, expected, atol=1e-8)
    quick = NeighbourSetting(space, data, sample_terms(90, 90, np.random.default_rng(0)), 12, BUDGET).likelihood(at)
    assert isinstance(quick, CompiledVecchiaLikelihood)
    assert_allclose(quick(at).gradient, near(at).gradient, atol=1e-8)


def test_angles_are_free_of_bounds_and_in_degrees() -> None:
    prior = cagp.Prior(cagp.Rotated(cagp.Matern32((0.5, 0.2)), -30.0), noise_variance=0.3)
    space = Space.of(prior)
    assert space.names[0] == "kernel.angle"
    assert space.start[0] == pytest.approx(np.deg2rad(-30))
    assert np.isinf([space.lower[0], space.upper[0]]).all()
    assert space.values(space.start) == pytest.approx([-30.0, 0.5, 0.2, 1.0, 0.3])
    bounded = Space.of(prior, bounds={"angle": (-45, 10)})
    assert (bounded.lower[0], bounded.upper[0]) == pytest.approx((-np.pi / 4, np.deg2rad(10)))
    with pytest.raises(cagp.InputError, match="outside its bounds"):
        Space.of(prior, bounds={"angle": (0, 10)})


@pytest.mark.parametrize("likelihood", ["exact", "nearest-neighbours"])
def test_a_fit_finds_the_angle(likelihood: str) -> None:
    X, y = field(350, cagp.Rotated(cagp.Matern32((4.0, 1.0)), 30.0), 3)
    start = cagp.Prior(cagp.Rotated(cagp.Matern32((3.0, 2.0)), -5.0), noise_variance=0.1)
    result = cagp.hyperparameters.fit(start, X, y, likelihood=likelihood, n_neighbours=20, n_restarts=0, progress=False)
    assert result.converged
    major, minor = result.prior.kernel.axes[0]
    assert abs(major.azimuth - 30.0) < 4 * result.standard_errors["kernel.angle"] < 16.0
    assert 2.0 < major.lengthscale / minor.lengthscale < 8.0
    assert result.values["kernel.angle"] == result.prior.kernel.angle


def test_a_promise_is_kept_and_starts_near_the_optimum() -> None:
    X, y = field(250, cagp.Rotated(cagp.Matern32((4.0, 1.0)), 30.0), 4)
    plain = cagp.Prior(cagp.Matern32((2.0, 2.0)), noise_variance=0.05).fit(X, y, n_restarts=0, standard_errors=False)
    found = promise(plain, lambda priors: log_likelihoods(priors, X, y))
    assert found is not None
    assert found.gain > 5.0
    better = found.prior.log_likelihood(X, y) - plain.log_likelihood(X, y)
    assert better > 0.3 * found.gain
    assert abs(found.prior.kernel.axes[0][0].azimuth - 30.0) < 15.0


def test_leaning_by_nothing_is_the_same_kernel() -> None:
    kernel = cagp.Matern32((0.5, 0.2, 0.9)) + cagp.RBF((0.2, 0.8, 0.4))
    X = np.random.default_rng(0).random((12, 3))
    seen = []
    promise(cagp.Prior(kernel), lambda priors: seen.extend(priors) or np.zeros(len(priors)))
    assert len(seen) == 1 + 2 * 3
    assert_allclose(seen[0].kernel(X), kernel(X), rtol=1e-12)
    # entries of log P beside the diagonal: the metric that the likelihood is asked about is that one
    main = seen[2].kernel.kernel.kernels[0]
    log_metric = np.diag(-2 * np.log([0.5, 0.2, 0.9]))
    log_metric[0, 1] = log_metric[1, 0] = 0.3
    values, vectors = np.linalg.eigh(log_metric)
    assert_allclose(np.sort(main.lengthscale)[::-1], np.sort(np.exp(-values / 2))[::-1], rtol=1e-9)
    d = X[:1] - X[1:]
    metric = (vectors * np.exp(values)) @ vectors.T
    r = np.sqrt(3 * np.einsum("ni,ij,nj->n", d, metric, d))
    own = replace(seen[2].kernel, kernel=main)
    assert_allclose(own(X[:1], X[1:])[0], (1 + r) * np.exp(-r), rtol=1e-9)


def test_what_is_turned() -> None:
    assert turned(cagp.Matern32((1.0, 2.0)))[1] == ("kernel",)
    assert turned(cagp.Matern32((1.0, 2.0)) + cagp.RBF(1.0))[1] == ("kernel",)
    assert turned(cagp.Matern32((1.0, 2.0)).on(0, 1) * cagp.RBF(1.0).on(2))[1] == ("kernel.kernels[0].kernel",)
    for kernel in (cagp.Matern32(1.0), cagp.Matern32((1.0,) * 4), cagp.Geographic(cagp.Matern32(0.1)), cagp.Linear()):
        assert turned(kernel) == (kernel, ())


def test_the_posterior_of_an_angle_is_about_its_standard_error() -> None:
    X, y = field(120, cagp.Rotated(cagp.Matern32((4.0, 1.0)), -40.0), 8)
    start = cagp.Prior(cagp.Rotated(cagp.Matern32((4.0, 1.0)), -40.0), noise_variance=0.05)
    fitted = cagp.hyperparameters.fit(start, X, y, n_restarts=0, progress=False)
    found = cagp.hyperparameters.posterior(fitted.prior, X, y, evaluations=64, components=8)
    low, high = (found.quantile(p)["kernel.angle"] for p in (0.16, 0.84))
    assert low < fitted.values["kernel.angle"] < high
    assert 0.4 < (high - low) / (2 * fitted.standard_errors["kernel.angle"]) < 2.5
    assert torch.tensor(found.weights).sum() == pytest.approx(1.0)

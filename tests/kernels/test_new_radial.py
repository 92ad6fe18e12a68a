"""A new radial kernel is one class: its profile for torch and for compilers, and everything that is compiled has it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from cagp.gram import Gram
from cagp.gram.previous_neighbours import previous_neighbours
from cagp.hyperparameters import fit_patterns
from cagp.hyperparameters.exact import CompiledExactLikelihood, ExactLikelihood, exact_likelihood
from cagp.hyperparameters.observations import observations
from cagp.hyperparameters.radial_plan import compiled_plan
from cagp.hyperparameters.search_space import Space
from cagp.hyperparameters.terms import Terms
from cagp.hyperparameters.vecchia import CompiledVecchiaLikelihood, VecchiaLikelihood
from cagp.kernels import Radial, plan

pytest.importorskip("numba")


@dataclass(frozen=True)
class Cauchy(Radial):
    """σ² (1 + r²)^(−decline)."""

    decline: float = 1.0

    hyperparameters: ClassVar[tuple[str, ...]] = (*Radial.hyperparameters, "decline")
    profile_parameter: ClassVar[str | None] = "decline"

    def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
        out = None if scratch is None else s
        return torch.exp(torch.mul(torch.log1p(s, out=out), -self.decline, out=out), out=out)

    @staticmethod
    def scalar_profile(s: float, parameter: float) -> tuple[float, float, float]:
        logarithm = math.log1p(s)
        value = math.exp(-parameter * logarithm)
        return value, -parameter * value / (1.0 + s), -parameter * value * logarithm


RNG = np.random.default_rng(3)
X = RNG.random((700, 2))
Y = np.sin(6 * X[:, 0]) * X[:, 1] + 0.2 * RNG.standard_normal(700)
KERNELS = {
    "alone": Cauchy(0.3, 1.4, 0.8),
    "with others": Cauchy((0.3, 0.5), 1.4, 0.8) * cagp.Matern32(1.0).on(1) + cagp.Rotated(Cauchy((0.1, 0.4)), 20.0),
}


def gram_of(kernel: cagp.Kernel) -> Gram:
    points = torch.from_numpy(X)
    noise = torch.full((len(X),), 0.1, dtype=torch.float64)
    return Gram(kernel, kernel.embed(points, points.mean(dim=0)), noise, storage="tiles", budget=2**30)


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> cagp.Kernel:
    return KERNELS[request.param]


def test_tiles_and_blocks(kernel: cagp.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "COMPILED_FROM", 0)
    gram, G = gram_of(kernel), kernel(X) + 0.1 * np.eye(len(X))
    assert gram._entries.fills_compiled
    W = RNG.standard_normal((3, len(X)))
    assert_allclose(gram.matmul(torch.from_numpy(W)), W @ G, rtol=1e-11, atol=1e-11)
    which = torch.from_numpy(RNG.permutation(len(X))[:36].reshape(4, 9))
    gram.expect(which.numel())
    assert gram.compiled is not None
    with gram.blocks(which) as blocks:
        assert_allclose(blocks.tril(), [np.tril(G[np.ix_(i, i)]) for i in which], rtol=1e-12)


def test_predictions_by_neighbours(kernel: cagp.Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    prior, solver = cagp.Prior(kernel, noise_variance=0.05), cagp.NearestNeighbours(20)
    plain = prior.condition(X, Y, solver).predict(X[:50] + 0.01)
    monkeypatch.setattr(plan, "COMPILED_FROM", 0)
    post = prior.condition(X, Y, solver).predict(X[:50] + 0.01)
    assert_allclose(post.mean, plain.mean, rtol=1e-9)
    assert_allclose(post.variance, plain.variance, rtol=1e-9)


def test_the_terms_of_a_likelihood(kernel: cagp.Kernel) -> None:
    prior = cagp.Prior(kernel, noise_variance=0.07)
    space, data = Space.of(prior), observations(prior, X[:200], Y[:200], None)
    terms = Terms.all_of(previous_neighbours(kernel, data.X, 8))
    found = CompiledVecchiaLikelihood(space, data, terms, compiled_plan(space, data.X))(space.start)
    expected = VecchiaLikelihood(space, data, terms, 2**30)(space.start)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-11)
    assert_allclose(found.gradient, expected.gradient, rtol=1e-9, atol=1e-9)


def test_the_expected_information_is_that_of_dense_matrices(kernel: cagp.Kernel) -> None:
    """With all predecessors as neighbours: ½ tr(G⁻¹ ∂G G⁻¹ ∂G), by central differences."""
    prior = cagp.Prior(kernel, noise_variance=0.07)
    space, data = Space.of(prior), observations(prior, X[:40], Y[:40], None)
    terms = Terms.all_of(previous_neighbours(kernel, data.X, 39))
    found = CompiledVecchiaLikelihood(space, data, terms, compiled_plan(space, data.X))(space.start).information

    def covariance(at: np.ndarray) -> np.ndarray:
        values = space.values(at)
        return space.kernel(values)(X[:40]) + space.noise(values) * np.eye(40)

    inverse, steps = np.linalg.inv(covariance(space.start)), 1e-5 * np.eye(space.size)
    slopes = [inverse @ (covariance(space.start + h) - covariance(space.start - h)) / 2e-5 for h in steps]
    assert_allclose(found, [[0.5 * np.trace(a @ b) for b in slopes] for a in slopes], rtol=1e-5, atol=1e-6)


def test_the_exact_likelihood(kernel: cagp.Kernel) -> None:
    prior = cagp.Prior(kernel, noise_variance=0.07)
    space, data = Space.of(prior), observations(prior, X[:300], Y[:300], None)
    expected = ExactLikelihood(space, data, 2**30)(space.start)
    compiled = exact_likelihood(space, data, 2**30)
    assert isinstance(compiled, CompiledExactLikelihood)
    found = compiled(space.start)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-11)
    assert_allclose(found.gradient, expected.gradient, rtol=1e-8, atol=1e-8)


def test_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    prior = cagp.Prior(KERNELS["alone"], noise_variance=0.05)
    y = np.where(X[:, 0] < 0.5, 0.3, 2.0) * Y

    def values() -> list[float]:
        found = fit_patterns(prior, X, y, n_centres=4, n_neighbours=10)
        return [*found.kernel.amplitude.values, *found.noise_pattern.values]

    plain = values()
    monkeypatch.setattr(plan, "COMPILED_FROM", 0)
    assert_allclose(values(), plain, rtol=1e-6)

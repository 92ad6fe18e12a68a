"""The exact likelihood by compiled code is that by torch, its information that of dense algebra, with any threads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from likelihood_problems import KERNELS, observations, space_of
from numpy.testing import assert_allclose

import cagp
from cagp.hyperparameters.exact import CompiledExactLikelihood, ExactLikelihood, exact_likelihood
from cagp.hyperparameters.search_space import Space
from cagp.kernels.radial import squared_distances

CASES = {name: KERNELS[name] for name in KERNELS if name not in ("periodic", "product", "custom")} | {
    "product of a sum": (cagp.Matern32(0.5, 0.8).on(0) + cagp.RBF(0.3, 0.6).on(0)) * cagp.RationalQuadratic(0.7).on(1),
    "rational-quadratic-ard": cagp.RationalQuadratic((0.5, 0.8), 1.2, 0.7) + cagp.Matern12(0.3, 0.4),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("noise", ["one", "each", "pattern"])
def test_compiled_and_torch_agree(name: str, noise: str) -> None:
    pytest.importorskip("numba")
    kind = {"noise": noise == "each", "pattern": noise == "pattern"}
    data = replace(observations(310, basis=True, **kind), restricted=True)
    space = Space.of(cagp.Prior(CASES[name], noise_variance=0.07), fix_noise=noise == "each")
    at = space.start + 0.2 * np.cos(np.arange(space.size))
    expected = ExactLikelihood(space, data, 2**30)(at)
    compiled = exact_likelihood(space, data, 2**30)
    assert isinstance(compiled, CompiledExactLikelihood)
    found = compiled(at)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-10)
    assert_allclose(found.gradient, expected.gradient, rtol=1e-7, atol=1e-6)


@pytest.mark.parametrize("kernel", [*CASES.values(), cagp.Rotated(cagp.Matern52((0.5, 0.2)), 30.0)], ids=str)
def test_the_average_information_is_that_of_dense_algebra(kernel: cagp.Kernel) -> None:
    pytest.importorskip("numba")
    data = replace(observations(150, basis=True), restricted=True)
    space = Space.of(cagp.Prior(kernel, noise_variance=0.07))
    found = exact_likelihood(space, data, 2**30)(space.start).information

    def covariance(log_values: np.ndarray) -> np.ndarray:
        values = space.values(log_values)
        return space.kernel(values)(data.X.numpy()) + np.diag(data.diagonal(space.noise(values)).numpy())

    G, H, h = covariance(space.start), data.basis.numpy(), 1e-5
    projected = np.linalg.inv(G)
    projected -= projected @ H @ np.linalg.solve(H.T @ projected @ H, H.T @ projected)
    steps = h * np.eye(space.size)
    slopes = [(covariance(space.start + step) - covariance(space.start - step)) / (2 * h) for step in steps]
    moved = np.stack([slope @ projected @ data.y.numpy() for slope in slopes])
    assert_allclose(found, 0.5 * moved @ projected @ moved.T, rtol=1e-5, atol=1e-6 * np.abs(found).max())


def test_a_kernel_that_is_not_radial_stays_with_torch() -> None:
    assert isinstance(exact_likelihood(space_of("custom"), observations(), 2**30), ExactLikelihood)


@pytest.mark.parametrize("name", ["custom", "product of a sum"])
def test_the_number_of_threads_does_not_matter(name: str) -> None:
    data, space = observations(530), Space.of(cagp.Prior({**KERNELS, **CASES}[name], noise_variance=0.07))
    threads, found = torch.get_num_threads(), []
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            found.append(exact_likelihood(space, data, 2**30)(space.start))
    finally:
        torch.set_num_threads(threads)
    assert found[0].log_likelihood == pytest.approx(found[1].log_likelihood, rel=1e-11)
    assert_allclose(found[0].gradient, found[1].gradient, rtol=1e-9)


def test_distances_of_many_pairs_are_differentiated_like_those_of_few() -> None:
    generator = torch.Generator().manual_seed(0)
    A, B = (torch.randn(4, n, generator=generator, dtype=torch.float64).requires_grad_() for n in (150, 130))
    weight = torch.randn(150, 130, generator=generator, dtype=torch.float64)
    plain = (A[:, :, None] - B[:, None, :]).square().sum(dim=0)
    found = squared_distances(A, B)
    torch.testing.assert_close(found, plain)
    expected = torch.autograd.grad((weight * plain.exp().reciprocal()).sum(), (A, B))
    torch.testing.assert_close(torch.autograd.grad((weight * found.exp().reciprocal()).sum(), (A, B)), expected)
    both = torch.func.vmap(squared_distances, in_dims=1)(torch.stack([A, 2 * A], 1), torch.stack([B, B], 1))
    torch.testing.assert_close(both[1], (2 * A[:, :, None] - B[:, None, :]).square().sum(dim=0))

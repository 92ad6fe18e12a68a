"""The compiled likelihood is that of torch, to rounding."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from likelihood_problems import KERNELS, observations, space_of
from numpy.testing import assert_allclose

import cagp
from cagp.gram.previous_neighbours import previous_neighbours
from cagp.hyperparameters.observations import Observations
from cagp.hyperparameters.radial_plan import compiled_plan
from cagp.hyperparameters.search_space import Space
from cagp.hyperparameters.terms import Terms, sample_terms
from cagp.hyperparameters.vecchia import CompiledVecchiaLikelihood, VecchiaLikelihood

pytest.importorskip("numba")

CASES = {name: KERNELS[name] for name in KERNELS if name not in ("periodic", "product", "custom")} | {
    "geographic sum": cagp.Geographic(cagp.Matern12(0.01, 1.4) + cagp.Matern52(0.02), radius=1.5),
    "rational-quadratic-ard": cagp.RationalQuadratic((0.5, 0.8), 1.2, 0.7) + cagp.Matern12(0.3, 0.4),
    "product of a sum": (cagp.Matern32(0.5, 0.8).on(0) + cagp.RBF(0.3, 0.6).on(0)) * cagp.RationalQuadratic(0.7).on(1),
    "a period that is held": cagp.Periodic((0.8, 1.1), 0.9, (1.5, 2.5)) + cagp.Matern32(0.4),
}
HELD = {"a period that is held": ("kernel.kernels[0].lengthscale", "period"), "rbf": ("variance",)}


def both(
    kernel: cagp.Kernel, data: Observations, fix: tuple[str, ...] = (), k: int = 7, terms: int | None = None
) -> tuple[Space, CompiledVecchiaLikelihood, VecchiaLikelihood]:
    """The same terms, compiled and by torch."""
    space = Space.of(cagp.Prior(kernel, noise_variance=0.07), fix, fix_noise=data.noise is not None)
    plan = compiled_plan(space, data.X)
    assert plan is not None
    sample = sample_terms(data.size, terms or data.size, np.random.default_rng(0))
    places = torch.from_numpy(sample.places)
    near = previous_neighbours(kernel, data.X, k, places)
    chosen = Terms(places, near, torch.from_numpy(sample.weights))
    return space, CompiledVecchiaLikelihood(space, data, chosen, plan), VecchiaLikelihood(space, data, chosen, 2**30)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("trend", ["known", "profiled", "integrated"])
@pytest.mark.parametrize("noise", [False, True])
def test_value_gradient_and_trend(name: str, trend: str, noise: bool) -> None:
    data = replace(observations(70, basis=trend != "known", noise=noise), restricted=trend == "integrated")
    space, compiled, reference = both(CASES[name], data, HELD.get(name, ()))
    at = space.start + 0.2 * np.cos(np.arange(space.size))
    found, expected = compiled(at), reference(at)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-10)
    assert_allclose(found.gradient, expected.gradient, rtol=1e-10, atol=1e-9)
    if trend != "known":
        torch.testing.assert_close(found.trend.coefficients, expected.trend.coefficients)
        torch.testing.assert_close(found.trend.covariance, expected.trend.covariance)


@pytest.mark.parametrize("name", ["rbf", "varying"])
def test_noise_that_varies(name: str) -> None:
    data = replace(observations(300, basis=True, pattern=True), restricted=True)
    space, compiled, reference = both(CASES[name], data, terms=90)
    found, expected = compiled(space.start), reference(space.start)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-10)
    assert_allclose(found.gradient, expected.gradient, rtol=1e-9, atol=1e-9)


def test_a_sample_of_terms_with_several_outputs_and_known_noise() -> None:
    data = replace(observations(300, basis=True), restricted=True, known_noise=torch.linspace(0, 0.1, 300).double())
    several = torch.stack([data.y, data.y.flip(0)], dim=1)
    data = replace(data, y=several, mean=torch.zeros_like(several))
    space, compiled, reference = both(CASES["sum"], data, terms=90)
    found, expected = compiled(space.start), reference(space.start)
    assert compiled.computed == reference.computed == 90
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-10)
    assert_allclose(found.gradient, expected.gradient, rtol=1e-9, atol=1e-9)


def test_a_basis_far_from_orthogonal() -> None:
    """Years from 2000 to 2001 and their squares: the normal equations alone would lose all digits."""
    data = observations(120)
    year = 2000 + data.X[:, 0]
    basis = torch.stack([torch.ones_like(year), year, year**2], dim=1)
    data = replace(data, basis=basis, restricted=True, y=data.y + 3e4 * year)
    space, compiled, reference = both(cagp.Matern32(0.4), data)
    found, expected = compiled(space.start), reference(space.start)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-5)
    assert_allclose(found.gradient, expected.gradient, rtol=1e-4, atol=1e-4)
    assert_allclose(basis @ found.trend.coefficients, basis @ expected.trend.coefficients, rtol=1e-9)


def test_the_information_is_the_expected_curvature() -> None:
    """For all predecessors: ½ tr(G⁻¹ ∂G G⁻¹ ∂G), from dense matrices."""
    data = observations(40)
    space, compiled, _ = both(cagp.Matern52((0.4, 0.7), 1.3), data, k=39)

    def covariance(log_values: np.ndarray) -> np.ndarray:
        *_, noise = values = np.exp(log_values).tolist()
        return space.kernel(values)(data.X.numpy()) + noise * np.eye(40)

    step, inverse = 1e-5, np.linalg.inv(covariance(space.start))
    slopes = [(covariance(space.start + h) - covariance(space.start - h)) / (2 * step) for h in step * np.eye(4)]
    expected = [[0.5 * np.trace(inverse @ a @ inverse @ b) for b in slopes] for a in slopes]
    assert_allclose(compiled(space.start).information, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["periodic", "product", "custom"])
def test_what_it_does_not_know_is_left_to_torch(name: str) -> None:
    assert compiled_plan(space_of(name), observations().X) is None


def test_a_singular_block_is_an_error() -> None:
    data = observations()
    space = Space.of(cagp.Prior(cagp.RBF(50.0), noise_variance=1e-30), fix_noise=True)
    plan = compiled_plan(space, data.X)
    terms = Terms.all_of(previous_neighbours(cagp.RBF(50.0), data.X, 8))
    with pytest.raises(cagp.NotPositiveDefiniteError, match="8 neighbours"):
        CompiledVecchiaLikelihood(space, data, terms, plan)(space.start)


def test_a_trend_that_the_points_do_not_determine_is_an_error() -> None:
    data = observations(30, basis=True)
    data = replace(data, basis=torch.cat([data.basis, data.basis[:, :1]], dim=1))
    with pytest.raises(cagp.InputError, match="4 coefficients, which these 30 points do not determine"):
        both(cagp.RBF(0.3), data)


WITHOUT_NUMBA = """
import sys
sys.modules["numba"] = None
import numpy as np
import cagp
X = np.random.default_rng(0).random((60, 2))
prior = cagp.Prior(cagp.Matern32(0.3), noise_variance=0.05)
y = np.sin(5 * X[:, 0]) + 0.1 * np.cos(1000 * X[:, 1])
result = cagp.hyperparameters.fit(prior, X, y, likelihood="nearest-neighbours", n_neighbours=5, n_restarts=0)
print(result.converged, "scoring" in result.story)
"""


def test_without_numba_torch_does_it() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "False"]


def test_where_nothing_can_be_written_it_is_compiled_for_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    from cagp.support import compiling

    real = compiling.numba.njit

    def read_only(cache: bool = False, **options: object) -> object:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(**options)

    monkeypatch.setattr(compiling.numba, "njit", read_only)
    assert compiling.compiled(lambda x: x + 1)(2) == 3

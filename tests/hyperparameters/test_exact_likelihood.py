import numpy as np
import pytest
import torch
from likelihood_problems import KERNELS, dense_log_likelihood, observations, space_of
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, RationalQuadratic, WhiteKernel

import cagp
from cagp.hyperparameters import exact as module
from cagp.hyperparameters.exact import ExactLikelihood
from cagp.hyperparameters.search_space import Space
from radial_kernels import COMPILED, names_without


def _agree(space, data):
    leaf = torch.tensor(space.start, requires_grad=True)
    expected = dense_log_likelihood(space, data, leaf)
    expected.backward()
    found = ExactLikelihood(space, data, 2**30)(space.start)
    assert found.log_likelihood == pytest.approx(expected.item(), rel=1e-10)
    np.testing.assert_allclose(found.gradient, leaf.grad.numpy(), rtol=1e-7, atol=1e-9)


def test_the_likelihood_of_every_built_in_scalar_profile_is_compared():
    missing = names_without(COMPILED, KERNELS.values())
    assert not missing, "they have a scalar_profile: add to KERNELS of tests/hyperparameters/likelihood_problems.py"


@pytest.mark.parametrize("name", KERNELS)
def test_value_and_gradient_are_those_of_dense_autograd(name):
    _agree(space_of(name), observations())


@pytest.mark.parametrize("basis", [False, True])
@pytest.mark.parametrize("noise", [False, True])
def test_trend_and_noise_per_observation(basis, noise):
    _agree(space_of("matern32-ard", noise=not noise), observations(basis=basis, noise=noise))


@pytest.mark.parametrize("name", ["rbf", "varying"])
def test_noise_that_varies(name):
    _agree(space_of(name), observations(pattern=True))


@pytest.mark.parametrize(("rows", "columns"), [(7, 16), (64, 5), (1, 1)])
def test_tiles_do_not_matter(monkeypatch, rows, columns):
    monkeypatch.setattr(module, "_TILES", {"cpu": (rows, columns)})
    _agree(space_of("sum"), observations(31))


def test_only_the_noise_is_free():
    space = Space.of(cagp.Prior(cagp.RBF(0.3), noise_variance=0.1), fix="kernel")
    _agree(space, observations())


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (cagp.Matern32((0.4, 0.9), 2.0), ConstantKernel(2.0) * Matern([0.4, 0.9], nu=1.5)),
        (cagp.Matern52(0.5, 1.5), ConstantKernel(1.5) * Matern(0.5, nu=2.5)),
        (cagp.RBF(0.3, 0.7), ConstantKernel(0.7) * RBF(0.3)),
        (cagp.RationalQuadratic(0.5, 1.2, 0.7), ConstantKernel(1.2) * RationalQuadratic(0.5, 0.7)),
    ],
)
def test_same_as_scikit_learn(ours, theirs):
    data = observations()
    peer = GaussianProcessRegressor(theirs + WhiteKernel(0.07), alpha=0.0, optimizer=None)
    peer.fit(data.X.numpy(), (data.y - data.mean).numpy())
    expected, gradient = peer.log_marginal_likelihood(peer.kernel_.theta, eval_gradient=True)
    space = Space.of(cagp.Prior(ours, noise_variance=0.07))
    found = ExactLikelihood(space, data, 2**30)(space.start)
    assert found.log_likelihood == pytest.approx(expected, rel=1e-10)
    np.testing.assert_allclose(np.sort(found.gradient), np.sort(gradient), rtol=1e-6)


def test_jitter_acts_like_noise():
    data, space = observations(), space_of("rbf", noise=False)
    jittered = ExactLikelihood(space, data.__class__(data.X, data.y, data.mean, None, None, 0.05), 2**30)
    noisier = Space.of(cagp.Prior(KERNELS["rbf"], noise_variance=0.12), fix_noise=True)
    expected = ExactLikelihood(noisier, data, 2**30)(space.start).log_likelihood
    assert jittered(space.start).log_likelihood == pytest.approx(expected, rel=1e-12)


def test_too_large_is_refused_with_sizes_before_anything_is_allocated():
    data = observations(3)
    huge = data.rows(np.zeros(200_000, dtype=int))
    with pytest.raises(cagp.MemoryBudgetError, match=r"200000 points .* needs 59\d GiB.*1 GiB.*nearest-neighbours"):
        ExactLikelihood(space_of("rbf"), huge, 2**30)


def test_a_singular_matrix_is_an_error():
    data = observations()
    space = Space.of(cagp.Prior(cagp.RBF(50.0), noise_variance=1e-30), fix_noise=True)
    with pytest.raises(cagp.NotPositiveDefiniteError):
        ExactLikelihood(space, data, 2**30)(space.start)


def test_a_trend_that_the_points_do_not_determine_is_refused():
    data = observations(basis=True)
    data.basis[:, 2] = 2 * data.basis[:, 1]
    space = space_of("rbf")
    with pytest.raises(cagp.InputError, match="3 coefficients, which these 40 points do not determine"):
        ExactLikelihood(space, data, 2**30)(space.start)

import warnings

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

import cagp
from cagp.hyperparameters import FitWarning, fit
from optima import assert_optimum


def _peer(kernel, X, b):
    """scikit-learn's likelihood of kernel + noise for b."""
    return GaussianProcessRegressor(kernel + WhiteKernel(0.05), alpha=0.0, optimizer=None).fit(X, b)


@pytest.mark.parametrize(
    ("ours", "theirs", "known"),
    [
        (cagp.Matern32((0.5, 0.5)), ConstantKernel() * Matern([0.5, 0.5], nu=1.5), [0.22, -0.4552, 0.8175, -3.5414]),
        (cagp.RBF(0.5), ConstantKernel() * RBF(0.5), [-0.4693, -1.0387, -3.5043]),
    ],
)
def test_the_optimum_is_that_of_scikit_learns_likelihood(sample, ours, theirs, known):
    X, y = sample
    peer = _peer(theirs, X, y - y.mean())
    result = fit(cagp.Prior(ours, mean=float(y.mean()), noise_variance=0.05), X, y)
    assert result.converged
    kernel = result.prior.kernel
    found = np.log([kernel.variance, *np.atleast_1d(kernel.lengthscale), result.prior.noise_variance])
    assert peer.log_marginal_likelihood(found) == pytest.approx(result.log_likelihood, abs=1e-8)
    assert_optimum(peer, found, known)
    np.testing.assert_allclose(found, known, atol=2e-2)


def test_standard_errors_are_the_curvature_of_scikit_learns_likelihood(sample):
    X, y = sample
    result = fit(cagp.Prior(cagp.RBF(0.5), noise_variance=0.05), X, y)
    peer = _peer(ConstantKernel() * RBF(0.5), X, y)
    order = ("kernel.variance", "kernel.lengthscale", "noise_variance")
    theta, h = np.log([result.values[name] for name in order]), 1e-3
    hessian = np.empty((3, 3))
    for i, a in enumerate(np.eye(3) * h):
        for j, b in enumerate(np.eye(3) * h):
            corners = [peer.log_marginal_likelihood(theta + s * a + t * b) * s * t for s in (1, -1) for t in (1, -1)]
            hessian[i, j] = -sum(corners) / (4 * h * h)
    expected = np.exp(theta) * np.sqrt(np.diag(np.linalg.inv(hessian)))
    np.testing.assert_allclose([result.standard_errors[name] for name in order], expected, rtol=1e-3)


def test_prior_fit_gives_a_prior_with_plain_numbers(sample):
    X, y = sample
    start = cagp.Prior(cagp.Matern52((0.5, 0.5)), mean=cagp.Constant(), noise_variance=0.05)
    prior = start.fit(X, y, n_restarts=0)
    assert prior == fit(start, X, y, n_restarts=0).prior
    assert type(prior.kernel.variance) is float
    assert all(type(value) is float for value in prior.kernel.lengthscale)
    assert type(prior.noise_variance) is float
    assert prior.mean == cagp.Constant()
    assert start.kernel == cagp.Matern52((0.5, 0.5))
    assert prior.condition(X, y, solver=cagp.Cholesky()).predict(X[:3]).mean.shape == (3,)


def test_a_sum_of_kernels_finds_what_made_the_data():
    X = np.linspace(0, 12, 150)[:, None]
    truth = cagp.Prior(cagp.Periodic(1.0, 2.0, 1.5) + cagp.RBF(4.0, 1.0), noise_variance=0.01)
    G = truth.kernel(X) + 0.01 * np.eye(150)
    y = np.linalg.cholesky(G) @ np.random.default_rng(5).standard_normal(150)
    result = fit(
        cagp.Prior(cagp.Periodic(1.3, 1.0, 1.53) + cagp.RBF(3.0, 2.0), noise_variance=0.05), X, y, n_restarts=0
    )
    for name in ("kernel.kernels[0].period", "noise_variance"):
        expected = {"kernel.kernels[0].period": 1.5, "noise_variance": 0.01}[name]
        assert abs(result.values[name] - expected) < 4 * result.standard_errors[name]
        assert result.standard_errors[name] < 0.2 * expected


def test_fixed_hyperparameters_stay_and_are_not_reported(sample):
    X, y = sample
    start = cagp.Prior(cagp.RBF((0.5, 0.7), 1.5), noise_variance=0.05)
    result = fit(start, X, y, fix=["variance", "kernel.lengthscale[1]"], fix_noise=True, n_restarts=0)
    assert list(result.values) == ["kernel.lengthscale[0]"]
    assert result.prior.kernel == cagp.RBF((result.values["kernel.lengthscale[0]"], 0.7), 1.5)
    assert result.prior.noise_variance == 0.05


def test_noise_per_observation_is_kept_and_used(sample):
    X, y = sample
    noise = np.where(np.arange(60) < 30, 1e-2, 5.0)
    y = y + np.where(np.arange(60) < 30, 0.0, 2.0) * np.random.default_rng(1).standard_normal(60)
    result = fit(cagp.Prior(cagp.RBF(0.5), noise_variance=noise), X, y, n_restarts=0)
    np.testing.assert_array_equal(result.prior.noise_variance, noise)
    peer = GaussianProcessRegressor(ConstantKernel() * RBF(0.5), alpha=noise, optimizer=None).fit(X, y)
    found = np.log([result.prior.kernel.variance, result.prior.kernel.lengthscale])
    assert peer.log_marginal_likelihood(found) == pytest.approx(result.log_likelihood, abs=1e-8)
    assert_optimum(peer, found, [-0.6074, -1.2974])


def test_a_refitted_mean_is_that_of_generalised_least_squares(sample):
    X, y = sample
    y = y + 30 * X[:, 0]
    start = cagp.Prior(cagp.Matern32(0.5), mean=cagp.Polynomial(1), noise_variance=0.05)
    result = fit(start, X, y, refit_mean=True, n_restarts=0)
    G = result.prior.kernel(X) + result.prior.noise_variance * np.eye(60)
    H = np.column_stack([np.ones(60), X])
    covariance = np.linalg.inv(H.T @ np.linalg.solve(G, H))
    np.testing.assert_allclose(result.prior.mean.coefficients, covariance @ H.T @ np.linalg.solve(G, y), rtol=1e-6)
    names = [f"mean.coefficients[{i}]" for i in range(3)]
    errors = [result.standard_errors[name] for name in names]
    np.testing.assert_allclose(errors, np.sqrt(np.diag(covariance)), rtol=1e-6)
    known = cagp.Prior(start.kernel, mean=start.mean.fit(*map(torch.from_numpy, (X, y))), noise_variance=0.05)
    assert result.log_likelihood > fit(known, X, y, n_restarts=0).log_likelihood


def test_a_given_constant_is_refitted_only_when_asked(sample):
    X, y = sample
    start = cagp.Prior(cagp.RBF(0.5), mean=cagp.Constant(7.0), noise_variance=0.05)
    assert fit(start, X, y, n_restarts=0).prior.mean == cagp.Constant(7.0)
    result = fit(start, X, y, n_restarts=0, refit_mean=True)
    assert result.prior.mean.value == result.values["mean.value"] != 7.0


def test_a_subset_is_seeded_and_indices_are_taken_as_they_are(sample):
    X, y = sample
    prior = cagp.Prior(cagp.RBF(0.5), mean=cagp.Constant(), noise_variance=0.05)
    options = {"n_restarts": 0, "standard_errors": False}
    chosen = [3, 50, 7, *range(20, 45)]
    assert fit(prior, X, y, subset=chosen, **options).prior == fit(prior, X[chosen], y[chosen], **options).prior
    one = fit(prior, X, y, subset=30, seed=1, **options)
    assert one.size == 30
    assert one.prior == fit(prior, X, y, subset=30, seed=1, **options).prior
    assert one.prior != fit(prior, X, y, subset=30, seed=2, **options).prior


def test_restarts_escape_from_a_bad_start_and_are_seeded():
    X = np.linspace(0, 10, 80)[:, None]
    y = np.sin(2 * np.pi * X[:, 0] / 1.37)
    start = cagp.Prior(cagp.Periodic(1.0, 1.0, 2.3), noise_variance=0.01)
    options = {"fix_noise": True, "bounds": {"lengthscale": (0.1, 10.0), "variance": (0.1, 10.0)}}
    stuck = fit(start, X, y, n_restarts=0, **options)
    free = fit(start, X, y, n_restarts=12, seed=3, **options)
    assert free.log_likelihood > stuck.log_likelihood + 10
    assert "of 13 starts reached the best" in free.message
    assert free.trace == fit(start, X, y, n_restarts=12, seed=3, **options).trace
    assert max(step.start for step in free.trace) == 12


def test_the_trace_has_every_evaluation(sample):
    X, y = sample
    prior = cagp.Prior(cagp.RBF(0.5), noise_variance=0.05)
    result = fit(prior, X, y, n_restarts=0, standard_errors=False)
    assert result.trace[0].values == pytest.approx((0.5, 1.0, 0.05))
    assert max(step.log_likelihood for step in result.trace) == result.log_likelihood
    assert f"after {len(result.trace)} evaluations" in result.message
    assert result.standard_errors is None
    assert "kernel.lengthscale" in str(result)
    assert result.negative_log_likelihood_per_point == -result.log_likelihood / 60


def test_torch_in_is_understood(sample):
    X, y = sample
    prior = cagp.Prior(cagp.RBF(0.5), noise_variance=0.05)
    assert prior.fit(torch.from_numpy(X), torch.from_numpy(y), n_restarts=0) == prior.fit(X, y, n_restarts=0)


# --- nearest neighbours -------------------------------------------------------------------------------------------


def test_the_average_information_finds_the_exact_optimum_in_fewer_steps(monkeypatch):
    pytest.importorskip("numba")
    X = np.random.default_rng(5).random((600, 2))
    truth = cagp.Prior(cagp.Matern32((0.2, 0.4)))
    y = truth.sample(X, seed=1)[0] + 0.14 * np.random.default_rng(6).normal(size=600)
    start = cagp.Prior(cagp.Matern32((1.0, 1.0), 3.0), mean=cagp.Constant(), noise_variance=0.3)
    scored = fit(start, X, y, n_restarts=0)
    assert "scoring" in scored.message
    monkeypatch.setattr("cagp.hyperparameters.exact.compiled_plan", lambda space, X: None)
    plain = fit(start, X, y, n_restarts=0)
    assert "scoring" not in plain.message
    assert scored.log_likelihood == pytest.approx(plain.log_likelihood, abs=1e-4)
    for name, value in plain.values.items():
        assert scored.values[name] == pytest.approx(value, rel=1e-2), name
    assert len(scored.trace) < len(plain.trace)


def test_all_neighbours_give_the_exact_fit(sample):
    X, y = sample
    prior = cagp.Prior(cagp.Matern32((0.5, 0.5)), mean=cagp.Constant(), noise_variance=0.05)
    exact = fit(prior, X, y, refit_mean=True, n_restarts=0)
    near = fit(prior, X, y, refit_mean=True, n_restarts=0, likelihood="nearest-neighbours", n_neighbours=59)
    assert near.likelihood == "nearest-neighbours"
    assert near.log_likelihood == pytest.approx(exact.log_likelihood, abs=1e-6)
    for name, value in exact.values.items():
        assert near.values[name] == pytest.approx(value, rel=1e-3)
        assert near.standard_errors[name] == pytest.approx(exact.standard_errors[name], rel=1e-2)


def test_neighbours_follow_the_lengthscales():
    generator = np.random.default_rng(0)
    X = generator.random((400, 2))
    G = cagp.Matern52((0.1, 1.5))(X) + 0.01 * np.eye(400)
    y = np.linalg.cholesky(G) @ generator.standard_normal(400)
    prior = cagp.Prior(cagp.Matern52((0.5, 0.5)), noise_variance=0.01)
    options = {"likelihood": "nearest-neighbours", "n_neighbours": 20, "n_restarts": 0, "standard_errors": False}
    result = fit(prior, X, y, **options)
    assert result.refreshes > 0
    assert "chosen anew" in result.message
    exact = fit(prior, X, y, n_restarts=0, standard_errors=False)
    for name, value in exact.values.items():
        assert result.values[name] == pytest.approx(value, rel=0.25)
    isotropic = fit(cagp.Prior(cagp.Matern52(0.5), noise_variance=0.01), X, y, **options)
    assert isotropic.refreshes == 0  # one lengthscale does not change who is near


def test_the_order_is_seeded(sample):
    X, y = sample
    prior = cagp.Prior(cagp.RBF(0.5), noise_variance=0.05)
    options = {"likelihood": "nearest-neighbours", "n_neighbours": 4, "n_restarts": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        assert prior.fit(X, y, seed=1, **options) == prior.fit(X, y, seed=1, **options)
        assert prior.fit(X, y, seed=1, **options) != prior.fit(X, y, seed=2, **options)


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_gradients_are_there_whatever_the_program_around_has_switched_off(off, sample):
    X, y = sample
    prior = cagp.Prior(cagp.CustomKernel(lambda A, B: torch.exp(-torch.cdist(A, B))), noise_variance=0.05)
    expected = fit(prior, X, y, n_restarts=0)
    with off():
        found = fit(prior, X, y, n_restarts=0)
    assert found.values == pytest.approx(expected.values)
    assert found.values["kernel.variance"] != 1.0

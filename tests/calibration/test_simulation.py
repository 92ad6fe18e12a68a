"""Simulation-based calibration: calibrated solvers pass, others are found out, and no solver is taken at its word."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, norm

import cagp
from cagp.calibration import simulation_based_calibration
from cagp.calibration.projection import draw
from cagp.solvers import Prepared
from random_examples import examples

PRIOR = cagp.Prior(cagp.Matern32(0.2), noise_variance=0.01)
X = np.random.default_rng(0).random((30, 2))
X_TEST = np.random.default_rng(1).random((10, 2))


def simulate(solver, prior=PRIOR, **options):
    return simulation_based_calibration(prior, X, X_TEST, solver=solver, **{"n_simulations": 200, **options})


@pytest.mark.parametrize("m", [1, 5, 20])
@pytest.mark.parametrize("solver", [cagp.GaussSeidel, cagp.RandomDirections])
def test_p_values_of_calibrated_solvers_are_uniform_over_seeds(solver, m):
    p_values = [simulate(solver(iterations=m, seed=seed), seed=seed).p_value for seed in range(60)]
    assert kstest(p_values, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("solver", [cagp.GaussSeidel(3), cagp.ConjugateGradient(3)], ids=repr)
def test_algorithm_sbc_as_printed(solver):
    """One simulation after another with whole posteriors, from the same draws."""
    noise = np.linspace(0.01, 0.5, 30)
    prior = cagp.Prior(PRIOR.kernel, mean=lambda X: 3 * X[:, 0], noise_variance=noise)
    result = simulate(solver, prior, n_simulations=6, seed=2)
    w, stream = result.test_vector, np.random.default_rng(np.random.SeedSequence(2).spawn(2)[1])
    draws = draw(prior, *(torch.from_numpy(array.copy()) for array in (X, X_TEST, w)), 6, stream, 2**30)
    expected = []
    for b, truth in zip(draws.b.numpy(), draws.truth.numpy(), strict=True):
        posterior = prior.condition(X, 3 * X[:, 0] + b, solver).predict(X_TEST)
        error = w @ posterior.mean - (w @ (3 * X_TEST[:, 0]) + truth)
        expected.append(norm.cdf(error / np.sqrt(w @ posterior.covariance() @ w)))
    assert np.allclose(result.t, expected, rtol=1e-9)


def test_conjugate_gradients_are_conservative():
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 11)] * 2), axis=-1).reshape(-1, 2)
    result = simulation_based_calibration(PRIOR, rng.random((400, 2)), grid, cagp.ConjugateGradient(5), 500)
    assert result.z_std < 0.9
    assert result.verdict == "conservative"
    assert result.solves == 500


def test_one_solve_and_one_solve_each_agree():
    for solver in (cagp.GaussSeidel(4), cagp.Subset(6), cagp.Stationary("sor", iterations=3)):
        once, each = simulate(solver, n_simulations=20), simulate(solver, n_simulations=20, solve_each=True)
        assert (once.solves, each.solves) == (1, 20)
        assert np.allclose(once.z, each.z, rtol=1e-9)


def test_converged_conjugate_gradients_are_the_exact_posterior():
    exact, converged = simulate(cagp.Cholesky()), simulate(cagp.ConjugateGradient(30))
    assert np.allclose(exact.z, converged.z, atol=1e-6)


def test_processes_do_not_change_the_result():
    alone = simulate(cagp.ConjugateGradient(3), n_simulations=37)
    together = simulate(cagp.ConjugateGradient(3), n_simulations=37, n_jobs=2)
    assert np.allclose(alone.z, together.z, rtol=1e-12)


# --- solvers that say the wrong thing -----------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Boastful(cagp.Cholesky):
    """The exact posterior mean with ``share`` of its variance."""

    share: float = 0.5

    def prepare(self, gram):
        return _Boastful(self, gram)


class _Boastful(Prepared):
    def __init__(self, solver, gram):
        super().__init__(solver, gram)
        self._honest, self._share = cagp.Cholesky().prepare(gram), solver.share

    def corrections(self, rhs):
        yield from self._honest.corrections(rhs)

    def weights(self, cross):
        for weights in self._honest.weights(cross):
            variance = cross.prior_variance() - weights.reduction
            yield replace(weights, reduction=cross.prior_variance() - self._share * variance)


@dataclass(frozen=True, repr=False)
class Undeclared(cagp.ConjugateGradient):
    """Weights that depend on y, declared as calibrated."""

    calibrated = True


@pytest.mark.parametrize(("share", "verdict"), [(0.5, "overconfident"), (1.0, "calibrated"), (2.0, "conservative")])
@pytest.mark.parametrize("solve_each", [False, True])
def test_misreported_variances_are_found_out(share, verdict, solve_each):
    one_point = np.eye(10)[3]
    result = simulate(Boastful(share), n_simulations=1000, test_vector=one_point, solve_each=solve_each)
    assert result.verdict == verdict
    exact = simulate(cagp.Cholesky(), n_simulations=1000, test_vector=one_point)
    assert np.allclose(result.z, exact.z / share**0.5)


def test_undeclared_dependence_on_y_is_found_out():
    assert simulate(Undeclared(4), n_simulations=1000, solve_each=True).verdict == "conservative"


# --- what the result must not depend on ---------------------------------------------------------------------------


@examples(10)
@given(scale=st.floats(1e-3, 1e3), mean=st.floats(-1e3, 1e3))
def test_scale_of_the_test_vector_and_prior_mean_cancel(scale, mean):
    w = np.linspace(-1, 1, 10)
    plain = simulate(cagp.GaussSeidel(3), test_vector=w)
    other = simulate(
        cagp.GaussSeidel(3), cagp.Prior(PRIOR.kernel, mean=mean, noise_variance=0.01), test_vector=scale * w
    )
    assert np.allclose(plain.z, other.z, rtol=1e-8)


def test_seed_decides():
    first = simulate("gauss-seidel", seed=3)
    assert np.array_equal(first.z, simulate("gauss-seidel", seed=3).z)
    assert not np.array_equal(first.z, simulate("gauss-seidel", seed=4).z)
    assert np.linalg.norm(first.test_vector) == pytest.approx(1.0)
    same_vector = simulate("gauss-seidel", seed=3, test_vector=first.test_vector)
    assert np.array_equal(first.z, same_vector.z)  # giving the vector does not move the draws


def test_torch_points_are_welcome():
    from_torch = simulation_based_calibration(PRIOR, torch.from_numpy(X), torch.from_numpy(X_TEST), "cholesky", 200)
    assert np.array_equal(from_torch.z, simulate(cagp.Cholesky()).z)


def test_fully_specified_means_are_welcome():
    for mean in (2.0, cagp.Polynomial(1, coefficients=(1.0, 2.0, 3.0)), lambda X: X[:, 0]):
        prior = cagp.Prior(PRIOR.kernel, mean=mean, noise_variance=0.01)
        assert np.allclose(simulate(cagp.GaussSeidel(2), prior).z, simulate(cagp.GaussSeidel(2)).z)


def test_noise_per_observation_and_coincident_points():
    noise = np.geomspace(1e-4, 1.0, 30)
    prior = cagp.Prior(PRIOR.kernel, noise_variance=noise)
    for solver in (cagp.Cholesky(), cagp.GaussSeidel(2)):
        result = simulation_based_calibration(prior, X, X, solver, 2000, seed=5)
        assert result.verdict == "calibrated"


def test_summary_says_how_it_was_made():
    text = str(simulate(cagp.GaussSeidel(3), seed=8))
    for words in ("calibrated", "GaussSeidel(iterations=3)", "one solve", "seed 8", "exact prior draws (cholesky)"):
        assert words in text


# --- refusals -----------------------------------------------------------------------------------------------------


class Average(cagp.Mean):
    """A mean that looks at the data."""

    def fit(self, X, y):
        return cagp.Constant(float(y.mean()))

    def __call__(self, X):
        raise cagp.InputError("not fitted")


def test_means_from_the_data_are_refused():
    with pytest.raises(cagp.InputError, match="takes its values from y"):
        simulate(cagp.Cholesky(), cagp.Prior(PRIOR.kernel, mean=Average(), noise_variance=0.01))


@pytest.mark.parametrize("mean", [cagp.Constant(), cagp.Polynomial(1)], ids=repr)
@pytest.mark.parametrize("solver", [cagp.Cholesky(), cagp.GaussSeidel(1), cagp.NearestNeighbours(8)], ids=repr)
def test_unknown_coefficients_are_calibrated(mean, solver):
    prior = cagp.Prior(PRIOR.kernel, mean=mean, noise_variance=0.01)
    result = simulation_based_calibration(prior, X, X_TEST, solver, 2000, seed=5)
    assert result.verdict == "calibrated"


def test_wild_coefficients_change_nothing():
    """The error of a prediction is the same for every trend in the data, so that any may be simulated."""
    prior = cagp.Prior(PRIOR.kernel, mean=cagp.Polynomial(1), noise_variance=0.01)
    rng = np.random.default_rng(0)
    f, y = rng.normal(size=len(X_TEST)), rng.normal(size=len(X))
    H, h = (np.column_stack([np.ones(len(A)), A]) for A in (X, X_TEST))
    model = prior.condition(X, y, cagp.GaussSeidel(1))
    for beta in rng.normal(size=(5, H.shape[1])) * 10.0 ** np.arange(5)[:, None]:
        moved = model.with_observations(y + H @ beta).predict(X_TEST)
        plain = model.predict(X_TEST)
        error = (moved.mean - f - h @ beta) - (plain.mean - f)
        assert np.abs(error).max() < 1e-8 * (1 + np.abs(beta).max())
        assert np.array_equal(moved.variance, plain.variance)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_simulations": 1}, "n_simulations must be at least 2"),
        ({"n_simulations": 10.0}, "n_simulations must be an integer"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"level": 1}, "level must be between 0 and 1"),
        ({"n_jobs": 0}, "n_jobs must be a number of processes"),
        ({"test_vector": np.ones(9)}, r"test_vector must have shape \(10,\)"),
        ({"test_vector": np.zeros(10)}, "zero everywhere"),
        ({"test_vector": np.full(10, np.inf)}, "infinite"),
        ({"solve_each": "yes"}, "solve_each must be True, False or None"),
        ({"solver": cagp.ConjugateGradient(2), "solve_each": False}, "depend on y"),
        ({"solver": cagp.GaussSeidel}, "pass an instance"),
        ({"solver": "magic"}, "unknown solver"),
        ({"prior": PRIOR.kernel}, "prior must be a cagp.Prior"),
        ({"prior": cagp.Prior(PRIOR.kernel, noise_variance=np.ones(29))}, "29 values for 30 observations"),
    ],
)
def test_bad_input_is_refused(options, message):
    with pytest.raises(cagp.InputError, match=message):
        simulate(**{"solver": cagp.GaussSeidel(1), **options})


def test_columns_must_match():
    with pytest.raises(cagp.InputError, match="3 columns"):
        simulation_based_calibration(PRIOR, X, np.zeros((4, 3)), cagp.Cholesky())


def test_variance_below_rounding_is_refused():
    prior = cagp.Prior(cagp.Matern32(0.2), noise_variance=1e-15)
    with pytest.raises(cagp.NotPositiveDefiniteError, match="rounding can resolve"):
        simulation_based_calibration(prior, X, X[:3], cagp.Cholesky(), 10)

"""Trends with unknown coefficients: the error does not depend on them, for any solver, after any iteration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from pykrige.ok import OrdinaryKriging
from pykrige.uk import UniversalKriging

import cagp
from outside import SteepestDescent
from problems import Problem, make_problem
from solver_cases import CASES, Case

PROBLEM = make_problem(d=40, T=7)
MEANS = {
    "constant": cagp.Constant(),
    "linear": cagp.Polynomial(1),
    "quadratic in one column": cagp.Polynomial(2, (1,)),
    "own": cagp.Basis(lambda X: np.column_stack([np.ones(len(X)), np.sin(3 * X[:, 0])])),
}
CALIBRATED = [case for case in CASES if case.solver.calibrated]


def functions(mean: cagp.Mean, X: np.ndarray) -> np.ndarray:
    """H from the definition, written down again."""
    one = np.ones(len(X))
    columns = {
        "constant": [one],
        "linear": [one, X[:, 0], X[:, 1]],
        "quadratic in one column": [one, X[:, 1], X[:, 1] ** 2],
        "own": [one, np.sin(3 * X[:, 0])],
    }
    return np.column_stack(columns[next(name for name, each in MEANS.items() if each is mean)])


def condition(mean: cagp.Mean, solver: cagp.Solver, y: np.ndarray, problem: Problem = PROBLEM, **how) -> cagp.Model:
    prior = cagp.Prior(problem.prior.kernel, mean=mean, noise_variance=problem.prior.noise_variance)
    return prior.condition(problem.X, y, solver, **how)


def textbook(mean: cagp.Mean, problem: Problem = PROBLEM) -> tuple[np.ndarray, np.ndarray]:
    """Universal kriging by the bordered system: weights (d, T) and the covariance of the error (T, T)."""
    H, h = functions(mean, problem.X), functions(mean, problem.X_test)
    q = H.shape[1]
    bordered = np.block([[problem.G, H], [H.T, np.zeros((q, q))]])
    W = np.linalg.solve(bordered, np.vstack([problem.V.T, h.T]))[: len(H)]
    return W, problem.covariance(W)


@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)
@pytest.mark.parametrize("storage", ["dense", "tiles"])
def test_cholesky_is_universal_kriging(mean: cagp.Mean, storage: str) -> None:
    W, C = textbook(mean)
    post = condition(mean, cagp.Cholesky(), PROBLEM.y, storage=storage).predict(PROBLEM.X_test)
    assert_allclose(post.weights, W, rtol=1e-8, atol=1e-10)
    assert_allclose(post.mean, W.T @ PROBLEM.y, rtol=1e-8, atol=1e-10)
    assert_allclose(post.covariance(), C, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("mean", [MEANS["constant"], MEANS["linear"]], ids=["ordinary kriging", "universal kriging"])
@pytest.mark.filterwarnings("ignore::cagp.errors.DataWarning")
def test_cholesky_is_the_kriging_of_pykrige(mean: cagp.Mean) -> None:
    """PyKrige's variance is that of an observation: its variogram has the noise as a nugget, at training points too."""
    X, y = PROBLEM.X, PROBLEM.y + 4 - 3 * PROBLEM.X[:, 1]
    X_test = np.concatenate([PROBLEM.X_test, X[:2], X[:2] + 5])  # near, at, and far beyond the data

    def variogram(_: object, distance: np.ndarray) -> np.ndarray:
        r = np.sqrt(3) * distance / PROBLEM.lengthscale
        return PROBLEM.noise + PROBLEM.variance * (1 - (1 + r) * np.exp(-r))

    settings = {
        "variogram_model": "custom",
        "variogram_parameters": [],
        "variogram_function": variogram,
        "exact_values": False,  # f at a training point is not the noisy y there
    }
    if mean is MEANS["constant"]:
        theirs = OrdinaryKriging(*X.T, y, **settings)
    else:
        theirs = UniversalKriging(*X.T, y, drift_terms=["regional_linear"], **settings)
    their_mean, their_variance = theirs.execute("points", *X_test.T)
    post = condition(mean, cagp.Cholesky(), y).predict(X_test)
    assert_allclose(post.mean, their_mean, rtol=1e-8)
    assert_allclose(post.observed().variance, their_variance, rtol=1e-8)
    assert_allclose(post.variance, their_variance - PROBLEM.noise, rtol=1e-7)


@pytest.mark.parametrize("case", CALIBRATED, ids=lambda case: case.id)
@pytest.mark.parametrize("mean", [MEANS["linear"], MEANS["own"]], ids=["linear", "own"])
def test_a_trend_in_the_data_moves_the_mean_and_nothing_else(case: Case, mean: cagp.Mean) -> None:
    """At every iteration: y + Hβ moves the mean by hβ, whatever β is, and C(W) is the covariance of the error."""
    H, h = functions(mean, PROBLEM.X), functions(mean, PROBLEM.X_test)
    wild = 1e3 * np.random.default_rng(3).normal(size=H.shape[1])
    _, exact = textbook(mean)
    plain = condition(mean, case.solver, PROBLEM.y).iterate(PROBLEM.X_test)
    moved = condition(mean, case.solver, PROBLEM.y + H @ wild).iterate(PROBLEM.X_test)
    for before, after in zip(plain, moved, strict=True):
        assert_allclose(after.mean - before.mean, h @ wild, rtol=1e-7, atol=1e-6)
        assert_allclose(after.variance, before.variance, rtol=1e-9)
        assert_allclose(H.T @ before.weights, h.T, rtol=1e-8, atol=1e-8)
        assert_allclose(before.mean, before.weights.T @ PROBLEM.y, rtol=1e-7, atol=1e-8)
        C = PROBLEM.covariance(before.weights)
        assert_allclose(before.variance, np.diag(C), rtol=1e-7, atol=1e-9)
        assert np.linalg.eigvalsh(C - exact).min() > -1e-8  # never narrower than universal kriging


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_solver_converges_to_universal_kriging(case: Case) -> None:
    W, C = textbook(MEANS["linear"])
    post = condition(MEANS["linear"], case.converged, PROBLEM.y).predict(PROBLEM.X_test)
    assert_allclose(post.mean, W.T @ PROBLEM.y, atol=10 * case.tolerance)
    assert_allclose(post.covariance(), C, atol=10 * case.tolerance)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_means_alone_are_the_same(case: Case) -> None:
    model = condition(MEANS["linear"], case.solver, PROBLEM.y + 50)
    assert_allclose(model.predict_mean(PROBLEM.X_test), model.predict(PROBLEM.X_test).mean, rtol=1e-8)
    means, posts = list(model.iterate_mean(PROBLEM.X_test)), list(model.iterate(PROBLEM.X_test))
    for mean, post in zip(means, posts, strict=True):
        assert_allclose(mean, post.mean, rtol=1e-8)


@pytest.mark.parametrize("case", CALIBRATED, ids=lambda case: case.id)
def test_bounds_are_those_of_universal_kriging(case: Case) -> None:
    _, exact = textbook(MEANS["linear"])
    post = condition(MEANS["linear"], case.solver, PROBLEM.y).predict(PROBLEM.X_test)
    truth = post.variance - np.diag(exact)
    found = post.computational_variance
    assert (found.lower <= truth * (1 + 1e-7) + 1e-10).all()
    assert (truth <= found.upper * (1 + 1e-7) + 1e-10).all()


def test_the_prior_alone_is_what_the_trend_says() -> None:
    """No iteration at all: ordinary least squares, with the error that it has."""
    H, h = functions(MEANS["linear"], PROBLEM.X), functions(MEANS["linear"], PROBLEM.X_test)
    W = H @ np.linalg.solve(H.T @ H, h.T)
    post = condition(MEANS["linear"], cagp.GaussSeidel(0), PROBLEM.y).predict(PROBLEM.X_test)
    assert_allclose(post.mean, W.T @ PROBLEM.y, rtol=1e-8)
    assert_allclose(post.variance, np.diag(PROBLEM.covariance(W)), rtol=1e-8)


@pytest.mark.parametrize("dtypes", [("float64", "float32"), ("float32", "float32")])
def test_low_precision_is_certified(dtypes: tuple[str, str]) -> None:
    dtype, solve_dtype = dtypes
    _, exact = textbook(MEANS["linear"])
    model = condition(MEANS["linear"], cagp.GaussSeidel(200), PROBLEM.y, dtype=dtype, solve_dtype=solve_dtype)
    post = model.predict(PROBLEM.X_test)
    assert_allclose(post.variance, np.diag(exact), rtol=1e-3)
    if dtype == "float64":
        assert_allclose(post.variance, np.diag(PROBLEM.covariance(post.weights)), rtol=1e-9)


def test_any_weights_are_made_unbiased() -> None:
    model = condition(MEANS["linear"], cagp.GaussSeidel(3), PROBLEM.y)
    W = np.random.default_rng(0).normal(size=(40, 7)) / 40
    post = model.posterior(PROBLEM.X_test, W)
    H, h = functions(MEANS["linear"], PROBLEM.X), functions(MEANS["linear"], PROBLEM.X_test)
    assert_allclose(H.T @ post.weights, h.T, rtol=1e-9, atol=1e-9)
    assert_allclose(post.variance, np.diag(PROBLEM.covariance(post.weights)), rtol=1e-9)


@pytest.mark.parametrize("mean", MEANS.values(), ids=MEANS)
def test_the_coefficients_are_those_of_generalised_least_squares(mean: cagp.Mean) -> None:
    H = functions(mean, PROBLEM.X)
    information = H.T @ np.linalg.solve(PROBLEM.G, H)
    found = condition(mean, cagp.Cholesky(), PROBLEM.y + 3).trend
    assert found is not None
    expected = np.linalg.solve(information, H.T @ np.linalg.solve(PROBLEM.G, PROBLEM.y + 3))
    assert_allclose(found.coefficients, expected, rtol=1e-7, atol=1e-9)
    assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-7, atol=1e-9)
    assert condition(cagp.Constant(1.0), cagp.Cholesky(), PROBLEM.y).trend is None


def test_coefficients_from_few_iterations_say_their_own_error() -> None:
    """Over draws of the data, the estimate of one sweep varies as its covariance says."""
    H = functions(MEANS["linear"], PROBLEM.X)
    model = condition(MEANS["linear"], cagp.GaussSeidel(1), PROBLEM.y)
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(4000, 40)) @ np.linalg.cholesky(PROBLEM.G).T + H @ [5.0, -3.0, 2.0]
    found = np.array([model.with_observations(y).trend.coefficients.numpy() for y in draws[:400]])
    assert_allclose(found.mean(axis=0), [5.0, -3.0, 2.0], atol=0.5)
    assert_allclose(np.cov(found.T), model.trend.covariance, rtol=0.4, atol=0.05)


def test_known_means_stay_known() -> None:
    """Given coefficients, and an estimate that is plugged in on purpose."""
    X, y = (torch.from_numpy(part) for part in (PROBLEM.X, PROBLEM.y))
    for mean in (cagp.Constant(2.0), cagp.Polynomial(1, coefficients=(1.0, 2.0, 3.0)), cagp.Constant().fit(X, y)):
        post = condition(mean, cagp.Cholesky(), PROBLEM.y).predict(PROBLEM.X_test)
        assert_allclose(post.variance, np.diag(PROBLEM.exact_covariance), rtol=1e-9)
        expected = mean(torch.from_numpy(PROBLEM.X_test)).numpy()
        expected = expected + PROBLEM.exact_weights.T @ (PROBLEM.y - mean(X).numpy())
        assert_allclose(post.mean, expected, rtol=1e-9)


def test_far_off_coordinates_lose_nothing() -> None:
    """Years: a quadratic of numbers about 2000 is as good as one about zero."""
    far = np.column_stack([PROBLEM.X[:, 0] + 2000, PROBLEM.X[:, 1]])
    far_test = np.column_stack([PROBLEM.X_test[:, 0] + 2000, PROBLEM.X_test[:, 1]])
    near = condition(cagp.Polynomial(2), cagp.Cholesky(), PROBLEM.y).predict(PROBLEM.X_test)
    prior = cagp.Prior(PROBLEM.prior.kernel, mean=cagp.Polynomial(2), noise_variance=PROBLEM.prior.noise_variance)
    post = prior.condition(far, PROBLEM.y, cagp.Cholesky()).predict(far_test)
    assert_allclose(post.mean, near.mean, rtol=1e-6, atol=1e-8)
    assert_allclose(post.variance, near.variance, rtol=1e-6)


def test_points_that_do_not_determine_the_trend() -> None:
    X = np.column_stack([np.linspace(0, 1, 20), np.zeros(20)])
    prior = cagp.Prior(cagp.Matern32(0.3), mean=cagp.Polynomial(1))
    with pytest.raises(cagp.InputError, match="do not determine"):
        prior.condition(X, X[:, 0], cagp.Cholesky())
    with pytest.raises(cagp.InputError, match="one row a point"):
        cagp.Prior(cagp.RBF(), mean=cagp.Basis(lambda X: X[:, 0])).condition(X, X[:, 0])


def test_a_solver_from_outside() -> None:
    post = condition(MEANS["linear"], SteepestDescent(3), PROBLEM.y).predict(PROBLEM.X_test)
    assert_allclose(post.variance, np.diag(PROBLEM.covariance(post.weights)), rtol=1e-8)


def test_weights_on_some_of_the_points_need_no_covariances_with_all() -> None:
    """The trend does, for one product with each: rows of length d that the memory plan does not count here."""
    rng = np.random.default_rng(6)
    X, X_test = rng.random((1500, 2)), rng.random((3000, 2))
    prior = cagp.Prior(cagp.Matern32(0.2), mean=cagp.Polynomial(1), noise_variance=0.1)
    model = prior.condition(X, np.sin(9 * X[:, 0]), cagp.Subset(20), storage="tiles")
    found, few = model.predict(X_test), model.predict(X_test, batch_size=500)
    assert_allclose(found.mean, few.mean, rtol=1e-9)
    assert_allclose(found.variance, few.variance, rtol=1e-9)
    assert found._batches[0].weights is not None
    assert found._batches[0].cross._matrix is None


def test_copies_with_hardly_any_noise() -> None:
    """The trend beside nearest neighbours needs no factor of points that are singular to rounding."""
    X = np.vstack([np.zeros((2, 1)), np.linspace(1, 2, 20)[:, None]])
    prior = cagp.Prior(cagp.Matern32(0.1), mean=cagp.Constant(), noise_variance=1e-9)
    model = prior.condition(X, X[:, 0], cagp.NearestNeighbours(3), dtype="float32")
    assert np.isfinite(model.predict(np.array([[1.5]])).variance).all()
    assert model.trend is not None


def test_the_error_of_the_trend_of_neighbours_is_that_of_least_squares() -> None:
    """As long as there are few points, all of them estimate it: (Hᵀ G⁻¹ H)⁻¹."""
    rng = np.random.default_rng(3)
    X = rng.random((40, 2))
    prior = cagp.Prior(cagp.Matern32(0.4, 2.0), mean=cagp.Polynomial(1), noise_variance=0.1)
    trend = prior.condition(X, X[:, 0], cagp.NearestNeighbours(10)).trend
    assert trend is not None
    G = prior.kernel(X) + 0.1 * np.eye(40)
    H = np.column_stack([np.ones(40), X])
    np.testing.assert_allclose(trend.covariance.numpy(), np.linalg.inv(H.T @ np.linalg.solve(G, H)), rtol=1e-8)

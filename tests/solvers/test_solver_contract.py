"""What every solver promises, tested on all of them; ``solver_cases.py`` lists them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from outside import SteepestDescent
from problems import Problem, make_problem
from solver_cases import CASES, OUTSIDE, Case, half_jacobi

each_solver = pytest.mark.parametrize("case", CASES + OUTSIDE, ids=lambda case: case.id)


@pytest.fixture(params=[0.05, None], ids=["one noise", "noise per observation"])
def problem(request: pytest.FixtureRequest) -> Problem:
    return make_problem(noise=request.param)


def condition(problem: Problem, solver: cagp.Solver, **settings: object) -> cagp.Model:
    return problem.prior.condition(problem.X, problem.y, solver, **settings)


def test_every_solver_has_a_case() -> None:
    missing = {type(case.solver) for case in CASES} ^ set(cagp.solvers.ALL)
    assert not missing, "in one of CASES of tests/solver_cases.py and ALL of solvers/__init__.py, and not in both"


@each_solver
def test_mean_and_covariance_follow_from_the_weights(case: Case, problem: Problem) -> None:
    post = condition(problem, case.solver).predict(problem.X_test)
    C = problem.covariance(post.weights)
    assert_allclose(post.mean, post.weights.T @ problem.y, rtol=1e-10, atol=1e-12)
    assert_allclose(post.covariance(), C, rtol=1e-9, atol=1e-11)
    assert_allclose(post.variance, np.diag(C), rtol=1e-9, atol=1e-11)
    assert_allclose(post.std, np.sqrt(np.diag(C)), rtol=1e-9, atol=1e-11)


@each_solver
def test_every_iterate_is_a_valid_posterior(case: Case, problem: Problem) -> None:
    for post in condition(problem, case.solver).iterate(problem.X_test):
        C = problem.covariance(post.weights)
        assert_allclose(post.variance, np.diag(C), rtol=1e-9, atol=1e-11)
        # C(W) is wider than the exact posterior, in every direction
        assert np.linalg.eigvalsh(C - problem.exact_covariance).min() > -1e-10
    last = condition(problem, case.solver).predict(problem.X_test)
    assert_allclose(post.mean, last.mean, rtol=1e-10, atol=1e-12)
    assert_allclose(post.variance, last.variance, rtol=1e-10, atol=1e-12)


@each_solver
def test_converges_to_the_exact_posterior(case: Case, problem: Problem) -> None:
    post = condition(problem, case.converged).predict(problem.X_test)
    assert_allclose(post.mean, problem.exact_weights.T @ problem.y, atol=case.tolerance)
    assert_allclose(post.covariance(), problem.exact_covariance, atol=case.tolerance)


@each_solver
def test_the_calibrated_flag_is_what_the_solver_does(case: Case) -> None:
    """Calibrated: the mean is affine in y, the covariance ignores y, and Cov(mean − f) is the reported covariance."""
    problem = make_problem(d=12, T=4)
    rng = np.random.default_rng(5)
    solver = case.solver if not (isinstance(case.solver, cagp.Subset) and case.solver.indices) else cagp.Subset(size=4)

    def posterior(y: np.ndarray) -> cagp.Posterior:
        return problem.prior.condition(problem.X, y, solver).predict(problem.X_test)

    y1, y2 = rng.normal(size=(2, 12))
    mixed = posterior(0.3 * y1 - 2 * y2)
    affine = np.allclose(mixed.mean, 0.3 * posterior(y1).mean - 2 * posterior(y2).mean, rtol=1e-9, atol=1e-9)
    same_covariance = np.allclose(posterior(y1).covariance(), posterior(y2).covariance(), rtol=1e-9, atol=1e-9)
    assert affine == solver.calibrated
    assert same_covariance == solver.calibrated
    if solver.calibrated:
        A = np.column_stack([posterior(e).mean for e in np.eye(12)])  # the mean as a linear map of y, column by column
        AV = A @ problem.V.T
        error = A @ problem.G @ A.T - AV - AV.T + problem.K  # covariance of A y − f under the prior
        assert_allclose(posterior(y1).covariance(), error, rtol=1e-9, atol=1e-9)


@each_solver
def test_bounds_hold_the_computational_variance(case: Case, problem: Problem) -> None:
    for post in condition(problem, case.solver).iterate(problem.X_test):
        truth = np.diag(problem.covariance(post.weights) - problem.exact_covariance)
        bounds = post.computational_variance
        assert (bounds.lower <= truth * (1 + 1e-8) + 1e-12).all()
        assert (truth <= bounds.upper * (1 + 1e-8) + 1e-12).all()
        assert (bounds.lower <= bounds.estimate).all()
        assert (bounds.estimate <= bounds.upper).all()


@each_solver
@pytest.mark.parametrize("storage", ["dense", "tiles"])
def test_storage_and_batches_do_not_matter(case: Case, storage: str, problem: Problem) -> None:
    reference = condition(problem, case.solver).predict(problem.X_test)
    model = condition(problem, case.solver, storage=storage)
    for batch_size in (1, 3, 100):
        post = model.predict(problem.X_test, batch_size=batch_size)
        assert_allclose(post.mean, reference.mean, rtol=1e-10, atol=1e-12)
        assert_allclose(post.variance, reference.variance, rtol=1e-10, atol=1e-12)
        bounds, expected = post.computational_variance, reference.computational_variance
        assert_allclose(bounds.upper, expected.upper, rtol=1e-5, atol=1e-10)


@each_solver
def test_mean_alone_is_the_same_mean(case: Case, problem: Problem) -> None:
    model = condition(problem, case.solver)
    assert_allclose(model.predict_mean(problem.X_test), model.predict(problem.X_test).mean, rtol=1e-9, atol=1e-11)
    means = list(model.iterate_mean(problem.X_test))
    posts = list(model.iterate(problem.X_test))
    assert len(means) == len(posts)
    for mean, post in zip(means, posts, strict=True):
        assert_allclose(mean, post.mean, rtol=1e-9, atol=1e-11)


@each_solver
def test_torch_in_torch_out_and_single_precision(case: Case, problem: Problem) -> None:
    reference = condition(problem, case.solver).predict(problem.X_test)
    X, y, X_test = (torch.from_numpy(a) for a in (problem.X, problem.y, problem.X_test))
    double = problem.prior.condition(X, y, case.solver).predict(X_test)
    assert isinstance(double.mean, torch.Tensor)
    assert double.mean.dtype == torch.float64
    assert_allclose(double.variance.numpy(), reference.variance, rtol=1e-12)
    single = problem.prior.condition(X, y, case.solver, dtype=torch.float32).predict(problem.X_test)
    assert single.mean.dtype == np.float32
    assert_allclose(single.mean, reference.mean, atol=2e-4)
    assert_allclose(single.variance, reference.variance, atol=2e-4)


@each_solver
def test_single_points(case: Case) -> None:
    """d = 1 and T = 1: the exact answer after one iteration of any solver that always converges."""
    problem = make_problem(d=1, T=1)
    if isinstance(case.solver, cagp.Subset):
        post = condition(problem, cagp.Subset(size=1)).predict(problem.X_test)
    else:
        post = condition(problem, case.converged).predict(problem.X_test)
    assert_allclose(post.mean, problem.exact_weights.T @ problem.y, rtol=1e-6)
    assert_allclose(post.covariance(), problem.exact_covariance, rtol=1e-6)


@pytest.mark.parametrize(
    "case", [c for c in CASES + OUTSIDE if not isinstance(c.solver, (cagp.Cholesky, cagp.Auto))], ids=lambda c: c.id
)
def test_zero_iterations_are_the_prior(case: Case, problem: Problem) -> None:
    model = condition(problem, case.idle)
    post = model.predict(problem.X_test)
    assert_allclose(post.mean, 0)
    assert_allclose(post.covariance(), problem.K, rtol=1e-12)
    assert_allclose(model.predict_mean(problem.X_test), 0)
    assert list(model.iterate(problem.X_test)) == []


@each_solver
def test_settings_are_immutable_and_readable(case: Case) -> None:
    assert pickle.loads(pickle.dumps(case.solver)) == case.solver
    names = {**vars(cagp), "half_jacobi": half_jacobi, "SteepestDescent": SteepestDescent}
    assert eval(repr(case.solver), names) == case.solver
    with pytest.raises(AttributeError):
        case.solver.iterations = 3  # type: ignore[attr-defined]
    assert case.solver.side in ("data", "test")
    assert case.solver.cost
    assert cagp.solvers.NAMES.get(case.solver.name, SteepestDescent) is type(case.solver)


@each_solver
def test_status_speaks(case: Case, problem: Problem) -> None:
    model = condition(problem, case.solver)
    status = model.predict(problem.X_test).status
    assert status.reason == "finished"
    assert ("G: dense, 12.5 KiB." in str(status)) == model.prepared.gram.computed
    tiles = condition(problem, case.solver, storage="tiles").predict(problem.X_test).status
    assert "G: tiles, matrix-free." in str(tiles)
    assert "Cholesky" if isinstance(case.solver, cagp.Auto) else type(case.solver).__name__ in str(status)

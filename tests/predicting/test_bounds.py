"""Bounds on the computational variance against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import cagp
from cagp.algebra.weights import zero_weights
from cagp.preconditioners import Nystrom
from cagp.predicting import bounds as module
from cagp.predicting.bounds import ComputationalVariance, computational_variance
from cagp.stopping import ComputationalShare
from problems import Problem, make_problem
from random_examples import examples


def truth_of(problem: Problem, post: cagp.Posterior) -> np.ndarray:
    return np.diag(problem.covariance(post.weights) - problem.exact_covariance)


def assert_ordered(bounds: ComputationalVariance, variance: np.ndarray) -> None:
    lower, estimate, upper = (np.asarray(part) for part in (bounds.lower, bounds.estimate, bounds.upper))
    assert (lower >= 0).all()
    assert (lower <= estimate).all()
    assert (estimate <= upper).all()
    assert (upper <= variance).all()


@examples(60)
@given(
    seed=st.integers(0, 1000),
    noise=st.floats(1e-6, 10),
    rank=st.integers(1, 30),
    scale=st.sampled_from([0.0, 1e-3, 0.1, 1.0, 100.0]),
)
def test_bounds_hold_for_any_weights_and_inducing_points(seed: int, noise: float, rank: int, scale: float) -> None:
    problem = make_problem(d=30, T=4, seed=seed, noise=noise)
    model = problem.prior.condition(problem.X, problem.y)
    W = problem.exact_weights + scale * np.random.default_rng(seed).normal(size=(30, 4))
    post = model.posterior(problem.X_test, W)
    truth = truth_of(problem, post)
    batch = post._batches[0]
    bounds = computational_variance(batch.cross, batch.weights, Nystrom(rank, seed).prepare(model.gram))
    slack = 1e-9 * problem.variance
    assert (bounds.lower.numpy() <= truth * (1 + 1e-6) + slack).all()
    assert (truth <= bounds.upper.numpy() * (1 + 1e-6) + slack).all()
    assert_ordered(bounds, post.variance)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Problem:
    """A short lengthscale: more directions than inducing points, but few neighbours that matter."""
    monkeypatch.setattr("cagp.predicting.conditioned._MAX_INDUCING", 100)
    given = make_problem(d=1500, T=12, noise=1e-3)
    return Problem(given.X, given.y, given.X_test, 1e-3, lengthscale=0.05)


@pytest.mark.parametrize(
    ("dtype", "solve_dtype"), [("float64", "float64"), ("float64", "float32"), ("float32", "float32")]
)
def test_neighbours_make_the_bounds_tight(short: Problem, dtype: str, solve_dtype: str) -> None:
    options = {"dtype": dtype, "solve_dtype": solve_dtype}
    post = short.prior.condition(short.X, short.y, cagp.GaussSeidel(1), **options).predict(short.X_test)
    truth = post.variance - np.diag(short.exact_covariance)
    found = post.computational_variance
    slack = 1e-9 if dtype == "float64" else 1e-5
    assert (found.lower <= truth + slack).all()
    assert (truth <= found.upper + slack).all()
    assert (found.upper - found.lower <= 0.02 * post.variance).all()


def test_without_neighbours_the_bounds_are_wider_but_hold(short: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    model = short.prior.condition(short.X, short.y, cagp.GaussSeidel(1))
    tight = model.predict(short.X_test).computational_variance

    monkeypatch.setattr(module, "_from_neighbours", lambda cross: zero_weights(cross.size, cross.gram))
    post = model.predict(short.X_test)
    wide, truth = post.computational_variance, truth_of(short, post)
    assert (wide.lower <= truth * (1 + 1e-8)).all()
    assert (truth <= wide.upper * (1 + 1e-8)).all()
    assert (tight.upper - tight.lower < 0.1 * (wide.upper - wide.lower)).all()
    assert_ordered(wide, post.variance)


KERNELS = {
    "sum": 0.5 * cagp.RBF(0.2) + cagp.Matern12(0.4),
    "product": cagp.Matern52((0.3, 0.1)) * cagp.Periodic(0.7, 1.0),
    "linear": cagp.Linear() + 0.1 * cagp.RBF(0.1),
    # of other digits in large blocks, where it multiplies matrices, than in small ones
    "own": cagp.CustomKernel(lambda A, B: torch.exp(-torch.cdist(A + 1000, B + 1000))),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("solver", [cagp.GaussSeidel(2), cagp.CalibratedCG(3), cagp.Cholesky()], ids=repr)
def test_bounds_of_other_kernels(kernel: cagp.Kernel, solver: cagp.Solver, monkeypatch: pytest.MonkeyPatch) -> None:
    """With noise of each observation's own, at training points too, against dense algebra with the model's own G."""
    monkeypatch.setattr("cagp.predicting.conditioned._MAX_INDUCING", 20)
    rng = np.random.default_rng(1)
    X, noise = rng.random((200, 2)), 10.0 ** rng.uniform(-4, 0, 200)
    X_test = np.vstack([X[:4], rng.random((6, 2))])
    model = cagp.Prior(kernel, noise_variance=noise).condition(X, X[:, 0], solver)
    post = model.predict(X_test)
    # G as the solver has it: the values of one of the kernels depend on the block they are in
    order = range(200) if model.prepared.order is None else model.prepared.order
    V, W = post._batches[0].cross.matrix.numpy()[:, order], post.weights[order]
    with model.prepared.gram.block(0, 200, 0, 200) as block:
        G = block.numpy().copy()
    residual = V.T - G @ W
    truth = (residual * np.linalg.solve(G, residual)).sum(axis=0)
    found = post.computational_variance
    assert (found.lower <= truth + 1e-8 * post.variance).all()
    assert (truth <= found.upper + 1e-8 * post.variance).all()
    assert_ordered(found, post.variance)


NEAR = cagp.NearestNeighbours(40, shared=False)


def test_bounds_do_not_depend_on_the_company() -> None:
    """One test point has neighbours that are not positive definite to rounding: the others do not suffer by it."""
    rng = np.random.default_rng(0)
    X = np.vstack([rng.random((600, 2)), np.full((4, 2), 0.5)])
    noise = np.append(np.full(600, 1e-3), np.full(4, 1e-17))
    model = cagp.Prior(cagp.Matern32(0.05), noise_variance=noise).condition(X, X[:, 0], cagp.GaussSeidel(1))
    X_test = np.vstack([rng.random((7, 2)), [[0.5, 0.5001]]])
    neighbours = cagp.Prior(cagp.Matern32(0.05), noise_variance=noise).condition(X, X[:, 0], NEAR)
    with pytest.raises(cagp.NotPositiveDefiniteError):
        neighbours.predict(X_test[-1:])
    found = neighbours.prepared.where_possible(neighbours.components[0].cross(torch.from_numpy(X_test)))
    assert not found.values[-1].any()
    assert found.reduction[-1] == 0
    assert (found.reduction[:7] > 0).all()
    together = model.predict(X_test).computational_variance
    alone = model.predict(X_test[:7]).computational_variance
    assert_allclose(together.lower[:7], alone.lower, rtol=1e-9)
    assert_allclose(together.upper[:7], alone.upper, rtol=1e-9)


def test_a_prior_without_variance_has_nothing_to_compute() -> None:
    prior = cagp.Prior(cagp.CustomKernel(lambda A, B: A @ B.mT), noise_variance=0.1)
    model = prior.condition(np.zeros((5, 1)), np.ones(5), cagp.GaussSeidel(1))
    found = model.predict([[1.0], [2.0]]).computational_variance
    assert_allclose(found.upper, 0, atol=1e-300)


def test_bounds_leave_the_weights_alone() -> None:
    problem = make_problem(d=200, noise=0.01)
    post = problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(1)).predict(problem.X_test)
    before = post.weights.copy()
    assert len(post.computational_variance.lower) == 7
    assert_allclose(post.weights, before, rtol=0, atol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("solve_dtype", ["float64", "float32"])
def test_bounds_and_stopping_on_a_gpu(short: Problem, solve_dtype: str) -> None:
    exact = np.diag(short.exact_covariance)
    solver = cagp.GaussSeidel(300, block_size=256)
    model = short.prior.condition(short.X, short.y, solver, device="cuda", solve_dtype=solve_dtype)
    for judged in ("certified", "estimated"):
        post = model.predict(short.X_test, stop=ComputationalShare(0.05, judged))
        assert ((post.variance - exact)[post.iterations < 300] <= 0.05 * exact[post.iterations < 300]).all()
        found = post.computational_variance
        assert (found.lower <= post.variance - exact + 1e-9).all()
        assert (post.variance - exact <= found.upper + 1e-9).all()
        assert_ordered(found, post.variance)

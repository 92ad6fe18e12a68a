"""Every proposition and algorithm of the paper, written out with dense matrices as printed, against the library."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import block_diag, solve_triangular
from scipy.sparse.linalg import cg

import cagp
from cagp.algebra.sweeps import sweep
from cagp.gram import Gram
from problems import Problem, make_problem
from random_examples import examples


@pytest.fixture
def problem() -> Problem:
    return make_problem(d=30, T=6)


def algorithm_2(problem: Problem, m: int) -> tuple[np.ndarray, np.ndarray]:
    """CAGP-GS as printed: Ṽ = V v_m and D̃ = Σ Z̃ᵢᵀ Z̃ᵢ; returns the mean and the covariance."""
    G, V, b = problem.G, problem.V, problem.y
    L, U, root = np.tril(G), np.triu(G, 1), np.sqrt(np.diag(G))[:, None]
    Z = solve_triangular(L.T, V.T, lower=False)
    z = solve_triangular(L, b, lower=True)
    v = z
    downdate = (root * Z).T @ (root * Z)
    for _ in range(2, m + 1):
        v = z - solve_triangular(L, U @ v, lower=True)
        Z = solve_triangular(L.T, U.T @ Z, lower=False)
        downdate += (root * Z).T @ (root * Z)
    return V @ v, problem.K - downdate


@pytest.mark.parametrize("m", range(1, 21))
def test_gauss_seidel_is_algorithm_2(problem: Problem, m: int) -> None:
    model = problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(m, order="natural"))
    post = model.predict(problem.X_test)
    mean, covariance = algorithm_2(problem, m)
    assert_allclose(post.mean, mean, rtol=1e-10, atol=1e-12)
    assert_allclose(post.covariance(), covariance, rtol=1e-10, atol=1e-12)
    assert_allclose(post.variance, np.diag(covariance), rtol=1e-10)


def test_given_order_is_algorithm_2_on_permuted_data(problem: Problem) -> None:
    order = np.random.default_rng(1).permutation(30)
    permuted = Problem(problem.X[order], problem.y[order], problem.X_test, problem.noise)
    post = problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(4, order=order)).predict(problem.X_test)
    mean, covariance = algorithm_2(permuted, 4)
    assert_allclose(post.mean, mean, rtol=1e-10)
    assert_allclose(post.covariance(), covariance, rtol=1e-9, atol=1e-12)


def test_random_order_is_seeded(problem: Problem) -> None:
    def variance(**settings: object) -> np.ndarray:
        return (
            problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(2, **settings))
            .predict(problem.X_test)
            .variance
        )

    assert_allclose(variance(seed=3), variance(seed=3), rtol=0)
    assert not np.allclose(variance(seed=3), variance(seed=4))
    assert not np.allclose(variance(seed=3), variance(order="natural"))


def gauss_seidel_downdate(G: np.ndarray, m: int) -> np.ndarray:
    """D_m by the closed sum of the paper (the sign of L⁻¹U cancels in each term)."""
    L, U = np.tril(G), np.triu(G, 1)
    inverse = np.linalg.inv(L)
    D1 = inverse @ np.diag(np.diag(G)) @ inverse.T
    return sum(np.linalg.matrix_power(inverse @ U, i) @ D1 @ np.linalg.matrix_power(inverse @ U, i).T for i in range(m))


def recursion(G: np.ndarray, M: np.ndarray, m: int) -> np.ndarray:
    """D_m by the recursion of the proposition on completely consistent methods, M is M̃."""
    D = np.zeros_like(G)
    step = np.eye(len(G)) - M @ G
    for _ in range(m):
        D = M + M.T - M @ G @ M.T + step @ D @ step.T
    return D


def test_closed_sum_is_the_recursion(problem: Problem) -> None:
    G = problem.G
    for m in (1, 2, 5, 20):
        assert_allclose(gauss_seidel_downdate(G, m), recursion(G, np.linalg.inv(np.tril(G)), m), atol=1e-10)


@pytest.mark.parametrize("m", [1, 2, 5, 20])
@pytest.mark.parametrize("method", ["richardson", "jacobi", "sor", "ssor", "gauss-seidel", "own"])
def test_stationary_methods_follow_the_recursion(problem: Problem, method: str, m: int) -> None:
    G = problem.G
    D, L, U = np.diag(np.diag(G)), np.tril(G, -1), np.triu(G, 1)
    w = 1.4
    mixing = np.random.default_rng(0).normal(size=G.shape) * 1e-4
    own = 0.02 * np.eye(30) + mixing  # not symmetric: shows that the transpose is in the right place
    consistent = {
        "richardson": 0.02 * np.eye(30),
        "jacobi": 0.03 * np.linalg.inv(D),
        "sor": np.linalg.inv(D / w + L),
        "ssor": w * (2 - w) * np.linalg.inv(D + w * U) @ D @ np.linalg.inv(D + w * L),
        "gauss-seidel": np.linalg.inv(D + L),
        "own": own,
    }[method]

    def apply_transpose(gram: Gram, R: object) -> object:
        return R @ type(R)(own).to(R)  # rows: (M̃ᵀ r)ᵀ = rᵀ M̃

    solver = {
        "richardson": cagp.Stationary("richardson", m, relaxation=0.02),
        "jacobi": cagp.Stationary("jacobi", m, relaxation=0.03),
        "sor": cagp.Stationary("sor", m, relaxation=w),
        "ssor": cagp.Stationary("ssor", m, relaxation=w),
        "gauss-seidel": cagp.Stationary("sor", m),
        "own": cagp.Stationary(apply_transpose, m, allow_divergence=True),
    }[method]
    post = problem.prior.condition(problem.X, problem.y, solver).predict(problem.X_test)
    v = np.zeros(30)
    for _ in range(m):
        v = v + consistent @ (problem.y - G @ v)
    assert_allclose(post.mean, problem.V @ v, rtol=1e-6, atol=1e-7)
    covariance = problem.K - problem.V @ recursion(G, consistent, m) @ problem.V.T
    assert_allclose(post.covariance(), covariance, rtol=1e-6, atol=1e-7)


def test_divergent_methods_are_refused_with_the_spectral_radius(problem: Problem) -> None:
    largest = np.linalg.eigvalsh(problem.G).max()
    smallest = np.linalg.eigvalsh(problem.G).min()
    w = 3 / largest
    radius = max(abs(1 - w * largest), abs(1 - w * smallest))
    with pytest.raises(cagp.DivergenceError, match=rf"spectral radius .* is about {radius:.3g}"):
        problem.prior.condition(problem.X, problem.y, cagp.Stationary("richardson", 5, relaxation=w))
    for solver in (
        cagp.Stationary("jacobi", 5, relaxation=1.0),
        cagp.Stationary("sor", 5, relaxation=2.1),
        cagp.Stationary(lambda gram, R: R, 5),
    ):
        with pytest.raises(cagp.DivergenceError, match="allow_divergence=True"):
            problem.prior.condition(problem.X, problem.y, solver)
    going_on = cagp.Stationary("richardson", 5, relaxation=w, allow_divergence=True)
    post = problem.prior.condition(problem.X, problem.y, going_on).predict(problem.X_test)
    assert_allclose(post.covariance(), problem.covariance(post.weights), rtol=1e-8)  # wide, and still right


@pytest.mark.parametrize("m", [1, 2, 3, 6])
def test_gauss_seidel_covariance_has_rank_d_minus_1(m: int) -> None:
    """The proposition on rank and null space, span(Lᵀ e_d), in exact rational arithmetic: the rank is not numerical."""
    sympy = pytest.importorskip("sympy")
    G = sympy.Matrix([[5, 2, 1, 3], [2, 6, 2, 1], [1, 2, 4, 1], [3, 1, 1, 7]])
    assert G.is_positive_definite
    L = G.lower_triangular()
    U = G - L
    inverse, D = L.inv(), sympy.zeros(4)
    for i in range(m):
        term = (inverse * U) ** i
        D += term * inverse * sympy.diag(*G.diagonal()) * inverse.T * term.T
    C = G.inv() - D
    assert C.rank() == 3
    assert C * L.T[:, -1] == sympy.zeros(4, 1)


@pytest.mark.parametrize("m", [1, 2, 4])
def test_gauss_seidel_solves_the_null_space_direction_exactly(m: int) -> None:
    """The same proposition in the library: the right-hand side Lᵀ e_d leaves no computational error."""
    problem = make_problem(d=8, T=1)
    gram = problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(m, order="natural")).gram
    null = np.tril(problem.G).T[:, -1]
    rhs = torch.from_numpy(null.copy())[None, :]
    W = torch.zeros_like(rhs)
    for _ in range(m):
        sweep(gram, W, rhs, backward=True)
    assert_allclose(W[0].numpy(), np.linalg.solve(problem.G, null), atol=1e-12)


def test_reparametrised_observation_model_gives_the_same_posterior(problem: Problem) -> None:
    """Proposition 1 and its corollary: conditioning on v = G⁻¹b, with v ~ N(0, G⁻¹) and noise N(0, σ² G⁻²)."""
    G, V, K = problem.G, problem.V, problem.K
    inverse = np.linalg.inv(G)
    kernel = G - problem.noise * np.eye(30)
    covariance_v = inverse @ kernel @ inverse + problem.noise * inverse @ inverse
    assert_allclose(covariance_v, inverse, rtol=1e-8, atol=1e-10)
    cross = V @ inverse
    gain = cross @ np.linalg.inv(covariance_v)
    post = problem.prior.condition(problem.X, problem.y, cagp.Cholesky()).predict(problem.X_test)
    assert_allclose(post.mean, gain @ (inverse @ problem.y), rtol=1e-7)
    assert_allclose(post.covariance(), K - gain @ cross.T, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("m", [1, 3, 10, 25])
def test_conjugate_gradient_is_bayescg(problem: Problem, m: int) -> None:
    """Directions from the Krylov matrix, orthonormalised by QR, in the formulas as printed."""
    G, b = problem.G, problem.y
    columns = [b]
    for _ in range(m - 1):  # orthonormalise as we go: the raw Krylov matrix is numerically singular
        q = np.linalg.qr(np.column_stack(columns))[0]
        columns.append(G @ q[:, -1])
    S = np.linalg.qr(np.column_stack(columns))[0]
    D = S @ np.linalg.solve(S.T @ G @ S, S.T)
    post = problem.prior.condition(problem.X, problem.y, cagp.ConjugateGradient(m)).predict(problem.X_test)
    assert_allclose(post.mean, problem.V @ D @ b, rtol=1e-6, atol=1e-8)
    assert_allclose(post.covariance(), problem.K - problem.V @ D @ problem.V.T, rtol=1e-6, atol=1e-8)


def test_conjugate_gradient_mean_is_plain_cg(problem: Problem) -> None:
    iterates: list[np.ndarray] = []
    cg(problem.G, problem.y, rtol=0, atol=0, maxiter=8, callback=lambda v: iterates.append(v.copy()))
    model = problem.prior.condition(problem.X, problem.y, cagp.ConjugateGradient(8))
    for v, mean in zip(iterates, model.iterate_mean(problem.X_test), strict=True):
        assert_allclose(mean, problem.V @ v, rtol=1e-8)


def test_conjugate_gradient_variances_stay_positive_for_many_iterations() -> None:
    problem = make_problem(d=200, T=20, noise=1e-6)
    for post in problem.prior.condition(problem.X, problem.y, cagp.ConjugateGradient(200)).iterate(problem.X_test):
        C = problem.covariance(post.weights)
        assert np.linalg.eigvalsh(C).min() > -1e-9
        assert_allclose(post.variance, np.diag(C), rtol=1e-4, atol=1e-8)


def test_random_directions_are_the_bayesian_formula(problem: Problem) -> None:
    generator = torch.Generator().manual_seed(4)
    rows = np.stack([torch.randn(30, generator=generator, dtype=torch.float64).numpy() for _ in range(7)])
    S, G = rows.T, problem.G
    D = S @ np.linalg.solve(S.T @ G @ S, S.T)
    post = problem.prior.condition(problem.X, problem.y, cagp.RandomDirections(7, seed=4)).predict(problem.X_test)
    assert_allclose(post.mean, problem.V @ D @ problem.y, rtol=1e-9)
    assert_allclose(post.covariance(), problem.K - problem.V @ D @ problem.V.T, rtol=1e-9)


def test_subset_is_an_exact_gp_on_the_subset(problem: Problem) -> None:
    chosen = [4, 9, 20, 2]
    small = Problem(problem.X[chosen], problem.y[chosen], problem.X_test, problem.noise)
    post = problem.prior.condition(problem.X, problem.y, cagp.Subset(indices=chosen)).predict(problem.X_test)
    assert_allclose(post.mean, small.exact_weights.T @ small.y, rtol=1e-10)
    assert_allclose(post.covariance(), small.exact_covariance, rtol=1e-9, atol=1e-12)


@examples(60)
@given(seed=st.integers(0, 2**32 - 1), size=st.floats(0, 3), d=st.integers(1, 25), T=st.integers(1, 6))
def test_the_identity_for_random_weights(seed: int, size: float, d: int, T: int) -> None:
    """C(W) = C_exact + (W − W*)ᵀ G (W − W*), positive semidefinite, for any W."""
    problem = make_problem(d=d, T=T, seed=seed % 1000)
    W = size * np.random.default_rng(seed).normal(size=(d, T))
    post = problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(0)).posterior(problem.X_test, W)
    difference = W - problem.exact_weights
    expected = problem.exact_covariance + difference.T @ problem.G @ difference
    scale = np.abs(expected).max() + problem.variance
    assert_allclose(post.covariance(), expected, rtol=1e-9, atol=1e-11 * scale)
    assert_allclose(post.variance, np.diag(expected), rtol=1e-9, atol=1e-11 * scale)
    assert np.linalg.eigvalsh(post.covariance()).min() >= -1e-11 * scale
    assert_allclose(post.mean, W.T @ problem.y, rtol=1e-9, atol=1e-9)
    assert_allclose(post.weights, W)


def test_calibration_theorem_by_monte_carlo() -> None:
    """C^{-1/2} (mean − f) is standard normal when f and y come from the prior: Gauss-Seidel yes, CG no."""
    problem = make_problem(d=15, T=3)
    joint = np.block([[problem.G, problem.V.T], [problem.V, problem.K]])
    noiseless = joint - block_diag(problem.noise * np.eye(15), np.zeros((3, 3)))
    rng = np.random.default_rng(0)
    n = 700
    draws = rng.multivariate_normal(np.zeros(18), noiseless, size=n, method="eigh")
    y, f = draws[:, :15] + np.sqrt(problem.noise) * rng.normal(size=(n, 15)), draws[:, 15:]

    def whitened(solver: cagp.Solver, count: int) -> np.ndarray:
        rows = []
        for i in range(count):
            post = problem.prior.condition(problem.X, y[i], solver).predict(problem.X_test)
            rows.append(np.linalg.solve(np.linalg.cholesky(post.covariance()), post.mean - f[i]))
        return np.array(rows)

    gs = whitened(cagp.GaussSeidel(2), n)
    assert_allclose(np.cov(gs.T), np.eye(3), atol=5 * np.sqrt(2 / n))
    conjugate = whitened(cagp.ConjugateGradient(2), 200)
    assert conjugate.var() < 0.8  # conservative: the error bars are too wide


def test_a_longer_run_of_random_directions_repeats_a_shorter_one() -> None:
    problem = make_problem(d=25, T=4)  # m·d is no multiple of sixteen, where torch draws in blocks
    short = problem.prior.condition(problem.X, problem.y, cagp.RandomDirections(4)).predict(problem.X_test)
    longer = list(problem.prior.condition(problem.X, problem.y, cagp.RandomDirections(6)).iterate(problem.X_test))
    assert_allclose(longer[3].variance, short.variance, rtol=1e-10)

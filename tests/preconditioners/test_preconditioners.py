"""Preconditioners: what they are as matrices, that conjugate gradients use them as such, and that bounds hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.sparse.linalg import LinearOperator, cg

import cagp
from cagp.gram import Gram
from cagp.preconditioners import Identity, Jacobi, Nystrom, SymmetricGaussSeidel
from problems import Problem, make_problem
from random_examples import examples


def gram_of(problem: Problem) -> Gram:
    return problem.prior.condition(problem.X, problem.y, cagp.GaussSeidel(0, order="natural")).gram


def symmetric_gauss_seidel(G: np.ndarray, B: int) -> np.ndarray:
    """(D + L) D⁻¹ (D + U), written out."""
    block = np.arange(len(G)) // B
    same, lower = block[:, None] == block, block[:, None] > block
    D, L = np.where(same, G, 0), np.where(lower, G, 0)
    return (D + L) @ np.linalg.inv(D) @ (D + L.T)


@pytest.mark.parametrize("noise", [0.05, None], ids=["one noise", "noise per observation"])
@pytest.mark.parametrize("name", ["none", "jacobi", "nystrom", "sgs"])
def test_iterates_are_those_of_scipy_cg(name: str, noise: float | None) -> None:
    """Each test column against SciPy's preconditioned CG with the preconditioner as a dense matrix."""
    problem = make_problem(noise=noise)
    G = problem.G
    preconditioner = {"none": None, "jacobi": Jacobi(), "nystrom": Nystrom(8, seed=3), "sgs": SymmetricGaussSeidel(6)}
    if name == "sgs":
        M = symmetric_gauss_seidel(G, 6)
    elif name == "nystrom":
        prepared = Nystrom(8, seed=3).prepare(gram_of(problem))
        M = np.linalg.inv(prepared.apply(torch.eye(40, dtype=torch.float64)).numpy())
    else:
        M = np.diag(np.diag(G)) if name == "jacobi" else np.eye(40)
    inverse = LinearOperator((40, 40), matvec=lambda x: np.linalg.solve(M, x))
    model = problem.prior.condition(problem.X, problem.y, cagp.CalibratedCG(5, preconditioner[name]))
    ours = [post.weights for post in model.iterate(problem.X_test)]
    for t in range(7):
        theirs: list[np.ndarray] = []
        cg(G, problem.V[t], rtol=0, atol=0, maxiter=5, M=inverse, callback=lambda x, seen=theirs: seen.append(x.copy()))
        for m in range(5):
            assert_allclose(ours[m][:, t], theirs[m], rtol=1e-6, atol=1e-9)


def test_nystrom_is_the_projection_plus_noise_and_tail() -> None:
    problem = make_problem(noise=None)
    prepared = Nystrom(8, seed=3).prepare(gram_of(problem))
    M = np.linalg.inv(prepared.apply(torch.eye(40, dtype=torch.float64)).numpy())
    K = problem.kernel(problem.X, problem.X)
    rest = M - np.diag(problem.noise)
    tail = np.linalg.eigvalsh(rest).min()  # rest = τI + Q with Q of rank 8
    values = np.linalg.eigvalsh(rest - tail * np.eye(40))
    assert (values[:32] < 1e-8).all()
    assert (values[32:] > 1e-6).all()
    Q = rest - tail * np.eye(40)
    assert_allclose(tail, np.trace(K - Q) / 40, rtol=1e-6)
    assert np.linalg.eigvalsh(K - Q).min() > -1e-9
    assert_allclose(prepared.floor, (problem.noise / (problem.noise + tail)).min(), rtol=1e-6)


@examples(40)
@given(seed=st.integers(0, 500), rank=st.integers(1, 35), noise=st.floats(1e-6, 1.0), iterations=st.integers(1, 12))
def test_radau_bound_holds_and_g_is_above_the_floor(seed: int, rank: int, noise: float, iterations: int) -> None:
    problem = make_problem(d=30, T=3, seed=seed, noise=noise)
    model = problem.prior.condition(problem.X, problem.y, cagp.CalibratedCG(iterations, Nystrom(rank, seed)))
    prepared = Nystrom(rank, seed).prepare(model.gram)
    inverse = prepared.apply(torch.eye(30, dtype=torch.float64)).numpy()
    root = np.linalg.cholesky((inverse + inverse.T) / 2)
    assert np.linalg.eigvalsh(root.T @ problem.G @ root).min() >= prepared.floor * (1 - 1e-6)
    cross = model.components[0].cross(torch.from_numpy(problem.X_test))
    for weights in model.prepared.weights(cross):
        if weights.iteration:
            difference = weights.dense().numpy().T - problem.exact_weights
            truth = np.einsum("it,ij,jt->t", difference, problem.G, difference)
            assert (truth <= weights.upper.numpy() * (1 + 1e-6) + 1e-10 * problem.variance).all()


def test_more_rank_needs_fewer_iterations() -> None:
    problem = make_problem(d=300, T=10, noise=0.01)
    exact = np.diag(problem.exact_covariance)

    def excess(preconditioner: cagp.preconditioners.Preconditioner) -> float:
        model = problem.prior.condition(problem.X, problem.y, cagp.CalibratedCG(5, preconditioner))
        return float((model.predict(problem.X_test).variance - exact).mean() / exact.mean())

    assert excess(Nystrom(100)) < 0.01 * excess(Nystrom(10))
    assert excess(Nystrom(10)) < excess(Identity())


def test_bad_preconditioners() -> None:
    with pytest.raises(cagp.InputError, match="rank must be at least 1"):
        Nystrom(0)
    with pytest.raises(cagp.InputError, match="block_size must be at least 1"):
        SymmetricGaussSeidel(0)
    with pytest.raises(TypeError, match=r"preconditioner must be one such as Nystrom\(1000\)"):
        cagp.CalibratedCG(3, preconditioner="nystrom")  # type: ignore[arg-type]
    problem = make_problem()
    with pytest.raises(cagp.MemoryBudgetError, match="40 inducing points for 40 training points"):
        problem.prior.condition(problem.X, problem.y, cagp.CalibratedCG(3, Nystrom(50)), memory_budget=20_000)

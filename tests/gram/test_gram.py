"""The Gram matrix: dense and in tiles it is the same matrix, and memory is asked for before it is taken."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from cagp.gram import tiles
from problems import make_problem

PROBLEM = make_problem(d=500, T=5, noise=None)


def gram_of(storage: str, **settings: object) -> cagp.Gram:
    solver = cagp.GaussSeidel(0, order="natural")
    return PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver, storage=storage, **settings).gram


@pytest.fixture(params=["dense", "tiles"])
def gram(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> cagp.Gram:
    monkeypatch.setitem(tiles.TILINGS, "cpu", tiles.Tiling(48, 2**20, 64))  # several tiles at this size
    return gram_of(request.param)


def test_all_views_of_the_matrix_agree_with_numpy(gram: cagp.Gram) -> None:
    G = PROBLEM.G
    W = np.random.default_rng(0).normal(size=(3, 500))
    chosen = torch.tensor([7, 3, 400])
    assert_allclose(gram.matmul(torch.from_numpy(W)).numpy(), W @ G, rtol=1e-11, atol=1e-12)
    assert_allclose(gram.block(10, 300, 5, 470).numpy(), G[10:300, 5:470], rtol=1e-12)
    assert_allclose(gram.diagonal().numpy(), np.diag(G), rtol=1e-12)
    assert_allclose(gram.submatrix(chosen).numpy(), G[np.ix_(chosen, chosen)], rtol=1e-12)
    kernel = PROBLEM.kernel(PROBLEM.X, PROBLEM.X)
    assert_allclose(gram.kernel_rows(chosen).numpy(), kernel[chosen], rtol=1e-12)
    assert_allclose(gram.cholesky().numpy(), np.linalg.cholesky(G), rtol=1e-9, atol=1e-10)
    order = torch.randperm(500, generator=torch.Generator().manual_seed(0))
    assert_allclose(gram.permuted(order).block(0, 500, 0, 500).numpy(), G[np.ix_(order, order)], rtol=1e-12)
    assert [p for p in gram.panels(200)] == [(0, 200), (200, 400), (400, 500)]
    assert [p for p in gram.panels(200, reverse=True)] == [(400, 500), (200, 400), (0, 200)]


def test_auto_storage_follows_the_budget() -> None:
    matrix = 500 * 500 * 8
    assert gram_of("auto", memory_budget=2 * matrix).storage == "dense"
    assert gram_of("auto", memory_budget=matrix).storage == "tiles"
    assert "matrix-free" in repr(gram_of("tiles"))
    assert "1.91 MiB" in repr(gram_of("dense"))


def test_a_budget_too_small_is_refused_with_the_sizes() -> None:
    with pytest.raises(cagp.MemoryBudgetError, match=r"500 points \(1.91 MiB\).* is 1.91 MiB; use storage=\"tiles\""):
        gram_of("dense", memory_budget=500 * 500 * 8)
    with pytest.raises(cagp.MemoryBudgetError, match=r"Cholesky factor of 500 points .* needs 3.81 MiB"):
        PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.Cholesky(), memory_budget=3e6)
    tiny = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.GaussSeidel(1), memory_budget=1000)
    with pytest.raises(cagp.MemoryBudgetError, match=r"a single test point needs 39\.1 KiB"):
        tiny.predict(PROBLEM.X_test)
    with pytest.raises(cagp.MemoryBudgetError, match="the exact posterior of 400 points"):
        PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, cagp.Subset(size=400), memory_budget=1e5)


def test_a_matrix_that_is_not_positive_definite_is_told() -> None:
    X = np.repeat(np.random.default_rng(0).random((30, 1)), 2, axis=0)
    prior = cagp.Prior(cagp.RBF(1.0), noise_variance=1e-300)
    with pytest.raises(cagp.NotPositiveDefiniteError, match="larger noise_variance"):
        prior.condition(X, np.zeros(60), cagp.Cholesky())


@pytest.mark.gpu
def test_gpu_gives_the_same_posterior() -> None:
    for storage in ("dense", "tiles"):
        for solver in (cagp.GaussSeidel(5), cagp.ConjugateGradient(5), cagp.Cholesky()):
            here = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver, storage=storage).predict(PROBLEM.X_test)
            there = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver, storage=storage, device="cuda")
            assert_allclose(there.predict(PROBLEM.X_test).variance, here.variance, rtol=1e-9)

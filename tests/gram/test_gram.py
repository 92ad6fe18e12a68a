"""The Gram matrix: dense and in tiles it is the same matrix, and memory is asked for before it is taken."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import cagp
from cagp.algebra.sweeps import BlockDiagonal, substitute, sweep
from cagp.gram import Gram, Tiling
from problems import make_problem

PROBLEM = make_problem(d=500, T=5, noise=None)


def gram_of(storage: str, **settings: object) -> Gram:
    solver = cagp.GaussSeidel(0, order="natural")
    return PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver, storage=storage, **settings).gram


def small(storage: str, few_columns: range = range(0)) -> Gram:
    """The Gram matrix of the problem in several tiles at this size."""
    return PROBLEM.gram(storage, Tiling(48, 2**20, 64, few_columns))


@pytest.fixture(params=["dense", "tiles"])
def gram(request: pytest.FixtureRequest) -> Gram:
    return small(request.param)


def test_all_views_of_the_matrix_agree_with_numpy(gram: Gram) -> None:
    G = PROBLEM.G
    W = np.random.default_rng(0).normal(size=(3, 500))
    chosen = torch.tensor([7, 3, 400])
    assert_allclose(gram.matmul(torch.from_numpy(W)).numpy(), W @ G, rtol=1e-11, atol=1e-12)
    with gram.block(10, 300, 5, 470) as block:
        assert_allclose(block.numpy(), G[10:300, 5:470], rtol=1e-12)
    groups = torch.tensor([[7, 3, 400], [1, 2, 499]])
    at = torch.tensor([[0, 1, 2], [4, 2, 3]])
    test = PROBLEM.prior.kernel.embed(torch.from_numpy(PROBLEM.X_test), torch.from_numpy(PROBLEM.X).mean(dim=0))
    with gram.systems(test[:, at], groups) as (blocks, crossing):
        expected = np.stack([np.tril(G[np.ix_(group, group)]) for group in groups])
        assert_allclose(blocks.tril().numpy(), expected, rtol=1e-12)
        expected = np.stack([PROBLEM.V[np.ix_(*both)] for both in zip(at, groups, strict=True)])
        assert_allclose(crossing.numpy(), expected, rtol=1e-12)
    assert_allclose(gram.diagonal().numpy(), np.diag(G), rtol=1e-12)
    assert_allclose(gram.submatrix(chosen).numpy(), G[np.ix_(chosen, chosen)], rtol=1e-12)
    kernel = PROBLEM.kernel(PROBLEM.X, PROBLEM.X)
    assert_allclose(gram.kernel_rows(chosen).numpy(), kernel[chosen], rtol=1e-12)
    assert_allclose(gram.cholesky().numpy(), np.linalg.cholesky(G), rtol=1e-9, atol=1e-10)
    order = torch.randperm(500, generator=torch.Generator().manual_seed(0))
    with gram.permuted(order).block(0, 500, 0, 500) as permuted:
        assert_allclose(permuted.numpy(), G[np.ix_(order, order)], rtol=1e-12)
    assert [p for p in gram.panels(200)] == [(0, 200), (200, 400), (400, 500)]
    assert [p for p in gram.panels(200, reverse=True)] == [(400, 500), (200, 400), (0, 200)]


def test_what_is_lent_is_not_lent_twice() -> None:
    gram = small("tiles")
    pair = torch.tensor([[1, 2]])
    with (
        gram.block(0, 100, 0, 500) as first,
        gram.block(100, 200, 0, 500) as second,
        gram.systems(gram.embedding[:, pair], pair) as (third, fourth),
    ):
        assert_allclose(first.numpy(), PROBLEM.G[:100], rtol=1e-12)
        assert_allclose(second.numpy(), PROBLEM.G[100:200], rtol=1e-12)
        assert_allclose(third[0].tril().numpy(), np.tril(PROBLEM.G[1:3, 1:3]), rtol=1e-12)
        assert_allclose(fourth[0].numpy(), PROBLEM.kernel(PROBLEM.X[1:3], PROBLEM.X[1:3]), rtol=1e-12)


@pytest.mark.parametrize("few_columns", [range(0), range(1, 9)])
@pytest.mark.parametrize("storage", ["dense", "tiles"])
@pytest.mark.parametrize("backward", [True, False])
def test_sweeps_from_zero_and_substitution_solve_with_the_triangle(
    backward: bool, storage: str, few_columns: range
) -> None:
    gram, rhs = small(storage, few_columns), torch.from_numpy(PROBLEM.V)
    triangle = np.triu if backward else np.tril
    W = torch.zeros_like(rhs)
    gain = sweep(gram, W, rhs, backward=backward)
    expected = np.linalg.solve(triangle(PROBLEM.G), PROBLEM.V.T)
    assert_allclose(W.numpy().T, expected, rtol=1e-9, atol=1e-10)
    assert_allclose(gain.numpy(), (2 * PROBLEM.V.T * expected - expected * (PROBLEM.G @ expected)).sum(axis=0))
    block = np.arange(500) // 64
    inside = block[:, None] <= block if backward else block[:, None] >= block
    found = substitute(gram, rhs, BlockDiagonal(gram, 64), backward=backward)
    assert_allclose(found.numpy().T, np.linalg.solve(PROBLEM.G * inside, PROBLEM.V.T), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("few_columns", [range(0), range(1, 9)])
def test_a_stored_matrix_is_in_memory_once_whatever_the_order(few_columns: range) -> None:
    gram = small("dense", few_columns)
    order = torch.randperm(500, generator=torch.Generator().manual_seed(0))
    permuted = gram.permuted(order)
    W = np.random.default_rng(0).normal(size=(3, 500))
    for _ in range(2):  # computed on the way, and then at hand
        assert_allclose(gram.matmul(torch.from_numpy(W)).numpy(), W @ PROBLEM.G, rtol=1e-11, atol=1e-12)
        assert (permuted.computed, gram.computed) == (True, False)
    assert gram.working_budget == permuted.working_budget == 2**30 - 500 * 500 * 8
    assert_allclose(gram.cholesky().numpy(), np.linalg.cholesky(PROBLEM.G), rtol=1e-9, atol=1e-10)
    again, other = pickle.loads(pickle.dumps((gram, permuted)))
    assert_allclose(again.matmul(torch.from_numpy(W)).numpy(), W @ PROBLEM.G, rtol=1e-11, atol=1e-12)
    assert (other.computed, again.computed) == (True, False)  # a copy of both shares as they do
    sweep(gram, torch.zeros(3, 500, dtype=torch.float64), torch.from_numpy(W), backward=True)
    assert gram.computed  # a sweep needs the matrix in its own order


def test_the_matrix_of_another_order_goes_with_whoever_works_in_it() -> None:
    gram = small("dense")
    reverse = torch.arange(499, -1, -1)
    W = np.random.default_rng(0).normal(size=(3, 500))
    used, unused = gram.permuted(reverse), gram.permuted(torch.arange(500).roll(7))
    used.matmul(torch.from_numpy(W))
    gram.matmul(torch.from_numpy(W))  # through the one that is in memory already
    assert (used.computed, unused.computed, gram.computed) == (True, False, False)
    del used, unused
    assert_allclose(gram.matmul(torch.from_numpy(W)).numpy(), W @ PROBLEM.G, rtol=1e-11, atol=1e-12)
    assert gram.computed
    pickle.loads(pickle.dumps(gram)).permuted(reverse)


def test_threads_that_multiply_in_two_orders_compute_one_matrix() -> None:
    gram = small("dense")
    permuted = gram.permuted(torch.arange(499, -1, -1))
    W = torch.randn(3, 500, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda i: (gram if i % 2 else permuted).matmul(W if i % 2 else W.flip(1)), range(16)))
    assert (permuted.computed, gram.computed) == (True, False)
    for i, product in enumerate(found):
        in_order = product if i % 2 else product.flip(1)
        assert_allclose(in_order.numpy(), W.numpy() @ PROBLEM.G, rtol=1e-11, atol=1e-12)


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
    for dtype, noise, words in (
        ("float64", 1e-300, "unless the kernel itself is no covariance"),
        ("float32", 1e-10, "a larger noise_variance or dtype=torch.float64 helps"),
    ):
        prior = cagp.Prior(cagp.RBF(1.0), noise_variance=noise)
        with pytest.raises(cagp.NotPositiveDefiniteError, match="larger noise_variance") as caught:
            prior.condition(X, np.zeros(60), cagp.Cholesky(), dtype=dtype)
        assert words in str(caught.value)
        assert ("dtype=" in str(caught.value)) == (dtype == "float32")


@pytest.mark.gpu
def test_gpu_gives_the_same_posterior() -> None:
    for storage in ("dense", "tiles"):
        for solver in (cagp.GaussSeidel(5), cagp.ConjugateGradient(5), cagp.Cholesky()):
            here = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver, storage=storage).predict(PROBLEM.X_test)
            there = PROBLEM.prior.condition(PROBLEM.X, PROBLEM.y, solver, storage=storage, device="cuda")
            assert_allclose(there.predict(PROBLEM.X_test).variance, here.variance, rtol=1e-9)

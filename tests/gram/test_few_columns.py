"""Products with few columns, tile by tile without packing, against one call of NumPy."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from cagp.algebra.sweeps import BlockDiagonal, sweep
from cagp.gram import Tiling
from cagp.gram.few_columns import FewColumnsProduct, few_columns, on_this_thread
from problems import make_problem

CPU = torch.device("cpu")
TILING = Tiling(192, 2**26, 2048, few_columns(CPU, without_packing=True))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("limit", [50, 3000, 10**6])
def test_rows_are_those_of_the_whole_product(limit: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    rng = np.random.default_rng(0)
    G, X = rng.normal(size=(101, 101)), rng.normal(size=(101, 9))
    with FewColumnsProduct(G, X, limit) as product:
        assert_allclose(product.rows(0, 101), G @ X, rtol=1e-12, atol=1e-12)
        assert_allclose(product.rows(7, 8), G[7:8] @ X, rtol=1e-12, atol=1e-12)
        assert_allclose(product.rows(7, 48, 30, 90), G[7:48, 30:90] @ X[30:90], rtol=1e-12, atol=1e-12)
        assert_allclose(product.rows(7, 48, 30, 30), np.zeros((41, 9)))
        X[40:50] = 1.0  # a sweep changes X as it goes
        assert_allclose(product.rows(20, 43), G[20:43] @ X, rtol=1e-12, atol=1e-12)


def test_many_rows_at_once_take_no_more_memory_than_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    G, X = np.ones((1500, 1500)), np.ones((1500, 64))
    with FewColumnsProduct(G, X) as product:
        tracemalloc.start()
        rows = product.rows(0, 1500)  # a diagonal block of that size, for example
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert_allclose(rows, np.full((1500, 64), 1500.0))
    assert peak < G.nbytes


@pytest.mark.parametrize("limit", [1, 500, 10**6])
def test_a_small_product_in_pieces(limit: int) -> None:
    rng = np.random.default_rng(0)
    A, X = rng.normal(size=(31, 17)), rng.normal(size=(17, 9))
    assert_allclose(on_this_thread(A, X, limit), A @ X, rtol=1e-12, atol=1e-13)


def test_it_is_for_a_few_dozen_columns_on_a_cpu() -> None:
    assert [T for T in (1, 7, 8, 25, 64, 65, 1000) if T in few_columns(CPU, without_packing=True)] == [8, 25, 64]
    assert 25 not in few_columns(torch.device("cuda"), without_packing=True)
    assert 25 not in few_columns(CPU, without_packing=False)
    assert few_columns(CPU) in (few_columns(CPU, without_packing=True), few_columns(CPU, without_packing=False))


@pytest.mark.parametrize("block_size", [None, 64])
@pytest.mark.parametrize("relaxation", [1.0, 1.4])
@pytest.mark.parametrize("backward", [True, False])
def test_a_sweep_in_whole_rows_is_gauss_seidel(backward: bool, relaxation: float, block_size: int | None) -> None:
    if block_size and relaxation != 1.0:
        pytest.skip("blocks are solved exactly, without relaxation")
    problem = make_problem(d=500, T=9, noise=None)
    gram = problem.gram("dense", TILING)
    blocks = BlockDiagonal(gram, block_size) if block_size else None
    W = torch.randn(9, 500, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rhs = torch.from_numpy(problem.V)
    expected, G = W.numpy().T.copy(), problem.G
    energy = ((expected.T @ G) * expected.T - 2 * problem.V * expected.T).sum(axis=1)
    step = block_size or 1
    starts = range(0, 500, step)
    for start in reversed(starts) if backward else starts:
        part = slice(start, start + step)
        residual = problem.V.T[part] - G[part] @ expected
        expected[part] += relaxation * np.linalg.solve(G[part, part], residual)
    gain = sweep(gram, W, rhs, backward=backward, relaxation=relaxation, blocks=blocks)
    assert_allclose(W.numpy(), expected.T, rtol=1e-9, atol=1e-10)
    after = ((expected.T @ G) * expected.T - 2 * problem.V * expected.T).sum(axis=1)
    assert_allclose(gain.numpy(), energy - after, rtol=1e-9)


def test_the_product_with_a_dense_gram_matrix_is_that_of_numpy() -> None:
    problem = make_problem(d=500, T=9)
    gram = problem.gram("dense", TILING)
    W = np.random.default_rng(0).normal(size=(9, 500))
    assert_allclose(gram.matmul(torch.from_numpy(W)).numpy(), W @ problem.G, rtol=1e-11, atol=1e-11)

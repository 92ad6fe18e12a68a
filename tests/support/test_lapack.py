"""Triangular matrices by LAPACK: against NumPy, above the diagonal nothing is touched, and threads do not wait."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cagp.support import lapack


def problem(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A positive definite matrix (n, n), and three columns."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, n))
    return A @ A.T + n * np.eye(n), rng.normal(size=(n, 3))


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 130, 331])
def test_against_numpy(n: int) -> None:
    G, B = problem(n)
    L = np.linalg.cholesky(G)
    found = G.copy()
    found[np.triu_indices(n, 1)] = 0.0  # some LAPACKs read it
    assert lapack.factorise(found) == 0
    assert_allclose(np.tril(found), L, rtol=1e-10, atol=1e-12)
    assert_allclose(lapack.solve(found, B), np.linalg.solve(L, B), rtol=1e-8, atol=1e-10)
    assert_allclose(lapack.solve(found, B, transposed=True), np.linalg.solve(L.T, B), rtol=1e-8, atol=1e-10)
    lapack.invert(found)
    assert_allclose(np.tril(found), np.linalg.inv(L), rtol=1e-8, atol=1e-10)
    lapack.multiply_by_transpose(found)
    assert_allclose(np.tril(found), np.tril(np.linalg.inv(G)), rtol=1e-8, atol=1e-10)
    assert not found[np.triu_indices(n, 1)].any()
    assert_allclose(lapack.symmetric_product(np.tril(G), B), G @ B, rtol=1e-10)


def test_not_positive_definite_is_said() -> None:
    G, _ = problem(20)
    G[7, 7] = -1.0
    assert lapack.factorise(G) == 8


def test_several_at_once_are_those_of_one_after_another() -> None:
    def inverse(seed: int) -> np.ndarray:
        G, _ = problem(150, seed)
        lapack.factorise(G)
        lapack.invert(G)
        return np.tril(G)

    with ThreadPoolExecutor(4) as pool:
        for seed, found in enumerate(pool.map(inverse, range(12))):
            assert_array_equal(found, inverse(seed))

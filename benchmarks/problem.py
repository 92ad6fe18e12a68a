"""The benchmarks' problem: random points in the plane, Matérn 3/2; and Algorithm 2 in plain NumPy and SciPy."""

from __future__ import annotations

import functools

import numpy as np
from scipy.linalg import solve_triangular
from scipy.spatial.distance import cdist

import cagp

LENGTHSCALE, NOISE = 0.1, 0.01
PRIOR = cagp.Prior(cagp.Matern32(LENGTHSCALE), noise_variance=NOISE)


def data(d: int, T: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training points (d, 2), observations (d,) and test points (T, 2)."""
    rng = np.random.default_rng(0)
    X = rng.random((d, 2))
    return X, np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=d), rng.random((T, 2))


def matern32(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """The kernel matrix, by SciPy."""
    r = np.sqrt(3) * cdist(A, B) / LENGTHSCALE
    return np.asarray((1 + r) * np.exp(-r))


def plain_algorithm_2(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, m: int, check_finite: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Algorithm 2 as printed: mean and variance after m iterations. ``check_finite`` is SciPy's default."""
    triangular = functools.partial(solve_triangular, check_finite=check_finite)
    G = matern32(X, X) + NOISE * np.eye(len(X))
    V = matern32(X_test, X)
    L, U, root = np.tril(G), np.triu(G, 1), np.sqrt(np.diag(G))[:, None]
    Z = triangular(L.T, V.T, lower=False)
    z = triangular(L, y, lower=True)
    v, downdate = z, (root * Z).T @ (root * Z)
    for _ in range(2, m + 1):
        v = z - triangular(L, U @ v, lower=True)
        Z = triangular(L.T, U.T @ Z, lower=False)
        downdate += (root * Z).T @ (root * Z)
    return V @ v, np.diag(matern32(X_test, X_test) - downdate)


def solve(d: int, T: int, solver: cagp.Solver, storage: str, solve_dtype: str | None = None) -> cagp.Prediction:
    """All of it: the Gram matrix, the solve and the posterior."""
    X, y, X_test = data(d, T)
    return PRIOR.condition(X, y, solver, storage=storage, solve_dtype=solve_dtype).predict(X_test, progress=False)

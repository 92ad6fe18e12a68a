"""Averages in plain NumPy: the independent route for the tests of averages."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from problems import Problem


def rows_of_weights(T: int, m: int = 3, seed: int = 3) -> np.ndarray:
    """A mean, a difference, and random weights with zeros among them, shape (m, T)."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, T)) * (rng.random((m, T)) < 0.6)
    A[0] = 1 / T
    A[1] = 0
    A[1, :2] = 1, -1
    return A


def functional_covariance(problem: Problem, A: np.ndarray, W: np.ndarray) -> np.ndarray:
    """C(W) = A K″ Aᵀ − A V W − (A V W)ᵀ + Wᵀ G W for weights W (d, m), shape (m, m)."""
    AVW = A @ problem.V @ W
    return A @ problem.K @ A.T - AVW - AVW.T + W.T @ problem.G @ W


def as_sparse(A: np.ndarray) -> sp.csr_array:
    return sp.csr_array(A)

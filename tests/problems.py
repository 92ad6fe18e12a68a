"""Small regression problems with every matrix written out in plain NumPy: the independent route for the tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial.distance import cdist

import cagp
from cagp.gram import Gram, Tiling


@dataclass(frozen=True)
class Problem:
    """Matérn 3/2 in two dimensions; matrices from SciPy distances, not from the library."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    noise: np.ndarray | float
    lengthscale: float = 0.3
    variance: float = 1.7

    @property
    def prior(self) -> cagp.Prior:
        return cagp.Prior(cagp.Matern32(self.lengthscale, self.variance), noise_variance=self.noise)

    def kernel(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:
        r = np.sqrt(3) * cdist(A, B) / self.lengthscale
        return self.variance * (1 + r) * np.exp(-r)

    def gram(self, storage: str, tiling: Tiling | None = None) -> Gram:
        """The library's own G, cut as ``tiling`` says."""
        X, kernel = torch.from_numpy(self.X), self.prior.kernel
        noise = torch.from_numpy(np.broadcast_to(self.noise, len(X)).astype(float))
        return Gram(kernel, kernel.embed(X, X.mean(dim=0)), noise, storage=storage, budget=2**30, tiling=tiling)

    @property
    def G(self) -> np.ndarray:
        return self.kernel(self.X, self.X) + np.diag(np.broadcast_to(self.noise, len(self.X)))

    @property
    def V(self) -> np.ndarray:
        return self.kernel(self.X_test, self.X)

    @property
    def K(self) -> np.ndarray:
        return self.kernel(self.X_test, self.X_test)

    @property
    def exact_weights(self) -> np.ndarray:
        return np.linalg.solve(self.G, self.V.T)

    @property
    def exact_covariance(self) -> np.ndarray:
        return self.K - self.V @ self.exact_weights

    def covariance(self, W: np.ndarray) -> np.ndarray:
        """C(W) = K″ − V W − Wᵀ Vᵀ + Wᵀ G W."""
        VW = self.V @ W
        return self.K - VW - VW.T + W.T @ self.G @ W


def make_problem(d: int = 40, T: int = 7, seed: int = 0, noise: float | None = 0.05, dimension: int = 2) -> Problem:
    """``noise=None`` gives each observation its own noise variance."""
    rng = np.random.default_rng(seed)
    X, X_test = rng.random((d, dimension)), rng.random((T, dimension))
    y = np.sin(5 * X[:, 0]) + 0.2 * rng.normal(size=d)
    return Problem(X, y, X_test, rng.uniform(0.02, 0.2, d) if noise is None else noise)

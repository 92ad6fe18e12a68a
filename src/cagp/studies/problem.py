"""The paper's synthetic problem: uniform points in the unit square, a regular grid to predict, f from the prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from .. import kernels
from ..prior import Prior
from ..support.positive_definite import positive_definite_factor


@dataclass(frozen=True)
class Problem:
    """Training points X (d, 2) with observations y (d,), and test points X_test (T, 2) with the true f there (T,)."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    truth: np.ndarray


def make_prior(kernel: str, lengthscale: float, noise_std: float) -> Prior:
    """A zero-mean prior of variance 1 with the kernel of that name, for example "Matern32"."""
    return Prior(getattr(kernels, kernel)(lengthscale), noise_variance=noise_std**2)


def uniform_points(n: int, rng: np.random.Generator) -> np.ndarray:
    """``n`` independent uniform points in the unit square, shape (n, 2)."""
    return rng.random((n, 2))


def grid(side: int) -> np.ndarray:
    """The regular ``side`` × ``side`` grid on the unit square, shape (side², 2)."""
    axis = np.linspace(0, 1, side)
    return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)


def generator(seed: int, run: int) -> np.random.Generator:
    """Random numbers for one run; runs, and studies with different seeds, are independent of each other."""
    return np.random.default_rng([seed, run])


def draw(prior: Prior, n: int, side: int, rng: np.random.Generator) -> Problem:
    """A problem with ``n`` training points, f drawn jointly at these and at the grid, exactly: no jitter.

    Two priors and equal random numbers give the same points and the same normals behind f and the noise.
    """
    X, X_test = uniform_points(n, rng), grid(side)
    normal = rng.standard_normal(n + len(X_test))
    noise = rng.standard_normal(n) * prior.noise(n).sqrt().numpy()
    covariance = torch.from_numpy(prior.kernel(np.concatenate([X, X_test])))
    f = positive_definite_factor(covariance, "the prior covariance of a draw", "fewer points").numpy() @ normal
    return Problem(X, f[:n] + noise, X_test, f[n:])

"""Problems on which two routes to the same likelihood are compared."""

from __future__ import annotations

import numpy as np
import torch

import cagp
from cagp.hyperparameters.observations import Observations
from cagp.hyperparameters.search_space import Space


def warped(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """A kernel that is not a function of the distance."""
    return 1.0 + A @ B.T


KERNELS = {
    "matern12": cagp.Matern12(0.4, 1.3),
    "matern32-ard": cagp.Matern32((0.4, 0.9), 2.0),
    "matern52": cagp.Matern52(0.6, 0.8),
    "spherical": cagp.Spherical((1.4, 0.9), 1.2),
    "rbf": cagp.RBF(0.3, 1.1),
    "rational-quadratic": cagp.RationalQuadratic(0.5, 1.2, 0.7),
    "periodic": cagp.Periodic((0.8, 1.1), 0.9, (1.5, 2.5)),
    "geographic": cagp.Geographic(cagp.Matern32(0.01, 1.4)),
    "columns": cagp.RBF(0.3).on(1),
    "sum": cagp.Matern32(0.2, 0.5) + cagp.RBF((1.0, 2.0), 1.5),
    "product": cagp.Matern32(0.5).on(0) * cagp.Periodic(1.0, 1.0, 0.7).on(1) + 0.1 * cagp.RBF(0.2),
    "custom": cagp.CustomKernel(warped, 0.6) + cagp.RBF(0.4),
    "varying": cagp.Varying(
        cagp.Matern32((0.4, 0.9), 2.0),
        cagp.Pattern(cagp.RBF(0.4), [[0.1, 0.2], [0.9, 0.4], [0.5, 1.0]], [0.3, 1.0, 2.5]),
    ),
}


def observations(
    n: int = 40, *, basis: bool = False, noise: bool = False, pattern: bool = False, seed: int = 3
) -> Observations:
    """n points in the unit square with rough values, some points twice; ``pattern`` makes their noise vary."""
    generator = np.random.default_rng(seed)
    X = generator.random((n, 2))
    X[-1] = X[0]
    y = np.cos(4 * X[:, 0]) * X[:, 1] + 0.3 * generator.standard_normal(n)
    points, values = torch.from_numpy(X), torch.from_numpy(y)
    columns = torch.stack([torch.ones(n, dtype=torch.float64), points[:, 0], points[:, 1] ** 2], dim=1)
    each = torch.from_numpy(generator.uniform(0.05, 0.3, n))
    return Observations(
        points,
        values,
        torch.full_like(values, 0.1),
        columns if basis else None,
        each if noise else None,
        0.0,
        noise_slope=20 * each.square() if pattern else None,
    )


def space_of(name: str, noise: bool = True) -> Space:
    """All hyperparameters of a kernel above, with noise or without."""
    return Space.of(cagp.Prior(KERNELS[name], noise_variance=0.07), fix_noise=not noise)


def dense_log_likelihood(space: Space, data: Observations, log_values: torch.Tensor) -> torch.Tensor:
    """log p by torch.distributions, differentiable through everything: small n only."""
    values = list(log_values.exp())
    kernel = space.kernel(values)
    origin = data.X.mean(dim=0)
    K = kernel.evaluate(kernel.embed(data.X, origin), kernel.embed(data.X, origin))
    noise = data.noise if data.noise is not None else space.noise(values) * data.noise_slopes
    G = K + torch.diag(noise + data.jitter)
    mean = data.mean
    if data.basis is not None:
        H, inverse = data.basis, torch.linalg.inv(G)
        mean = H @ torch.linalg.solve(H.T @ inverse @ H, H.T @ inverse @ data.y)
    return torch.distributions.MultivariateNormal(mean, G).log_prob(data.y)

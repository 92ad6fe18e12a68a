"""Exact joint draws, under the prior, of the data and of what is to be predicted.

A simulation needs b = y − m₀(X) and the number s = wᵀ(f(X′) − m₀(X′)), nothing else. Their joint covariance

    [ k(X, X) + Σ    k(X, X′) w    ]
    [ wᵀ k(X′, X)    wᵀ k(X′, X′) w ]

has d + 1 rows however many test points there are, and the noise on its diagonal makes it positive definite where
that of f(X), f(X′) is not (test points that are training points, smooth kernels). So no jitter is needed. The
covariance comes from the kernel as a whole, not from the ``Gram`` that the solvers use: this is an independent check.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..errors import NotPositiveDefiniteError
from ..kernels import Kernel, slice_embedding
from ..prior import Prior
from ..support.memory import require

_ROWS = 512


@dataclass(frozen=True)
class Draws:
    """``b`` (n, d) and ``truth`` s (n,), with the prior variance of s and the ``factor`` that was used."""

    b: torch.Tensor
    truth: torch.Tensor
    prior_variance: float
    factor: str


def draw(
    prior: Prior,
    train: torch.Tensor,
    test: torch.Tensor,
    w: torch.Tensor,
    n: int,
    rng: np.random.Generator,
    budget: int,
) -> Draws:
    """``n`` joint draws for training points (d, p), test points (T, p) and the test vector w (T,)."""
    d = len(train)
    n_bytes = (3 * (d + 1) ** 2 + 2 * n * (d + 1) + _ROWS * (d + len(test))) * 8
    what = f"{n} joint prior draws at {d} training points"
    require(n_bytes, budget, what, "simulate with fewer training points or simulations, or raise memory_budget")
    covariance = _joint_covariance(prior.kernel, train, test, w)
    covariance.diagonal()[:d] += prior.noise(train)
    root, factor = _root(covariance)
    normal = torch.from_numpy(rng.standard_normal((n, d + 1))).to(train.device)
    joint = normal @ root.T
    return Draws(joint[:, :d].contiguous(), joint[:, d], float(covariance[d, d]), factor)


def _joint_covariance(kernel: Kernel, train: torch.Tensor, test: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The covariance of f(X) and wᵀf(X′), shape (d + 1, d + 1)."""
    d = len(train)
    origin = train.mean(dim=0)
    at_train, at_test = kernel.embed(train, origin), kernel.embed(test, origin)
    covariance = train.new_zeros(d + 1, d + 1)
    covariance[:d, :d] = kernel.evaluate(at_train, at_train)
    for start in range(0, len(test), _ROWS):  # k(X′, X′) as a whole may be large
        rows = slice_embedding(at_test, start, start + _ROWS)
        share = w[start : start + _ROWS]
        covariance[d, :d] += share @ kernel.evaluate(rows, at_train)
        covariance[d, d] += share @ (kernel.evaluate(rows, at_test) @ w)
    covariance[:d, d] = covariance[d, :d]
    return covariance


def _root(covariance: torch.Tensor) -> tuple[torch.Tensor, str]:
    """R with R Rᵀ = covariance, and how it was found."""
    factor, info = torch.linalg.cholesky_ex(covariance)
    if not int(info):
        return factor, "cholesky"
    values, vectors = torch.linalg.eigh(covariance)
    # eigenvalues that rounding made negative are zero; anything beyond rounding is an error
    tolerance = 100 * len(values) * torch.finfo(values.dtype).eps * float(values.abs().max())
    if float(values[0]) < -tolerance:
        raise NotPositiveDefiniteError(
            f"the prior covariance of the data has the eigenvalue {float(values[0]):.3g}, beyond rounding: "
            "the kernel is not positive semidefinite on these points; use another kernel or a larger noise_variance"
        )
    return vectors * values.clamp_min(0).sqrt(), "eigh"

"""The number wᵀf(X′), through which a posterior is seen: its mean and variance, and exact draws of it with the data.

A simulation needs b = y − m₀(X) and s = wᵀ(f(X′) − m₀(X′)), nothing else. Their joint covariance

    [ k(X, X) + Σ    k(X, X′) w    ]
    [ wᵀ k(X′, X)    wᵀ k(X′, X′) w ]

has d + 1 rows, and the noise on its diagonal makes it positive definite without jitter. It comes from the kernel as a
whole, not from the ``Gram`` that the solvers use: an independent check.

With u = W w the mean is m₀ + uᵀb and the variance wᵀCw = wᵀK″w − 2 wᵀVu + uᵀGu. A solver that reports wrong variances
must not pass: the first solve compares them with those of its weights, and where they differ, the reported ones count.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
import torch

from ..algebra.weights import certified
from ..errors import NotPositiveDefiniteError
from ..gram import Gram
from ..kernels import Kernel, slice_embedding
from ..predicting.trend import TrendBasis, UnbiasedTrend
from ..prior import Prior
from ..solvers import Solver
from ..support.memory import require
from ..support.positive_definite import any_root

_ROWS = 512  # of k(X′, X′) at once
_ROWS_PER_TEST_POINT = 8  # vectors of length d that are alive per test point: V, W, the solver's own, the product G W
_AGREEMENT = 1e-9  # reported variances that differ by less than this share of the prior's from those of the weights


@dataclass(frozen=True)
class Draws:
    """``b`` (n, d) and ``truth`` s (n,), with the prior variance of s and the ``factor`` that was used."""

    b: torch.Tensor
    truth: torch.Tensor
    prior_variance: float
    factor: str


def draw(
    prior: Prior, train: torch.Tensor, test: torch.Tensor, w: torch.Tensor, n: int, rng: np.random.Generator, limit: int
) -> Draws:
    """``n`` joint draws for training points (d, p), test points (T, p), the test vector w (T,), in ``limit`` bytes."""
    d = len(train)
    n_bytes = (3 * (d + 1) ** 2 + 2 * n * (d + 1) + _ROWS * (d + len(test))) * 8
    what = f"{n} joint prior draws at {d} training points"
    require(n_bytes, limit, what, "simulate with fewer training points or simulations, or raise memory_budget")
    covariance = _joint_covariance(prior.kernel, train, test, w)
    covariance.diagonal()[:d] += prior.noise(train)
    remedy = "the kernel is not positive semidefinite on these points; use another kernel or a larger noise_variance"
    root, factor = any_root(covariance, "the prior covariance of the data", remedy)
    normal = torch.from_numpy(rng.standard_normal((n, d + 1))).to(train.device)
    joint = normal @ root.T
    return Draws(joint[:, :d].contiguous(), joint[:, d], float(covariance[d, d]), factor)


def _joint_covariance(kernel: Kernel, train: torch.Tensor, test: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The covariance of f(X) and wᵀf(X′), shape (d + 1, d + 1)."""
    d, origin = len(train), train.mean(dim=0)
    at_train, at_test = kernel.embed(train, origin), kernel.embed(test, origin)
    covariance = train.new_zeros(d + 1, d + 1)
    covariance[:d, :d] = kernel.matrix(at_train, at_train)
    for start in range(0, len(test), _ROWS):  # k(X′, X′) as a whole may be large
        rows = slice_embedding(at_test, start, start + _ROWS)
        share = w[start : start + _ROWS]
        covariance[d, :d] += share @ kernel.matrix(rows, at_train)
        covariance[d, d] += share @ (kernel.matrix(rows, at_test) @ w)
    covariance[:d, d] = covariance[d, :d]
    return covariance


class Projection:
    """wᵀf(X′) for training points (d, p), test points (T, p) and w (T,), with the ``prior_variance`` wᵀK″w."""

    def __init__(
        self,
        prior: Prior,
        train: torch.Tensor,
        test: torch.Tensor,
        w: torch.Tensor,
        prior_variance: float,
        solver: Solver,
        budget: int,
    ) -> None:
        origin, noise = train.mean(dim=0), prior.noise(train)
        self.device = train.device
        functions = TrendBasis(prior.mean, train) if prior.mean.unknown else None
        H, h = (None, None) if functions is None else (functions.at_training_points, functions(test))
        self._gram = Gram(prior.kernel, prior.kernel.embed(train, origin), noise, budget=budget, basis=H)
        n_bytes = _ROWS_PER_TEST_POINT * len(test) * len(train) * 8
        remedy = "simulate with fewer test points, or raise memory_budget"
        require(n_bytes, self._gram.working_budget, f"the weights of {len(test)} test points", remedy)
        self._cross = self._gram.cross(prior.kernel.embed(test, origin), h)
        self._w, self._prior_variance, self._solver = w, prior_variance, solver
        self._misreports: bool | None = None

    def solve(self, b: torch.Tensor) -> tuple[torch.Tensor, float]:
        """u (d,) in the order of the training points, and wᵀCw, of the posterior given b (d,)."""
        cross = self._cross
        prepared, _ = self._solver.prepared_for(self._gram, b).picked_for(cross)
        seen = cross.seen_by(prepared.gram)
        weights = prepared.final(seen) or deque(prepared.weights(seen), maxlen=1)[0]  # the last iterate
        if cross.basis is not None:
            weights = UnbiasedTrend(self._gram, prepared).unbiased(weights, cross)
        projected = self._w @ weights.dense()
        product = self._gram.matmul(projected[None, :])[0]
        reduction = 2 * (self._w @ (cross.matrix @ projected)) - product @ projected
        if self._misreports is not False:
            excess = weights.reduction - certified(weights.dense(), cross).reduction
            if self._misreports is None:
                self._misreports = bool((excess.abs() > _AGREEMENT * cross.prior_variance()).any())
            if self._misreports:
                reduction += self._w.square() @ excess
        variance = self._prior_variance - float(reduction)
        magnitude = float(self._gram.diagonal().max()) * float(self._w.abs().sum() + projected.abs().sum()) ** 2
        limit = 2 * torch.finfo(projected.dtype).eps * magnitude
        if variance < limit:
            raise NotPositiveDefiniteError(
                f"the variance of wᵀf(X′) under {self._solver!r} is {variance:.3g}, below the {limit:.3g} that "
                "rounding can resolve, so its calibration cannot be judged; give another test_vector, test points "
                "further from the training points, or a larger noise_variance"
            )
        return projected, variance

"""How much of the variance is computational: guaranteed bounds and an estimate.

The computational variance of a test point with residual r = k(X, x′) − G w is c = rᵀ G⁻¹ r. With inducing points U,

    G ⪰ P = Σ + K_XU K_UU⁻¹ K_UX,

so P^{-1/2} G P^{-1/2} has its spectrum in [1, ∞). One product with G then gives the Gauss rule (a lower bound) and the
Gauss-Radau rule with its fixed node at 1 (an upper bound, never above the Woodbury bound rᵀP⁻¹r). Both hold for
every r, whatever solver or arithmetic made w.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .gram import Gram
from .inducing import Inducing


@dataclass(frozen=True)
class ComputationalVariance:
    """The part of the variance that more computation would remove, per test point, each of shape (T,).

    ``lower`` and ``upper`` are guaranteed up to rounding; ``estimate`` is close to the truth but not guaranteed.
    """

    lower: Any
    estimate: Any
    upper: Any


def computational_variance(gram: Gram, residual: torch.Tensor, bound: Inducing) -> ComputationalVariance:
    """Bounds on rᵀG⁻¹r for every row r of ``residual`` (T, d), at the price of one product with G."""
    Z = bound.solve(residual)
    product = gram.matmul(Z)
    # in the coordinates u = P^{-1/2} r with A = P^{-1/2} G P^{-1/2}: moments uᵀu, uᵀAu, uᵀA²u
    zeroth = (residual * Z).sum(dim=1).clamp_min(0)
    first = (product * Z).sum(dim=1)
    second = (product * bound.solve(product)).sum(dim=1)
    tiny = torch.finfo(residual.dtype).tiny
    alpha = (first / zeroth.clamp_min(tiny)).clamp_min(1.0)  # A ⪰ I
    beta_squared = (second / zeroth.clamp_min(tiny) - alpha.square()).clamp_min(0)
    lower = zeroth / alpha
    # two nodes, one fixed at 1, the other at θ: weights from the moments 1 and α
    excess = alpha - 1
    theta = alpha + beta_squared / excess.clamp_min(tiny)
    at_one = (theta - alpha) / (theta - 1).clamp_min(tiny)
    upper = torch.where(excess > 1e-12, zeroth * (at_one + (1 - at_one) / theta), zeroth)
    upper = torch.minimum(torch.maximum(upper, lower), zeroth)
    return ComputationalVariance(lower, (lower * upper).sqrt(), upper)

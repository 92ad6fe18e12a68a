"""How much of the variance is computational: guaranteed bounds and an estimate.

The computational variance of a test point with residual r = k(X, x′) − G w is c = rᵀ G⁻¹ r. A few steps of conjugate
gradients on G e = r, preconditioned by inducing points, take off a part of it that is known exactly (the Gauss rule: a
lower bound) and leave a rest that the Gauss-Radau rule bounds from above, because G ⪰ floor · P for a known floor. Both
hold for every r, whatever solver or arithmetic made w.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .pcg import pcg
from .preconditioners import PreparedPreconditioner

_STEPS = 2
_SLOWEST = 0.9


@dataclass(frozen=True)
class ComputationalVariance:
    """The part of the variance that more computation would remove, per test point, each of shape (T,).

    ``lower`` and ``upper`` are guaranteed up to rounding; ``estimate`` is close to the truth but not guaranteed.
    """

    lower: Any
    estimate: Any
    upper: Any


def computational_variance(residual: torch.Tensor, P: PreparedPreconditioner) -> ComputationalVariance:
    """Bounds on rᵀG⁻¹r for every row r of ``residual`` (T, d), at the price of two products with G.

    ``P`` must know its floor. The estimate lets the steps go on as a geometric series.
    """
    lower, gains = torch.zeros(len(residual), dtype=residual.dtype, device=residual.device), []
    for step in pcg(P, residual, _STEPS):
        gains.append(step.reduction - lower)
        lower = step.reduction
        assert step.upper is not None
        rest = step.upper
    tiny = torch.finfo(residual.dtype).tiny
    ratio = (gains[-1] / gains[-2].clamp_min(tiny)).clamp(0, _SLOWEST)
    estimate = lower + torch.minimum(rest, gains[-1] * ratio / (1 - ratio))
    return ComputationalVariance(lower, estimate, lower + rest)

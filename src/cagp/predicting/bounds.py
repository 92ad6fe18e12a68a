"""How much of the variance is computational: guaranteed bounds and an estimate.

The computational variance of a test point with residual r = k(X, x′) − G w is c = rᵀ G⁻¹ r. A few steps of conjugate
gradients on G e = r, preconditioned by inducing points, take off a part of it that is known exactly (the Gauss rule: a
lower bound) and leave a rest that the Gauss-Radau rule bounds from above, because G ⪰ floor · P for a known floor. Both
hold for every r, whatever solver or arithmetic made w.

The steps need not start from w. The exact variance is the same for all weights, so c(w) − c(u) is the difference of two
variances that are known. Where nearest neighbours have the smaller variance, the steps start from their weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..algebra.weights import Weights, certified
from ..gram import Cross
from ..preconditioners import PreparedPreconditioner
from ..solvers import NearestNeighbours
from ..solvers.calibrated_cg import pcg
from .conditioned import Conditioned

_STEPS = 2
_SLOWEST = 0.9
_MOST_NEIGHBOURS = 300
_RELEVANT = 1e-6  # of the variance: for less than this it does not pay to start elsewhere
# After which iterations products with G may be spent on bounds: a growing, fixed schedule.
_SCHEDULE = frozenset({1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584})
_CAUTION = 3.0  # estimates are mostly between a third and twice the truth: for stopping, three times the estimate


@dataclass(frozen=True)
class ComputationalVariance:
    """The part of the variance that more computation would remove, per test point, each of shape (T,).

    ``lower`` and ``upper`` are guaranteed up to rounding; ``estimate`` is close to the truth but not guaranteed.
    """

    lower: Any
    estimate: Any
    upper: Any

    def map(self, change: Callable[[Any], Any]) -> ComputationalVariance:
        """Each of the three, changed."""
        return ComputationalVariance(change(self.lower), change(self.estimate), change(self.upper))


def joined_bounds(
    parts: Sequence[ComputationalVariance], join: Callable[[tuple[torch.Tensor, ...]], torch.Tensor] = torch.cat
) -> ComputationalVariance:
    """One of several: of several batches one after another, or by another way to ``join`` each of the three."""
    each = zip(*(vars(part).values() for part in parts), strict=True)
    return ComputationalVariance(*map(join, each))


def bounds_of(model: Conditioned, cross: Cross, weights: Weights) -> ComputationalVariance:
    """Bounds on the computational variance of weights, in float64: three products with G, four in single precision."""
    precise = model.bounding.gram
    if precise is not model.gram:
        cross = cross.seen_by(precise)
        weights = certified(weights.dense().double(), cross)
    return computational_variance(cross, weights, model.bounding)


def computational_variance(cross: Cross, weights: Weights, P: PreparedPreconditioner) -> ComputationalVariance:
    """Bounds on rᵀG⁻¹r for the test points of ``cross``; ``P`` must know its floor."""
    start, elsewhere = _start(cross, weights)
    residual = cross.matrix - P.gram.matmul(start)
    # from the residual, as for the steps below: blocks of another size may give other digits of the kernel
    gained = (start * (cross.matrix + residual)).sum(dim=1) - weights.reduction
    gained = torch.where(elsewhere, gained, 0)
    del start  # as large as the residual
    lower, gains = torch.zeros_like(gained), []
    for step in pcg(P, residual, _STEPS):
        gains.append(step.reduction - lower)
        lower = step.reduction
        assert step.upper is not None
        rest = step.upper
    tiny = torch.finfo(residual.dtype).tiny
    ratio = (gains[-1] / gains[-2].clamp_min(tiny)).clamp(0, _SLOWEST)  # as if it went on as a geometric series
    estimate = lower + torch.minimum(rest, gains[-1] * ratio / (1 - ratio))
    # between nothing and all of the variance, because the exact one is not negative
    most = (cross.prior_variance() - weights.reduction).clamp_min(0)
    found = ComputationalVariance(lower, estimate, lower + rest)
    # nothing of no variance, whatever comes of its steps
    return found.map(lambda part: torch.where(most > 0, torch.minimum((gained + part).clamp_min(0), most), 0.0))


def _start(cross: Cross, weights: Weights) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights (T, d) to start from, and for which test points they are not the given ones, (T,)."""
    own, near = weights.dense(), _from_neighbours(cross)
    elsewhere = near.reduction - weights.reduction > _RELEVANT * (cross.prior_variance() - near.reduction)
    elsewhere &= near.values.any(dim=1)  # not where they were impossible
    if not bool(elsewhere.any()):
        return own, elsewhere
    start = own.clone() if own is weights.values else own
    start[elsewhere] = near.rows(elsewhere).dense()
    return start, elsewhere


def _from_neighbours(cross: Cross) -> Weights:
    """The weights on nearest neighbours, so many that they cost little beside a product with G."""
    gram = cross.gram
    affordable = math.isqrt(max(1, gram.working_budget // (8 * gram.dtype.itemsize)))
    k = min(_MOST_NEIGHBOURS, 2 * math.isqrt(gram.size), affordable, gram.size)
    return NearestNeighbours(k).prepare(gram).where_possible(cross)


class ExactVariance:
    """Bounds on the exact variance of each test point and an estimate of it, each (T,), the same for all iterations."""

    def __init__(self, model: Conditioned, cross: Cross) -> None:
        self._model, self._cross = model, cross
        self.upper = cross.prior_variance().double()
        self.lower, self.estimate = torch.zeros_like(self.upper), torch.zeros_like(self.upper)

    def learn(self, weights: Weights, variance: torch.Tensor) -> None:
        """Bounds from weights with that ``variance`` (T,), where it is below the upper bound: three products."""
        new = variance < self.upper
        if not bool(new.any()):
            return
        cross = self._cross if bool(new.all()) else self._cross.rows(new)
        found = bounds_of(self._model, cross, weights.rows(new))
        variance = variance[new]
        self.lower[new] = torch.maximum(self.lower[new], variance - found.upper)
        self.upper[new] = torch.minimum(self.upper[new], variance - found.lower)
        self.estimate[new] = variance - found.estimate


class BatchProgress:
    """One iterate of a batch, as a stopping rule sees it."""

    def __init__(self, weights: Weights, cross: Cross, exact: ExactVariance) -> None:
        self._weights, self._exact = weights, exact
        self.iteration = weights.iteration
        self.variance = cross.prior_variance() - weights.reduction

    def upper(self) -> torch.Tensor:
        if self._weights.upper is not None:
            return torch.minimum(self._weights.upper, self.variance - self._exact.lower)
        self._learn()
        return self.variance - self._exact.lower

    def estimate(self) -> torch.Tensor:
        self._learn()
        cautious = _CAUTION * (self.variance - self._exact.estimate)
        known = self.variance >= self._exact.upper  # else the estimate is of no use: the solver has got beyond it
        return torch.minimum(torch.where(known, cautious, torch.inf), self.upper())

    def _learn(self) -> None:
        if self.iteration in _SCHEDULE:
            self._exact.learn(self._weights, self.variance)

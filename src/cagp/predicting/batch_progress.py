"""What a stopping rule sees of a batch, and what is known of its exact variance meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ..algebra.weights import Weights
from ..gram import Cross

if TYPE_CHECKING:
    from ..model import Model

_SCHEDULE = frozenset({1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584})
"""After which iterations products with G may be spent on bounds: a growing, fixed schedule."""

_CAUTION = 3.0
"""Estimates are mostly between a third and twice the truth: for stopping, three times the estimate."""


class ExactVariance:
    """Bounds on the exact variance of each test point and an estimate of it, each (T,).

    It does not change while a solver runs. So what bounds on the computational variance once said of it holds for all
    iterations, and there is something to learn only from weights that have got below the upper bound.
    """

    def __init__(self, model: Model, cross: Cross) -> None:
        self._model, self._cross = model, cross
        self.upper = cross.prior_variance().double()
        self.lower, self.estimate = torch.zeros_like(self.upper), torch.zeros_like(self.upper)

    def learn(self, weights: Weights, variance: torch.Tensor) -> None:
        """Bounds from weights with that ``variance`` (T,), for the test points that gain by it: three products."""
        new = variance < self.upper
        if not bool(new.any()):
            return
        cross = self._cross if bool(new.all()) else self._cross.rows(new)
        found = self._model.computational_variance(cross, weights.rows(new))
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

"""What every log-likelihood of hyperparameters gives: its value, its gradient, and what it knows of its curvature."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch

from ..errors import NotPositiveDefiniteError
from .observations import Observations
from .search_space import Space
from .trend_columns import TrendEstimate


@dataclass(frozen=True)
class Evaluation:
    """The log-likelihood, its gradient (q,) with respect to the *logarithms* of the free hyperparameters, the trend.

    ``information`` (q, q) is about minus the second derivatives, and never negative, where it comes at no further cost:
    their expected value, or the average of that and themselves.
    """

    log_likelihood: float
    gradient: np.ndarray
    trend: TrendEstimate | None
    information: np.ndarray | None = None


class Likelihood(ABC):
    """A log-likelihood of the free hyperparameters of ``space``; ``informed`` where evaluations have information."""

    informed: bool = False

    def __init__(self, space: Space, data: Observations) -> None:
        self.space = space
        self.data = data

    @property
    def computed(self) -> int:
        """How many terms are summed: one for each observation, or for each of a sample of them."""
        return self.data.size

    @abstractmethod
    def __call__(self, log_values: np.ndarray) -> Evaluation:
        """The log-likelihood at the logarithms (q,) of the free hyperparameters."""

    def value(self, log_values: np.ndarray) -> float:
        """The log-likelihood alone, at logarithms (q,)."""
        return self(log_values).log_likelihood

    def values(self, log_values: np.ndarray) -> np.ndarray:
        """The log-likelihood at each row of logarithms (S, q), shape (S,); −∞ where G is not positive definite."""
        found = np.full(len(log_values), -np.inf)
        for i, each in enumerate(log_values):
            with suppress(NotPositiveDefiniteError):
                found[i] = self.value(each)
        return found

    def leaves(self, log_values: np.ndarray) -> list[torch.Tensor]:
        """The hyperparameters as scalar tensors that collect gradients."""
        values = torch.tensor(self.space.values(log_values), dtype=torch.float64, device=self.data.y.device)
        return [value.clone().requires_grad_() for value in values]

    def gradient(
        self, log_values: np.ndarray, leaves: list[torch.Tensor], noise_slopes: torch.Tensor, data: Observations
    ) -> np.ndarray:
        """What the leaves collected, as a gradient in log space; ``noise_slopes`` (n,) are ∂ log p / ∂ noise variance
        of each of the observations ``data``.
        """
        collected = np.array([0.0 if leaf.grad is None else float(leaf.grad) for leaf in leaves])
        if data.noise is None:
            effects = self.space.noise_effects(self.space.values(log_values))
            own, levels = noise_slopes * data.noise_slopes, torch.zeros(len(effects)).to(noise_slopes)
            quantity = torch.zeros_like(own, dtype=torch.int64) if data.quantity is None else data.quantity
            collected += levels.index_add(0, quantity, own).cpu().numpy() @ effects
        return np.asarray(collected * self.space.slopes(log_values))


def finite(log_likelihood: float) -> float:
    """The log-likelihood, or the error where it is none."""
    if not math.isfinite(log_likelihood):
        raise NotPositiveDefiniteError("the log-likelihood is not finite: G is singular to working precision")
    return float(log_likelihood)

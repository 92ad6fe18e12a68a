"""What is predicted at test points, whoever predicts it: a distribution for each of them, and what it guarantees.

A posterior is one, with the normal shape. What changes the meaning of a prediction and not its weights wraps another
one: a recalibration, for example. Saving, reports, the estimator, xarray and the command line know this protocol only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal

import torch

from .errors import InputError
from .predicting.status import Status
from .support.validation import ArrayLike, as_float64, real


@dataclass(frozen=True)
class Guarantee:
    """When the error bars hold: ``kind`` in a few words for programs, ``sentence`` for people."""

    kind: Literal["under the prior", "none", "empirical", "marginal, distribution-free"]
    sentence: str

    def __str__(self) -> str:
        return self.sentence


class Prediction(ABC):
    """Distributions at T test points. Arrays come out as the test points came in: numpy or torch.

    ``status`` says how it was computed, ``guarantee`` when the error bars hold.
    """

    status: Status

    @abstractmethod
    def __len__(self) -> int:
        """How many test points there are."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """When the error bars hold."""

    @property
    @abstractmethod
    def includes_noise(self) -> bool:
        """Whether this is about observations y, made by ``observed``, and not about f."""

    @property
    @abstractmethod
    def mean(self) -> Any:
        """The predicted values, shape (T,)."""

    @property
    @abstractmethod
    def variance(self) -> Any:
        """The square of ``std``, shape (T,)."""

    @property
    @abstractmethod
    def std(self) -> Any:
        """The standard deviation of the error, shape (T,)."""

    @abstractmethod
    def quantile(self, p: ArrayLike) -> Any:
        """The quantiles of probability ``p``, between 0 and 1: shape (T,) for one number, (T, n) for n of them."""

    @abstractmethod
    def cdf(self, values: ArrayLike) -> Any:
        """The probability of at most ``values`` (T,), one at each test point; shape (T,)."""

    @abstractmethod
    def log_density(self, values: ArrayLike) -> Any:
        """The logarithm of the predicted density at ``values`` (T,), one at each test point; shape (T,)."""

    @abstractmethod
    def observed(self, noise_variance: Any = None) -> Prediction:
        """The prediction of observations y at the test points: the noise variance is added.

        ``noise_variance`` is one number or one per test point (T,); by default the prior's, where that is one number.
        """

    @abstractmethod
    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws at the test points, shape (n, T). The same ``seed`` gives the same draws."""

    @property
    def median(self) -> Any:
        """The median, shape (T,)."""
        return self.quantile(0.5)

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """The central interval that holds the truth with probability ``level``: (lower, upper), each (T,)."""
        level = real(level, "level")
        if not 0 < level < 1:
            raise InputError(f"level must be between 0 and 1, got {level!r}; for 95% write 0.95")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)


def probabilities(p: ArrayLike, device: torch.device) -> torch.Tensor:
    """Probabilities as one number or (n,), strictly between 0 and 1, in float64."""
    tensor = as_float64(p, "p", device)
    if tensor.ndim > 1:
        raise InputError(f"p must be one probability or a list of them, got shape {tuple(tensor.shape)}")
    if not bool(((tensor > 0) & (tensor < 1)).all()):
        raise InputError(f"p must lie strictly between 0 and 1, got {p!r}; for the 95% quantile write 0.95")
    return tensor


def values_at(values: ArrayLike, size: int, like: torch.Tensor) -> torch.Tensor:
    """One value at each of ``size`` test points, or one for all of them, shape (T,)."""
    tensor = as_float64(values, "values", like.device)
    if tensor.ndim and tensor.shape != (size,):
        raise InputError(f"values has shape {tuple(tensor.shape)} for {size} test points; give one for each, or one")
    return tensor.expand(size)

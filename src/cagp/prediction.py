"""What is predicted at test points, whoever predicts it: a distribution for each of them, and what it guarantees.

A posterior is one, with the normal shape. What changes the meaning of a prediction and not its weights wraps another
one: a recalibration, for example. Saving, reports, the estimator, xarray and the command line know this protocol only.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import torch

from .errors import InputError
from .predicting.status import Status
from .support.convert import Output
from .support.validation import ArrayLike, as_float64, real

_FURTHEST, _STEP = 12.0, 0.125
"""Means over normal scores are sums up to so far, so far apart. What is smooth and bounded is exact to rounding."""

_FURTHEST_OF_ALL = 28.0
"""Up to here for expected values: an exponential has its mean, and its square, far out. Exact up to a standard
deviation of about ten, whose values further out cannot be written in float64.
"""


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

        ``noise_variance`` is one number or one per test point (T,); by default the prior's, where that is known for new
        observations.
        """

    @abstractmethod
    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws at the test points, shape (n, T). The same ``seed`` gives the same draws."""

    def normal_score(self, values: ArrayLike) -> Any:
        """Φ⁻¹ of ``cdf`` at ``values`` (T,), shape (T,); where it can be had, also far out, where the cdf is 0 or 1."""
        probability = self.cdf(values)
        found = torch.special.ndtri(as_float64(probability, "cdf"))
        return Output.like(probability)(found)

    def at_normal_score(self, score: float) -> Any:
        """The values of that normal score, shape (T,): quantiles, also of probabilities that round to 0 or 1."""
        return self.quantile(float(torch.special.ndtr(torch.tensor(score, dtype=torch.float64))))

    def expected(self, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """The mean of a ``function`` of the predicted values, in float64: it maps (T,), or (T,) to (m, T)."""
        return over_normal_scores(
            lambda score: function(as_float64(self.at_normal_score(score), "values")), _FURTHEST_OF_ALL
        )

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


class Normal(Prediction):
    """Normal distributions of f with mean (T,) and variance (T,), each by itself: a posterior without its covariances.

    What was predicted before and kept is one; it has no draws, because it does not know how errors go together.
    ``prior_noise`` is the noise variance that ``observed`` adds where it is given none: one number, one per test point
    (T,), or None where nothing is known of new observations.
    """

    def __init__(
        self,
        mean: torch.Tensor,
        variance: torch.Tensor,
        prior_noise: float | torch.Tensor | None,
        status: Status,
        guarantee: Guarantee,
        convert: Output,
    ) -> None:
        self._mean, self._variance, self._prior_noise = mean, variance, prior_noise
        self._guarantee, self._convert = guarantee, convert
        self._noise: torch.Tensor | None = None
        self.status = status

    def __repr__(self) -> str:
        what = ", observations" if self.includes_noise else ""
        return f"{type(self).__name__}({len(self)} test points{what})"

    def __len__(self) -> int:
        """How many test points there are."""
        return len(self._mean)

    @property
    def guarantee(self) -> Guarantee:
        """When the error bars hold."""
        return self._guarantee

    @property
    def includes_noise(self) -> bool:
        """Whether this is about observations y, made by ``observed``, and not about f."""
        return self._noise is not None

    @property
    def mean(self) -> Any:
        """The posterior mean, shape (T,)."""
        return self._convert(self._mean)

    @property
    def variance(self) -> Any:
        """The posterior variance, mathematical and computational together, shape (T,)."""
        return self._convert(self._total_variance())

    @property
    def std(self) -> Any:
        """The posterior standard deviation, shape (T,)."""
        return self._convert(self._total_variance().sqrt())

    def _total_variance(self) -> torch.Tensor:
        return self._variance if self._noise is None else self._variance + self._noise

    def observed(self, noise_variance: Any = None) -> Self:
        """The belief about observations y at the test points: the noise variance is added.

        ``noise_variance`` is one number or one per test point (T,); by default the prior's, where that is known for new
        observations.
        """
        noise = self._prior_noise if noise_variance is None else noise_variance
        if noise is None:
            raise InputError(
                "the noise of the training observations, one variance each, says nothing about new ones: call "
                "observed(noise_variance=...) with one number or one per test point"
            )
        tensor = as_float64(noise, "noise_variance", self._mean.device).to(self._mean.dtype)
        if tensor.ndim and tensor.shape != self._mean.shape:
            raise InputError(
                f"noise_variance has shape {tuple(tensor.shape)} for {len(self._mean)} test points; "
                "give one number, or one per test point"
            )
        if bool((tensor < 0).any()):
            raise InputError(f"noise_variance must not be negative, got {float(tensor.min()):g}")
        result = copy.copy(self)
        result._noise = tensor.expand(self._mean.shape)
        return result

    def quantile(self, p: ArrayLike) -> Any:
        """The quantiles of probability ``p``, between 0 and 1: shape (T,) for one number, (T, n) for n of them."""
        score = torch.special.ndtri(probabilities(p, self._mean.device)).to(self._mean.dtype)
        std = self._total_variance().sqrt()
        if score.ndim:
            return self._convert(self._mean[:, None] + std[:, None] * score)
        return self._convert(self._mean + std * score)

    def cdf(self, values: ArrayLike) -> Any:
        """The probability of at most ``values`` (T,), one at each test point; shape (T,)."""
        return self._convert(torch.special.ndtr(self._z(values)))

    def normal_score(self, values: ArrayLike) -> Any:
        """z = (values − mean) / std, shape (T,)."""
        return self._convert(self._z(values))

    def at_normal_score(self, score: float) -> Any:
        """The mean and ``score`` standard deviations, shape (T,)."""
        return self._convert(self._mean + self._total_variance().sqrt() * score)

    def log_density(self, values: ArrayLike) -> Any:
        """The logarithm of the normal density at ``values`` (T,), one at each test point; shape (T,)."""
        spread = self._total_variance().double()
        return self._convert(-0.5 * (self._z(values).square() + spread.log() + math.log(2 * math.pi)))

    def _z(self, values: ArrayLike) -> torch.Tensor:
        truth = values_at(values, len(self), self._mean)
        return (truth - self._mean.double()) / self._total_variance().double().sqrt()

    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """Refused: how errors at different test points go together was not kept."""
        raise InputError("joint draws need the covariances of the prediction, which were not kept; predict again")


def over_normal_scores(function: Callable[[float], torch.Tensor], furthest: float = _FURTHEST) -> torch.Tensor:
    """The mean of a ``function`` of a standard normal variable, by the trapezoidal rule."""
    steps = round(furthest / _STEP)
    scores = np.arange(-steps, steps + 1) * _STEP
    weights = np.exp(-0.5 * scores**2)
    terms = (
        weight * function(score)
        for score, weight in zip(scores.tolist(), (weights / weights.sum()).tolist(), strict=True)
    )
    total = next(terms)
    for term in terms:
        total += term
    return total


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

"""What a contender of ``peers.py`` is: a way to fit and predict, what is scored, and what a reader should know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr, ndtri

Scores = dict[str, float]
"""rmse, crps, and the shares "50", "80" and "95" of observations within the central intervals of those levels."""

LEVELS = {"50": 0.5, "80": 0.8, "95": 0.95}
"""The central intervals that are scored."""

FIELD, TABLE, SPACE_TIME = KINDS = ("field", "table", "space-time")
"""Kinds of problems: two coordinates; columns of any meaning; two coordinates and a time."""


class Predicted(Protocol):
    """Predictions of noisy observations at T points."""

    def scores(self, y: np.ndarray, chosen: np.ndarray) -> Scores:
        """The scores for observations ``y`` (T,), of the points that ``chosen`` (T,) marks."""
        ...


@dataclass(frozen=True)
class Gaussian:
    """Normal predictions of observations: mean (T,) and standard deviation (T,), noise included."""

    mean: np.ndarray
    std: np.ndarray

    def scores(self, y: np.ndarray, chosen: np.ndarray) -> Scores:
        mean, std = (np.asarray(each, float).ravel()[chosen] for each in (self.mean, self.std))
        error = y[chosen] - mean
        if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std >= 0).all()):
            raise FloatingPointError("a predicted mean or standard deviation is not a number")
        std = np.maximum(std, 1e-12)
        z = error / std
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        crps = std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))
        return {
            "rmse": float(np.sqrt(np.mean(error**2))),
            "crps": float(crps.mean()),
            **{name: float(np.mean(np.abs(z) <= ndtri((1 + level) / 2))) for name, level in LEVELS.items()},
        }


@dataclass(frozen=True)
class Quantiles:
    """Predictions by means (T,) and by quantiles (k, T) at ``levels`` (k,), which hold those of ``LEVELS``.

    Between them the quantile function is linear, beyond them constant, and quantiles that cross are sorted.
    """

    mean: np.ndarray
    levels: np.ndarray
    quantiles: np.ndarray

    def scores(self, y: np.ndarray, chosen: np.ndarray) -> Scores:
        values, y = np.sort(self.quantiles[:, chosen], axis=0), y[chosen]
        if not np.isfinite(values).all():
            raise FloatingPointError("a predicted quantile is not a number")
        fine = (np.arange(200) + 0.5) / 200
        within = np.stack([np.interp(fine, self.levels, each) for each in values.T], axis=1)
        pinball = np.where(y >= within, fine[:, None], fine[:, None] - 1) * (y - within)
        low, high = (
            {name: values[np.argmin(np.abs(self.levels - (1 + sign * level) / 2))] for name, level in LEVELS.items()}
            for sign in (-1, 1)
        )
        return {
            "rmse": float(np.sqrt(np.mean((y - self.mean[chosen]) ** 2))),
            "crps": float(2 * pinball.mean()),  # the integral of twice the pinball loss over all levels
            **{name: float(np.mean((low[name] <= y) & (y <= high[name]))) for name in LEVELS},
        }


Predict = Callable[[np.ndarray], Predicted]
Fit = Callable[[np.ndarray, np.ndarray], Predict]
"""From training points (n, p) and observations (n,) to what predicts at test points (T, p)."""


@dataclass(frozen=True)
class Contender:
    """One row of the tables. ``note`` says how the package was used; ``note`` and ``title`` are Markdown.

    ``warm_up`` is what the first ``warm_up_rows`` are fitted with before the clock runs, where ``fit`` would take long.
    """

    name: str
    title: str
    package: str
    fit: Fit
    note: str
    kinds: tuple[str, ...] = KINDS
    warm_up: Fit | None = None
    warm_up_rows: int = 100


@dataclass(frozen=True)
class Standardised:
    """Columns and observations with mean 0 and standard deviation 1, as many packages expect them."""

    centre: np.ndarray
    scale: np.ndarray
    mean: float
    std: float

    @classmethod
    def of(cls, X: np.ndarray, y: np.ndarray) -> Standardised:
        return cls(X.mean(axis=0), X.std(axis=0), float(y.mean()), float(y.std()))

    def points(self, X: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray((X - self.centre) / self.scale)

    def values(self, y: np.ndarray) -> np.ndarray:
        return (y - self.mean) / self.std

    def back(self, mean: np.ndarray, variance: np.ndarray) -> Gaussian:
        """Predictions on the scale of the observations."""
        return Gaussian(self.mean + self.std * np.asarray(mean, float), self.std * np.sqrt(np.asarray(variance, float)))

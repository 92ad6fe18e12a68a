"""What a contender of ``peers.py`` is: a way to fit and predict, what is scored, and what a reader should know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import ndtr

Scores = dict[str, float]
"""rmse, crps, and the shares "50" and "95" of observations within the central intervals of those levels."""


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
        within = {name: np.abs(z) <= bound for name, bound in (("50", 0.6744897501960817), ("95", 1.959963984540054))}
        return {
            "rmse": float(np.sqrt(np.mean(error**2))),
            "crps": float(crps.mean()),
            **{name: float(each.mean()) for name, each in within.items()},
        }


Predict = Callable[[np.ndarray], Predicted]
Fit = Callable[[np.ndarray, np.ndarray], Predict]
"""From training points (n, p) and observations (n,) to what predicts at test points (T, p)."""


@dataclass(frozen=True)
class Contender:
    """One row of the tables. ``note`` says how the package was used; ``note`` and ``title`` are Markdown.

    ``warm_up`` is what a small problem is fitted with before the clock runs, where ``fit`` itself would take long.
    """

    name: str
    title: str
    package: str
    fit: Fit
    note: str
    on_tables: bool = True
    on_fields: bool = True
    warm_up: Fit | None = None


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

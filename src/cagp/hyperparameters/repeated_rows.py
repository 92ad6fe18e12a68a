"""Observations at the same point, averaged: fewer rows, the same posterior, the same likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..support.validation import ArrayLike, not_negative_each, points, targets


@dataclass(frozen=True, eq=False)
class AveragedRows:
    """Averages y (m,) of observations at different points X (m, p), with their ``noise_variance`` and ``counts`` (m,).

    ``log_likelihood`` is what the scatter around the averages adds: log p of all observations is that of the averages
    plus this, which depends on the noise alone. The restricted likelihood of an unknown mean has a constant beside it,
    which no hyperparameter changes: ½ log det HᵀH of all rows less that of the averages.
    """

    X: np.ndarray
    y: np.ndarray
    noise_variance: np.ndarray
    counts: np.ndarray
    log_likelihood: float


def averaged_rows(X: ArrayLike, y: ArrayLike, noise_variance: float | ArrayLike) -> AveragedRows:
    """Observations y (n,) at X (n, p) whose points are equal, averaged with weights 1 / ``noise_variance``.

    The noise variance of an average of c observations is σ² / c, or 1 / Σ 1/σᵢ² where each has its own. Averages are
    all that the posterior sees of the observations, so nothing is lost: conditioning on them gives the same means and
    variances at the cost of m rows, and a nearest neighbour is a place, not one of many observations there.
    """
    train = points(X, "X").cpu().numpy()
    values = targets(y, len(train)).cpu().numpy()
    noise = not_negative_each(noise_variance, "noise_variance", len(train)).cpu().numpy()
    if not (noise > 0).all():
        raise InputError(f"noise_variance must be positive everywhere, got {noise.min():g}")
    _, first, group = np.unique(train, axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    weight = np.bincount(group, 1 / noise)
    mean = np.bincount(group, values / noise) / weight
    scatter = np.sum((values - mean[group]) ** 2 / noise)
    within = 0.5 * (-scatter - np.log(2 * np.pi * noise).sum() + np.log(2 * np.pi / weight).sum())
    return AveragedRows(train[first], mean, 1 / weight, np.bincount(group), float(within))

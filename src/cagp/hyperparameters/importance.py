"""Importance sampling of a posterior in few dimensions: evenly spread points, rounds, and weights without giants.

The first round draws from a Student t around the mode and, where observations are few, from the prior as well: what a
second mode has is then found. Where that t was far from the posterior, a second round draws from one with the mean and
the covariance that the first has found. All points are weighted together, each by the density of the whole of what was
drawn (the balance heuristic). A few of them stand for all: they have the same averages of the polynomials that matter
most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import scipy  # its parts by their full names: stats takes long to import, and is when it is used
from numpy.polynomial.hermite_e import hermeval
from scipy.special import ndtri

from ..errors import NotPositiveDefiniteError
from ..support.non_negative import non_negative
from .hyperpriors import Hyperpriors

_FREEDOM = 7.0  # degrees of freedom of Student's t: tails heavier than those of a posterior
_FEW = 50  # with so many observations, a quarter of the points of the first round come from the prior
_WELL_DRAWN = 0.5  # points of the first round that are worth such a share of equally weighted ones are enough
# The curvature at the mode counts like so many points for each hyperparameter, when a covariance is estimated.
_TRUST = 5
_HIGHEST = 10  # degree of the polynomials whose averages few points keep
# The lightest points that have this share of the weight together are left out: they are there by the thousand.
_LIGHTEST = 0.005

Values = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class WeightedPoints:
    """Points (S, q) with ``weights`` (S,) that add up to one."""

    points: np.ndarray
    weights: np.ndarray

    @property
    def effective(self) -> float:
        """As many equally weighted points would say as much."""
        return float(1 / np.square(self.weights).sum())

    @property
    def mean(self) -> np.ndarray:
        """The average (q,)."""
        return np.asarray(self.weights @ self.points)

    @property
    def covariance(self) -> np.ndarray:
        """The covariance (q, q)."""
        away = self.points - self.mean
        return np.asarray((away.T * self.weights) @ away)


def importance_sample(
    log_density: Values,
    prior: Hyperpriors,
    mode: np.ndarray,
    covariance: np.ndarray,
    *,
    size: int,
    observations: int,
    seed: int,
) -> WeightedPoints:
    """``size`` points of the posterior with this ``log_density``, a function of points (n, q), up to a constant; half
    as many where they are drawn well.

    ``mode`` (q,) and ``covariance`` (q, q) are what the curvature there says; ``prior`` is part of ``log_density``.
    """
    q, half = len(mode), size // 2
    evenly = scipy.stats.qmc.Sobol(q + 1, seed=seed).random_base2((size - 1).bit_length())
    uniforms = np.clip(evenly[:size], 1e-9, 1 - 1e-9)
    from_prior = round(0.5 * half / (1 + observations / _FEW))
    around = _student_t(mode, covariance)
    first = np.concatenate([prior.quantile(uniforms[:from_prior, :q]), _t_points(around, uniforms[from_prior:half])])
    parts: list[tuple[int, Values]] = [(from_prior, prior.log_density), (half - from_prior, around.logpdf)]
    densities = log_density(first)
    found = _weighted(first, densities, _mixed(parts, first))
    if found.effective >= _WELL_DRAWN * half:
        return found
    share = found.effective / (found.effective + _TRUST * q)
    adapted = _student_t(found.mean, share * found.covariance + (1 - share) * covariance)
    second = _t_points(adapted, uniforms[half:])
    everything = np.concatenate([first, second])
    parts.append((size - half, adapted.logpdf))
    densities = np.concatenate([densities, log_density(second)])
    return _weighted(everything, densities, _mixed(parts, everything))


def _student_t(centre: np.ndarray, scale: np.ndarray) -> Any:
    """Student's t with this centre (q,) and scale matrix (q, q)."""
    q = len(centre)
    return scipy.stats.multivariate_t(centre, scale + 1e-10 * np.trace(scale) / q * np.eye(q), df=_FREEDOM)


def _t_points(distribution: Any, uniforms: np.ndarray) -> np.ndarray:
    """Points (n, q) of Student's t from uniform numbers (n, q + 1)."""
    spread = np.sqrt(scipy.stats.chi2.ppf(uniforms[:, -1:], _FREEDOM) / _FREEDOM)
    root = np.linalg.cholesky(distribution.shape)
    return np.asarray(distribution.loc + (ndtri(uniforms[:, :-1]) / spread) @ root.T)


def _mixed(parts: list[tuple[int, Values]], points: np.ndarray) -> np.ndarray:
    """The log-density at points (n, q) of drawing so many from each part."""
    total = sum(number for number, _ in parts)
    each = [np.log(number / total) + density(points) for number, density in parts if number]
    return np.asarray(np.logaddexp.reduce(each, axis=0))


def _weighted(points: np.ndarray, densities: np.ndarray, drawn: np.ndarray) -> WeightedPoints:
    """Weights in proportion to density over density of being drawn, none above √S times the average (Ionides 2008)."""
    ratio = densities - drawn
    if not np.isfinite(ratio.max()):
        raise NotPositiveDefiniteError("no hyperparameters near the most likely ones have a positive definite matrix G")
    weights = np.exp(ratio - ratio.max())
    weights = np.minimum(weights, len(weights) ** 0.5 * weights.mean())
    return WeightedPoints(points, weights / weights.sum())


def few_points(sample: WeightedPoints, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices (m,) and weights (m,) of at most ``most`` points of a sample that represent all of it.

    They have the averages of the whole sample for as many polynomials of the coordinates as there may be points, those
    of the lowest degree and along the longest axes first: with 30 points in three dimensions all up to degree
    three, and some of degree four. Such points exist (Tchakaloff), and least squares with weights that are not negative
    finds them.
    """
    order = np.argsort(sample.weights, kind="stable")
    there = np.sort(order[np.cumsum(sample.weights[order]) > _LIGHTEST])
    weights = sample.weights[there] / sample.weights[there].sum()
    if len(there) <= most:
        return there, weights
    features = _features(_whitened(WeightedPoints(sample.points[there], weights)), most)
    features /= np.sqrt(np.square(features) @ weights)[:, None]
    # the first feature is one everywhere: that the weights add up to one matters more than the rest
    features[0] *= 100.0
    chosen, _ = non_negative(features, features @ weights)
    kept = np.flatnonzero(chosen)
    return there[kept], chosen[kept] / chosen[kept].sum()


def _whitened(sample: WeightedPoints) -> np.ndarray:
    """The points (n, q) along the principal axes, the longest first, with mean zero and variance one."""
    variances, axes = np.linalg.eigh(sample.covariance)
    lengths = np.sqrt(np.maximum(variances[::-1], 1e-12 * variances[-1]))
    return np.asarray((sample.points - sample.mean) @ axes[:, ::-1] / lengths)


def _features(whitened: np.ndarray, most: int) -> np.ndarray:
    """Products of Hermite polynomials of the coordinates (n, q), by degree, shape (at most ``most``, n)."""
    rows: list[np.ndarray] = []
    for degree in range(_HIGHEST + 1):
        for axes in combinations_with_replacement(range(whitened.shape[1]), degree):
            if len(rows) == most:
                return np.stack(rows)
            row = np.ones(len(whitened))
            for axis in sorted(set(axes)):
                row *= hermeval(whitened[:, axis], [0.0] * axes.count(axis) + [1.0])
            rows.append(row)
    return np.stack(rows)

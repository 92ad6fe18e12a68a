"""Importance sampling of a posterior in few dimensions: evenly spread points, two rounds, and weights without giants.

The first round draws from a Student t around the mode and, where observations are few, from the prior as well: what a
second mode has is then found. The second draws from a t with the mean and the covariance that the first has found. All
points are weighted together, each by the density of the whole of what was drawn (the balance heuristic).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincinv, gammaln, ndtri

from ..errors import NotPositiveDefiniteError
from .hyperpriors import Hyperpriors

_FREEDOM = 7.0
"""Degrees of freedom of Student's t: tails heavier than those of a posterior."""

_FEW = 50
"""With so many observations, a quarter of the points of the first round come from the prior."""

_TRUST = 5
"""The curvature at the mode counts like so many points for each hyperparameter, when a covariance is estimated."""

Values = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Sample:
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
) -> Sample:
    """About ``size`` points of the posterior with this ``log_density``, a function of points (n, q), up to a constant.

    ``mode`` (q,) and ``covariance`` (q, q) are what the curvature there says; ``prior`` is part of ``log_density``.
    """
    q, half = len(mode), size // 2
    uniforms = _evenly(size, q + 1, seed)
    from_prior = round(0.5 * half / (1 + observations / _FEW))
    around = _StudentT(mode, covariance)
    first = np.concatenate([prior.quantile(uniforms[:from_prior, :q]), around.points(uniforms[from_prior:half])])
    parts: list[tuple[int, Values]] = [(from_prior, prior.log_density), (half - from_prior, around)]
    densities = log_density(first)
    found = _weighted(first, densities, _mixed(parts, first))
    trusted = _TRUST * q
    share = found.effective / (found.effective + trusted)
    adapted = _StudentT(found.mean, share * found.covariance + (1 - share) * covariance)
    second = adapted.points(uniforms[half:])
    everything = np.concatenate([first, second])
    parts.append((size - half, adapted))
    densities = np.concatenate([densities, log_density(second)])
    return _weighted(everything, densities, _mixed(parts, everything))


def _evenly(n: int, dimensions: int, seed: int) -> np.ndarray:
    """Points (n, dimensions) that fill the unit cube evenly, in any order of n: a lattice of irrational steps, shifted.

    The steps are powers of the root of x^(d+1) = x + 1, the golden ratio for one dimension.
    """
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (dimensions + 1))
    steps = root ** -np.arange(1.0, dimensions + 1)
    shift = np.random.default_rng(seed).random(dimensions)
    return np.clip((shift + np.arange(1, n + 1)[:, None] * steps) % 1.0, 1e-9, 1 - 1e-9)


class _StudentT:
    """Student's t with this centre (q,) and scale matrix (q, q)."""

    def __init__(self, centre: np.ndarray, scale: np.ndarray) -> None:
        self._centre, self._q = centre, len(centre)
        self._root = np.linalg.cholesky(scale + 1e-10 * np.trace(scale) / self._q * np.eye(self._q))

    def points(self, uniforms: np.ndarray) -> np.ndarray:
        """Points (n, q) from uniform numbers (n, q + 1)."""
        spread = np.sqrt(2 * gammaincinv(_FREEDOM / 2, uniforms[:, -1:]) / _FREEDOM)
        return np.asarray(self._centre + (ndtri(uniforms[:, :-1]) / spread) @ self._root.T)

    def __call__(self, points: np.ndarray) -> np.ndarray:
        """The log-density at points (n, q)."""
        z = np.linalg.solve(self._root, (points - self._centre).T)
        constant = gammaln((_FREEDOM + self._q) / 2) - gammaln(_FREEDOM / 2) - self._q / 2 * np.log(_FREEDOM * np.pi)
        volume = np.log(np.diag(self._root)).sum()
        far = np.log1p(np.square(z).sum(axis=0) / _FREEDOM)
        return np.asarray(constant - volume - (_FREEDOM + self._q) / 2 * far)


def _mixed(parts: list[tuple[int, Values]], points: np.ndarray) -> np.ndarray:
    """The log-density at points (n, q) of drawing so many from each part."""
    total = sum(number for number, _ in parts)
    each = [np.log(number / total) + density(points) for number, density in parts if number]
    return np.asarray(np.logaddexp.reduce(each, axis=0))


def _weighted(points: np.ndarray, densities: np.ndarray, drawn: np.ndarray) -> Sample:
    """Weights in proportion to density over density of being drawn, none above √S times the average (Ionides 2008)."""
    ratio = densities - drawn
    if not np.isfinite(ratio.max()):
        raise NotPositiveDefiniteError("no hyperparameters near the most likely ones have a positive definite matrix G")
    weights = np.exp(ratio - ratio.max())
    weights = np.minimum(weights, len(weights) ** 0.5 * weights.mean())
    return Sample(points, weights / weights.sum())

"""A few points with weights that stand for many: they have the same averages of the polynomials that matter most."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
from numpy.polynomial.hermite_e import hermeval
from scipy.optimize import nnls

from .importance import Sample

_HIGHEST = 10
"""Degree of the polynomials."""

_LIGHTEST = 0.005
"""The lightest points that have this share of the weight together are left out: they are there by the thousand."""


def few_points(sample: Sample, most: int) -> tuple[np.ndarray, np.ndarray]:
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
    features = _features(_whitened(Sample(sample.points[there], weights)), most)
    features /= np.sqrt(np.square(features) @ weights)[:, None]
    # the first feature is one everywhere: that the weights add up to one matters more than the rest
    features[0] *= 100.0
    chosen, _ = nnls(features, features @ weights)
    kept = np.flatnonzero(chosen)
    return there[kept], chosen[kept] / chosen[kept].sum()


def _whitened(sample: Sample) -> np.ndarray:
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

"""The parameters of a transform by maximum likelihood, with the slope of the transform in it.

    log p(y) = log p(g(y)) + Σᵢ log g′(yᵢ)

Hyperparameters of the prior and parameters of the transform are fitted in turn. While the transform moves, the shape of
the covariance is held and its size follows: of a covariance s R, the best s is Q / N with Q = bᵀR⁻¹b and N degrees of
freedom, and the likelihood at two places tells Q, because log det R does not depend on the observations. Where q
coefficients of the mean are integrated out, N = n − q, and the slopes count by N / n: then the result is the same
whatever unit g(y) is in.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import torch
from scipy.optimize import Bounds, minimize, minimize_scalar

from ..hyperparameters import log_likelihood
from ..prior import Prior
from .kinds import Transform

EXACT_UP_TO = 1000
"""Up to so many observations the likelihood is exact while the transform is sought."""

_TERMS, _NEIGHBOURS = 2000, 20
_CLOSE = 0.01
"""Parameters are sought to so much."""

_EVALUATIONS = 120

_AnyTransform = TypeVar("_AnyTransform", bound=Transform)


class Profile:
    """log p(y) of observations y (n,) at X (n, p) for any transform, under the correlations of a ``prior``.

    ``settings`` are ``seed`` and ``device``.
    """

    def __init__(self, prior: Prior, X: np.ndarray, y: np.ndarray, **settings: Any) -> None:
        self._prior, self._X, self.y = prior, X, torch.from_numpy(y)
        self._options: dict[str, Any] = {"likelihood": "exact", **settings}
        if len(y) > EXACT_UP_TO:
            self._options |= {"likelihood": "nearest-neighbours", "n_neighbours": _NEIGHBOURS, "terms": _TERMS}
        places = torch.from_numpy(X)
        basis = prior.mean.basis(places) if prior.mean.unknown else None
        self._degrees = len(y) - (0 if basis is None else basis.shape[1])
        # noise that is known leaves no size to be chosen
        self._sized = not np.ndim(prior.noise_variance)
        self._constant = self._likelihood(torch.zeros_like(self.y) if basis is not None else prior.mean(places))

    def __call__(self, transform: Transform) -> float:
        """log p(y), with the slope of the transform in it, at the best size of the covariance."""
        found = self._likelihood(transform.forward(self.y))
        square = 2 * (self._constant - found)
        if self._sized and square > 0:
            found = self._constant - 0.5 * self._degrees * (math.log(square / self._degrees) + 1)
        total = found + self._degrees * float(transform.log_slope(self.y).mean())
        return total if math.isfinite(total) else -math.inf

    def _likelihood(self, z: torch.Tensor) -> float:
        return log_likelihood(self._prior, self._X, z.numpy(), **self._options)


def most_likely(transform: _AnyTransform, profile: Profile) -> tuple[_AnyTransform, float]:
    """The transform with its most likely parameters, and log p(y) there."""
    transform.of(profile.y)  # refuses what it cannot take
    ranges = list(transform.free.values())
    if not ranges:
        return transform, profile(transform)
    if len(ranges) == 1:
        found = minimize_scalar(
            lambda value: -profile(transform.with_values(np.array([value]))),
            bounds=ranges[0],
            method="bounded",
            options={"xatol": _CLOSE},
        )
        # the ends are tried as well: one of them is the logarithm, for example
        tried = [transform.with_values(np.array([value])) for value in (found.x, *ranges[0])]
        likely = [profile(each) for each in tried]
        best = int(np.argmax(likely))
        return tried[best], likely[best]
    found = minimize(
        lambda values: -profile(transform.with_values(values)),
        transform.values,
        method="Nelder-Mead",
        bounds=Bounds(*np.array(ranges).T),
        options={"xatol": _CLOSE, "fatol": _CLOSE, "maxfev": _EVALUATIONS},
    )
    return transform.with_values(found.x), -float(found.fun)

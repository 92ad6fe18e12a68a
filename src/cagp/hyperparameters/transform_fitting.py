"""The parameters of a transform by maximum likelihood, with the slope of the transform in it.

    log p(y) = log p(g(y)) + Σᵢ log g′(yᵢ)

Hyperparameters and parameters are fitted in turn. While the transform moves, the correlations R are held: one Cholesky
factor serves for all, and the best size of the covariance is bᵀR⁻¹b / N with N degrees of freedom. Where q coefficients
of the mean are integrated out, N = n − q, and the slopes count by N / n: the unit of g(y) changes nothing.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import numpy as np
import torch
from scipy.optimize import Bounds, minimize, minimize_scalar

from ..means import Constant, Mean
from ..prior import Prior
from ..support.orthonormal import orthonormal
from ..support.positive_definite import positive_definite_factor
from ..support.validation import ArrayLike, as_float64, targets
from ..transforms import Transform
from .fitting import fit
from .result import warn

MOST = 1000  # so many observations tell the parameters of a transform well enough
_CLOSE = 0.01  # parameters are sought to so much
_EVALUATIONS = 120
_ROUNDS = 6
_SETTLED = 0.02  # parameters of the transform and hyperparameters take turns until no parameter moves by more than this

_AnyTransform = TypeVar("_AnyTransform", bound=Transform)


class Profile:
    """log p(y) of y (n,) at X (n, p) for any transform, under the correlations of a ``prior``.

    Of those alone that tell the parameters of ``transform``, at most 1,000 of them, drawn with ``seed``.
    """

    def __init__(self, prior: Prior, X: np.ndarray, y: np.ndarray, transform: Transform, seed: int = 0) -> None:
        rows = np.flatnonzero(transform.telling(y))
        if len(rows) > MOST:
            rows = np.sort(np.random.default_rng(seed).choice(rows, MOST, replace=False))
        self.y, places = torch.from_numpy(y[rows]), torch.from_numpy(X[rows])
        embedding = prior.kernel.embed(places, places.mean(dim=0))
        G = prior.kernel.evaluate(embedding, embedding) + torch.diag(prior.noise(torch.from_numpy(X))[rows])
        self._factor = positive_definite_factor(G, "the covariance of the observations", "a larger noise_variance")
        # noise that is known leaves no size to be chosen
        self._sized = not np.ndim(prior.noise_variance)
        # what was learned of y is on one scale, and while the transform moves a constant takes its place
        mean: Mean = Constant() if prior.mean.learned else prior.mean
        basis = mean.basis(places) if mean.unknown else None
        self._mean = torch.zeros_like(self.y) if basis is not None else mean(places)
        self._degrees, log_det = len(rows), 2 * self._factor.diagonal().log().sum()
        self._directions = self.y.new_zeros(len(rows), 0)
        if basis is not None:
            self._degrees -= basis.shape[1]
            self._directions, R = orthonormal(self._whitened(basis))
            _, own = orthonormal(basis)
            log_det = log_det + 2 * (R.diagonal().abs().log().sum() - own.diagonal().abs().log().sum())
        self._constant = -0.5 * (float(log_det) + self._degrees * math.log(2 * math.pi))

    def __call__(self, transform: Transform) -> float:
        """log p(y), with the slope of the transform in it, at the best size of the covariance."""
        b = self._whitened((transform.forward(self.y) - self._mean)[:, None])[:, 0]
        square = float((b - self._directions @ (self._directions.T @ b)).square().sum())
        if not 0 < square < math.inf:
            return -math.inf
        if self._sized:
            square = self._degrees * (math.log(square / self._degrees) + 1)
        return self._constant - 0.5 * square + self._degrees * float(transform.log_slope(self.y).mean())

    def _whitened(self, columns: torch.Tensor) -> torch.Tensor:
        return torch.linalg.solve_triangular(self._factor, columns, upper=False)


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
        return max(((each, profile(each)) for each in tried), key=lambda pair: pair[1])
    found = minimize(
        # where there is no likelihood at all it is flat: differences of infinite values would be no numbers
        lambda values: min(-profile(transform.with_values(values)), np.finfo(float).max / 2),
        transform.values,
        method="Nelder-Mead",
        bounds=Bounds(*np.array(ranges).T),
        options={"xatol": _CLOSE, "fatol": _CLOSE, "maxfev": _EVALUATIONS},
    )
    return transform.with_values(found.x), -float(found.fun)


def fit_transformed(
    prior: Prior, kind: Transform | type[Transform], X: ArrayLike, y: ArrayLike, **options: Any
) -> tuple[Prior, Transform]:
    """The most likely hyperparameters and parameters of a transform, in turn until they settle."""
    places, values = as_float64(X, "X").cpu().numpy(), targets(y, len(X)).cpu()
    transform = kind.starting(values.numpy()) if isinstance(kind, type) else kind
    transform.of(values)
    quietly: dict[str, Any] = {"standard_errors": False, "progress": False, **options}
    result = fit(prior, X, transform.of(values), **quietly)
    for _ in range(_ROUNDS if transform.free else 0):
        found, _ = most_likely(transform, Profile(result.prior, places, values.numpy(), transform))
        moved, transform = float(np.abs(found.values - transform.values).max(initial=0.0)), found
        result = fit(result.prior, X, transform.of(values), **quietly)
        if moved <= _SETTLED:
            break
    warn(result)
    return result.prior, transform

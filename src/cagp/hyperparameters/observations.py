"""What a likelihood is a likelihood of; and observations at the same point, averaged, which have the same one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..means import Mean
from ..prior import Prior
from ..support.validation import ArrayLike, not_negative_each, outputs, points, real, squarable, targets


@dataclass(frozen=True)
class Observations:
    """What a likelihood is a likelihood of.

    Points ``X`` (n, p), observations ``y`` (n,), and either ``basis`` (n, q), whose coefficients are unknown, or a
    known mean, ``mean`` (n,). Where ``restricted``, the coefficients are integrated out (restricted likelihood, REML),
    else they are chosen together with the kernel. ``noise`` (n,) where it is known per observation, else None.
    ``noise_slope`` (n,) is what the noise level is multiplied by at each point, where a pattern says that.
    ``jitter`` is added to the diagonal of G, and is zero unless the user asked for it. ``known_noise`` (n,) is there
    beside the noise that is fitted. ``y`` and ``mean`` may be (n, outputs): independent functions with the same
    hyperparameters, whose likelihoods multiply.
    """

    X: torch.Tensor
    y: torch.Tensor
    mean: torch.Tensor
    basis: torch.Tensor | None
    noise: torch.Tensor | None
    jitter: float
    known_noise: torch.Tensor | None = None
    restricted: bool = False
    noise_slope: torch.Tensor | None = None

    @property
    def size(self) -> int:
        """How many observations there are."""
        return len(self.y)

    def rows(self, indices: np.ndarray | torch.Tensor) -> Observations:
        """The observations ``indices``, in that order."""
        at = torch.as_tensor(indices, device=self.y.device)
        arrays: dict[str, Any] = {name: each[at] for name, each in vars(self).items() if isinstance(each, torch.Tensor)}
        return replace(self, **arrays)

    def with_mean(self, mean: Mean) -> Observations:
        """The same with ``mean`` filled in from the data, for each output by itself."""
        columns = [mean.fit(self.X, y)(self.X) for y in self.y.reshape(self.size, -1).unbind(dim=1)]
        return replace(self, mean=torch.stack(columns, dim=1).reshape(self.y.shape))

    @property
    def noise_slopes(self) -> torch.Tensor:
        """The derivative of every observation's noise in its level, shape (n,)."""
        return self.X.new_ones(self.size) if self.noise_slope is None else self.noise_slope

    def diagonal(self, noise: float | np.ndarray) -> torch.Tensor:
        """Noise and jitter of every observation, shape (n,)."""
        own = self.noise if self.noise is not None else self.noise_slopes * float(noise)
        return own + self.jitter if self.known_noise is None else own + self.known_noise + self.jitter


def observations(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    device: str | torch.device | None,
    *,
    refit_mean: bool = False,
    jitter: float = 0.0,
    known_noise: ArrayLike | None = None,
) -> Observations:
    """What a user hands over, checked; the mean is not filled in yet."""
    if real(jitter, "jitter") < 0:
        raise InputError(f"jitter must not be negative, got {jitter!r}")
    place = torch.device(device) if device is not None else X.device if isinstance(X, torch.Tensor) else None
    train = points(X, "X", place)
    n = train.shape[0]
    values = outputs(y, n, train.device)
    squarable(train, "X")
    squarable(values, "y")
    basis = prior.mean.basis(train) if refit_mean or prior.mean.unknown else None
    if refit_mean and basis is None:
        raise InputError(
            f"refit_mean=True, but {prior.mean!r} has no coefficients; Constant, Polynomial and Basis have"
        )
    if refit_mean and values.ndim == 2:
        raise InputError(
            f"refit_mean=True, but y has {values.shape[1]} outputs, each with a mean of its own; leave refit_mean out"
        )
    each = np.ndim(prior.noise_variance) == 1
    noise = prior.noise(train) if each else None
    slope = None if prior.noise_pattern is None else prior.noise_pattern.at(train).square()
    known = None if known_noise is None else not_negative_each(known_noise, "known_noise", n, train.device)
    parts = train, values, torch.zeros_like(values), basis, noise
    restricted = prior.mean.unknown and not refit_mean
    return Observations(*parts, float(jitter), known, restricted, slope)


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

"""What a likelihood is a likelihood of; and observations at the same point, averaged, which have the same one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..kernels import NoiseByQuantity
from ..kernels.coregionalised import quantity_of
from ..means import Mean
from ..prior import Prior
from ..support.convert import as_device
from ..support.validation import ArrayLike, not_negative_each, outputs, points, real, squarable, targets


@dataclass(frozen=True)
class Observations:
    """Points ``X`` (n, p), observations ``y`` (n,), and a known ``mean`` (n,) or a ``basis`` (n, q) of an unknown one.

    Where ``restricted``, its coefficients are integrated out (REML), else they are chosen with the kernel. ``noise``
    (n,) where it is known per observation; ``known_noise`` (n,) is there beside what is fitted; a pattern and factors
    multiply the noise level by ``noise_slope`` (n,); ``quantity`` (n,) says which level, where each quantity has its
    own. ``jitter`` is added to the diagonal of G, where the user asked for it. ``y`` and ``mean`` may be (n, outputs):
    independent functions, whose likelihoods multiply.
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
    quantity: torch.Tensor | None = None

    @property
    def size(self) -> int:
        """How many observations there are."""
        return self.y.shape[0]

    def rows(self, indices: np.ndarray | torch.Tensor) -> Observations:
        """The observations ``indices``, in that order."""
        at = torch.as_tensor(indices, device=self.y.device)
        arrays: dict[str, Any] = {name: each[at] for name, each in vars(self).items() if isinstance(each, torch.Tensor)}
        return replace(self, **arrays)

    def owned(self) -> Observations:
        """The same with points and observations of its own."""
        X, y = (each.clone(memory_format=torch.contiguous_format) for each in (self.X, self.y))
        return replace(self, X=X, y=y)

    def with_mean(self, mean: Mean) -> Observations:
        """The same with ``mean`` filled in from the data, for each output by itself."""
        columns = [mean.fit(self.X, y)(self.X) for y in self.y.reshape(self.size, -1).unbind(dim=1)]
        return replace(self, mean=torch.stack(columns, dim=1).reshape(self.y.shape))

    @property
    def noise_slopes(self) -> torch.Tensor:
        """The derivative of every observation's noise in its level, shape (n,)."""
        return self.X.new_ones(self.size) if self.noise_slope is None else self.noise_slope

    def diagonal(self, noise: float | np.ndarray) -> torch.Tensor:
        """Noise and jitter of every observation, shape (n,); of several quantities ``noise`` has a level for each."""
        if self.quantity is not None:
            own = self.noise_slopes * torch.as_tensor(noise).to(self.X)[self.quantity]
        else:
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
    place = as_device(device) if device is not None else X.device if isinstance(X, torch.Tensor) else None
    train = points(X, "X", place)
    n = train.shape[0]
    values = outputs(y, n, train.device)
    squarable(train, "X")
    squarable(values, "y")
    basis = prior.mean.basis(train) if refit_mean or prior.mean.unknown else None
    if refit_mean and basis is None:
        wrong = f"{prior.mean!r} has no coefficients"
        raise InputError(f"refit_mean=True, but {wrong}; Constant, Polynomial and Basis have")
    if refit_mean and values.ndim == 2:
        wrong = f"y has {values.shape[1]} outputs, each with a mean of its own"
        raise InputError(f"refit_mean=True, but {wrong}; leave refit_mean out")
    noise = prior.noise(train) if np.ndim(prior.noise_variance) else None
    levels, quantity = prior.noise_variance, None
    if isinstance(prior.noise_pattern, NoiseByQuantity):
        quantity, levels = (
            quantity_of(train, len(prior.noise_pattern.values)),
            levels * prior.noise_pattern.at(train) ** 2,
        )
    plain = (prior.noise_pattern is None or quantity is not None) and prior.noise_factors is None
    slope = None if plain else prior.noise(train) / levels
    known = None if known_noise is None else not_negative_each(known_noise, "known_noise", n, train.device)
    parts = train, values, torch.zeros_like(values), basis, noise
    restricted = prior.mean.unknown and not refit_mean
    return Observations(*parts, float(jitter), known, restricted, slope, quantity)


@dataclass(frozen=True, eq=False)
class AveragedRows:
    """Averages y (m,) of observations at different points X (m, p), with their ``noise_variance`` and ``counts`` (m,).

    log p of all observations is that of the averages plus ``log_likelihood``, that of the scatter around them, which
    depends on the noise alone; for an unknown mean, up to ½ log det HᵀH of all rows less that of the averages.
    """

    X: np.ndarray
    y: np.ndarray
    noise_variance: np.ndarray
    counts: np.ndarray
    log_likelihood: float


def averaged_rows(X: ArrayLike, y: ArrayLike, noise_variance: float | ArrayLike) -> AveragedRows:
    """Observations y (n,) at X (n, p) whose points are equal, averaged with weights 1 / ``noise_variance``.

    The noise variance of an average of c observations is σ² / c, or 1 / Σ 1/σᵢ² where each has its own. Conditioning on
    them gives the same means and variances at the cost of m rows, and a nearest neighbour is a place.
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

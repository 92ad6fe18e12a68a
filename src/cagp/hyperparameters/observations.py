"""What a likelihood is a likelihood of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from ..errors import InputError
from ..means import Mean
from ..prior import Prior
from ..support.validation import ArrayLike, not_negative_each, outputs, points, squarable


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

    def rows(self, indices: np.ndarray) -> Observations:
        """The observations ``indices``, in that order."""
        at = torch.as_tensor(indices, device=self.y.device)
        basis = None if self.basis is None else self.basis[at]
        noise = None if self.noise is None else self.noise[at]
        known = None if self.known_noise is None else self.known_noise[at]
        slope = None if self.noise_slope is None else self.noise_slope[at]
        parts = self.X[at], self.y[at], self.mean[at], basis, noise
        return Observations(*parts, self.jitter, known, self.restricted, slope)

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

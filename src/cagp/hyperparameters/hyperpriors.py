"""Weakly informative priors of hyperparameters, on the scale of the data.

Lengthscales and standard deviations have penalised complexity priors (Fuglstad et al. 2019), for which a field that
varies less is the simpler one. Anything else stays around the value that it starts from.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import ndtri

from ..errors import InputError
from ..kernels import Geographic, Kernel, Level, Periodic, Product, Radial, Rotated, Standardised
from ..kernels.base import OnColumns
from ..kernels.geographic import unit_sphere
from ..kernels.rotated import rotation
from ..prior import Prior
from ..support.validation import ArrayLike, points, positive, targets
from .search_space import NOISE, Space
from .starting_prior import scale_of, starting_lengthscale

_NOISE_SHARE = 0.5  # how large the standard deviation of the noise is on average, as a share of that of y
_WIDTH = 1.5  # the standard deviation, in log space, of what has no scale in the data: a factor of 20 either way
_ANY_DIRECTION = math.pi / math.sqrt(12)  # that of an angle in radians: as if all directions were as likely


class Hyperprior(ABC):
    """The distribution of one positive number θ, in terms of u = log θ; or of an angle u in radians."""

    @abstractmethod
    def log_density(self, u: np.ndarray) -> np.ndarray:
        """The log-density of u at each of ``u``."""

    @abstractmethod
    def slope(self, u: float) -> float:
        """The derivative of the log-density."""

    @abstractmethod
    def quantile(self, p: np.ndarray) -> np.ndarray:
        """The quantiles of u at the probabilities ``p``."""


@dataclass(frozen=True)
class LongRange(Hyperprior):
    """A lengthscale ℓ: ℓ^(−1/2) is exponential, ℓ is below ``median`` as often as above.

    Long ones fall off slowly, as ℓ^(−3/2): a column may say nothing. A twentieth lies below 5% of the median.
    """

    median: float

    @property
    def _rate(self) -> float:
        return math.log(2) * self.median**0.5

    def log_density(self, u: np.ndarray) -> np.ndarray:
        return np.asarray(math.log(self._rate / 2) - u / 2 - self._rate * np.exp(-u / 2))

    def slope(self, u: float) -> float:
        return -0.5 + 0.5 * self._rate * math.exp(-u / 2)

    def quantile(self, p: np.ndarray) -> np.ndarray:
        return np.asarray(2 * np.log(self._rate / -np.log(p)))


@dataclass(frozen=True)
class SmallDeviation(Hyperprior):
    """A variance whose square root, a standard deviation, is exponential with this ``average``."""

    average: float

    def log_density(self, u: np.ndarray) -> np.ndarray:
        return np.asarray(u / 2 - math.log(2 * self.average) - np.exp(u / 2) / self.average)

    def slope(self, u: float) -> float:
        return 0.5 - 0.5 * math.exp(u / 2) / self.average

    def quantile(self, p: np.ndarray) -> np.ndarray:
        return np.asarray(2 * np.log(-self.average * np.log1p(-p)))


@dataclass(frozen=True)
class Around(Hyperprior):
    """A number whose logarithm is normal, with this ``median`` and standard deviation ``width`` of the logarithm."""

    median: float
    width: float = _WIDTH

    def log_density(self, u: np.ndarray) -> np.ndarray:
        z = (u - math.log(self.median)) / self.width
        return np.asarray(-0.5 * z**2 - math.log(self.width * math.sqrt(2 * math.pi)))

    def slope(self, u: float) -> float:
        return (math.log(self.median) - u) / self.width**2

    def quantile(self, p: np.ndarray) -> np.ndarray:
        return np.asarray(math.log(self.median) + self.width * ndtri(p))


@dataclass(frozen=True)
class Hyperpriors:
    """Independent priors of hyperparameters, by the names that they have in a fit: ``kernel.lengthscale``."""

    by_name: Mapping[str, Hyperprior]

    @classmethod
    def of(cls, prior: Prior, X: ArrayLike, y: ArrayLike | None = None, *, scale: float | None = None) -> Hyperpriors:
        """Those of all hyperparameters of ``prior`` for observations y (n,) at X (n, p).

        The median of a lengthscale is the typical distance of the points from their middle: a column's standard
        deviation, times √p where p columns have one each. The standard deviation of the kernel is s on average, that
        of the noise s / 2, where s is that of y around its least-squares trend; ``scale`` = s² says it without y.
        """
        train = points(X, "X").cpu()
        if (y is None) == (scale is None):
            raise InputError("Hyperpriors.of needs y, or the variance that is expected of it as scale")
        if scale is None:
            values = targets(y, len(train), train.device)
            others = np.delete(np.arange(len(train)), prior.outliers)
            train_others, values = train[others], values[others]
            scale = scale_of((values - prior.mean.fit(train_others, values)(train_others)).numpy())
        deviation = positive(scale, "scale") ** 0.5
        found = dict(_of_kernel(prior.kernel, "kernel", train, deviation, first=True))
        if np.ndim(prior.noise_variance) == 0:
            found[NOISE] = SmallDeviation(_NOISE_SHARE * deviation)
        return cls(found)

    def among(self, space: Space) -> Hyperpriors:
        """Those of the free hyperparameters of ``space``, in its order."""
        absent = [name for name in space.names if name not in self.by_name]
        if absent:
            raise InputError(f"hyperpriors has no prior of {', '.join(absent)}; it has {', '.join(self.by_name)}")
        return Hyperpriors({name: self.by_name[name] for name in space.names})

    def allowing(self, values: Mapping[str, float]) -> Hyperpriors:
        """The same, wide enough for some ``values``, by name, that observations have told.

        Along a trend or a smooth function the likelihood is nearly as large for ever longer lengthscales and larger
        variances, and a fit may end with a deviation a thousand times that of y: nobody expected that, but what
        expectations would make of it predicts worse.
        """
        found = dict(self.by_name)
        for name, value in values.items():
            if isinstance(before := found.get(name), LongRange):
                found[name] = LongRange(max(before.median, value))
            elif isinstance(before, SmallDeviation):
                found[name] = SmallDeviation(max(before.average, value**0.5))
        return Hyperpriors(found)

    def log_density(self, log_values: np.ndarray) -> np.ndarray:
        """The log-density of the logarithms (n, q), shape (n,)."""
        columns = zip(self.by_name.values(), log_values.T, strict=True)
        return np.sum([each.log_density(column) for each, column in columns], axis=0)

    def slope(self, log_values: np.ndarray) -> np.ndarray:
        """The gradient (q,) of the log-density at the logarithms (q,)."""
        return np.array([each.slope(u) for each, u in zip(self.by_name.values(), log_values.tolist(), strict=True)])

    def quantile(self, p: np.ndarray) -> np.ndarray:
        """The quantiles (n, q) of the logarithms at probabilities p (n, q), each column by itself."""
        columns = zip(self.by_name.values(), p.T, strict=True)
        return np.stack([each.quantile(column) for each, column in columns], axis=1)


def _of_kernel(
    kernel: Kernel, path: str, X: torch.Tensor, deviation: float, first: bool
) -> Iterator[tuple[str, Hyperprior]]:
    """The priors of a kernel that sees points X (n, p); only the ``first`` factor of a product has the scale of y."""
    for field, value in kernel.hyperparameter_values.items():
        several = isinstance(value, tuple)
        names = [f"{path}.{field}[{i}]" for i in range(len(value))] if several else [f"{path}.{field}"]
        numbers = list(value) if several else [value]
        found: list[Hyperprior] = [Around(float(number)) for number in numbers]
        if field in kernel.angles:
            found = [Around(math.exp(math.radians(angle)), _ANY_DIRECTION) for angle in numbers]
        elif field == "lengthscale" and isinstance(kernel, Radial) and not isinstance(kernel, Periodic):
            medians = np.broadcast_to(starting_lengthscale(X.numpy(), 1.0, each=several), len(names))
            found = [LongRange(float(median)) for median in medians]
        elif field == "variance" and isinstance(kernel, (Radial, Level)) and first:
            found = [SmallDeviation(deviation)] * len(names)
        yield from zip(names, found, strict=True)
    seen = X
    if isinstance(kernel, Geographic):
        seen = kernel.radius * unit_sphere(X)
    elif isinstance(kernel, OnColumns):
        seen = X[:, list(kernel.columns)]
    elif isinstance(kernel, Standardised):
        seen = X / torch.tensor(kernel.spreads, dtype=X.dtype)
    elif isinstance(kernel, Rotated):
        seen = X @ rotation(torch.tensor(kernel.angle, dtype=X.dtype)).T
    for i, (name, child) in enumerate(kernel.children.items()):
        inside = first and (i == 0 or not isinstance(kernel, Product))
        yield from _of_kernel(child, f"{path}.{name}", seen, deviation, inside)

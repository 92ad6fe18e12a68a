"""Monotone maps g from the scale of the observations to one where they look normal: y = g⁻¹(f + noise).

Parameters are held in ranges where g covers the whole line, or ends in a place that y has: the mean on the scale of y
is then finite whatever the normal distribution on the other scale.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch

from .errors import InputError
from .support.validation import positive, real

_NAMED = 5  # so many rows are named in an error


class Transform(ABC):
    """An increasing map g from observations to the scale of a Gaussian process; a frozen dataclass of its parameters.

    ``name`` is how it is asked for, ``free`` are the parameters that a fit chooses, with their bounds. No observation
    is predicted below ``lower`` or above ``upper``.
    """

    name: ClassVar[str]
    free: ClassVar[Mapping[str, tuple[float, float]]] = {}
    lower, upper = -math.inf, math.inf

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            value = (positive if each.name == "scale" else real)(getattr(self, each.name), each.name)
            object.__setattr__(self, each.name, value)
            low, high = self.free.get(each.name, (-math.inf, math.inf))
            if not low <= value <= high:
                raise InputError(f"{each.name} of {self.name} must lie between {low:g} and {high:g}, got {value:g}")

    @classmethod
    def starting(cls, y: np.ndarray) -> Self:
        """The transform for observations y (n,), with free parameters where a search starts, around their middle."""
        middle = {"location": float(np.median(y)), "scale": float(np.std(y)) or 1.0}
        return cls(**{each.name: middle[each.name] for each in fields(cls) if each.name in middle})  # type: ignore[arg-type]

    def refused(self, y: torch.Tensor) -> tuple[torch.Tensor, str]:
        """Which of y (n,) it is not for, a mask (n,), and what they would have to be, with a remedy."""
        return torch.zeros_like(y, dtype=torch.bool), ""

    @abstractmethod
    def forward(self, y: torch.Tensor) -> torch.Tensor:
        """g(y), of the same shape; where y ends, −∞ or ∞."""

    @abstractmethod
    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        """g⁻¹(z), of the same shape; also of −∞ and ∞."""

    @abstractmethod
    def log_slope(self, y: torch.Tensor) -> torch.Tensor:
        """log g′(y), of the same shape."""

    @property
    @abstractmethod
    def in_words(self) -> str:
        """What it does, in a few words with its parameters."""

    def of(self, y: torch.Tensor, name: str = "y") -> torch.Tensor:
        """g(y) of observations y (n,), which are checked first."""
        wrong, wanted = self.refused(y)
        if bool(wrong.any()):
            rows = wrong.nonzero()[:, 0].tolist()
            shown = ", ".join(f"{float(y[row]):g} at row {row}" for row in rows[:_NAMED])
            more = f" and {len(rows) - _NAMED:,} more" if len(rows) > _NAMED else ""
            raise InputError(f'{name} has values that transform "{self.name}" cannot take, {shown}{more}: {wanted}')
        return self.forward(y)

    def telling(self, y: np.ndarray) -> np.ndarray:
        """Which of y (n,) tell its parameters, a mask (n,): many values at the end itself, zeros, have no density."""
        return y > self.lower

    def with_values(self, values: np.ndarray) -> Self:
        """The same with other values (m,) of the free parameters."""
        return replace(self, **dict(zip(self.free, values.tolist(), strict=True)))  # type: ignore[type-var]

    @property
    def values(self) -> np.ndarray:
        """The free parameters, shape (m,)."""
        return np.array([getattr(self, each) for each in self.free], dtype=np.float64)


@dataclass(frozen=True)
class Log(Transform):
    """g(y) = log y, for positive y."""

    name, lower = "log", 0.0

    def refused(self, y: torch.Tensor) -> tuple[torch.Tensor, str]:
        remedy = "box-cox" if bool((y >= 0).all()) else "yeo-johnson"
        return y <= 0, f'the logarithm is for positive values; transform="{remedy}" takes these as well'

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        return y.clamp_min(0.0).log()

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        return z.exp()

    def log_slope(self, y: torch.Tensor) -> torch.Tensor:
        return -y.log()

    @property
    def in_words(self) -> str:
        return "the logarithm"


@dataclass(frozen=True)
class BoxCox(Transform):
    """g(y) = ((y + shift)^power − 1) / power, the logarithm for ``power`` 0; for positive y, with a ``shift`` also 0.

    What g⁻¹ would make negative is 0. A power below 0 would give some predictions an infinite mean, so there is none.
    """

    name, lower = "box-cox", 0.0
    free: ClassVar[Mapping[str, tuple[float, float]]] = {"power": (0.0, 2.0)}

    power: float = 0.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shift < 0:
            raise InputError(f"shift of box-cox must not be negative, got {self.shift:g}")

    @classmethod
    def starting(cls, y: np.ndarray) -> Self:
        """With a shift where some of y are 0: the square of the lower over the upper quartile of the others."""
        above = y[y > 0]
        if (y > 0).all() or not len(above) or (y < 0).any():
            return cls(0.3)
        low, high = np.quantile(above, (0.25, 0.75))
        return cls(0.3, float(low**2 / high))

    def refused(self, y: torch.Tensor) -> tuple[torch.Tensor, str]:
        if self.shift:
            return y < 0, 'it is for values from 0 up; transform="yeo-johnson" takes any'
        remedy = "give it a shift, BoxCox(power, shift)" if bool((y >= 0).all()) else 'transform="yeo-johnson"'
        return y <= 0, f"without a shift it is for positive values; {remedy} takes these as well"

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        return _power(y.clamp_min(0.0) + self.shift, self.power)

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        return (_root(z, self.power) - self.shift).clamp_min(0.0)

    def log_slope(self, y: torch.Tensor) -> torch.Tensor:
        return (self.power - 1) * (y + self.shift).log()

    @property
    def in_words(self) -> str:
        moved = f" of y + {self.shift:.3g}" if self.shift else ""
        return f"the logarithm{moved}" if self.power == 0 else f"a Box-Cox transform{moved}, power {self.power:.3g}"


@dataclass(frozen=True)
class YeoJohnson(Transform):
    """The transform of Yeo and Johnson of u = (y − location) / scale, for any y; ``power`` 1 changes nothing."""

    name = "yeo-johnson"
    free: ClassVar[Mapping[str, tuple[float, float]]] = {"power": (0.0, 2.0)}

    power: float = 1.0
    location: float = 0.0
    scale: float = 1.0

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        u = (y - self.location) / self.scale
        above, below = _power(1 + u.clamp_min(0.0), self.power), _power(1 - u.clamp_max(0.0), 2 - self.power)
        return torch.where(u >= 0, above, -below)

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        above, below = _root(z.clamp_min(0.0), self.power) - 1, _root(-z.clamp_max(0.0), 2 - self.power) - 1
        return self.location + self.scale * torch.where(z >= 0, above, -below)

    def log_slope(self, y: torch.Tensor) -> torch.Tensor:
        u = (y - self.location) / self.scale
        return (self.power - 1) * torch.sign(u) * u.abs().log1p() - math.log(self.scale)

    @property
    def in_words(self) -> str:
        return f"a Yeo-Johnson transform, power {self.power:.3g}"


@dataclass(frozen=True)
class SinhArcsinh(Transform):
    """g(y) = sinh(tail · asinh(u) − skew) with u = (y − location) / scale, for any y.

    A ``tail`` below 1 draws in both tails, a positive ``skew`` is for data with a long tail above.
    """

    name = "sinh-arcsinh"
    free: ClassVar[Mapping[str, tuple[float, float]]] = {"skew": (-2.0, 2.0), "tail": (0.25, 2.0)}

    skew: float = 0.0
    tail: float = 1.0
    location: float = 0.0
    scale: float = 1.0

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        return torch.sinh(self.tail * torch.asinh((y - self.location) / self.scale) - self.skew)

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        return self.location + self.scale * torch.sinh((torch.asinh(z) + self.skew) / self.tail)

    def log_slope(self, y: torch.Tensor) -> torch.Tensor:
        u = (y - self.location) / self.scale
        inside = self.tail * torch.asinh(u) - self.skew
        return torch.cosh(inside).log() - 0.5 * torch.log1p(u * u) + math.log(self.tail / self.scale)

    @property
    def in_words(self) -> str:
        return f"a sinh-arcsinh transform, skew {self.skew:.3g}, tail {self.tail:.3g}"


@dataclass(frozen=True)
class Logit(Transform):
    """g(y) = log((y − low) / (high − y)), for shares: y strictly between ``low`` and ``high``."""

    name = "logit"

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise InputError(f"low of logit must be below high, got {self.low:g} and {self.high:g}")

    def refused(self, y: torch.Tensor) -> tuple[torch.Tensor, str]:
        wanted = (
            f"shares lie strictly between {self.low:g} and {self.high:g}; move such values inside by what their "
            "rounding allows, give Logit other ends (Logit(0, 100) for per cent), or take another transform"
        )
        return (y <= self.low) | (y >= self.high), wanted

    def forward(self, y: torch.Tensor) -> torch.Tensor:
        inside = y.clamp(self.low, self.high)
        return (inside - self.low).log() - (self.high - inside).log()

    def inverse(self, z: torch.Tensor) -> torch.Tensor:
        return self.low + (self.high - self.low) * torch.sigmoid(z)

    def log_slope(self, y: torch.Tensor) -> torch.Tensor:
        return math.log(self.high - self.low) - (y - self.low).log() - (self.high - y).log()

    @property
    def in_words(self) -> str:
        ends = "" if (self.low, self.high) == (0, 1) else f" between {self.low:g} and {self.high:g}"
        return f"the logit of a share{ends}"

    lower = property(lambda self: self.low)  # type: ignore[assignment]
    upper = property(lambda self: self.high)  # type: ignore[assignment]


KINDS: dict[str, type[Transform]] = {each.name: each for each in (Log, BoxCox, YeoJohnson, SinhArcsinh, Logit)}


def named(transform: Any) -> type[Transform] | Transform:
    """A transform as given, or the kind of that name."""
    if isinstance(transform, Transform):
        return transform
    if not isinstance(transform, str) or transform not in KINDS:
        known = ", ".join(f'"{name}"' for name in KINDS)
        raise InputError(f"transform must be one of {known}, or a transform such as BoxCox(0.5); got {transform!r}")
    return KINDS[transform]


def _power(u: torch.Tensor, power: float) -> torch.Tensor:
    """(u^power − 1) / power for u ≥ 0, the logarithm for power 0; exact to rounding for small powers."""
    return u.log() if power == 0 else torch.expm1(power * u.log()) / power


def _root(z: torch.Tensor, power: float) -> torch.Tensor:
    """The inverse of ``_power``; 0 below its range."""
    return z.exp() if power == 0 else (torch.log1p((power * z).clamp_min(-1.0)) / power).exp()

"""The kernel of linear and power variograms, which have no sill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from ..errors import InputError
from ..support.memory import Buffers
from ..support.validation import positive, real
from .base import Embedding, Kernel, Target, WriteNumber, validate_hyperparameter
from .radial import squared_distances

_ROUGHEST, _SMOOTHEST = 0.0, 2.0


@dataclass(frozen=True)
class FractionalBrownian(Kernel):
    """The variogram ``slope · |a − b|ᵖ``, p = ``exponent`` < 2: linear with 1, a power variogram with any other.

    Half the mean square of f(a) − f(b), however far apart: there is no sill. Fractional Brownian motion has it, with
    the covariance ``slope · (|a|ᵖ + |b|ᵖ − |a − b|ᵖ)``. Its f(0) is 0, which a mean with an unknown constant, such
    as ``Constant()``, makes up for: then predictions are those of kriging with the variogram, and do not depend on
    where the origin is.
    """

    slope: float = 1.0
    exponent: float = 1.0

    hyperparameters: ClassVar[tuple[str, ...]] = ("slope",)
    family: ClassVar[str] = "fractional Brownian (a variogram without a sill)"

    def __post_init__(self) -> None:
        validate_hyperparameter(self, "slope", positive)
        object.__setattr__(self, "exponent", real(self.exponent, "exponent"))
        if not _ROUGHEST < self.exponent < _SMOOTHEST:
            raise InputError(f"exponent must be above 0 and below 2, got {self.exponent!r}; 1 is the linear variogram")

    @property
    def radial(self) -> bool:
        return True  # up to what an unknown constant takes, so that near points are those that tell most

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        return X.T.clone(memory_format=torch.contiguous_format)  # not of differences alone: the origin stays

    def evaluate(self, A: Any, B: Any, out: Target = None, buffers: Buffers | None = None) -> torch.Tensor:
        block = squared_distances(A, B, out, buffers)
        half = 0.5 * self.exponent
        a, b = (each.square().sum(dim=0).pow(half) for each in (A, B))
        if out is None or buffers is None:
            return self.slope * (a[..., :, None] + b[..., None, :] - block.pow(half))
        return out.pow_(half).neg_().add_(a[..., :, None]).add_(b[..., None, :]).mul_(self.slope)

    def diagonal(self, A: Any) -> torch.Tensor:
        return self.slope * 2 * A.square().sum(dim=0).pow(0.5 * self.exponent)

    def scaled(self, factor: float) -> Kernel:
        return replace(self, slope=self.slope * factor)

    def in_words(self, columns: Sequence[str]) -> str:
        return self.family

    def formula(self, number: WriteNumber) -> str:
        p = number(self.exponent)
        return f"{number(self.slope)} · (|x|^{p} + |x′|^{p} − |x − x′|^{p})"

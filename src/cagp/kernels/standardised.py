"""Columns that are not measured alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from ..errors import InputError, InputTypeError
from ..support.validation import positive
from .base import Embedding, Kernel, Wrapper


@dataclass(frozen=True)
class Standardised(Wrapper):
    """A kernel on columns of which each is divided by its own of the ``spreads`` (p,).

    ``Standardised(Matern32(2.0), (1e6, 0.3))`` has one lengthscale for two columns of different units: twice the spread
    of each. What is far apart along a column in large numbers would decide alone otherwise.
    """

    spreads: tuple[float, ...]

    UNIT: ClassVar[str] = "spreads"

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise InputTypeError(
                f"Standardised wraps a kernel, got {self.kernel!r}; write Standardised(Matern32(2.0), (1.0, 30.0))"
            )
        if not isinstance(self.spreads, Sequence) or not self.spreads:
            raise InputError(f"spreads must be one number for each column, got {self.spreads!r}; write (1.0, 30.0)")
        object.__setattr__(self, "spreads", tuple(positive(each, "spreads") for each in self.spreads))

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        if X.shape[1] != len(self.spreads):
            raise InputError(
                f"Standardised has {len(self.spreads)} spreads, the points have {X.shape[1]} columns; give one per "
                "column, or say which columns it sees: Standardised(kernel, spreads).on(0, 1)"
            )
        spreads = torch.tensor(self.spreads, dtype=X.dtype, device=X.device)
        return self.kernel.embed(X / spreads, origin / spreads)

    @property
    def distance_unit(self) -> str:
        return self.UNIT

    def in_words(self, columns: Sequence[str]) -> str:
        return f"{self.kernel.in_words(columns)}, each divided by its spread"

"""Margins: what errors on observations that were not used taught about the error bars of a model.

A further kind is one file: what it learned, as a frozen dataclass that can be saved, and the distribution that it makes
of the one under the prior. ``saving.saved`` has the list of those that can be loaded.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch

from ..errors import InputError
from ..predicting.conditioned import Conditioned
from ..prediction import Guarantee, Reshape


class Margins(ABC):
    """What was learned, and all that is needed to learn nothing again. ``name`` is that in a model folder."""

    name: ClassVar[str]

    @property
    @abstractmethod
    def in_words(self) -> str:
        """What was learned, and from how much, in a few words."""

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """When the error bars hold."""

    @property
    def of_fields(self) -> Margins | None:
        """What of it is about whole fields, and so about averages: all, unless it promises nothing about them."""
        return self

    @abstractmethod
    def around(self, component: Conditioned) -> PlacedMargins:
        """Made ready for questions about any place, given the data of a ``component``."""

    @abstractmethod
    def after(self, added: int) -> Self:
        """The same when so many observations were added to the model, from which nothing was learned."""

    @abstractmethod
    def to_json(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        """As plain JSON values; ``arrays`` is given those of float64 and int64 numbers, by name."""

    @classmethod
    @abstractmethod
    def from_json(cls, content: Any, arrays: Mapping[str, np.ndarray], size: int) -> Self:
        """The same, from what ``to_json`` gave, for a model of ``size`` observations; nothing is taken on trust."""


class PlacedMargins(ABC):
    """Margins that know where the data of a model are."""

    @abstractmethod
    def at(self, test: torch.Tensor, distance: torch.Tensor | None = None) -> Reshape:
        """What becomes of distributions at test points (T, p), at a ``distance`` (T,) from the nearest observation
        where that is known.
        """

    def scale(self, test: torch.Tensor) -> np.ndarray | None:
        """How much larger the errors of the field are at test points (T, p), shape (T,); None if nothing is known."""
        return None


def saved_array(arrays: Mapping[str, np.ndarray], name: str, dtype: str) -> np.ndarray:
    """The array of that name (n,), if it is there and of that type."""
    array = arrays.get(name)
    if array is None or array.ndim != 1 or str(array.dtype) != dtype:
        raise InputError(f"{name} must be an array of {dtype} numbers in the data file")
    return array

"""Checks that only this package needs: fractions, vectors of results, and packages that may be missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..support.validation import ArrayLike, as_float64, real


def fraction(value: Any, name: str) -> float:
    """``value`` as a number strictly between 0 and 1."""
    number = real(value, name)
    if not 0 < number < 1:
        raise InputError(f"{name} must be between 0 and 1, got {value!r}; for 95% write 0.95")
    return number


def vector(values: ArrayLike, name: str, minimum: int = 1, size: int | None = None) -> np.ndarray:
    """``values`` as a read-only float64 copy of shape (n,), n ≥ minimum or n = size, all finite."""
    array = as_float64(values, name).cpu().numpy().copy()
    if array.ndim != 1:
        raise InputError(f"{name} must have one dimension, got shape {array.shape}; use {name}.ravel() to flatten it")
    if size is not None and len(array) != size:
        raise InputError(f"{name} has {len(array)} values for {size} predictions; they must match one by one")
    if len(array) < minimum:
        raise InputError(f"{name} has {len(array)} values, at least {minimum} are needed")
    array.setflags(write=False)
    return array


def probabilities(values: ArrayLike, name: str) -> np.ndarray:
    """``values`` as a float64 array (n,) within [0, 1], as PIT values are."""
    array = vector(values, name)
    outside = (array < 0) | (array > 1)
    if outside.any():
        first = int(outside.argmax())
        raise InputError(
            f"{name} must lie in [0, 1], got {array[first]:g} at index {first}; "
            "the PIT of a normal prediction is Φ((truth − mean) / std)"
        )
    return array

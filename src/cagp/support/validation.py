"""Checks at the door: what a user hands over and cannot be used is refused, with what is wrong and what to do instead.

Nothing is repaired silently.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..errors import InputError, InputTypeError
from .encodings import beyond_limit
from .frames import column_names as column_names
from .frames import frame_numbers, holds_texts, require_exact

ArrayLike = Any
"""Anything that numpy or torch can read as a rectangular array of real numbers."""

_SQUARABLE = 1e150

ROOM = 10.0
"""So many times less than a float type has: squares are summed, and products of two variances occur."""


def as_float64(array: ArrayLike, name: str, device: torch.device | None = None) -> torch.Tensor:
    """``array`` as a float64 tensor, exactly; refuses what has no exact float64 value."""
    tensor = array.detach() if isinstance(array, torch.Tensor) else torch.from_numpy(_as_numpy(array, name))
    if tensor.is_complex():
        raise InputTypeError(f"{name} is complex; cagp works with real numbers: pass the real part you mean")
    if tensor.dtype == torch.int64 and tensor.numel():
        require_exact(int(tensor.abs().max()), name)
    tensor = tensor.to(device=device, dtype=torch.float64)
    if tensor.numel() and not math.isfinite(magnitude(tensor)):
        bad = ~torch.isfinite(tensor)
        first = tuple(int(i) for i in bad.nonzero()[0])
        names = column_names(array)
        where = "" if names is None else f", in column {names[first[1]]!r}"
        raise InputError(
            f"{name} has {int(bad.sum())} values that are NaN or infinite, the first at index {first}{where}; "
            "remove those rows or fill them in first"
        )
    return tensor


def _as_numpy(array: ArrayLike, name: str) -> np.ndarray:
    if isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array):
        raise InputError(
            f"{name} is a masked array with {int(np.ma.getmaskarray(array).sum())} masked values; "
            "remove those rows or fill them in first"
        )
    if hasattr(array, "toarray"):
        raise InputTypeError(f"{name} is sparse, {type(array).__name__}; cagp needs all of it: write {name}.toarray()")
    if column_names(array) is not None:
        return frame_numbers(array, name)
    try:
        converted = np.asarray(array)
    except ValueError as error:
        raise InputTypeError(f"{name} is not a rectangular array: {error}") from error
    if converted.dtype.kind == "O" and all(isinstance(each, (numbers.Real, type(None))) for each in converted.flat):
        whole = (abs(int(each)) for each in converted.flat if isinstance(each, numbers.Integral))
        require_exact(max(whole, default=0), name)
        converted = converted.astype(np.float64)  # None becomes NaN
    if converted.dtype.kind not in "fiubc":
        if converted.dtype.kind == "O" and any(isinstance(row, Mapping) for row in converted.flat):
            rows = name if converted.ndim else f"[{name}]"
            raise InputTypeError(f"{name} has dictionaries; pass a data frame, such as pandas.DataFrame({rows})")
        _require_no_limit(converted, name)
        raise InputTypeError(f"{name} has type {converted.dtype}, which is not numeric; convert it to numbers first")
    if converted.dtype.kind == "f" and converted.dtype.itemsize > 8:
        raise InputTypeError(f"{name} has type {converted.dtype}, wider than float64; convert it to float64 yourself")
    if converted.dtype.kind == "u":
        require_exact(int(converted.max(initial=0)), name)
        converted = converted.astype(np.int64)
    awkward = any(stride < 0 or stride % converted.itemsize for stride in converted.strides)
    if converted.dtype.byteorder not in "=|" or not converted.flags.writeable or awkward:
        converted = np.array(converted, dtype=converted.dtype.newbyteorder("="))
    return converted


def points(X: ArrayLike, name: str, device: torch.device | None = None, columns: int | None = None) -> torch.Tensor:
    """``X`` as points, shape (n, p), n ≥ 1, p ≥ 1, float64, all finite."""
    tensor = as_float64(X, name, device)
    if tensor.ndim != 2:
        remedy = "pass one row a point"
        if tensor.ndim == 1:
            single, many = "reshape(1, -1) makes it one point", "reshape(-1, 1) makes points with one coordinate"
            remedy = single if columns == len(tensor) > 1 else many
        raise InputError(f"{name} must have shape (points, coordinates), got {tuple(tensor.shape)}; {remedy}")
    if tensor.shape[0] == 0 or tensor.shape[1] == 0:
        raise InputError(f"{name} is empty, shape {tuple(tensor.shape)}; at least one point and coordinate are needed")
    if columns is not None and tensor.shape[1] != columns:
        raise InputError(
            f"{name} has {tensor.shape[1]} columns, the training points have {columns}; use the same columns in both"
        )
    return tensor


def targets(y: ArrayLike, n: int, device: torch.device | None = None, name: str = "y") -> torch.Tensor:
    """``y`` as one observation per training point, shape (n,) or (n, 1), float64 (n,), all finite."""
    tensor = as_float64(y, name, device)
    tensor = tensor[:, 0] if tensor.shape == (n, 1) else tensor
    if tensor.ndim != 1:
        raise InputError(
            f"{name} must have shape ({n},), got {tuple(tensor.shape)}; for one column use np.ravel({name})"
        )
    if tensor.shape[0] != n:
        raise InputError(f"{name} has {tensor.shape[0]} values for {n} training points; they must match row by row")
    return tensor


def magnitude(tensor: torch.Tensor) -> float:
    """The largest absolute value of some numbers, NaN where there is one; memory for all of them is not needed."""
    lowest, highest = torch.aminmax(tensor)
    return float(torch.maximum(-lowest, highest))


def squarable(tensor: torch.Tensor, name: str) -> None:
    """Refuse float64 values so large that a variance of them would overflow, or so small that it would vanish."""
    furthest = magnitude(tensor)
    if 0 < furthest < 1 / _SQUARABLE:
        raise InputError(f"{name} has values of magnitude {furthest:g} at most, whose squares vanish; rescale {name}")
    if furthest > _SQUARABLE:
        raise InputError(f"{name} has values of magnitude {furthest:g}, whose squares overflow; rescale {name}")


def largest_squared(dtype: torch.dtype) -> float:
    """The largest coordinate, in lengthscales, and the largest variance that can be squared in this arithmetic."""
    return float(torch.finfo(dtype).max) ** 0.5 / ROOM


def squarable_variance(widest: float, dtype: torch.dtype) -> None:
    """Refuse a variance of an observation under the prior whose square would overflow, or vanish."""
    if not torch.finfo(dtype).tiny ** 0.5 <= widest <= largest_squared(dtype):
        raise InputError(
            f"the variance of an observation under the prior, {widest:g}, has no square in {dtype}; rescale y, and "
            "the kernel and the noise with it"
        )


def outputs(Y: ArrayLike, n: int, device: torch.device | None = None, name: str = "y") -> torch.Tensor:
    """``Y`` as one observation per training point, (n,), or one of each of several outputs, (n, outputs)."""
    tensor = as_float64(Y, name, device)
    if tensor.ndim != 2:
        return targets(tensor, n, device, name)
    if tensor.shape[0] != n or not tensor.shape[1]:
        raise InputError(f"{name} has shape {tuple(tensor.shape)} for {n} training points; they must match row by row")
    return tensor


def _require_no_limit(values: np.ndarray, name: str) -> None:
    """Refuse texts such as "<3.5" among the values."""
    for each in values.ravel().tolist():
        if words := beyond_limit(each):
            raise InputTypeError(f"{name} holds {each!r}, {words}")


def require_numeric(y: Any, name: str) -> None:
    """Refuse texts and dates, which scikit-learn takes for numbers."""
    values = y.to_numpy() if hasattr(y, "to_numpy") else y
    dates = getattr(getattr(values, "dtype", None), "kind", "") in ("M", "m")
    if dates or holds_texts(values):
        _require_no_limit(np.asarray(values), name)
        what = "dates" if dates else "texts"
        raise InputTypeError(f"{name} has {what}, which are not numeric; convert it to numbers first")


def quantities(Y: ArrayLike, n: int, names: Sequence[str] | None = None, name: str = "Y") -> np.ndarray:
    """``Y`` as observations of several quantities at n places, (n, q), float64, NaN where one was not measured.

    ``names`` are those of the quantities, where they are known already.
    """
    found = column_names(Y)
    if names is not None and found is not None and list(found) != list(names):
        raise InputError(f"{name} has the columns {found}, the quantities are {list(names)}; put them in that order")
    given = Y.detach().cpu().numpy() if isinstance(Y, torch.Tensor) else _as_numpy(Y, name)
    if np.iscomplexobj(given):
        raise InputTypeError(f"{name} is complex; cagp works with real numbers: pass the real part you mean")
    if given.ndim != 2 or given.shape[0] != n or given.shape[1] != (given.shape[1] if names is None else len(names)):
        wanted = "quantities" if names is None else len(names)
        raise InputError(f"{name} must have shape ({n}, {wanted}), one row a place, got {given.shape}")
    values = np.array(given, dtype=np.float64)
    if np.isinf(values).any():
        raise InputError(f"{name} has infinite values; write NaN where a quantity was not measured")
    return values


def not_negative_each(value: Any, name: str, n: int, device: torch.device | None = None) -> torch.Tensor:
    """One number ≥ 0, or one per observation, as a tensor (n,)."""
    tensor = as_float64(value, name, device)
    if tensor.shape not in ((), (n,)):
        raise InputError(
            f"{name} has shape {tuple(tensor.shape)} for {n} observations; give one number, or one per observation"
        )
    if bool((tensor < 0).any()):
        raise InputError(f"{name} must not be negative, got {float(tensor.min()):g}")
    return tensor.expand(n).clone()


def positive(value: Any, name: str) -> float:
    """``value`` as a positive finite float."""
    number = real(value, name)
    if not number > 0:
        raise InputError(f"{name} must be positive, got {value!r}")
    return number


def real(value: Any, name: str) -> float:
    """``value`` as a finite float."""
    if type(value) is float and math.isfinite(value):  # most are, and kernels are made anew for every evaluation
        return value
    if isinstance(value, (np.ndarray, torch.Tensor)) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputTypeError(f"{name} must be a real number, got {value!r}")
    if not math.isfinite(value):
        raise InputError(f"{name} must be finite, got {value!r}")
    return float(value)


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


def positive_or_each(value: Any, name: str) -> float | tuple[float, ...]:
    """One positive number, or a tuple of them (one per dimension)."""
    if isinstance(value, (np.ndarray, torch.Tensor)) and value.ndim == 1:
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            raise InputError(f"{name} is empty; give one positive number, or one per dimension")
        return tuple(positive(v, f"{name}[{i}]") for i, v in enumerate(value))
    return positive(value, name)


def count(value: Any, name: str, minimum: int = 0) -> int:
    """``value`` as an integer ≥ minimum, which generators of random numbers and arrays can take."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputTypeError(f"{name} must be an integer, got {value!r}")
    if value < minimum:
        raise InputError(f"{name} must be at least {minimum}, got {value}")
    if (number := int(value)) >= 2**63:
        raise InputError(f"{name} must be below 2**63, got {number:.3g}")
    return number


def whole_numbers(values: Any, name: str) -> tuple[int, ...]:
    """``values`` as a tuple of integers ≥ 0, from any sequence or array; nothing is rounded."""
    return tuple(count(v, name) for v in (values.tolist() if hasattr(values, "tolist") else values))


def choice(value: Any, name: str, options: Sequence[str]) -> str:
    """``value`` as one of ``options``."""
    if not isinstance(value, str) or value not in options:
        raise InputError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}")
    return str(value)

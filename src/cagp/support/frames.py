"""Data frames, of pandas, polars, pyarrow or anything that looks like them: names and columns of numbers.

Yes and no become 1 and 0, dates and times days since 1970-01-01 (in UTC where they have a time zone), a geometry of
points its coordinates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError, InputTypeError
from .coordinate_systems import require_same_system, system_of, without_geometry

DAYS = "days since 1970-01-01"  # the unit of dates and times, in the words of the CF conventions

_EPOCH, _DAY = np.datetime64("1970-01-01", "s"), np.timedelta64(1, "D")


def days_since_1970(values: np.ndarray) -> np.ndarray:
    """datetime64 (n,) as days since 1970-01-01, or timedelta64 (n,) as days: float64, NaN where it is missing."""
    numbers = (values - _EPOCH) / _DAY if values.dtype.kind == "M" else values / _DAY
    return np.where(np.isnat(values), np.nan, numbers)


def column_names(X: Any) -> list[str] | None:
    """The names of the columns of a data frame; None for anything else."""
    X = without_geometry(X, "X")
    names = getattr(X, "column_names", None)  # pyarrow, whose columns are the values
    if isinstance(names, list) and hasattr(X, "column"):
        return names
    names = getattr(X, "columns", None)
    return None if names is None or callable(names) else [str(name) for name in names]


def same_columns(X: Any, name: str, known: list[str] | None, crs: str | None = None) -> None:
    """Refuse a data frame whose columns, or coordinate system, are not those that are ``known``, in the same order."""
    system = system_of(X, name)
    names = column_names(without_geometry(X, name))
    require_same_system(system, crs, name, "the training points")
    if system is not None and known is None and crs is None:
        raise InputError(
            f"{name} has a geometry, and the training points were numbers whose coordinate system is not known; give "
            "the same columns of numbers, or train with a GeoDataFrame"
        )
    if known is not None and names is not None and names != known:
        raise InputError(
            f"{name} has the columns {names}, the training points have {known}; put them in the same order: "
            f"{name}[{known}]"
        )


def frame_numbers(X: Any, name: str) -> np.ndarray:
    """The columns of a data frame side by side, float64 (n, p), NaN where a value is missing."""
    X = without_geometry(X, name)
    names = column_names(X)
    assert names is not None
    numbers = np.empty((len(X), len(names)), order="F")
    for i, each in enumerate(names):
        numbers[:, i] = _numbers(_column(X, i, each), f"the column {each!r} of {name}")
    return numbers


def dated_columns(X: Any) -> list[str]:
    """The names of the columns of a data frame that hold dates or times."""
    X = without_geometry(X, "X")
    names = column_names(X) or []
    return [each for i, each in enumerate(names) if _values(_column(X, i, each)[:1]).dtype.kind in "Mm"]


def told_about(X: Any) -> str:
    """What is made of the dates in a data frame, in words; nothing where there are none."""
    dates = dated_columns(X)
    return f"Dates and times in {', '.join(map(repr, dates))} are counted in {DAYS}." if dates else ""


def plain(X: Any, name: str) -> Any:
    """X itself, or for a data frame with dates or a geometry one of numbers: days since 1970-01-01, coordinates."""
    X = without_geometry(X, name)
    names = column_names(X)
    if names is None or all(_values(_column(X, i, each)[:0]).dtype.kind in "fiub" for i, each in enumerate(names)):
        return X
    numbers = frame_numbers(X, name)
    make = getattr(type(X), "from_pydict", type(X))  # as pyarrow calls it; to pandas and polars it is their own name
    return make({each: numbers[:, i] for i, each in enumerate(names)})


def require_exact(largest: int, said: str) -> None:
    """Refuse integers of which the ``largest`` in magnitude has no exact float64 value."""
    if largest > 2**53:
        raise InputError(
            f"{said} holds integers beyond 2**53, which float64 cannot represent; subtract an offset first"
        )


def _column(X: Any, i: int, name: str) -> Any:
    return X.iloc[:, i] if hasattr(X, "iloc") else X[name]


def _values(column: Any) -> np.ndarray:
    """A column as NumPy has it; of pandas' own types those that NumPy has no equal of."""
    kind = getattr(column, "dtype", None)
    if getattr(kind, "tz", None) is not None:
        return np.asarray(column.to_numpy(dtype="datetime64[ns]"))
    if kind is not None and not isinstance(kind, np.dtype) and getattr(kind, "kind", "O") in "fiub":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _numbers(column: Any, said: str) -> np.ndarray:
    values = _values(column)
    if values.dtype.kind in "Mm":
        return days_since_1970(values)
    if values.dtype.kind == "O" and all(each is None or isinstance(each, (bool, int, float)) for each in values):
        values = np.array([np.nan if each is None else float(each) for each in values])
    if values.dtype.kind in "iu":
        require_exact(max(int(values.max(initial=0)), -int(values.min(initial=0))), said)
    if values.dtype.kind not in "fiub" or values.dtype.itemsize > 8:
        example = f" such as {values[0]!r}" if len(values) else ""
        raise InputTypeError(
            f"{said} has type {values.dtype}, with values{example}, which is not numeric; convert it to numbers first: "
            "categories to columns of 0 and 1, for example with scikit-learn's OneHotEncoder"
        )
    return values.astype(np.float64)

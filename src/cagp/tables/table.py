"""Named columns of numbers, and the checks that every file format shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import TableError
from ..support.spelling import suggestion

_EXACT_INTEGERS = 2**53


@dataclass(frozen=True)
class Grid:
    """The grid that rows came from: ``dims`` with their ``shape``, and the coordinates as xarray has them."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    coordinates: Any


@dataclass(frozen=True)
class RawColumns:
    """A file whose columns are known and whose values are not read yet.

    ``take(names)`` reads columns as float64, NaN where missing. ``dims`` names the dimensions of each column of a grid:
    a column that is its own only dimension is a coordinate. ``globe`` is the pair (latitude, longitude) where the
    file itself says which columns these are. ``attributes`` are the texts that a file has about a column.
    """

    path: Path
    names: tuple[str, ...]
    take: Callable[[Sequence[str]], Mapping[str, np.ndarray]]
    units: Mapping[str, str] = field(default_factory=dict)
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    globe: tuple[str, str] | None = None
    grid_of: Callable[[Sequence[str]], Grid | None] = lambda names: None
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Columns (n,) of float64 by name, all finite. ``rows`` (n,) are their places in the file, counted from 0.

    ``dropped`` rows had missing values and were left out, as asked. ``grid`` is the grid that the rows came from.
    """

    path: Path
    columns: Mapping[str, np.ndarray]
    units: Mapping[str, str]
    rows: np.ndarray
    dropped: int = 0
    grid: Grid | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Table({self.path.name!r}, {len(self)} rows, {', '.join(self.columns)})"

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        """These columns side by side, shape (n, len(names))."""
        return np.column_stack([self.columns[name] for name in names])


def check_names(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Column names that can be told apart."""
    if not names:
        raise TableError(f"{path} has no columns")
    for i, name in enumerate(names):
        if not name.strip():
            raise TableError(f"{path}: column {i + 1} has no name; give every column a name in the first line")
        if names.index(name) != i:
            raise TableError(f"{path} has two columns called {name!r}; rename one of them")
    return tuple(names)


def select(raw: RawColumns, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The names asked for, all of which must be there."""
    if columns is None:
        return raw.names
    missing = [name for name in columns if name not in raw.names]
    if missing:
        raise TableError(
            f"{raw.path} has no column {', '.join(map(repr, missing))}; it has {', '.join(map(repr, raw.names))}"
            + suggestion(missing[0], raw.names)
        )
    if len(set(columns)) != len(columns):
        raise TableError(f"the same column is asked for twice: {', '.join(columns)}")
    return tuple(columns)


def cleaned(raw: RawColumns, names: Sequence[str], drop_missing: bool) -> Table:
    """The columns, checked: nothing infinite, nothing missing, or the rows where something is missing left out."""
    columns = dict(raw.take(names))
    n = len(next(iter(columns.values())))
    if not n:
        raise TableError(f"{raw.path} has column names but no rows")
    missing = np.zeros(n, dtype=bool)
    first: str | None = None
    for name, values in columns.items():
        infinite = np.isinf(values)
        if infinite.any():
            row = int(infinite.argmax())
            raise TableError(f"{raw.path}: column {name!r} is infinite in row {row + 1}; replace it or leave it empty")
        gaps = np.isnan(values)
        if first is None and gaps.any():
            first = f"{int(gaps.sum())} missing values in column {name!r}, the first in row {int(gaps.argmax()) + 1}"
        missing |= gaps
    kept = np.flatnonzero(~missing)
    if first is not None and not drop_missing:
        raise TableError(
            f"{raw.path} has {first} (rows are counted from 1, without the line of names), in {n - len(kept)} of {n} "
            "rows; fill them in, or leave these rows out with --drop-missing"
        )
    if not len(kept):
        raise TableError(f"{raw.path}: every row has a missing value in one of {', '.join(names)}")
    if first is not None:
        columns = {name: values[kept] for name, values in columns.items()}
    units = {name: raw.units[name] for name in names if name in raw.units}
    return Table(raw.path, columns, units, kept, n - len(kept), raw.grid_of(names))


def exact(values: np.ndarray, path: Path, name: str) -> np.ndarray:
    """Integers as float64, refused where that would change them."""
    if values.dtype.kind in "iu" and values.size:
        largest = max(abs(int(values.max())), abs(int(values.min())))
        if largest > _EXACT_INTEGERS:
            raise TableError(too_large(path, name, largest))
    return np.ascontiguousarray(values, dtype=np.float64)


def too_large(path: Path, name: str, value: object) -> str:
    """The message about an integer that float64 cannot hold."""
    return (
        f"{path}: column {name!r} holds the integer {value}, beyond 2**53, which float64 cannot represent; "
        "subtract an offset first, or leave the column out"
    )


def short(error: Exception) -> str:
    """What a library said, on one line."""
    return " ".join(str(error).split())[:200]

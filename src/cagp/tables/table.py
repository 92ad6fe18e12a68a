"""Named columns of numbers, and the checks that every file format shares."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch

from ..errors import TableError
from ..support.advice import suggestion
from ..support.encodings import Encoding, different
from ..support.memory import available_bytes, human
from ..support.numbers import listed

_NAMED = 5  # so many further columns with gaps are named


@dataclass(frozen=True)
class Grid:
    """The grid that rows came from: ``dims`` with their ``shape``, and the coordinates as xarray has them."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    coordinates: Any


Taken: TypeAlias = tuple[dict[str, Any], tuple[str, ...]]
"""Columns (n,) of float64, NaN where missing, datetime64, or texts as Arrow has them; and notes on the reading."""


@dataclass(frozen=True)
class RawColumns:
    """A file whose columns are known and whose values are read by ``take(names)``.

    ``dims`` names the dimensions of each column of a grid, ``globe`` the columns (latitude, longitude) where the file
    says so. ``attributes`` are the texts that it has about a column. ``place_of(row)`` says where a row stands. ``crs``
    is the coordinate system of a geometry, whose coordinates are columns, or of the two columns ``coordinates``.
    ``as_is(names)`` are columns (n,) to be written again, whatever they hold; None where that cannot be.
    """

    path: Path
    names: tuple[str, ...]
    take: Callable[[Sequence[str]], Taken]
    units: Mapping[str, str] = field(default_factory=dict)
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    globe: tuple[str, str] | None = None
    grid_of: Callable[[Sequence[str]], Grid | None] = lambda names: None
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    place_of: Callable[[int], str] = lambda row: f"row {row + 1}"
    crs: str | None = None
    coordinates: tuple[str, ...] = ()
    as_is: Callable[[Sequence[str]], dict[str, np.ndarray]] | None = None

    def unfit(self, name: str, words: str) -> TableError:
        """The refusal of a column."""
        return TableError(f"{self.path}: column {name!r} {words}")

    def refused(self, name: str, row: int, held: Any, words: str) -> TableError:
        """The refusal of what a column holds in a row."""
        return self.unfit(name, f"holds {held!r} in {self.place_of(row)}, {words}")

    def remedy(self, name: str, as_categories: bool) -> str:
        """How to leave a column out and, ``as_categories``, how to say that it holds these."""
        return f"leave the column out (--exclude {name!r})" + (f", or say --categories {name!r}" * as_categories)


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Columns (n,) of float64 by name, all finite. ``rows`` (n,) are their places in the file, counted from 0.

    ``dropped`` rows had missing values. ``grid`` is what the rows came from; ``encodings`` say how columns became
    numbers, ``given`` are these as the file has them. ``notes`` say what was assumed and done.
    """

    path: Path
    columns: Mapping[str, np.ndarray]
    units: Mapping[str, str]
    rows: np.ndarray
    dropped: int = 0
    grid: Grid | None = None
    encodings: tuple[Encoding, ...] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Table({self.path.name!r}, {len(self)} rows, {', '.join(self.columns)})"

    def matrix(self, names: Sequence[str]) -> np.ndarray:
        """These columns side by side, shape (n, len(names))."""
        return np.column_stack([self.columns[name] for name in names])


def largest_table() -> tuple[int, str]:
    """How many bytes a table may have once it is unpacked, and why: a small file may claim to hold terabytes."""
    said = os.environ.get("CAGP_LARGEST_TABLE")
    if said is None:
        return available_bytes(torch.device("cpu")), "the memory that is free"
    try:
        return int(float(said)), "what CAGP_LARGEST_TABLE says"
    except (ValueError, OverflowError):
        raise TableError(f"CAGP_LARGEST_TABLE must be a number of bytes, got {said!r}") from None


def too_much(path: Path, words: str, why: str) -> TableError:
    """The refusal of a table that needs more than ``largest_table``."""
    remedy = "take fewer of its columns or rows, or set the environment variable CAGP_LARGEST_TABLE to more bytes"
    return TableError(f"{path} {words}, {why}; {remedy}")


def require_room(path: Path, n_bytes: float) -> None:
    """Refuse a table before that much of it is read."""
    largest, why = largest_table()
    if n_bytes > largest:
        raise too_much(path, f"takes {human(n_bytes)}, more than {human(largest)}", why)


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
    if missing := [name for name in columns if name not in raw.names]:
        raise TableError(
            f"{raw.path} has no column {', '.join(map(repr, missing))}; it has {', '.join(map(repr, raw.names))}"
            + suggestion(missing[0], raw.names)
        )
    if len(set(columns)) != len(columns):
        raise TableError(f"the same column is asked for twice: {', '.join(columns)}")
    return tuple(columns)


def missing_in(values: Any) -> np.ndarray:
    """Where a column has no value, shape (n,)."""
    if not isinstance(values, np.ndarray):
        return np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)
    return np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)


def taken_at(values: Any, rows: np.ndarray) -> Any:
    """The values of a column in these rows."""
    return values[rows] if isinstance(values, np.ndarray) else values.take(rows)


def coded(values: Any) -> tuple[list[str], np.ndarray]:
    """The different values of a column as texts, and which of them each row has, (n,): -1 where it is missing."""
    if not isinstance(values, np.ndarray):
        found = values.combine_chunks().dictionary_encode()
        return found.dictionary.to_pylist(), found.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return different(values)


def without(values: Any, gone: np.ndarray) -> Any:
    """A column of texts with nothing in the rows that are ``gone`` (n,); other columns as they are."""
    if isinstance(values, np.ndarray):
        return values
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.if_else(pa.array(gone), pa.scalar(None, pa.string()), values)


def complete(
    raw: RawColumns,
    numbers: Mapping[str, np.ndarray],
    given: Mapping[str, Any],
    drop_missing: bool,
    quantities: Sequence[str] = (),
    sources: Mapping[str, str] | None = None,
    remedy: str = "fill them in",
) -> tuple[dict[str, np.ndarray], dict[str, Any], np.ndarray]:
    """Columns and given columns in the rows (n,) without gaps; refuses what is infinite, and gaps or drops them.

    Of ``quantities`` one is enough. ``sources`` are the columns of the file that numbers were made of, where they have
    other names, ``remedy`` is what is to be done of gaps but to drop them.
    """
    for name, values in numbers.items():
        if (infinite := np.isinf(values)).any():
            place = raw.place_of(int(infinite.argmax()))
            raise TableError(f"{raw.path}: column {name!r} is infinite in {place}; replace it or leave it empty")
    gaps = one_is_enough({name: np.isnan(values) for name, values in numbers.items()}, quantities)
    missing = np.logical_or.reduce(list(gaps.values()))
    kept = np.flatnonzero(~missing)
    if not missing.any():
        return dict(numbers), dict(given), kept
    if not drop_missing:
        counts = {(sources or {}).get(name, name): where for name, where in gaps.items() if where.any()}
        (name, where), *others = counts.items()
        named = listed([f"{each.sum()} in {name!r}" for name, each in others[:_NAMED]])
        more = f", {named}" + (f" and more in {len(others) - _NAMED} others" if len(others) > _NAMED else "")
        raise TableError(
            f"{raw.path} has {where.sum()} missing values in column {name!r}, the first in "
            f"{raw.place_of(int(where.argmax()))}{more if others else ''}, in {missing.sum()} of {len(missing)} rows; "
            f"{remedy}, or leave these rows out with --drop-missing"
        )
    if not len(kept):
        raise TableError(f"{raw.path}: every row has a missing value in one of {', '.join(numbers)}")
    found = {name: values[kept] for name, values in numbers.items()}
    return found, {name: taken_at(values, kept) for name, values in given.items()}, kept


def one_is_enough(gaps: dict[str, np.ndarray], quantities: Sequence[str]) -> dict[str, np.ndarray]:
    """Where columns have gaps (n,), those of ``quantities`` only where all of them have one."""
    if not quantities:
        return gaps
    none = np.logical_and.reduce([gaps[name] for name in quantities])
    return gaps | {name: none for name in quantities}


def exact(values: np.ndarray, path: Path, name: str) -> np.ndarray:
    """Integers as float64, refused where that would change them."""
    if values.dtype.kind in "iu" and values.size:
        largest = max(abs(int(values.max())), abs(int(values.min())))
        if largest > 2**53:
            raise too_large(path, name, largest)
    return np.ascontiguousarray(values, dtype=np.float64)


def too_large(path: Path, name: str, value: object) -> TableError:
    """The refusal of an integer that float64 cannot hold."""
    why = "beyond 2**53, which float64 cannot represent; subtract an offset first, or leave the column out"
    said = str(value) if len(str(value)) <= 40 else f"{str(value)[:40]}…"
    return TableError(f"{path}: column {name!r} holds the integer {said}, {why}")


def unreadable(path: Path, kind: str, error: Exception, why: str = "truncated") -> TableError:
    """The refusal of a file that a library cannot read, with what it said, on one line."""
    return TableError(f"{path} cannot be read as {kind} ({' '.join(str(error).split())[:200]}); it is damaged or {why}")

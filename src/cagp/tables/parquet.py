"""Parquet files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import TableError
from ..support.atomic_files import whole_file
from .table import RawColumns, check_names, exact

_UNITS = b"units"


def read(path: Path) -> RawColumns:
    """The columns of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableError(
            f"{path} cannot be read as Parquet ({error}); it is damaged, truncated or another kind"
        ) from error
    given = {each.name: each.metadata[_UNITS] for each in schema if _UNITS in (each.metadata or {})}
    units = {name: unit.decode("utf-8", "replace") for name, unit in given.items()}
    names = [name for name in schema.names if not name.startswith("__index_level_")]  # of a data frame, without a name
    return RawColumns(path, check_names(path, names), partial(_take, path), units)


def _take(path: Path, names: Sequence[str]) -> Mapping[str, np.ndarray]:
    import pyarrow as pa
    from pyarrow import parquet

    schema = parquet.read_schema(path)
    for name in names:
        kind = schema.field(name).type
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        if not numeric:
            raise TableError(
                f"{path}: column {name!r} has the type {kind}, which is not numeric; turn it into numbers, or leave "
                "the column out (--exclude)"
            )
    try:
        table = parquet.read_table(path, columns=list(names), partitioning=None)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableError(f"{path} cannot be read as Parquet ({error}); it is damaged or truncated") from error
    columns = {}
    for name in names:
        column = table.column(name)
        if pa.types.is_integer(column.type):
            exact(column.drop_null().to_numpy(), path, name)
        elif pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        columns[name] = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    return columns


def labels(path: Path, name: str) -> list[Any]:
    """A column of labels as Python's values, None where there is none."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        column = parquet.read_table(path, columns=[name], partitioning=None).column(name)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise TableError(f"{path} cannot be read as Parquet ({error}); it is damaged or truncated") from error
    return [None if isinstance(label, float) and math.isnan(label) else label for label in column.to_pylist()]


def write(path: Path, columns: Mapping[str, np.ndarray], units: Mapping[str, str], notes: Mapping[str, object]) -> None:
    """Write columns as Parquet, units with the columns and notes with the file."""
    import pyarrow as pa
    from pyarrow import parquet

    fields = []
    for name, values in columns.items():
        about = {_UNITS: units[name]} if name in units else None
        fields.append(pa.field(name, pa.array(values[:0]).type, metadata=about))
    schema = pa.schema(fields, metadata={name: str(note) for name, note in notes.items()} or None)
    with whole_file(path) as temporary:
        parquet.write_table(pa.table(dict(columns), schema=schema), temporary)

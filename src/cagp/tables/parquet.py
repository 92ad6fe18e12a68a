"""Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import TableError
from ..support.atomic_files import whole_file
from .table import RawColumns, Taken, check_names, exact, require_room, unreadable

_UNITS = b"units"


def read(path: Path) -> RawColumns:
    """The columns of a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        schema = parquet.read_schema(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(path, "Parquet", error, "another kind") from error
    units = {f.name: f.metadata[_UNITS].decode("utf-8", "replace") for f in schema if _UNITS in (f.metadata or {})}
    names = [name for name in schema.names if not name.startswith("__index_level_")]  # of a data frame, without a name
    return RawColumns(path, check_names(path, names), partial(_take, path), units, as_is=partial(_as_is, path))


def has_geometry(path: Path) -> bool:
    """Whether it is a GeoParquet file, which has a geometry; what cannot be read has none."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return b"geo" in (parquet.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError, ValueError):
        return False


def _take(path: Path, names: Sequence[str]) -> Taken:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        require_room(path, 8.0 * len(names) * parquet.read_metadata(path).num_rows)
        table = parquet.read_table(path, columns=list(names), partitioning=None)
    except TableError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(path, "Parquet", error) from error
    return {name: column_values(path, name, table.column(name)) for name in names}, ()


def _as_is(path: Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The columns as they are; as texts what would not come back."""
    from pyarrow import parquet

    found = {}
    for name, column in zip(names, parquet.read_table(path, columns=list(names), partitioning=None), strict=True):
        values = column.to_numpy()
        whole = values.dtype.kind == "f" and str(column.type).lstrip("u").startswith("int")  # with gaps
        if whole or values.dtype.kind not in "biufM" or getattr(column.type, "tz", None):  # a zone would be lost
            values = np.array([None if each is None else str(each) for each in column.to_pylist()], dtype=object)
        found[name] = values
    return found


def column_values(path: Path, name: str, column: Any) -> Any:
    """Numbers as float64 (n,), dates as datetime64 (n,), texts as an Arrow column."""
    import pyarrow as pa

    types, kind = pa.types, column.type
    if types.is_dictionary(kind):
        return column_values(path, name, column.cast(kind.value_type))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return column.cast(pa.string())
    if types.is_timestamp(kind) or types.is_date(kind):
        return np.asarray(column.to_numpy(), dtype="datetime64[us]")
    if types.is_integer(kind):
        exact(column.drop_null().to_numpy(), path, name)
    elif types.is_boolean(kind):
        column = column.cast(pa.int8())
    elif not (types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)):
        remedy = "turn it into numbers, or leave the column out (--exclude)"
        raise TableError(f"{path}: column {name!r} has the type {kind}, which is not numeric; {remedy}")
    return np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)


def write(path: Path, columns: Mapping[str, np.ndarray], units: Mapping[str, str], notes: Mapping[str, object]) -> None:
    """Write columns as Parquet, units with the columns and notes with the file."""
    import pyarrow as pa
    from pyarrow import parquet

    fields = []
    for name, values in columns.items():
        about = {_UNITS: units[name]} if name in units else None
        kind = pa.string() if values.dtype.kind == "O" else pa.from_numpy_dtype(values.dtype)
        fields.append(pa.field(name, kind, metadata=about))
    schema = pa.schema(fields, metadata={name: str(note) for name, note in notes.items()} or None)
    with whole_file(path) as temporary:
        parquet.write_table(pa.table(dict(columns), schema=schema), temporary)

"""CSV files, plain or compressed with gzip; names in the first line."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import TableError
from ..support.atomic_files import whole_file
from .csv_layout import Layout, is_number, layout_of
from .number_texts import as_numbers
from .table import RawColumns, Taken, missing_in, short, taken_at, too_large

_MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "-nan", "-NaN", "#N/A")
_LOOKED_AT = 200
_INTEGER = re.compile(r"[+-]?\d{16,}")


def read(path: Path) -> RawColumns:
    """The columns of a CSV file."""
    layout = layout_of(path)
    return RawColumns(path, layout.names, partial(_take, layout), place_of=layout.place_of)


def _take(layout: Layout, names: Sequence[str]) -> Taken:
    """Columns of numbers as float64 (n,), all others as Arrow texts without spaces around them."""
    import pyarrow as pa

    path, numeric = layout.path, _numeric_at_first(layout, names)
    columns: dict[str, Any] = {}
    try:
        if numeric:
            table = _parsed(layout, dict.fromkeys(numeric, pa.float64()))
            columns = {name: table.column(i).to_numpy(zero_copy_only=False) for i, name in enumerate(numeric)}
    except pa.ArrowInvalid:
        numeric = []
    except (OSError, KeyError, ValueError) as error:
        raise TableError(f"{path} cannot be read as CSV ({short(error)}); it is damaged or truncated") from error
    notes = list(layout.notes)
    if len(numeric) < len(names):
        texts, layout = _texts(layout, [name for name in names if name not in numeric])
        notes = list(layout.notes)
        for name, column in texts.items():
            numbers, how = as_numbers(column, layout.delimiter == ",", layout.decimal)
            columns[name] = column if numbers is None else numbers.to_numpy(zero_copy_only=False)
            if how and layout.decimal == ".":
                notes.append(f"The numbers of {name!r} are read with {how}.")
        columns = {name: columns[name] for name in names}
    columns, empty = _without_empty_rows(layout, columns)
    if empty:
        notes.append(f"{empty} of its rows are empty and skipped.")
    for name, values in columns.items():
        if isinstance(values, np.ndarray) and len(values) and np.nanmax(np.abs(values), initial=0.0) >= 2**53:
            _refuse_inexact(layout, name)
    return Taken(columns, tuple(f"{path}: {note}" for note in notes))


def _numeric_at_first(layout: Layout, names: Sequence[str]) -> list[str]:
    """Those of the columns that have nothing but numbers in the first rows, so that texts need not be kept of them."""
    rows = [fields for _, fields in islice(layout.rows(), _LOOKED_AT)]

    def numeric(i: int) -> bool:
        fields = [row[i].strip() for row in rows if i < len(row)]
        return all(f in _MISSING or is_number(f.replace(layout.decimal, ".")) for f in fields)

    return [name for name in names if numeric(layout.names.index(name))]


def _texts(layout: Layout, names: Sequence[str]) -> tuple[dict[str, Any], Layout]:
    """The columns as trimmed texts, missing ones null; and the layout, in another encoding where UTF-8 was wrong."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        table = _parsed(layout, dict.fromkeys(names, pa.string()))
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error) and layout.encoding == "utf-8-sig":
            note = "It is not encoded in UTF-8 and read as Windows-1252 (Latin-1)."
            return _texts(dataclasses.replace(layout, encoding="cp1252", notes=(note, *layout.notes)), names)
        wrong = layout.ragged() or f"it cannot be read as CSV ({short(error)}); it is damaged or another kind of file"
        raise TableError(f"{layout.path}: {wrong}") from error
    except (OSError, KeyError, ValueError) as error:
        raise TableError(f"{layout.path} cannot be read as CSV ({short(error)}); it is damaged") from error
    found = {}
    for i, name in enumerate(names):
        column = pc.utf8_trim_whitespace(table.column(i))
        missing = pc.is_in(column, value_set=pa.array(_MISSING))
        found[name] = pc.if_else(missing, pa.scalar(None, pa.string()), column)
    return found, layout


def _parsed(layout: Layout, kinds: Mapping[str, Any]) -> Any:
    """Columns of Arrow types, in the order asked for; exact: floats are rounded correctly."""
    from pyarrow import csv as arrow

    wanted = {str(layout.names.index(name)): kind for name, kind in kinds.items()}
    return arrow.read_csv(
        layout.path,
        read_options=arrow.ReadOptions(
            column_names=[str(i) for i in range(layout.width)],
            skip_rows=layout.skipped,
            skip_rows_after_names=1,
            encoding="utf8" if layout.encoding == "utf-8-sig" else layout.encoding,
        ),
        # a line without anything is a missing value where there is one column, and no row where there are more
        parse_options=arrow.ParseOptions(
            delimiter=layout.delimiter, ignore_empty_lines=layout.width > 1, newlines_in_values=True
        ),
        convert_options=arrow.ConvertOptions(
            include_columns=list(wanted),
            column_types=wanted,
            null_values=list(_MISSING),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            decimal_point=layout.decimal,
        ),
    )


def _without_empty_rows(layout: Layout, columns: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """The columns without rows that have nothing in any column of the file, and how many these were."""
    if len(layout.names) == 1:
        return columns, 0
    empty = np.logical_and.reduce([missing_in(each) for each in columns.values()])
    others = [name for name in layout.names if name not in columns]
    if empty.any() and others:
        found, _ = _texts(layout, others)
        empty &= np.logical_and.reduce([missing_in(each) for each in found.values()])
    if not empty.any():
        return columns, 0
    kept = np.flatnonzero(~empty)
    return {name: taken_at(values, kept) for name, values in columns.items()}, int(empty.sum())


def _refuse_inexact(layout: Layout, name: str) -> None:
    texts, _ = _texts(layout, [name])
    for text in texts[name].to_pylist():
        if text is not None and _INTEGER.fullmatch(text) and int(text) != int(float(text)):
            raise TableError(too_large(layout.path, name, text))


def write(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Write columns as CSV; numbers come back exactly."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    table = pa.table(dict(columns))
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(columns)  # Arrow would quote every name
    options = arrow.WriteOptions(include_header=False, quoting_style="needed")
    create = gzip.open if path.name.lower().endswith(".gz") else open
    with whole_file(path) as temporary, create(temporary, "wb") as file:
        file.write(header.getvalue().encode())
        arrow.write_csv(table, file, options)

"""CSV files, plain or compressed with gzip: comma-separated, UTF-8, names in the first line, decimal points."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import TableError
from ..support.atomic_files import whole_file
from .table import RawColumns, check_names, short, too_large

_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "-nan", "-NaN", "#N/A")
_INTEGER = re.compile(r"[+-]?\d{16,}")


def _opened(path: Path) -> IO[str]:
    """For the first line: other lines may have other encodings in columns that are never looked at."""
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")
    return open(path, encoding="utf-8-sig", errors="surrogateescape", newline="")


def read(path: Path) -> RawColumns:
    """The columns of a CSV file."""
    try:
        with _opened(path) as file:
            names = next(csv.reader(file, strict=True), [])
            ",".join(names).encode()
    except UnicodeEncodeError as error:
        raise TableError(f"{path}: the names of the columns are not UTF-8 text; save the file as UTF-8") from error
    except (csv.Error, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise TableError(f"{path} cannot be read as CSV ({error})") from error
    if len(names) == 1 and (other := next((c for c in ";\t|" if c in names[0]), None)):
        raise TableError(f"{path} seems to be separated by {other!r}, not by commas; save it with commas")
    if names and all(_is_number(name) for name in names):
        raise TableError(
            f"{path} begins with numbers ({', '.join(names[:3])}, …) where the names of the columns should be; "
            "add a first line with names, such as x1,x2,y"
        )
    return RawColumns(path, check_names(path, names), partial(_take, path, len(names)))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _take(path: Path, width: int, names: Sequence[str]) -> Mapping[str, np.ndarray]:
    import pyarrow as pa

    try:
        table = _parsed(path, names, width, pa.float64())
    except pa.ArrowInvalid as error:
        raise TableError(_complaint(path, names, width, error)) from error
    except (OSError, KeyError) as error:
        raise TableError(f"{path} cannot be read as CSV ({short(error)}); it is damaged or truncated") from error
    columns = {name: table.column(name).to_numpy(zero_copy_only=False) for name in names}
    for name, values in columns.items():
        if len(values) and np.nanmax(np.abs(values), initial=0.0) >= 2**53:
            _refuse_inexact(path, name, width)
    return columns


def _parsed(path: Path, names: Sequence[str], width: int, kind: Any) -> Any:
    """The columns as the Arrow type ``kind``; exact: floats are rounded correctly, rows must have ``width`` fields."""
    from pyarrow import csv as arrow

    return arrow.read_csv(
        path,
        # a line without anything is a missing value where there is one column, and no row where there are more
        parse_options=arrow.ParseOptions(ignore_empty_lines=width > 1, newlines_in_values=True),
        convert_options=arrow.ConvertOptions(
            include_columns=list(names),
            column_types=dict.fromkeys(names, kind),
            null_values=list(_MISSING),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )


def labels(path: Path, raw: RawColumns, name: str) -> list[str | None]:
    """A column of labels as texts, None where there is none."""
    import pyarrow as pa

    try:
        texts = _parsed(path, [name], len(raw.names), pa.string()).column(name).to_pylist()
    except (pa.ArrowInvalid, OSError) as error:
        raise TableError(f"{path} cannot be read as CSV ({short(error)})") from error
    return [None if text is None else text.strip() for text in texts]


def _complaint(path: Path, names: Sequence[str], width: int, error: Exception) -> str:
    """What is wrong with a file that did not come out as numbers: the first text that is none, or the layout."""
    import pyarrow as pa

    with suppress(pa.ArrowInvalid):
        texts = _parsed(path, names, width, pa.string())
        for name in names:
            for row, text in enumerate(texts.column(name).to_pylist(), start=1):
                if text is not None and not _is_number(text):
                    return (
                        f"{path}: column {name!r} is not numeric, in row {row} (counted from 1, without the line of "
                        f"names) it holds {text[:40]!r}; turn it into numbers, or leave the column out (--exclude)"
                    )
    return f"{path} cannot be read as CSV: {short(error)}"


def _refuse_inexact(path: Path, name: str, width: int) -> None:
    import pyarrow as pa

    for text in _parsed(path, [name], width, pa.string()).column(name).to_pylist():
        if text is not None and _INTEGER.fullmatch(text.strip()) and int(text) != int(float(text)):
            raise TableError(too_large(path, name, text.strip()))


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

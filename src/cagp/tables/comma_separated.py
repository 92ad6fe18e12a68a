"""CSV files, plain or compressed with gzip: how one is laid out, and its columns."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import TableError
from ..support.atomic_files import whole_file
from ..support.encodings import is_number
from ..support.memory import human
from .table import RawColumns, Taken, check_names, largest_table, missing_in, taken_at, too_large, too_much, unreadable
from .texts import as_numbers

_MISSING = ("", "NA", "N/A", "n/a", "N.A.", "n.a.", "NaN", "nan", "null", "NULL", "None", "-nan", "-NaN", "#N/A")
_MOST_PACKED = 1032  # bytes that one byte of a compressed file may stand for
_DIGITS = 300  # of integers that float64 may have
_INTEGER = re.compile(r"[+-]?\d{16,}")

# The comma comes last: where another one cuts every line alike, commas are decimal commas or part of a text.
_DELIMITERS = {"\t": "tabs", ";": "semicolons", "|": "vertical bars", ",": "commas"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a cell begins with that a spreadsheet runs
_ESCAPED = r"^'([=+\-@\t\r])"  # such a cell as it is written
_SAMPLE = 200  # so many rows say how a file is laid out
_BYTES = 1 << 18
_DAMAGED = (csv.Error, gzip.BadGzipFile, zlib.error, EOFError)
_WESTERN = "It is not encoded in UTF-8 and read as Windows-1252 (Latin-1)."
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
_DECIMAL_POINT = re.compile(r"\s*[+-]?(\d*\.\d{1,2}|\d*\.\d{4,}|\d{4,}\.\d+|0\.\d+)\s*")


@dataclass(frozen=True)
class Layout:
    """How a file is written: rows have ``width`` fields, ``names`` for all but empty ones at the end of them."""

    path: Path
    encoding: str
    delimiter: str
    decimal: str
    names: tuple[str, ...]
    width: int
    skipped: int
    notes: tuple[str, ...]

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        try:
            with _text(self.path, self.encoding) as file:
                reader = csv.reader(file, delimiter=self.delimiter)
                for fields in reader:
                    yield reader.line_num, fields
        except _DAMAGED as error:
            raise unreadable(self.path, "CSV", error) from error

    def place_of(self, row: int) -> str:
        """Where a row, counted from 0 below the names, stands in the file, in words."""
        single = len(self.names) == 1  # which may be empty in a row
        rows = (line for line, fields in self._lines() if any(map(str.strip, fields)) or (single and len(fields) <= 1))
        line = next(islice(rows, row + 1, None), None)
        return f"row {row + 1}" if line is None else f"row {row + 1} (line {line} of the file)"

    def ragged(self) -> str | None:
        """What is wrong with the first line that has too many fields or too few; None where there is none."""
        for line, fields in islice(self._lines(), self.skipped + 1, None):
            if fields and len(fields) != self.width:
                extra = "" if len(fields) < self.width else f", the last of them {fields[-1][:40]!r} in no column"
                return (
                    f"line {line} has {len(fields)} fields where {self.width} are expected{extra}: the columns are "
                    f"{', '.join(map(repr, self.names))}; complete the line, or put quotes around a text that has "
                    f"{self.delimiter!r} in it"
                )
        return None


def _is_packed(path: Path) -> bool:
    return path.name.lower().endswith(".gz")


def _opened(path: Path, mode: str, **options: Any) -> Any:
    """A file, plain or compressed."""
    create: Any = gzip.open if _is_packed(path) else open
    return create(path, mode, **options)


def _text(path: Path, encoding: str) -> IO[str]:
    return _opened(path, "rt", encoding=encoding, errors="replace", newline="")


def _layout_of(path: Path) -> Layout:
    """The layout that the first rows of a file have."""
    try:
        encoding, notes = _encoding(path)
        with _text(path, encoding) as file:
            lines = file.read(_BYTES)
        delimiter, rows, skipped = _cut(lines)
    except _DAMAGED as error:
        raise unreadable(path, "CSV", error, "another kind of file") from error
    if not rows:
        raise TableError(f"{path} has no columns: all of its lines are empty")
    header, body = rows[0], rows[1:]
    names = [re.sub(_ESCAPED, r"\1", name) for name in header]
    while len(names) > 1 and not names[-1].strip() and _empty_from(body, len(names) - 1):
        del names[-1]
    width, widths = len(header), {len(row) for row in body}
    if len(widths) == 1 and len(names) <= min(widths) <= width + 1 and _empty_from(body, len(names)):
        width = min(widths)  # a delimiter at the end of every row, or of the names alone, begins no column
    if names and all(is_number(name) for name in names):
        raise TableError(
            f"{path} begins with numbers ({', '.join(names[:3])}, …) where the names of the columns should be; "
            "add a first line with names, such as x1,x2,y"
        )
    decimal = "."
    if delimiter != ",":
        notes.append(f"Its columns are separated by {_DELIMITERS[delimiter]}.")
        fields = [field for row in body for field in row]
        if any(_DECIMAL_COMMA.fullmatch(f) for f in fields) and not any(_DECIMAL_POINT.fullmatch(f) for f in fields):
            decimal = ","
            notes.append("Its numbers have decimal commas.")
    return Layout(path, encoding, delimiter, decimal, check_names(path, names), width, skipped, tuple(notes))


def _empty_from(rows: list[list[str]], column: int) -> bool:
    """Whether nothing stands in this column and those after it."""
    return not any(field.strip() for row in rows for field in row[column:])


def _encoding(path: Path) -> tuple[str, list[str]]:
    """UTF-8, UTF-16 by its mark, or else the encoding that Windows uses in western Europe."""
    with _opened(path, "rb") as file:
        start = file.read(_BYTES)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16", ["It is encoded in UTF-16."]
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4 or len(start) < _BYTES:
            return "cp1252", [_WESTERN]
    return "utf-8-sig", []


def _cut(text: str) -> tuple[str, list[list[str]], int]:
    """The delimiter that cuts the lines alike, the first rows cut by it, and how many lines before them are empty."""
    lines = text.splitlines(keepends=True)
    skipped = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    cut, share = {}, {}
    for delimiter in _DELIMITERS:
        rows = list(islice(csv.reader(lines[skipped:], delimiter=delimiter), _SAMPLE))
        if len(text) >= _BYTES and len(rows) < _SAMPLE:
            del rows[max(1, len(rows) - 1) :]  # the last one may be cut off
        cut[delimiter] = rows = [row for row in rows if any(field.strip() for field in row)]
        wide = len(rows[0]) if rows else 0
        alike = (wide, wide + 1) if wide and rows[0][-1].strip() else (wide - 1, wide)
        share[delimiter] = sum(len(row) in alike for row in rows) / len(rows) if wide > 1 else 0.0
    best = max(_DELIMITERS, key=lambda delimiter: share[delimiter])
    best = best if share[best] else ","
    next(csv.reader(lines[skipped:], delimiter=best, strict=True), None)  # refuses quotes that are not closed
    return best, cut[best], skipped


def read(path: Path) -> RawColumns:
    """The columns of a CSV file."""
    layout = _layout_of(path)
    if _is_packed(path):
        _require_room(path)
    return RawColumns(
        path, layout.names, partial(_take, layout), place_of=layout.place_of, as_is=partial(_as_is, layout)
    )


def _require_room(path: Path) -> None:
    """Refuse a compressed file that unpacks to more than a table may have."""
    largest, why = largest_table()
    if path.stat().st_size * _MOST_PACKED <= largest:
        return
    try:
        with gzip.open(path, "rb") as file:
            file.seek(largest)
            more = file.read(1)
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(path, "CSV", error) from error
    if more:
        raise too_much(path, f"unpacks to more than {human(largest)}", why)


def _take(layout: Layout, names: Sequence[str]) -> Taken:
    """Columns of numbers as float64 (n,), all others as Arrow texts without spaces around them."""
    import pyarrow as pa

    columns: dict[str, Any] = {}
    notes: list[str] = []
    try:
        table = _parsed(layout, dict.fromkeys(names, pa.float64()))
        columns = {name: table.column(i).to_numpy(zero_copy_only=False) for i, name in enumerate(names)}
    except pa.ArrowInvalid:  # not all of them are plain numbers
        texts, layout = _texts(layout, names)
        for name, column in texts.items():
            numbers, how = as_numbers(column, layout.delimiter == ",", layout.decimal)
            columns[name] = column if numbers is None else numbers.to_numpy(zero_copy_only=False)
            if how and layout.decimal == ".":
                notes.append(f"The numbers of {name!r} are read with {how}.")
    columns, empty = _without_empty_rows(layout, columns)
    if empty:
        notes.append(f"{empty} of its rows are empty and skipped.")
    for name, values in columns.items():
        if isinstance(values, np.ndarray) and len(values) and np.nanmax(np.abs(values), initial=0.0) >= 2**53:
            for text in _texts(layout, [name])[0][name].drop_null().to_pylist():
                if _INTEGER.fullmatch(text) and (len(text) > _DIGITS or int(text) != int(float(text))):
                    raise too_large(layout.path, name, text)
    return columns, tuple(f"{layout.path}: {note}" for note in (*layout.notes, *notes))


def _texts(layout: Layout, names: Sequence[str]) -> tuple[dict[str, Any], Layout]:
    """The columns as trimmed texts, missing ones null; and the layout, in another encoding where UTF-8 was wrong."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        table = _parsed(layout, dict.fromkeys(names, pa.string()))
    except pa.ArrowInvalid as error:
        if "UTF8" in str(error) and layout.encoding == "utf-8-sig":
            return _texts(replace(layout, encoding="cp1252", notes=(_WESTERN, *layout.notes)), names)
        if wrong := layout.ragged():
            raise TableError(f"{layout.path}: {wrong}") from error
        raise unreadable(layout.path, "CSV", error, "another kind of file") from error
    found = {}
    for i, name in enumerate(names):
        column = pc.replace_substring_regex(pc.utf8_trim_whitespace(table.column(i)), _ESCAPED, r"\1")
        missing = pc.is_in(column, value_set=pa.array(_MISSING))
        found[name] = pc.if_else(missing, pa.scalar(None, pa.string()), column)
    return found, layout


def _as_is(layout: Layout, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The columns as texts; numbers with decimal commas as numbers, which are written with points."""
    import pyarrow.compute as pc

    texts, _ = _without_empty_rows(layout, _texts(layout, names)[0])
    found = {}
    for name, column in texts.items():
        commas = layout.decimal == "," and pc.any(pc.match_substring(column, ",")).as_py()
        numbers = as_numbers(column, False, ",")[0] if commas else None
        kind = object if numbers is None else np.float64
        found[name] = np.array((column if numbers is None else numbers).to_pylist(), dtype=kind)
    return found


def _parsed(layout: Layout, kinds: Mapping[str, Any]) -> Any:
    """Columns of Arrow types, in the order asked for; exact: floats are rounded correctly."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    wanted = {str(layout.names.index(name)): kind for name, kind in kinds.items()}
    read = arrow.ReadOptions(
        column_names=[str(i) for i in range(layout.width)],
        skip_rows=layout.skipped,
        skip_rows_after_names=1,
        encoding="utf8" if layout.encoding == "utf-8-sig" else layout.encoding,
    )
    # a line without anything is a missing value where there is one column, and no row where there are more
    parse = arrow.ParseOptions(delimiter=layout.delimiter, ignore_empty_lines=layout.width > 1, newlines_in_values=True)
    convert = arrow.ConvertOptions(
        include_columns=list(wanted),
        column_types=wanted,
        null_values=list(_MISSING),
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
        decimal_point=layout.decimal,
    )
    try:
        return arrow.read_csv(layout.path, read, parse, convert)
    except pa.ArrowInvalid:
        raise
    except (OSError, KeyError, ValueError) as error:
        raise unreadable(layout.path, "CSV", error) from error


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


def write(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Write columns as CSV, texts and names as ``_shown`` has them; read here, all come back exactly as they were."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    written = {}
    for name, values in columns.items():
        texts = values.dtype.kind in "OU"
        own = np.array([_shown(each) for each in values.tolist()], dtype=object) if texts else values
        # NaN is an empty field, but where it would be an empty line, which nobody reads
        written[name] = pa.array(own, from_pandas=len(columns) > 1)
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(map(_shown, columns))  # Arrow would quote every name
    options = arrow.WriteOptions(include_header=False, quoting_style="needed")
    with whole_file(path) as temporary, _opened(temporary, "wb") as file:
        file.write(header.getvalue().encode())
        arrow.write_csv(pa.table(written), file, options)


def _shown(value: Any) -> Any:
    """What is written: a text that a spreadsheet would run, as it begins with = and the like, behind an apostrophe."""
    harmless = not isinstance(value, str) or value[:1] not in _FORMULA or is_number(value)
    return value if harmless else f"'{value}"

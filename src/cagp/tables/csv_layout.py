"""How a CSV file is laid out: its encoding, what separates its fields, its names, and which line a row stands in."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO

from ..errors import TableError
from .table import check_names

_DELIMITERS = ("\t", ";", "|", ",")
"""The comma comes last: where another one cuts every line alike, commas are decimal commas or part of a text."""

_SAMPLE = 200
"""So many rows say how a file is laid out."""

_BYTES = 1 << 18
_DAMAGED = (csv.Error, gzip.BadGzipFile, zlib.error, EOFError)
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
_DECIMAL_POINT = re.compile(r"\s*[+-]?(\d*\.\d{1,2}|\d*\.\d{4,}|\d{4,}\.\d+|0\.\d+)\s*")


@dataclass(frozen=True)
class Layout:
    """``names`` of the columns, of which there are ``width`` in every row: empty ones at the end have no name.

    ``skipped`` empty lines stand before the names; ``notes`` say what was assumed.
    """

    path: Path
    encoding: str
    delimiter: str
    decimal: str
    names: tuple[str, ...]
    width: int
    skipped: int
    notes: tuple[str, ...]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows below the names with the number of the line that each ends in; without empty ones."""
        return islice((each for each in self._lines() if self.is_row(each[1])), 1, None)

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        try:
            with opened(self.path, self.encoding) as file:
                reader = csv.reader(file, delimiter=self.delimiter)
                for fields in reader:
                    yield reader.line_num, fields
        except _DAMAGED as error:
            raise TableError(f"{self.path} cannot be read as CSV ({error}); it is damaged or truncated") from error

    def is_row(self, fields: list[str]) -> bool:
        """Whether these fields are a row: a single column may be empty, several may not all be."""
        return any(each.strip() for each in fields) or (len(self.names) == 1 and len(fields) <= 1)

    def place_of(self, row: int) -> str:
        """Where a row, counted from 0, stands in the file, in words."""
        line = next((line for line, _ in islice(self.rows(), row, row + 1)), None)
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


def opened(path: Path, encoding: str, errors: str = "replace") -> IO[str]:
    """A file of text, plain or compressed."""
    if path.name.lower().endswith(".gz"):
        return gzip.open(path, "rt", encoding=encoding, errors=errors, newline="")
    return open(path, encoding=encoding, errors=errors, newline="")


def layout_of(path: Path) -> Layout:
    """The layout that the first rows of a file have."""
    try:
        encoding, notes = _encoding(path)
        with opened(path, encoding) as file:
            lines = file.read(_BYTES)
        delimiter, rows, skipped = _cut(lines)
    except _DAMAGED as error:
        raise TableError(f"{path} cannot be read as CSV ({error}); it is damaged or another kind of file") from error
    if not rows:
        raise TableError(f"{path} has no columns: all of its lines are empty")
    header, body = rows[0], rows[1:]
    names = list(header)
    while len(names) > 1 and not names[-1].strip() and _empty_from(body, len(names) - 1):
        del names[-1]
    width = len(header)
    widths = {len(row) for row in body}
    if len(widths) == 1 and len(names) <= min(widths) <= width + 1 and _empty_from(body, len(names)):
        width = min(widths)  # a delimiter at the end of every row, or of the names alone, begins no column
    if names and all(is_number(name) for name in names):
        raise TableError(
            f"{path} begins with numbers ({', '.join(names[:3])}, …) where the names of the columns should be; "
            "add a first line with names, such as x1,x2,y"
        )
    decimal = "."
    if delimiter != ",":
        notes.append(f"Its columns are separated by {_WORDS[delimiter]}.")
        fields = [field for row in body for field in row]
        if any(_DECIMAL_COMMA.fullmatch(f) for f in fields) and not any(_DECIMAL_POINT.fullmatch(f) for f in fields):
            decimal = ","
            notes.append("Its numbers have decimal commas.")
    return Layout(path, encoding, delimiter, decimal, check_names(path, names), width, skipped, tuple(notes))


_WORDS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}


def _empty_from(rows: list[list[str]], column: int) -> bool:
    """Whether nothing stands in this column and those after it."""
    return not any(field.strip() for row in rows for field in row[column:])


def _encoding(path: Path) -> tuple[str, list[str]]:
    """UTF-8, UTF-16 by its mark, or else the encoding that Windows uses in western Europe."""
    create = gzip.open if path.name.lower().endswith(".gz") else open
    with create(path, "rb") as file:
        start = file.read(_BYTES)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16", ["It is encoded in UTF-16."]
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4 or len(start) < _BYTES:
            return "cp1252", ["It is not encoded in UTF-8 and read as Windows-1252 (Latin-1)."]
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


def is_number(text: str) -> bool:
    """Whether a text is a number as Python writes it; 1_000 and digits of other scripts are not, for Arrow neither."""
    if "_" in text or not text.isascii():
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True

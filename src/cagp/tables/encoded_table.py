"""The columns of a file as numbers, by what a model knows about columns that are not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import TableError
from ..saving import Encoding
from ..support.frames import DAYS
from .columns import encoded, fill_in
from .table import RawColumns, Table, Taken, complete


def sources_of(columns: Sequence[str], encodings: Sequence[Encoding]) -> list[str]:
    """The columns of the file that these are made of: a feature may be one of several that a column becomes."""
    owners = {feature: each.column for each in encodings for feature in each.features}
    sources: list[str] = []
    for name in columns:
        source = owners.get(name, name)
        if source not in sources or name not in owners:
            sources.append(source)
    return sources


def encoded_table(raw: RawColumns, taken: Taken, encodings: Mapping[str, Encoding | None], drop_missing: bool) -> Table:
    """The columns as numbers, missing ones filled in where that was asked for, and complete."""
    if not len(next(iter(taken.columns.values()), ())):
        raise TableError(f"{raw.path} has column names but no rows")
    numbers: dict[str, np.ndarray] = {}
    imputed: dict[str, np.ndarray] = {}
    units, notes = {}, list(taken.notes)
    for name, values in taken.columns.items():
        encoding = encodings.get(name)
        made = encoded(raw, encoding, values, name)
        if (where := fill_in(encoding, made)) is not None:
            imputed[name] = where
        numbers |= made
        if name in raw.units:
            units[name] = raw.units[name]
        elif (encoding is not None and encoding.kind == "date") or _is_date(values):
            units[name] = DAYS
    complete_numbers, given, rows = complete(raw, numbers, taken.columns, drop_missing)
    for name, where in imputed.items():
        encoding = encodings[name]
        if (count := int(where[rows].sum())) and encoding is not None:
            notes.append(f"{count} missing values of {name!r} are filled in by {encoding.fill!r}, as --impute asked.")
    return Table(
        raw.path,
        complete_numbers,
        units,
        rows,
        len(next(iter(numbers.values()))) - len(rows),
        raw.grid_of(list(taken.columns)),
        tuple(each for each in encodings.values() if each is not None),
        {name: values if isinstance(values, np.ndarray) else _objects(values) for name, values in given.items()},
        tuple(notes),
    )


def _is_date(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype.kind == "M"


def _objects(texts: Any) -> np.ndarray:
    return np.array(texts.to_pylist(), dtype=object)

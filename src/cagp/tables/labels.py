"""Tables whose rows belong to groups: a column of labels, texts or numbers, beside those of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import TableError
from ..saving import Encoding
from .encoded_table import encoded_table, sources_of
from .table import RawColumns, Table, Taken, missing_in, select, taken_at


def read_labelled(
    raw: RawColumns,
    columns: Sequence[str],
    by: str,
    *,
    drop_missing: bool = False,
    encodings: Sequence[Encoding] = (),
) -> tuple[Table, np.ndarray, int]:
    """The rows of a file that have a label in the column ``by``: their columns, their labels (n,), how many have none.

    Labels are numbers where all of them are. What else may be missing is refused, as ``read_table`` does; what is
    missing in a row without a label does not matter.
    """
    names = select(raw, sources_of(list(dict.fromkeys(columns)), encodings))
    taken = raw.take(select(raw, [*names, by]))
    outside = missing_in(taken.columns[by])
    inside = np.flatnonzero(~outside)
    if not len(inside):
        raise TableError(f"{raw.path}: no row has a label in column {by!r}")
    some = Taken({name: taken_at(taken.columns[name], inside) for name in names}, taken.notes)
    there = replace(raw, grid_of=lambda names: None, place_of=lambda row: raw.place_of(int(inside[row])))
    table = encoded_table(there, some, dict.fromkeys(names) | {each.column: each for each in encodings}, drop_missing)
    rows = inside[table.rows]
    return replace(table, rows=rows), as_labels(taken_at(taken.columns[by], rows)), int(outside.sum())


def as_labels(labels: Any) -> np.ndarray:
    """Labels (n,) as whole numbers, numbers or texts: the first of these that all of them are."""
    values = labels if isinstance(labels, np.ndarray) else labels.to_pylist()
    try:
        numbers = np.array([float(label) for label in values])
    except (TypeError, ValueError):
        return np.array([str(label) for label in values])
    if not np.isfinite(numbers).all():
        return np.array([str(label) for label in values])
    whole = numbers.astype(np.int64)
    return whole if (whole == numbers).all() else numbers

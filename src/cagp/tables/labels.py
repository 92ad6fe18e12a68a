"""Tables whose rows belong to groups: a column of labels, texts or numbers, beside those of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import TableError
from . import comma_separated, parquet
from .table import RawColumns, Table, cleaned, select


def read_labelled(
    raw: RawColumns, columns: Sequence[str], by: str, *, drop_missing: bool = False
) -> tuple[Table, np.ndarray, int]:
    """The rows of a file that have a label in the column ``by``: their columns, their labels (n,), how many have none.

    Labels are numbers where all of them are. What else may be missing is refused, as ``read_table`` does.
    """
    select(raw, [by])
    names = tuple(dict.fromkeys(select(raw, columns)))
    labels, taken = _labels(raw, names, by)
    inside = np.array([label is not None for label in labels])
    if not inside.any():
        raise TableError(f"{raw.path}: no row has a label in column {by!r}")
    # what is missing in a row without a label does not matter
    filled = {name: np.where(inside, values, 0.0) for name, values in taken.items()}
    table = cleaned(replace(raw, take=lambda wanted: {name: filled[name] for name in wanted}), names, drop_missing)
    kept = inside[table.rows]
    table = replace(
        table, columns={name: values[kept] for name, values in table.columns.items()}, rows=table.rows[kept], grid=None
    )
    if not len(table):
        raise TableError(f"{raw.path}: every row with a label has a missing value in one of {', '.join(names)}")
    return table, as_labels([labels[row] for row in table.rows]), int((~inside).sum())


def _labels(raw: RawColumns, names: tuple[str, ...], by: str) -> tuple[list[Any], dict[str, np.ndarray]]:
    """The label of each row of the file, or None, and the columns."""
    ending = Path(raw.path).name.lower()
    if ending.endswith(".nc"):
        both = dict(raw.take(tuple(dict.fromkeys((*names, by)))))
        return [None if np.isnan(each) else float(each) for each in both[by]], {name: both[name] for name in names}
    texts = parquet.labels(raw.path, by) if ending.endswith(".parquet") else comma_separated.labels(raw.path, raw, by)
    return texts, dict(raw.take(names))


def as_labels(labels: Sequence[Any]) -> np.ndarray:
    """Labels (n,) as whole numbers, numbers or texts: the first of these that all of them are."""
    try:
        numbers = np.array([float(label) for label in labels])
    except (TypeError, ValueError):
        return np.array([str(label) for label in labels])
    if not np.isfinite(numbers).all():
        return np.array([str(label) for label in labels])
    whole = numbers.astype(np.int64)
    return whole if (whole == numbers).all() else numbers

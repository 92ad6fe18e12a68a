"""What a column holds, and the ``Encoding`` by which it becomes numbers, which a fit learns and a saved model keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import TableError
from ..support.encodings import Encoding, beyond_limit, category, is_number, yes_or_no
from ..support.frames import DAYS, days_since_1970
from .table import RawColumns, Table, Taken, coded, complete, missing_in
from .texts import TWO_DIGIT_YEAR, dates_in, form_of

_SAY_WHICH = "say which with --dates day-first or --dates month-first, or write dates as 2024-04-03"
_WRITE = "write dates as 2024-04-03"
_TURN = "turn it into numbers, or leave the column out (--exclude)"


@dataclass(frozen=True)
class ColumnsAsked:
    """Which columns are ``categories``, whether slashed dates have the ``day_first``, whether features are imputed."""

    categories: tuple[str, ...] = ()
    day_first: bool | None = None
    impute: bool = False


def learned(raw: RawColumns, name: str, values: Any, asked: ColumnsAsked, *, target: bool = False) -> Encoding:
    """How a column becomes numbers, and what fills its gaps: the median, or the most frequent level of a category.

    Refuses what is of no known kind, and a ``target`` that is neither numbers nor yes and no.
    """
    gaps = missing_in(values)
    if gaps.all():
        return Encoding(name, "number")
    if target and not isinstance(values, np.ndarray) and not yes_or_no(_texts_in(values)):
        raise _not_numeric(raw, name, values, "correct it or leave it empty")
    found = _kind(raw, name, values, asked)
    if not asked.impute:
        return found
    if found.kind == "category":
        texts, codes = coded(values)
        return replace(found, fill=texts[int(np.bincount(codes[~gaps], minlength=len(texts)).argmax())])
    return replace(found, fill=float(np.median(encoded(raw, found, values)[name][~gaps])))


def _texts_in(values: Any) -> set[str]:
    """The different texts in an Arrow column, in small letters."""
    return {str(each).lower() for each in values.drop_null().unique().to_pylist()}


def _kind(raw: RawColumns, name: str, values: Any, asked: ColumnsAsked) -> Encoding:
    if name in asked.categories:
        return _category(raw, name, values, asked=True)
    if isinstance(values, np.ndarray):
        return Encoding(name, "date" if values.dtype.kind == "M" or raw.units.get(name) == DAYS else "number")
    distinct = _texts_in(values)
    if yes_or_no(distinct):
        return Encoding(name, "boolean")
    row = int((~missing_in(values)).argmax())
    first = values[row].as_py()
    if form_of(first) is not None:
        _, day_first, zoned = dates_in(raw, name, values, asked.day_first, _SAY_WHICH)
        return Encoding(name, "date", day_first=day_first, zoned=zoned)
    if TWO_DIGIT_YEAR.fullmatch(first):
        raise raw.refused(name, row, first, "whose century is not said; write years with four digits")
    if any(is_number(each) for each in distinct):
        raise _not_numeric(raw, name, values, f"{_TURN}, or say --categories {name!r} if all of it are categories")
    return _category(raw, name, values, asked=False)


def _category(raw: RawColumns, name: str, values: Any, *, asked: bool) -> Encoding:
    if isinstance(values, np.ndarray) and (infinite := np.isinf(values)).any():
        row = int(infinite.argmax())
        raise raw.refused(name, row, values[row].item(), "which is no category; replace it or leave it empty")
    levels, codes = coded(values)
    return category(name, levels, codes, raw, asked=asked)


def encoded(raw: RawColumns, encoding: Encoding, values: Any) -> dict[str, np.ndarray]:
    """The features (n,) that a column becomes, by their names; NaN where it is missing."""
    name = encoding.column
    if encoding.kind == "number":
        return {name: _numbers(raw, name, values)}
    if encoding.kind == "date":
        return {name: _days(raw, encoding, values)}
    texts, codes = coded(values)
    if encoding.kind == "category":
        return encoding.indicators(texts, codes, raw)
    return {name: encoding.truths(texts, codes, raw)}


def _not_numeric(raw: RawColumns, name: str, values: Any, remedy: str = _TURN) -> TableError:
    """The refusal of a column of texts where numbers are needed: where the first text stands."""
    texts = values.to_pylist()
    row = next(i for i, text in enumerate(texts) if text is not None and not is_number(text))
    where, limit = f"in {raw.place_of(row)} it holds {texts[row][:40]!r}", beyond_limit(texts[row])
    what = f", {limit}" if limit else f"; {remedy}"
    return TableError(f"{raw.path}: column {name!r} is not numeric, {where}{what}")


def _numbers(raw: RawColumns, name: str, values: Any) -> np.ndarray:
    if not isinstance(values, np.ndarray):
        raise _not_numeric(raw, name, values)
    return days_since_1970(values) if values.dtype.kind == "M" else values.copy()


def _days(raw: RawColumns, encoding: Encoding, values: Any) -> np.ndarray:
    name = encoding.column
    if isinstance(values, np.ndarray):
        if values.dtype.kind != "M" and raw.units.get(name) != DAYS and not np.isnan(values).all():
            place = raw.place_of(int((~np.isnan(values)).argmax()))
            raise TableError(f"{raw.path}: column {name!r} holds a number in {place}, the model has dates; {_WRITE}")
        return _numbers(raw, name, values)
    dates, _, zoned = dates_in(raw, name, values, encoding.day_first, _WRITE)
    if encoding.zoned is not None and zoned != encoding.zoned:
        raise TableError(
            f"{raw.path}: the dates in column {name!r} have {'a' if zoned else 'no'} time zone, those that the model "
            f"was fitted to have {'one' if encoding.zoned else 'none'}; write them alike"
        )
    return days_since_1970(dates)


def encoded_table(
    raw: RawColumns,
    taken: Taken,
    encodings: Sequence[Encoding],
    drop_missing: bool,
    quantities: Sequence[str] = (),
    **gaps: str,
) -> Table:
    """The columns as numbers, missing ones filled in where that was asked for, and complete; of ``quantities`` one is
    enough. ``gaps`` are for ``complete``.
    """
    given, told = taken
    if not len(next(iter(given.values()), ())):
        raise TableError(f"{raw.path} has column names but no rows")
    known = {each.column: each for each in encodings}
    numbers: dict[str, np.ndarray] = {}
    filled: dict[str, np.ndarray] = {}
    sources: dict[str, str] = {}
    units, notes = {}, list(told)
    for name, values in given.items():
        encoding = known.get(name) or Encoding(name, "number")
        made = encoded(raw, encoding, values)
        filled[name] = encoding.filled(made)
        numbers |= made
        sources |= dict.fromkeys(made, name)
        dated = encoding.kind == "date" or (isinstance(values, np.ndarray) and values.dtype.kind == "M")
        if dated or name in raw.units:
            units[name] = raw.units.get(name, DAYS)
    columns, given, rows = complete(raw, numbers, given, drop_missing, quantities, sources, **gaps)
    for name, where in filled.items():
        if count := int(where[rows].sum()):
            some = f"{count:,} missing value{'s' * (count > 1)} of {name!r} {'are' if count > 1 else 'is'} filled in by"
            notes.append(f"{some} {known[name].filling} of the data that the model is fitted to (--impute).")
    for name, values in given.items():
        given[name] = values if isinstance(values, np.ndarray) else np.array(values.to_pylist(), dtype=object)
    dropped, grid = len(next(iter(numbers.values()))) - len(rows), raw.grid_of(list(given))
    return Table(raw.path, columns, units, rows, dropped, grid, tuple(encodings), given, tuple(notes))

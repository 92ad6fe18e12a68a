"""What a column holds, and the ``Encoding`` by which it becomes numbers, which a fit learns and a saved model keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..errors import TableError
from ..saving import Encoding
from ..support.frames import DAYS, days_since_1970
from .table import RawColumns, Table, Taken, coded, complete, missing_in
from .texts import TWO_DIGIT_YEAR, dates_in, form_of, is_number

MOST_LEVELS = 50  # a text column with more different values is not taken for categories
_WORDS = (("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"), ("off", "on"))
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
    if target and not isinstance(values, np.ndarray) and not _yes_or_no(_texts_in(values)):
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


def _yes_or_no(texts: set[str]) -> bool:
    return any(texts <= set(pair) for pair in _WORDS)


def _kind(raw: RawColumns, name: str, values: Any, asked: ColumnsAsked) -> Encoding:
    if name in asked.categories:
        return _category(raw, name, values, asked=True)
    if isinstance(values, np.ndarray):
        return Encoding(name, "date" if values.dtype.kind == "M" or raw.units.get(name) == DAYS else "number")
    distinct = _texts_in(values)
    if _yes_or_no(distinct):
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
    rows, column = int((codes >= 0).sum()), f"{raw.path}: column {name!r}"
    remedy = f"leave the column out (--exclude {name!r})" + ("" if asked else f", or say --categories {name!r}")
    if len(levels) > MOST_LEVELS and not asked:
        raise TableError(f"{column} has {len(levels)} different texts, too many categories; {remedy}")
    if len(levels) == rows > 2 and not asked:
        row = int((codes >= 0).argmax())
        raise TableError(
            f"{column} is not numeric, and its {rows} texts all differ, the first is {levels[codes[row]]!r} in "
            f"{raw.place_of(row)}, so that they say nothing about other rows; {remedy}"
        )
    if len(levels) == 1:
        raise TableError(f"{column} has one category only, {levels[0]!r}; {remedy}")
    return Encoding(name, "category", tuple(sorted(levels)))


def encoded(raw: RawColumns, encoding: Encoding, values: Any) -> dict[str, np.ndarray]:
    """The features (n,) that a column becomes, by their names; NaN where it is missing."""
    name = encoding.column
    if encoding.kind == "number":
        return {name: _numbers(raw, name, values)}
    if encoding.kind == "date":
        return {name: _days(raw, encoding, values)}
    gaps = missing_in(values)
    if encoding.kind == "boolean":
        return {name: np.where(gaps, np.nan, _truths(raw, name, values, gaps))}
    texts, codes = coded(values)
    if unseen := [i for i, text in enumerate(texts) if text not in encoding.levels]:
        row = int(np.isin(codes, unseen).argmax())
        words = f"a category that the model has never seen, it knows {', '.join(map(repr, encoding.levels))}"
        remedy = "leave such rows out, or fit again with data that have it"
        raise raw.refused(name, row, texts[codes[row]], f"{words}; {remedy}")
    place = {text: i for i, text in enumerate(texts)}
    pairs = zip(encoding.features, encoding.shown, strict=True)
    return {feature: np.where(gaps, np.nan, codes == place.get(level, len(texts))) for feature, level in pairs}


def in_words(encoding: Encoding) -> str:
    """What is told about a column that became numbers; nothing about plain ones."""
    name = encoding.column
    if encoding.kind == "category":
        shown = ", ".join(map(repr, encoding.levels[:6])) + (", …" if len(encoding.levels) > 6 else "")
        return (
            f"{name!r} holds {len(encoding.levels)} categories ({shown}), one feature of 0 and 1 for each but "
            f"{encoding.levels[0]!r}, where all are 0."
        )
    if encoding.kind == "date":
        order = {None: "", True: ", read with the day first", False: ", read with the month first"}[encoding.day_first]
        zone = ", times in UTC" if encoding.zoned else ""
        return f"{name!r} holds dates{order}: days since 1970-01-01{zone}."
    return f"{name!r} holds yes and no, as 1 and 0." if encoding.kind == "boolean" else ""


def _not_numeric(raw: RawColumns, name: str, values: Any, remedy: str = _TURN) -> TableError:
    """The refusal of a column of texts where numbers are needed: where the first text stands."""
    texts = values.to_pylist()
    row = next(i for i, text in enumerate(texts) if text is not None and not is_number(text))
    where = f"in {raw.place_of(row)} it holds {texts[row][:40]!r}"
    return TableError(f"{raw.path}: column {name!r} is not numeric, {where}; {remedy}")


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


def _truths(raw: RawColumns, name: str, values: Any, gaps: np.ndarray) -> np.ndarray:
    if isinstance(values, np.ndarray):
        no, yes = values == 0.0, values == 1.0
    else:
        texts, codes = coded(values)
        no, yes = (
            np.isin(codes, [i for i, text in enumerate(texts) if text.lower() in words])
            for words in zip(*_WORDS, strict=True)
        )
    wrong = ~(no | yes | gaps)
    if wrong.any():
        row = int(wrong.argmax())
        held = values[row].item() if isinstance(values, np.ndarray) else values[row].as_py()
        raise raw.refused(name, row, held, "where the model has yes and no; write true or false")
    return yes.astype(np.float64)


def sources_of(columns: Sequence[str], encodings: Sequence[Encoding]) -> list[str]:
    """The columns of the file that these are made of: a feature may be one of several that a column becomes."""
    owners = {feature: each.column for each in encodings for feature in each.features}
    sources: list[str] = []
    for name in columns:
        source = owners.get(name, name)
        if source not in sources or name not in owners:
            sources.append(source)
    return sources


def encoded_table(raw: RawColumns, taken: Taken, encodings: Sequence[Encoding], drop_missing: bool) -> Table:
    """The columns as numbers, missing ones filled in where that was asked for, and complete."""
    given, told = taken
    if not len(next(iter(given.values()), ())):
        raise TableError(f"{raw.path} has column names but no rows")
    known = {each.column: each for each in encodings}
    numbers: dict[str, np.ndarray] = {}
    filled: dict[str, np.ndarray] = {}
    units, notes = {}, list(told)
    for name, values in given.items():
        encoding = known.get(name) or Encoding(name, "number")
        made = encoded(raw, encoding, values)
        if encoding.fill is not None:
            filled[name] = gaps = np.isnan(made[encoding.features[0]])
            for feature, level in zip(encoding.features, encoding.shown or (None,), strict=True):
                made[feature][gaps] = encoding.fill if level is None else float(encoding.fill == level)
        numbers |= made
        dated = encoding.kind == "date" or (isinstance(values, np.ndarray) and values.dtype.kind == "M")
        if dated or name in raw.units:
            units[name] = raw.units.get(name, DAYS)
    columns, given, rows = complete(raw, numbers, given, drop_missing)
    for name, where in filled.items():
        if count := int(where[rows].sum()):
            notes.append(
                f"{count} missing values of {name!r} are filled in by {known[name].fill!r}, as --impute asked."
            )
    for name, values in given.items():
        given[name] = values if isinstance(values, np.ndarray) else np.array(values.to_pylist(), dtype=object)
    dropped, grid = len(next(iter(numbers.values()))) - len(rows), raw.grid_of(list(given))
    return Table(raw.path, columns, units, rows, dropped, grid, tuple(encodings), given, tuple(notes))

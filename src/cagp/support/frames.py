"""Data frames, of pandas, polars, pyarrow or anything that looks like them: names, and columns as features.

Yes and no become 1 and 0, dates and times days since 1970-01-01 (in UTC where they have a time zone), a geometry of
points its coordinates, categories, where an ``Encoding`` was learned, one feature of 0 and 1 for each but the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from ..errors import InputError, InputTypeError
from .coordinate_systems import coordinate_names, coordinate_units, system_of, without_geometry
from .encodings import Encoding, beyond_limit, category, different, is_number, sources_of, yes_or_no
from .numbers import listed

DAYS = "days since 1970-01-01"  # the unit of dates and times, in the words of the CF conventions

_WHERE_NUMBERS = "where the model has numbers"
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}")  # how a text begins that is one
_CATEGORICAL = ("CategoricalDtype", "Categorical", "Enum", "DictionaryType")  # in pandas, polars and pyarrow

_EPOCH, _DAY = np.datetime64("1970-01-01", "s"), np.timedelta64(1, "D")


def days_since_1970(values: np.ndarray) -> np.ndarray:
    """datetime64 (n,) as days since 1970-01-01, or timedelta64 (n,) as days: float64, NaN where it is missing."""
    numbers = (values - _EPOCH) / _DAY if values.dtype.kind == "M" else values / _DAY
    return np.where(np.isnat(values), np.nan, numbers)


def column_names(X: Any) -> list[str] | None:
    """The names of the columns of a data frame; None for anything else."""
    X = without_geometry(X, "X")
    names = getattr(X, "column_names", None)  # pyarrow, whose columns are the values
    if isinstance(names, list) and hasattr(X, "column"):
        return names
    names = getattr(X, "columns", None)
    return None if names is None or callable(names) else [str(name) for name in names]


def series_name(y: Any) -> str | None:
    """The name of a series; None for what has none."""
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else None


def without_target(X: Any, y: Any) -> tuple[Any, Any]:
    """A data frame without the columns that y names, one or a list of them, and these; anything else as it is."""
    names = [y] if isinstance(y, str) else list(y) if isinstance(y, (list, tuple)) else []
    columns = {str(name): name for name in getattr(X, "columns", ())} if hasattr(X, "iloc") else column_names(X)
    if not names or not all(isinstance(each, str) for each in names):
        return X, y
    if columns is None or not all(each in columns for each in names):
        if not isinstance(y, str) and not (columns and any(each in columns for each in names)):
            return X, y  # observations that are texts
        has = "is no data frame" if columns is None else f"has the columns {[*columns]}"
        raise InputTypeError(
            f"y={y!r} names a column of a data frame, and X {has}; give the observations, or their name"
        )
    one = len(names) == 1
    if isinstance(columns, dict):  # pandas, whose names need not be texts, and whose frames keep their geometry
        own = [columns[each] for each in names]
        return X.drop(columns=own), X[own[0]] if one else X[own]
    rest = [each for each in columns if each not in names]
    return X.select(rest), X[names[0]] if one else X.select(names)


def holds_texts(X: Any) -> bool:
    """Whether an array or a list holds texts."""
    try:
        values = np.asarray(X) if isinstance(X, (np.ndarray, list, tuple)) else np.empty(0)
    except ValueError:  # of rows that are not equally long
        return False
    return values.dtype.kind in "US" or (values.dtype.kind == "O" and any(isinstance(v, str) for v in values.flat))


def frame_numbers(X: Any, name: str) -> np.ndarray:
    """The columns of a data frame side by side, float64 (n, p), NaN where a value is missing."""
    X = without_geometry(X, name)
    names = column_names(X)
    assert names is not None
    numbers = np.empty((len(X), len(names)), order="F")
    for i, each in enumerate(names):
        numbers[:, i] = _numbers(_column(X, i, each), f"the column {each!r} of {name}")
    return numbers


@dataclass(frozen=True)
class _Frame:
    """What is refused of the columns of a data frame that is the argument called ``argument``."""

    argument: str

    def unfit(self, name: str, words: str) -> InputError:
        """The refusal of a column."""
        return InputError(f"the column {name!r} of {self.argument} {words}")

    def refused(self, name: str, row: int, held: Any, words: str) -> InputError:
        """The refusal of what a column holds in a row."""
        return self.unfit(name, f"holds {held!r} at index {row}, {words}")

    def remedy(self, name: str, as_categories: bool) -> str:
        """How to leave a column out and, ``as_categories``, how to say that it holds these."""
        more = f', or say that these are categories, in pandas with {self.argument}[{name!r}].astype("category")'
        return "leave the column out" + more * as_categories


def encodings_of(X: Any, argument: str) -> tuple[Encoding, ...]:
    """How the columns of a data frame that are no plain numbers become features; none for anything else."""
    X = without_geometry(X, argument)
    names = column_names(X) or []
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise InputError(f"{argument} has two columns called {twice[0]!r}; rename one of them")
    each = [_learned(_column(X, i, name), name, _Frame(argument)) for i, name in enumerate(names)]
    found = tuple(encoding for encoding in each if encoding is not None)
    features = feature_names(X, found) or []
    if found and len(set(features)) < len(features):
        raise InputError(f"{argument} has two features of the same name, {features}; rename one of its columns")
    return found


def dates_of(X: Any) -> tuple[Encoding, ...]:
    """The columns of a data frame that are dates, as they are counted without anything being learned of them."""
    X = without_geometry(X, "X")
    each = enumerate(column_names(X) or [])
    return tuple(Encoding(name, "date") for i, name in each if _values(_column(X, i, name)).dtype.kind == "M")


def feature_names(X: Any, encodings: Sequence[Encoding]) -> list[str] | None:
    """What the features are called that the columns of a data frame become; None for anything else."""
    by_column = {each.column: each.features for each in encodings}
    names = column_names(X)
    return None if names is None else [feature for each in names for feature in by_column.get(each, (each,))]


def units_of(names: Sequence[str] | None, encodings: Sequence[Encoding], crs: str | None = None) -> list[str]:
    """The units of the features of these names as far as they are known: those of dates and of coordinates."""
    known = dict.fromkeys((each.column for each in encodings if each.kind == "date"), DAYS)
    known |= {} if crs is None else coordinate_units(crs)
    return [known.get(name, "") for name in names or ()]


def features_of(X: Any, argument: str, known: list[str] | None, encodings: Sequence[Encoding]) -> Any:
    """The features (n, p) that are ``known`` of a data frame with the same columns; anything else as it is.

    A frame may have the features themselves, too: indicators of categories, 0 and 1, while dates are dates there.
    """
    given, X = X, without_geometry(X, argument)
    names = column_names(X)
    if known is None:
        return X
    sources = sources_of(known, encodings)
    if names is None:
        if encodings:
            texts, wanted = holds_texts(X), f"were made of a data frame with the columns {sources}; pass one with these"
            columns: Any = np.shape(X)[1:] if texts or isinstance(X, np.ndarray) else ()
            if len(columns) == 1 and columns[0] != len(known):
                held = f"{columns[0]} columns, the training points have {len(known)}"
                raise InputError(f"{argument} has {held}; these {wanted}")
            if texts:
                raise InputTypeError(f"{argument} has texts; the training points {wanted}")
        return X
    if names not in (known, sources):
        system = system_of(given, argument)
        pair = () if system is None else coordinate_names(system)
        columns = list(dict.fromkeys(given.geometry.name if each in pair else each for each in sources))
        missing, more = [each for each in sources if each not in names], len(names) > len(sources)
        order = "take these alone" if more else "put them in the same order"
        remedy = f"add {listed(list(map(repr, missing)))}" if missing else f"{order}: {argument}[{columns}]"
        raise InputError(f"{argument} has the columns {names}, the training points have {sources}; {remedy}")
    by_column = {each.column: each for each in encodings if each.column in names}
    for i, name in enumerate(names):
        if name not in by_column:
            _require_numbers(_column(X, i, name), name, _Frame(argument))
    if not by_column:
        return X
    made: dict[str, np.ndarray] = {}
    for i, name in enumerate(names):
        encoding = by_column.get(name) or Encoding(name, "number")
        own = _encoded(_column(X, i, name), encoding, argument)
        encoding.filled(own)
        if (gaps := np.isnan(own[encoding.features[0]])).any():
            first = int(gaps.argmax())
            raise InputError(
                f"the column {name!r} of {argument} has {gaps.sum()} missing values, the first at index {first}; "
                "remove those rows or fill them in first"
            )
        made |= own
    return np.column_stack([made[name] for name in known])


def _learned(column: Any, name: str, frame: _Frame) -> Encoding | None:
    """How a column becomes features; None where it is one already, and where it is nothing that could be one."""
    values, kind = _values(column), _kind(column)
    if values.dtype.kind == "M":
        return Encoding(name, "date", zoned=_zoned(kind))
    if values.dtype.kind == "b" or getattr(kind, "kind", None) == "b":
        return Encoding(name, "boolean")
    dates = f"turn the column into dates first, in pandas with pd.to_datetime({frame.argument}[{name!r}])"
    for row, each in enumerate(values if values.dtype.kind == "O" else ()):
        if isinstance(each, date) and each == each:  # what is missing is none
            raise frame.refused(name, row, str(each), f"a date that is not stored as one; {dates}")
    asked = type(kind).__name__ in _CATEGORICAL
    if not asked and not (values.dtype.kind in "OUT" and any(isinstance(each, (str, bool)) for each in values)):
        return None
    texts, codes = _coded(values)
    if not texts or yes_or_no([text.lower() for text in texts]):
        return Encoding(name, "boolean" if texts else "number")
    if not asked:
        row = int((codes >= 0).argmax())
        if _DATE.match(texts[0]):
            raise frame.refused(name, row, texts[0], f"a date as text; {dates}")
        if any(map(is_number, texts)):
            odd = [i for i, text in enumerate(texts) if not is_number(text)] or [0]
            row = int(np.isin(codes, odd).argmax())
            remedy = f"turn it into numbers, or {frame.remedy(name, True)}"
            held = texts[codes[row]]
            raise frame.refused(name, row, held, beyond_limit(held) or f"text among numbers; {remedy}")
    return category(name, texts, codes, frame, asked=asked)


def _require_numbers(column: Any, name: str, frame: _Frame) -> None:
    """Refuse dates and texts in a column of which the model knows numbers."""
    values = _values(column)
    if values.dtype.kind == "M" and len(values):
        raise frame.refused(name, 0, str(values[0]), f"a date, {_WHERE_NUMBERS}; pass numbers")
    texts = [i for i, each in enumerate(values.tolist()) if isinstance(each, str)] if values.dtype.kind in "OUT" else []
    if texts:
        odd = [i for i in texts if not is_number(values[i])]
        remedy = "correct it or leave the row out" if odd else "turn the column into numbers, in pandas pd.to_numeric"
        first = (odd or texts)[0]
        held = str(values[first])
        raise frame.refused(name, first, held, beyond_limit(held) or f"text {_WHERE_NUMBERS}; {remedy}")


def _encoded(column: Any, encoding: Encoding, argument: str) -> dict[str, np.ndarray]:
    """The features (n,) that a column becomes, by their names; NaN where it is missing."""
    name, values = encoding.column, _values(column)
    if encoding.kind == "date" and values.dtype.kind != "M" and len(values):
        words = "where the model has dates; pass dates, in pandas of the type datetime64"
        raise _Frame(argument).refused(name, 0, values[:1].tolist()[0], words)
    zoned = _zoned(_kind(column))
    if encoding.kind == "date" and encoding.zoned is not None and zoned != encoding.zoned:
        written = f"{argument}[{name!r}].dt.tz_localize"
        has, others = ("a", "none") if zoned else ("no", "one")
        remedy = f"convert them with .dt.tz_convert(zone), then {written}(None)" if zoned else f"{written}(zone)"
        words = f"has dates with {has} time zone, those of the model have {others}; in pandas {remedy}"
        raise _Frame(argument).unfit(name, f"{words}, in the zone in which they were written")
    if encoding.kind in ("number", "date"):
        return {name: _numbers(column, f"the column {name!r} of {argument}")}
    texts, codes = _coded(values)
    if encoding.kind == "category":
        return encoding.indicators(texts, codes, _Frame(argument))
    return {name: encoding.truths(texts, codes, _Frame(argument))}


def _coded(values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The different values of a column (n,) as texts, in their order, and which each row has, -1 where missing."""
    if values.dtype.kind in "fiuM":
        return different(values)
    places: dict[str, int] = {}
    codes = np.full(len(values), -1)
    for row, each in enumerate(values.tolist()):
        if each is not None and type(each).__name__ not in ("NAType", "NaTType") and each == each:
            text = f"{each:.0f}" if isinstance(each, float) and each.is_integer() else str(each)
            codes[row] = places.setdefault(text, len(places))
    return list(places), codes


def require_exact(largest: int, said: str) -> None:
    """Refuse integers of which the ``largest`` in magnitude has no exact float64 value."""
    if largest > 2**53:
        raise InputError(
            f"{said} holds integers beyond 2**53, which float64 cannot represent; subtract an offset first"
        )


def _column(X: Any, i: int, name: str) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[:, i]
    if not hasattr(X, "__getitem__"):
        kind = type(X).__name__
        raise InputTypeError(f"{kind} has columns, and does not give them by name; pass an array, or a frame of pandas")
    return X[name]


def _kind(column: Any) -> Any:
    """The type of a column, in the words of its library."""
    return getattr(column, "dtype", getattr(column, "type", None))


def _zoned(kind: Any) -> bool:
    """Whether a type of dates has a time zone, in pandas, pyarrow or polars."""
    own = getattr(kind, "pyarrow_dtype", kind)
    return any(getattr(own, name, None) is not None for name in ("tz", "time_zone"))


def _values(column: Any) -> np.ndarray:
    """A column as NumPy has it; of pandas' own types those that NumPy has no equal of."""
    kind = getattr(column, "dtype", None)
    if getattr(kind, "tz", None) is not None:
        return np.asarray(column.to_numpy(dtype="datetime64[ns]"))
    if kind is not None and not isinstance(kind, np.dtype) and getattr(kind, "kind", "O") in "fiub":
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _numbers(column: Any, said: str) -> np.ndarray:
    values = _values(column)
    if values.dtype.kind in "Mm":
        return days_since_1970(values)
    if values.dtype.kind == "O" and all(each is None or isinstance(each, (bool, int, float)) for each in values):
        values = np.array([np.nan if each is None else float(each) for each in values])
    if values.dtype.kind in "iu":
        require_exact(max(int(values.max(initial=0)), -int(values.min(initial=0))), said)
    if values.dtype.kind not in "fiub" or values.dtype.itemsize > 8:
        shown = sorted(values.tolist(), key=lambda each: isinstance(each, (int, float)) or is_number(str(each)))
        example = f" such as {shown[0]!r}" if shown else ""
        raise InputTypeError(
            f"{said} has type {values.dtype}, with values{example}, which is not numeric; convert it to numbers first: "
            "categories, which cagp.fit and CAGPRegressor take, to columns of 0 and 1, for example with scikit-learn's "
            "OneHotEncoder"
        )
    return values.astype(np.float64)

"""How columns that are no plain numbers become features: what a fit learns, a saved model keeps, every door applies.

Files and data frames hold values in their own way and refuse in their own words, those of a ``Source``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..errors import InputError, InputTypeError
from .numbers import datum

KINDS = ("number", "boolean", "date", "category")
_LIMIT = re.compile(r"\s*([<>≤≥])\s*=?\s*[.,]?\d")
MOST_LEVELS = 50  # a text column with more different values is not taken for categories
_WORDS = (("false", "true"), ("no", "yes"), ("f", "t"), ("n", "y"), ("off", "on"))


class Source(Protocol):
    """Where columns come from."""

    def unfit(self, name: str, words: str) -> InputError:
        """The refusal of a column."""

    def refused(self, name: str, row: int, held: Any, words: str) -> InputError:
        """The refusal of what a column holds in a row."""

    def remedy(self, name: str, as_categories: bool) -> str:
        """How to leave a column out and, ``as_categories``, how to say that it holds these."""


@dataclass(frozen=True)
class Encoding:
    """The ``kind`` of a ``column``: "number", "boolean" (0 or 1), "date" (days since 1970) or "category".

    A category becomes one feature of 0 and 1 for each of its ``levels`` but the first, where all of them are 0.
    ``day_first`` says how dates such as 03/04/2024 are read, ``zoned`` whether they had a time zone, each None where
    no date told. ``fill`` takes the place of missing values: a number, for a category a level, or None.
    """

    column: str
    kind: str
    levels: tuple[str, ...] = ()
    day_first: bool | None = None
    zoned: bool | None = None
    fill: float | str | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InputError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {self.kind!r}")
        if not isinstance(self.column, str) or not all(isinstance(each, str) for each in self.levels):
            raise InputTypeError(f"the column and the levels of an encoding must be texts, got {self!r}")
        object.__setattr__(self, "levels", tuple(self.levels))
        wanted = str if self.kind == "category" else (int, float)
        if self.fill is not None and (isinstance(self.fill, bool) or not isinstance(self.fill, wanted)):
            raise InputTypeError(f"fill must be a level of a category, or a number elsewhere, got {self.fill!r}")
        if (self.kind == "category") != (len(self.levels) > 1) or len(set(self.levels)) != len(self.levels):
            raise InputError(f"a category has at least two different levels, other columns have none; got {self!r}")

    @property
    def shown(self) -> tuple[str, ...]:
        """The levels that have a feature of their own."""
        return self.levels[1:]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the features that the column became."""
        if self.kind != "category":
            return (self.column,)
        return tuple(f"{self.column}={level}" for level in self.shown)

    @property
    def _some(self) -> str:
        """The levels, or the first of many."""
        return ", ".join(map(repr, self.levels[:6])) + (", …" if len(self.levels) > 6 else "")

    @property
    def in_words(self) -> str:
        """What is told about the column; nothing about plain numbers."""
        name = self.column
        if self.kind == "category":
            return (
                f"{name!r} holds {len(self.levels)} categories ({self._some}), one feature of 0 and 1 for each but "
                f"{self.levels[0]!r}, where all are 0."
            )
        if self.kind == "date":
            order = {None: "", True: ", read with the day first", False: ", read with the month first"}[self.day_first]
            zone = ", times in UTC" if self.zoned else ""
            return f"{name!r} holds dates{order}: days since 1970-01-01{zone}."
        return f"{name!r} holds yes and no, as 1 and 0." if self.kind == "boolean" else ""

    @property
    def filling(self) -> str:
        """What takes the place of missing values, in words."""
        if not isinstance(self.fill, (int, float)):
            return f"{self.fill!r}, the most frequent category"
        if self.kind == "date":
            moment = np.datetime64(round(86_400 * self.fill), "s")
            return f"{str(moment).replace('T00:00:00', '')}, the median"
        return f"{datum(self.fill)}, the median"

    def indicators(self, texts: Sequence[str], codes: np.ndarray, source: Source) -> dict[str, np.ndarray]:
        """The features (n,) of a category from its different ``texts`` and which of them each row has, -1 for none."""
        if unseen := [i for i, text in enumerate(texts) if text not in self.levels]:
            row = int(np.isin(codes, unseen).argmax())
            words = f"a category that the model has never seen, it knows {self._some}"
            remedy = "leave such rows out, fit again with data that have it, or join rare categories to one before"
            raise source.refused(self.column, row, texts[codes[row]], f"{words}; {remedy}")
        place = {text: i for i, text in enumerate(texts)}
        pairs = zip(self.features, self.shown, strict=True)
        absent = len(texts)
        return {name: np.where(codes < 0, np.nan, codes == place.get(level, absent)) for name, level in pairs}

    def truths(self, texts: Sequence[str], codes: np.ndarray, source: Source) -> np.ndarray:
        """Yes and no as 1 and 0, NaN where neither is said (n,), from texts (or 0 and 1) as for ``indicators``."""
        said = [text.lower() for text in texts]
        ways = zip(("0", "1"), *_WORDS, strict=True)  # all ways of saying no, and of saying yes
        no, yes = (np.isin(codes, [i for i, text in enumerate(said) if text in words]) for words in ways)
        wrong = ~(no | yes | (codes < 0))
        if wrong.any():
            row = int(wrong.argmax())
            words = "where the model has yes and no; write true or false"
            raise source.refused(self.column, row, texts[codes[row]], words)
        return np.where(codes < 0, np.nan, yes)

    def filled(self, made: Mapping[str, np.ndarray]) -> np.ndarray:
        """Fill the gaps in the features (n,) of this column, in place, where it says by what; where they were."""
        gaps = np.isnan(made[self.features[0]])
        if self.fill is None:
            return np.zeros_like(gaps)
        for feature, level in zip(self.features, self.shown or (None,), strict=True):
            made[feature][gaps] = self.fill if level is None else float(self.fill == level)
        return gaps


def is_number(text: str) -> bool:
    """Whether a text is a number as Python writes it; 1_000 and digits of other scripts are not, for Arrow neither."""
    if "_" in text or not text.isascii():
        return False
    try:
        float(text)
    except ValueError:
        return False
    return True


def beyond_limit(value: object) -> str:
    """What is to be said of a text such as "<3.5" where a number is needed, and what to do; "" of anything else."""
    found = _LIMIT.match(value) if isinstance(value, str) else None
    if found is None:
        return ""
    side, instead = ("below", "half of the limit") if found[1] in "<≤" else ("above", "the limit")
    return f"a value {side} a limit, for which cagp has no likelihood; write {instead} in its place"


def different(values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """The different ones among numbers or moments (n,) as texts, and which of them each row has, -1 where missing."""
    gaps = np.isnat(values) if values.dtype.kind in "Mm" else np.isnan(values)
    found, inverse = np.unique(values[~gaps], return_inverse=True)
    codes = np.full(len(values), -1)
    codes[~gaps] = inverse
    if found.dtype.kind != "f":
        return [str(each) for each in found], codes
    return [f"{each:.0f}" if each.is_integer() else repr(each) for each in (found + 0.0).tolist()], codes


def yes_or_no(texts: Collection[str]) -> bool:
    """Whether different texts in small letters are two ways of saying no and yes, or one of them."""
    return any(set(texts) <= set(pair) for pair in _WORDS)


def category(name: str, levels: Sequence[str], codes: np.ndarray, source: Source, *, asked: bool) -> Encoding:
    """The encoding of a column of these ``levels``, and which of them each row has; ``asked`` says they are categories.

    Texts that nobody called categories may be names or notes, which say nothing about other rows: they are refused.
    """
    rows, remedy = int((codes >= 0).sum()), source.remedy(name, not asked)
    if len(levels) > MOST_LEVELS and not asked:
        raise source.unfit(name, f"has {len(levels)} different texts, too many categories; {remedy}")
    if len(levels) == rows > 2 and not asked:
        row = int((codes >= 0).argmax())
        what = f"which is no number, and its {rows} texts all differ, so that they say nothing about other rows"
        raise source.refused(name, row, levels[codes[row]], f"{what}; {remedy}")
    if len(levels) == 1:
        raise source.unfit(name, f"has one category only, {levels[0]!r}; {source.remedy(name, False)}")
    return Encoding(name, "category", tuple(sorted(levels)))


def sources_of(columns: Sequence[str], encodings: Sequence[Encoding]) -> list[str]:
    """The columns that these are made of: a feature may be one of several that a column becomes."""
    owners = {feature: each.column for each in encodings for feature in each.features}
    sources: list[str] = []
    for name in columns:
        source = owners.get(name, name)
        if source not in sources or name not in owners:
            sources.append(source)
    return sources

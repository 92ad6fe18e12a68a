"""How a column of a table became numbers, remembered so that new tables are read alike."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ..errors import InputError, InputTypeError
from ..support.validation import choice

KINDS = ("number", "boolean", "date", "category")


@dataclass(frozen=True)
class Encoding:
    """The ``kind`` of a ``column``: "number", "boolean" (0 or 1), "date" (days since 1970) or "category".

    A category becomes one feature of 0 and 1 for each of its ``levels`` but the first, where all of them are 0.
    ``day_first`` says how dates such as 03/04/2024 are read, None where none were seen; ``zoned`` whether they had a
    time zone, None where the file counts time by itself. ``fill`` takes the place of missing values: a number, for a
    category one of its levels, or None.
    """

    column: str
    kind: str
    levels: tuple[str, ...] = ()
    day_first: bool | None = None
    zoned: bool | None = None
    fill: float | str | None = None

    def __post_init__(self) -> None:
        choice(self.kind, "kind", KINDS)
        if not isinstance(self.column, str) or not all(isinstance(each, str) for each in self.levels):
            raise InputTypeError(f"the column and the levels of an encoding must be texts, got {self!r}")
        object.__setattr__(self, "levels", tuple(self.levels))
        wanted = str if self.kind == "category" else (int, float)
        if self.fill is not None and (isinstance(self.fill, bool) or not isinstance(self.fill, wanted)):
            raise InputTypeError(
                f"fill must be a level of a category, or a number for other columns, got {self.fill!r}"
            )
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

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, content: Any) -> Encoding:
        """The same, from what ``to_json`` gave."""
        wanted = {each.name for each in dataclasses.fields(cls)}
        if not isinstance(content, dict) or set(content) != wanted:
            raise InputError(f"an encoding must have exactly the entries {', '.join(sorted(wanted))}")
        if not isinstance(content["levels"], list) or content["zoned"] not in (True, False, None):
            raise InputError("the levels of an encoding must be a list, and zoned true, false or null")
        return cls(**content)

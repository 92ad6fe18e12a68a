"""What the columns and the target are called, and their units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..errors import InputError, InputTypeError
from ..kernels import geographic_columns

if TYPE_CHECKING:
    from ..model import Model

_AXIS = 30
"""A longer label would run into that of the next panel."""


@dataclass(frozen=True)
class Names:
    """Names and units of the columns of X and of the target y, for labels; what is left out gets a plain name.

    ``features`` and ``feature_units`` have one entry per column, ``feature_units`` "" where a column has none.

    >>> names = Names(("latitude", "longitude"), "temperature", ("°N", "°E"), "K")
    >>> names.label(0), names.target_label
    ('latitude [°N]', 'temperature [K]')
    """

    features: Sequence[str] | None = None
    target: str | None = None
    feature_units: Sequence[str] | None = None
    target_unit: str = ""

    def __post_init__(self) -> None:
        for field in ("features", "feature_units"):
            value = getattr(self, field)
            if value is not None:
                if isinstance(value, str) or not all(isinstance(name, str) for name in value):
                    raise InputTypeError(f"{field} must be a list of texts, one per column, got {value!r}")
                object.__setattr__(self, field, tuple(value))
        for field in ("target", "target_unit"):
            value = getattr(self, field)
            if value is not None and not isinstance(value, str):
                raise InputTypeError(f"{field} must be a text, got {value!r}")

    def filled_in(self, model: Model) -> Names:
        """These names with everything that was left out: from the data frame, the kernel, or x1, x2, …"""
        columns = model.X.shape[1]
        for field in ("features", "feature_units"):
            value = getattr(self, field)
            if value is not None and len(value) != columns:
                raise InputError(
                    f"names.{field} has {len(value)} entries for {columns} columns; give one per column of X"
                )
        own_names, own_units = [f"x{i + 1}" for i in range(columns)], [""] * columns
        for pair in geographic_columns(model.prior.kernel, range(columns))[:1]:
            for column, name, unit in zip(pair, ("latitude", "longitude"), ("°N", "°E"), strict=True):
                own_names[column], own_units[column] = name, unit
        features = (model.column_names or own_names) if self.features is None else self.features
        return replace(
            self,
            features=[" ".join(name.split()) for name in features],  # a file may have blanks at the ends or in rows
            feature_units=own_units if self.feature_units is None else self.feature_units,
            target="y" if self.target is None else " ".join(self.target.split()),
        )

    def name(self, column: int) -> str:
        """What a column is called."""
        assert self.features is not None
        return self.features[column]

    def unit(self, column: int) -> str:
        """The unit of a column, "" where it has none."""
        return self.feature_units[column] if self.feature_units else ""

    def narrow(self, most: int = 20) -> list[str]:
        """All columns by names of at most so many characters, no two the same."""
        return shortened(self.features or (), most)

    def label(self, column: int) -> str:
        """A column for the axis of a figure."""
        return _with_unit(self.narrow(_AXIS)[column], self.unit(column))

    @property
    def target_label(self) -> str:
        """The target for the axis of a figure."""
        return _with_unit(shortened([self.target or "y"], _AXIS)[0], self.target_unit)


def _with_unit(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Each name in at most ``most`` characters, an ellipsis for what was cut; different names stay different.

    >>> shortened(["Cement (component 1)(kg in a m^3 mixture)", "Age (day)"], 20)
    ['Cement…', 'Age (day)']
    >>> shortened(["rainfall at station 1", "rainfall at station 2"], 16)
    ['rainfal…tation 1', 'rainfal…tation 2']
    """

    def cut(name: str) -> str:
        head = name.split("(")[0].strip()
        if 3 <= len(head) < most:
            return f"{head}…"
        words = name[: most - 1].rsplit(" ", 1)[0]
        return f"{words if len(words) > most // 2 else name[: most - 1]}…"

    def both_ends(name: str) -> str:
        half = (most - 1) // 2
        return f"{name[:half]}…{name[half + 1 - most :]}"

    for shorten in (cut, both_ends):
        short = [name if len(name) <= most else shorten(name) for name in names]
        if len(set(short)) == len(set(names)):
            return short
    ends = [f"…{i + 1}" for i in range(len(names))]
    return [name if len(name) <= most else name[: most - len(end)] + end for name, end in zip(names, ends, strict=True)]

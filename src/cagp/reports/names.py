"""What the columns, the target and the hyperparameters are called, and their units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError, InputTypeError
from ..hyperparameters.named import Hyperparameter, named
from ..kernels import geographic_columns
from ..prior import Prior
from ..saving import About
from ..support.coordinate_systems import coordinate_units
from ..support.numbers import datum, shortened, with_unit
from .page import printable

if TYPE_CHECKING:
    from ..model import Model

_AXIS = 30  # A longer label would run into that of the next panel


@dataclass(frozen=True)
class Names:
    """Names and units of the columns of X and of the target y, for labels; what is left out gets a plain name.

    ``features`` and ``feature_units`` have one entry per column, "" where it has no unit.

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
        """These names with everything that was left out: from data frame, folder or field, the kernel, or x0, x1, …"""
        columns = model.X.shape[1]
        for field in ("features", "feature_units"):
            value = getattr(self, field)
            if value is not None and len(value) != columns:
                raise InputError(f"names.{field} has {len(value)} entries for {columns} columns; give one per column")
        about = model.about or About()
        known = ({} if model.crs is None else coordinate_units(model.crs)) | dict(about.units)
        given, own_names = model.column_names or about.features, [f"x{i}" for i in range(columns)]
        own_units = [known.get(name, "") for name in given or own_names]
        for pair in geographic_columns(model.prior.kernel, range(columns))[:1]:
            for column, name, unit in zip(pair, ("latitude", "longitude"), ("°N", "°E"), strict=True):
                own_names[column], own_units[column] = name, unit
        features = (given or own_names) if self.features is None else self.features
        units = [_cleaned(unit) for unit in (self.feature_units or own_units)]
        target = _cleaned((model.target_name or "y") if self.target is None else self.target)
        unit = self.target_unit or (about.units.get(model.target_name or "", "") if self.target is None else "")
        return Names([_cleaned(name) for name in features], target, units, _cleaned(unit))

    def modelled(self, model: Model) -> Names:
        """Those of what is modelled: a transform of the target has no unit."""
        return self if model.transform is None else replace(self, target=f"transformed {self.target}", target_unit="")

    def name(self, column: int) -> str:
        """What a column is called."""
        return (self.features or ())[column]

    def unit(self, column: int) -> str:
        """The unit of a column, "" where it has none."""
        return self.feature_units[column] if self.feature_units else ""

    def common_unit(self, columns: Sequence[int]) -> str:
        """The unit that all these columns have, "" where they differ."""
        units = {self.unit(column) for column in columns}
        return units.pop() if len(units) == 1 else ""

    def label(self, column: int) -> str:
        """A column for the axis of a figure."""
        return with_brackets(shortened(self.features or (), _AXIS)[column], self.unit(column))

    @property
    def target_label(self) -> str:
        """The target for the axis of a figure."""
        return with_brackets(shortened([self.target or "y"], _AXIS)[0], self.target_unit)


def _cleaned(name: str) -> str:
    """Without what cannot be printed, and with single blanks: a file may have some at the ends or in rows."""
    return str(printable(" ".join(name.split())))


def medians(X: np.ndarray, columns: Sequence[int], names: Names) -> str:
    """Where the columns of X (n, p) have their middle, each with its name and unit."""
    shown = columns[:12]
    parts = [f"{names.name(c)} {with_unit(datum(float(np.median(X[:, c]))), names.unit(c))}" for c in shown]
    return ", ".join(parts) + (", …" if len(columns) > len(shown) else "")


def with_brackets(name: str, unit: str) -> str:
    """A name with its unit, where it has one: "depth [m]"."""
    return f"{name} [{unit}]" if unit else name


def hyperparameters(prior: Prior, names: Names, X: np.ndarray | None = None) -> list[Hyperparameter]:
    """Every hyperparameter with its label and unit, see ``named``; long names of columns are cut."""
    features = shortened(names.features or (), _AXIS)
    return named(prior, features, names.feature_units or (), names.target_unit, X)

"""What the columns, the target and the hyperparameters are called, and their units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError, InputTypeError
from ..kernels import geographic_columns
from ..kernels.tree import Part
from ..prior import Prior
from ..support.numbers import squared
from .page import printable

if TYPE_CHECKING:
    from ..model import Model

_AXIS = 30  # A longer label would run into that of the next panel
_ANGLES = ("azimuth of", "dip of", "roll around")


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
        """These names with everything that was left out: from the data frame, the kernel, or x1, x2, …"""
        columns = model.X.shape[1]
        for field in ("features", "feature_units"):
            value = getattr(self, field)
            if value is not None and len(value) != columns:
                raise InputError(f"names.{field} has {len(value)} entries for {columns} columns; give one per column")
        own_names, own_units = [f"x{i + 1}" for i in range(columns)], [""] * columns
        for pair in geographic_columns(model.prior.kernel, range(columns))[:1]:
            for column, name, unit in zip(pair, ("latitude", "longitude"), ("°N", "°E"), strict=True):
                own_names[column], own_units[column] = name, unit
        features = (model.column_names or own_names) if self.features is None else self.features
        units = [_cleaned(unit) for unit in (self.feature_units or own_units)]
        target = "y" if self.target is None else _cleaned(self.target)
        return Names([_cleaned(name) for name in features], target, units, _cleaned(self.target_unit))

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


def with_brackets(name: str, unit: str) -> str:
    """A name with its unit, where it has one: "depth [m]"."""
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


@dataclass(frozen=True)
class Hyperparameter:
    """One number of a prior; its ``name`` as ``FitResult`` has it, its field ``kind``, the ``column`` it is of."""

    name: str
    label: str
    kind: str
    value: float
    unit: str
    column: int | None = None


def hyperparameters(prior: Prior, names: Names) -> list[Hyperparameter]:
    """Every hyperparameter, in the order and by the names of ``cagp.hyperparameters``: the kernel's, then the noise."""
    found = []
    for part in prior.kernel.walk(range(len(names.features or ()))):
        for kind, value in part.kernel.hyperparameter_values.items():
            found += _numbers(kind, value, part, names)
    if np.ndim(prior.noise_variance) == 0:
        noise, unit = float(prior.noise_variance), squared(names.target_unit)
        found.append(Hyperparameter("noise_variance", "noise variance", "noise", noise, unit))
    return found


def _numbers(kind: str, value: float | tuple[float, ...], part: Part, names: Names) -> list[Hyperparameter]:
    name, columns = f"{part.path}.{kind}", part.columns
    if isinstance(value, tuple):
        found = []
        for i, v in enumerate(value):
            column = columns[i] if i < len(columns) else None
            of = f"{part.coordinate} {i + 1}" if column is None else names.name(column)
            unit = part.distance_unit or ("" if column is None else names.unit(column))
            label = f"{part.label}{kind} of {of}"
            if kind in part.kernel.angles:
                label, unit, column = f"{part.label}{_ANGLES[i]} axis 1", "°", None
            found.append(Hyperparameter(f"{name}[{i}]", label, kind, v, unit, column))
        return found
    if kind == "variance":
        return [Hyperparameter(name, f"{part.label}variance of the function", kind, value, squared(names.target_unit))]
    if kind in part.kernel.angles:
        return [Hyperparameter(name, f"{part.label}{kind} of axis 1", kind, value, "°")]
    unit = part.distance_unit or names.common_unit(columns) if kind in ("lengthscale", "period") else ""
    return [Hyperparameter(name, f"{part.label}{kind}", kind, value, unit, columns[0] if len(columns) == 1 else None)]

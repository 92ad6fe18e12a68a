"""Hyperparameters by names that a reader understands."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..kernels.tree import Part
from ..prior import Prior
from ..support.numbers import squared
from .names import Names

_ANGLES = ("azimuth of", "dip of", "roll around")


@dataclass(frozen=True)
class Hyperparameter:
    """One number of a prior: its ``name`` as ``FitResult`` has it, what a reader calls it, value and unit.

    ``kind`` is the field of the kernel ("lengthscale", "variance", …); ``column`` the column it belongs to alone.
    """

    name: str
    label: str
    kind: str
    value: float
    unit: str
    column: int | None = None


def hyperparameters(prior: Prior, names: Names) -> list[Hyperparameter]:
    """Every hyperparameter, in the order and by the names of ``cagp.hyperparameters``: the kernel's, then the noise."""
    found = [
        parameter
        for part in prior.kernel.walk(range(len(names.features or ())))
        for kind, value in part.kernel.hyperparameter_values.items()
        for parameter in _numbers(kind, value, part, names)
    ]
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
    unit = ""
    if kind in part.kernel.angles:
        return [Hyperparameter(name, f"{part.label}{kind} of axis 1", kind, value, "°")]
    if kind in ("lengthscale", "period"):
        units = {names.unit(c) for c in columns}
        unit = part.distance_unit or (units.pop() if len(units) == 1 else "")
    return [Hyperparameter(name, f"{part.label}{kind}", kind, value, unit, columns[0] if len(columns) == 1 else None)]

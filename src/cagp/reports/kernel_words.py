"""Kernels in words and formulas, and their hyperparameters by names that a reader understands."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..kernels import EARTH_RADIUS, Kernel
from ..kernels.tree import Part
from .names import Names
from .numbers import number, squared, with_unit


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


def in_words(kernel: Kernel, names: Names) -> str:
    """What the kernel says about the function, in a phrase."""
    return kernel.in_words(names.features or ())


def formula(kernel: Kernel) -> str:
    """The covariance of f(x) and f(x′), with numbers."""
    return kernel.formula(number)


def hyperparameters(kernel: Kernel, names: Names) -> list[Hyperparameter]:
    """Every hyperparameter of the kernel, in the order and by the names of ``cagp.hyperparameters``."""
    return [
        parameter
        for part in kernel.walk(range(len(names.features or ())))
        for kind, value in part.kernel.hyperparameter_values.items()
        for parameter in _numbers(kind, value, part, names)
    ]


def _numbers(kind: str, value: float | tuple[float, ...], part: Part, names: Names) -> list[Hyperparameter]:
    name, columns = f"{part.path}.{kind}", part.columns
    if isinstance(value, tuple):
        found = []
        for i, v in enumerate(value):
            column = columns[i] if i < len(columns) else None
            of = f"coordinate {i + 1}" if column is None else names.name(column)
            unit = part.distance_unit or ("" if column is None else names.unit(column))
            found.append(Hyperparameter(f"{name}[{i}]", f"{part.label}{kind} of {of}", kind, v, unit, column))
        return found
    if kind == "variance":
        return [Hyperparameter(name, f"{part.label}variance of the function", kind, value, squared(names.target_unit))]
    unit = ""
    if kind in ("lengthscale", "period"):
        units = {names.unit(c) for c in columns}
        unit = part.distance_unit or (units.pop() if len(units) == 1 else "")
    return [Hyperparameter(name, f"{part.label}{kind}", kind, value, unit, columns[0] if len(columns) == 1 else None)]


def meaning(parameter: Hyperparameter, names: Names) -> str:
    """What the value says, in a phrase; "" where the label says it all."""
    if parameter.kind == "variance":
        return f"f moves by about {with_unit(number(math.sqrt(parameter.value)), names.target_unit)} around the mean"
    if parameter.kind == "lengthscale" and parameter.unit == "Earth radii":
        kilometres = number(parameter.value * EARTH_RADIUS, 2)
        return f"the correlation falls to about a half over {kilometres} km"
    return ""

"""Kernels in words and formulas, and their hyperparameters by names that a reader understands."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from ..kernels import (
    RBF,
    CustomKernel,
    Geographic,
    Kernel,
    Matern12,
    Matern32,
    Matern52,
    OnColumns,
    Periodic,
    Product,
    RationalQuadratic,
    Sum,
)
from .names import Names
from .numbers import number, squared, with_unit

_FAMILIES: dict[type[Kernel], tuple[str, str]] = {
    Matern12: ("Matérn 1/2 (continuous, rough functions)", "exp(−r)"),
    Matern32: ("Matérn 3/2 (once differentiable functions)", "(1 + √3 r) exp(−√3 r)"),
    Matern52: ("Matérn 5/2 (twice differentiable functions)", "(1 + √5 r + 5r²/3) exp(−√5 r)"),
    Periodic: ("periodic (functions that repeat themselves)", "exp(−2 Σⱼ sin²(π (xⱼ − x′ⱼ) / periodⱼ) / ℓⱼ²)"),
    RBF: ("squared exponential (infinitely smooth functions)", "exp(−r²/2)"),
    RationalQuadratic: ("rational quadratic (smooth functions of many lengthscales)", "(1 + r²/(2α))^(−α)"),
}

KILOMETRES_PER_RADIUS = 6371.0


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
    return _words(kernel, names, tuple(range(len(names.features or ()))))


def _words(kernel: Kernel, names: Names, columns: tuple[int, ...]) -> str:
    if isinstance(kernel, (Sum, Product)):
        parts = [_words(part, names, columns) for part in kernel.kernels]
        join = " plus " if isinstance(kernel, Sum) else " times "
        return join.join(f"[{part}]" for part in parts)
    if isinstance(kernel, OnColumns):
        chosen = tuple(columns[i] for i in kernel.columns)
        return f"{_words(kernel.kernel, names, chosen)} on {', '.join(names.name(c) for c in chosen)}"
    if isinstance(kernel, Geographic):
        unit = {"km": "kilometres", "m": "metres"}.get(_unit_of(kernel.radius), _unit_of(kernel.radius))
        return f"{_words(kernel.kernel, names, ())} of the chordal distance on the globe, in {unit}"
    if isinstance(kernel, CustomKernel):
        return f"the user's own function {getattr(kernel.function, '__name__', kernel.function)!s}"
    words = _FAMILIES.get(type(kernel), (type(kernel).__name__, ""))[0]
    lengthscale = getattr(kernel, "lengthscale", None)
    if isinstance(lengthscale, tuple):
        words += ", one lengthscale per column"
    elif lengthscale is not None and len(columns) > 1:
        words += ", one lengthscale for all columns"
    return words


def _unit_of(radius: float) -> str:
    """The unit of distances on a globe of that radius: the Earth's is 6,371 km on average, 6,357 to 6,378 km."""
    if radius == 1:
        return "Earth radii"
    for unit, factor in (("km", 1.0), ("m", 1000.0)):
        if abs(radius / factor / KILOMETRES_PER_RADIUS - 1) < 0.005:
            return unit
    return f"{1 / radius:.3g} Earth radii"


def formula(kernel: Kernel) -> str:
    """The covariance of f(x) and f(x′), with numbers."""
    if isinstance(kernel, Sum):
        return " + ".join(formula(part) for part in kernel.kernels)
    if isinstance(kernel, Product):
        return " · ".join(f"({formula(p)})" if isinstance(p, Sum) else formula(p) for p in kernel.kernels)
    if isinstance(kernel, (OnColumns, Geographic)):
        return formula(kernel.kernel)
    variance = getattr(kernel, "variance", None)
    factor = "" if variance is None else f"{number(variance)} · "
    if isinstance(kernel, CustomKernel):
        return f"{factor}{getattr(kernel.function, '__name__', 'function')}(x, x′)"
    if type(kernel) not in _FAMILIES:
        return repr(kernel)
    shape = _FAMILIES[type(kernel)][1]
    if isinstance(kernel, RationalQuadratic):
        shape = shape.replace("α", number(kernel.alpha))
    if isinstance(kernel, Periodic):
        return factor + shape
    lengthscale = kernel.lengthscale  # type: ignore[attr-defined]
    if isinstance(lengthscale, tuple):
        return f"{factor}{shape}, r² = Σⱼ (xⱼ − x′ⱼ)² / ℓⱼ²"
    return f"{factor}{shape}, r = |x − x′| / {number(lengthscale)}"


def hyperparameters(kernel: Kernel, names: Names) -> list[Hyperparameter]:
    """Every hyperparameter of the kernel, in the order and by the names of ``cagp.hyperparameters``."""
    return _walk(kernel, names, "kernel", "", tuple(range(len(names.features or ()))), "")


def _walk(
    kernel: Kernel, names: Names, path: str, prefix: str, columns: tuple[int, ...], distance_unit: str | None
) -> list[Hyperparameter]:
    """``distance_unit`` is "" where distances are those between columns, and their unit otherwise."""
    if isinstance(kernel, OnColumns):
        columns = tuple(columns[i] for i in kernel.columns)
    if isinstance(kernel, Geographic):
        distance_unit = _unit_of(kernel.radius)
    if not dataclasses.is_dataclass(kernel):
        return []
    found: list[Hyperparameter] = []
    for field in dataclasses.fields(kernel):
        value, name = getattr(kernel, field.name), f"{path}.{field.name}"
        if field.name in kernel.hyperparameters:
            found += _numbers(field.name, value, name, prefix, names, columns, distance_unit)
        elif isinstance(value, Kernel):
            found += _walk(value, names, name, prefix, columns, distance_unit)
        elif isinstance(value, tuple) and any(isinstance(part, Kernel) for part in value):
            for i, part in enumerate(value):
                of = f"{prefix}{'term' if isinstance(kernel, Sum) else 'factor'} {i + 1}: "
                found += _walk(part, names, f"{name}[{i}]", of, columns, distance_unit)
    return found


def _numbers(
    kind: str,
    value: float | tuple[float, ...],
    name: str,
    prefix: str,
    names: Names,
    columns: tuple[int, ...],
    distance_unit: str | None,
) -> list[Hyperparameter]:
    if kind == "variance":
        unit = squared(names.target_unit)
        return [Hyperparameter(name, f"{prefix}variance of the function", kind, float(value), unit)]  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return [
            Hyperparameter(
                f"{name}[{i}]",
                f"{prefix}{kind} of {names.name(columns[i])}",
                kind,
                v,
                distance_unit or names.unit(columns[i]),
                None if distance_unit else columns[i],
            )
            for i, v in enumerate(value)
        ]
    unit = ""
    if kind in ("lengthscale", "period"):
        units = {names.unit(c) for c in columns}
        unit = distance_unit or (units.pop() if len(units) == 1 else "")
    alone = columns[0] if len(columns) == 1 and not distance_unit else None
    return [Hyperparameter(name, f"{prefix}{kind}", kind, float(value), unit, alone)]


def meaning(parameter: Hyperparameter, names: Names) -> str:
    """What the value says, in a phrase; "" where the label says it all."""
    if parameter.kind == "variance":
        return f"f moves by about {with_unit(number(math.sqrt(parameter.value)), names.target_unit)} around the mean"
    if parameter.kind == "lengthscale" and parameter.unit == "Earth radii":
        kilometres = number(parameter.value * KILOMETRES_PER_RADIUS, 2)
        return f"the correlation falls to about a half over {kilometres} km"
    return ""

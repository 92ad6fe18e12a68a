"""Settings inside settings, which are frozen dataclasses: ``solver__iterations``, ``kernel__lengthscale``."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import InputError
from ..kernels import Kernel
from ..solvers import NAMES, Solver, as_solver

_OPEN = ("solver", "kernel")


def _fields(name: str, value: Any) -> dict[str, Any]:
    """The settings of a solver, by object or by name, or of a cagp kernel; none of anything else."""
    if name == "solver" and isinstance(value, str) and value in NAMES:
        try:
            value = as_solver(value)
        except (InputError, TypeError):  # a solver that has no defaults for all of its settings
            return {}
    if isinstance(value, (Solver, Kernel)) and dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return {}


def nested_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """The settings of the solver and of the kernel, as ``solver__iterations`` and the like."""
    return {f"{name}__{field}": value for name in _OPEN for field, value in _fields(name, parameters.get(name)).items()}


def split_nested(current: dict[str, Any], changes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """``changes`` as the plain ones, with settings of solvers and cagp kernels applied, and all the others."""
    plain = {name: value for name, value in changes.items() if "__" not in name}
    rest = {name: value for name, value in changes.items() if "__" in name}
    for name in _OPEN:
        owner: Any = plain.get(name, current.get(name))
        if not isinstance(owner, (str, Solver, Kernel)):
            continue
        own = [key for key in rest if key.startswith(f"{name}__")]
        settings, known = {key.removeprefix(f"{name}__"): rest.pop(key) for key in own}, _fields(name, owner)
        if unknown := [key for key in settings if key not in known]:
            has = ", ".join(known) or "none"
            raise InputError(f"{name}__{unknown[0]} is not a setting of {owner!r}; it has {has}")
        if settings:
            made: Any = as_solver(owner) if name == "solver" else owner
            plain[name] = dataclasses.replace(made, **settings)
    return plain, rest

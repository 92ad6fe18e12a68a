"""Solvers by name, with the iterations of a study."""

from __future__ import annotations

import dataclasses

from ..errors import InputError
from ..solvers import NAMES, Cholesky, Solver
from ..support.validation import choice


def by_name(name: str, iterations: int, seed: int) -> Solver:
    """The solver of that name with ``iterations`` iterations (for a subset: so many points), otherwise as it comes."""
    solver = NAMES[choice(name, "solvers", list(NAMES))]
    settings = {"iterations": iterations, "size": iterations, "seed": seed}
    known = {field.name for field in dataclasses.fields(solver)}  # type: ignore[arg-type]
    return solver(**{setting: value for setting, value in settings.items() if setting in known})


def check(names: tuple[str, ...]) -> None:
    """Refuse names that a study cannot use."""
    for name in names:
        if name == Cholesky.name:
            raise InputError("solvers: the exact GP (cholesky) is always shown where it fits; leave it out")
        try:
            by_name(name, 1, 0)
        except TypeError:  # an argument without a default
            usable = ", ".join(sorted(set(NAMES) - {name, Cholesky.name}))
            raise InputError(f"solvers: {name} needs more than its name to be made; choose from {usable}") from None

"""What options must be, asked before anything is read or printed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ..errors import InputError

if TYPE_CHECKING:
    from ..solvers import Solver


def renamed(old: str, before: Any, new: str, value: Any) -> Any:
    """The value of an option whose old name still works, with a line on standard error that tells the new one."""
    if before is None:
        return value
    if value is not None:
        raise InputError(f"{old} is the old name of {new}; give {new} alone")
    typer.echo(f"{old} is called {new} now, as everywhere else; the old name goes with the next release.", err=True)
    return before


def require_place(out: Path, overwrite: bool) -> None:
    """Refuse a place where no model may be written."""
    from ..saving import is_model_folder, require_writable

    if not overwrite and is_model_folder(out):
        raise InputError(f"{out} already holds a model; --overwrite replaces it, or choose another name")
    require_writable(out, overwrite)


def require_new(out: Path, overwrite: bool) -> None:
    """Refuse to write over a table that is there, unless that was asked for."""
    if out.exists() and not overwrite:
        raise InputError(f"{out} is there already; --overwrite replaces it")


def share_in(interval: float) -> float:
    """``--interval`` as a share of 1."""
    if not 1 < interval < 100:
        raise InputError(f"--interval is in per cent, between 1 and 100, got {interval:g}; for 95% write 95")
    return interval / 100


def require_values(
    no_fit: bool, written: bool, lengthscale: str | None, variance: float | None, noise: float | None
) -> None:
    """Refuse ``--no-fit`` without the values that it takes."""
    if not no_fit:
        return
    needed: dict[str, object] = {"--noise-variance": noise}
    if not written:  # an expression has its values in it
        needed |= {"--lengthscale": lengthscale, "--variance": variance}
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        raise InputError(f"--no-fit takes the hyperparameters as given, so it needs {' and '.join(missing)} as well")


def with_iterations(solver: Solver, iterations: int | None) -> Solver:
    """The solver with so many iterations; refuses one that has none."""
    if iterations is None:
        return solver
    effort = solver.description(1).effort
    if effort != "iterations":
        remedy = f"write --solver '{type(solver).__name__}({effort}=300)'" if effort else ""
        raise InputError(f"--iterations has no meaning for {solver!r}; {remedy or 'name a solver that has them'}")
    return dataclasses.replace(solver, iterations=iterations)  # type: ignore[type-var]

"""What options must be, asked before anything is read or printed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError

if TYPE_CHECKING:
    from ..saving import Saved
    from ..solvers import Solver


def require_place(out: Path, overwrite: bool) -> None:
    """Refuse a place where no model may be written."""
    from ..saving import is_model_folder, require_writable

    if not overwrite and is_model_folder(out):
        raise InputError(f"{out} already holds a model; --overwrite replaces it, or choose another name")
    require_writable(out, overwrite)


def require_other(out: Path, data: Path) -> None:
    """Refuse to write over what is read."""
    if out.exists() and data.exists() and out.samefile(data):
        raise InputError(f"--out {out} is the input itself; choose another name")


def require_noise(saved: Saved, observed: bool) -> None:
    """Refuse ``--observed`` where the noise of new observations is not known."""
    if observed and np.ndim(saved.prior.noise_variance):
        raise InputError("--observed: this model has one noise variance per training row, none for new ones")


def require_values(written: bool, lengthscale: str | None, variance: float | None, noise: float | None) -> None:
    """Refuse ``--no-fit`` without the values that it takes."""
    needed: dict[str, object] = {"--noise": noise}
    if not written:  # an expression has its values in it
        needed |= {"--lengthscale": lengthscale, "--variance": variance}
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        raise InputError(f"--no-fit takes the hyperparameters as given, so it needs {' and '.join(missing)} as well")


def with_iterations(solver: Solver, iterations: int | None) -> Solver:
    """The solver with so many iterations; refuses one that has none."""
    if iterations is None:
        return solver
    if solver.effort != "iterations":
        remedy = f"write --solver '{type(solver).__name__}({solver.effort}=300)'" if solver.effort else ""
        raise InputError(f"--iterations has no meaning for {solver!r}; {remedy or 'name a solver that has them'}")
    return dataclasses.replace(solver, iterations=iterations)  # type: ignore[type-var]

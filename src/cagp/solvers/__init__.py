"""Solvers. ``NAMES`` finds them by the name used in text and on the command line."""

from __future__ import annotations

from typing import Any

from ..errors import InputError, InputTypeError
from .auto import Auto
from .base import CalibratedSolver, DataDrivenSolver, Prepared, Solver
from .calibrated_cg import CalibratedCG
from .chain import Chain
from .directions import ConjugateGradient, RandomDirections, RandomKrylov, SweepsThenCG
from .exact import Cholesky, Subset
from .gauss_seidel import GaussSeidel
from .nearest_neighbours import NearestNeighbours
from .stationary import Stationary

ALL: tuple[type[Solver], ...] = (
    Cholesky,
    GaussSeidel,
    CalibratedCG,
    NearestNeighbours,
    RandomKrylov,
    RandomDirections,
    Subset,
    Stationary,
    ConjugateGradient,
    SweepsThenCG,
    Chain,
    Auto,
)
"""The class of every solver."""

NAMES: dict[str, type[Solver]] = {solver.name: solver for solver in ALL}
"""The same by the name that is used in text and on the command line."""


def as_solver(solver: Any) -> Solver:
    """A solver from what a user writes: a solver, or the name of one (with its default settings)."""
    if isinstance(solver, Solver):
        return solver
    if isinstance(solver, type) and issubclass(solver, Solver):
        raise InputTypeError(f"solver is the class {solver.__name__}; pass an instance, {solver.__name__}(...)")
    if not isinstance(solver, str):
        raise InputTypeError(f"solver must be a solver such as GaussSeidel(iterations=10), got {solver!r}")
    if solver not in NAMES:
        raise InputError(f"unknown solver {solver!r}; known are {', '.join(sorted(NAMES))}")
    return NAMES[solver]()


__all__ = [
    "ALL",
    "NAMES",
    "Auto",
    "CalibratedCG",
    "CalibratedSolver",
    "Chain",
    "Cholesky",
    "ConjugateGradient",
    "DataDrivenSolver",
    "GaussSeidel",
    "NearestNeighbours",
    "Prepared",
    "RandomDirections",
    "RandomKrylov",
    "Solver",
    "Stationary",
    "Subset",
    "SweepsThenCG",
    "as_solver",
]

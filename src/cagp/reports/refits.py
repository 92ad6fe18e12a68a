"""The same model once more with another solver, and how long that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..algebra.operations import Operations
from ..solvers import NearestNeighbours, Solver

if TYPE_CHECKING:
    from ..model import Model

LOCAL = NearestNeighbours(100)
"""What pictures are computed with where the model's own solver would take minutes."""


def working(model: Model) -> Solver:
    """The solver that does the work: what Auto picked, where it was asked."""
    return model.prepared.picked or model.solver


def seconds(model: Model, solver: Solver, size: int, tests: int) -> float:
    """About how long ``solver`` takes to condition on ``size`` points as the model keeps them and to predict ``tests``.

    From operation counts, not from a clock: what is decided by it is the same on every machine.
    """
    return solver.operations(size, tests).seconds(tiles=model.prepared.gram.storage == "tiles")


def pass_seconds(size: int, vectors: int) -> float:
    """About how long one product of G, in tiles, with so many vectors takes."""
    return Operations.passes(1, size, vectors).seconds(tiles=True)


def refit(model: Model, solver: Solver, solve_dtype: torch.dtype | None = None) -> Model:
    """The model conditioned anew with ``solver``."""
    other: dict[str, Any] = {} if solve_dtype is None else {"solve_dtype": solve_dtype, "accurate": True}
    return model.again(solver=solver, storage=model.prepared.gram.storage, **other)


def array(values: Any) -> np.ndarray:
    """Results of a prediction as float64 in numpy."""
    tensor = values.detach().cpu() if isinstance(values, torch.Tensor) else values
    return np.asarray(tensor, dtype=np.float64)

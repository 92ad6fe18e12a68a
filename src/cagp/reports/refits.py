"""The same model once more: on some of its data, or with another solver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..prior import Prior
from ..solvers import NearestNeighbours, Solver

if TYPE_CHECKING:
    from ..model import Model

LOCAL = NearestNeighbours(100)
"""What pictures and checks are computed with where the model's own solver would take minutes."""


def prior_at(model: Model, kept: np.ndarray) -> Prior:
    """The prior of the model for its training points ``kept`` (n,) alone: noise given one by one is cut down."""
    return model.recipe.restricted(kept).prior


def refit(
    model: Model, solver: Solver, kept: np.ndarray | None = None, solve_dtype: torch.dtype | None = None
) -> Model:
    """The model conditioned anew with ``solver``, on the training points ``kept`` (n,) or on all."""
    storage = "auto" if kept is not None else model.prepared.gram.storage
    other = {} if solve_dtype is None else {"solve_dtype": solve_dtype, "accurate": True}
    return model.again(kept, solver=solver, storage=storage, **other)


def array(values: Any) -> np.ndarray:
    """Results of a prediction as float64 in numpy."""
    tensor = values.detach().cpu() if isinstance(values, torch.Tensor) else values
    return np.asarray(tensor, dtype=np.float64)

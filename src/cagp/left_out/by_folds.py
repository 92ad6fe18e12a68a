"""Left-out predictions by the solver of the model itself: in groups, each predicted by a model of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..solvers import Solver
from ..solvers.nearest_neighbours import NearestNeighbours
from .correlation import Correlation, correlation_of
from .geometry import Geometry

if TYPE_CHECKING:
    from ..model import Model

_FOLDS = 5
_SINGLY = 25
"""Up to so many observations each is left out alone."""

_SECONDS = 8.0
"""Longer than this is not waited for."""


@dataclass(frozen=True)
class Folds:
    """Errors y − mean, their variances, noise included, and distances to the data, each (n,); how, and in short.

    ``correlation`` is that of the errors within a group, where it was asked for.
    """

    error: np.ndarray
    variance: np.ndarray
    distance: np.ndarray
    how: str
    short: str
    correlation: Correlation | None


def affordable(model: Model, solver: Solver, n: int) -> bool:
    """Whether the solver has no other way to n left-out predictions and takes seconds.

    From operation counts, not from a clock: what is decided by it is the same on every machine.
    """
    size = len(model.y)
    if model.prepared.factor is not None or isinstance(solver, NearestNeighbours):
        return False
    folds = _folds(n, size)
    left_out = -(-n // folds)
    work = solver.operations(size - left_out, left_out)
    return folds * work.seconds(tiles=model.prepared.gram.storage == "tiles") <= _SECONDS


def _folds(n: int, size: int) -> int:
    return n if size <= _SINGLY else min(n, _FOLDS)


def by_folds(
    model: Model, solver: Solver, rows: np.ndarray, seed: int, advance: Callable[[float], None], correlated: bool
) -> Folds:
    """The training points ``rows`` (n,), left out in groups and predicted by models of the others."""
    size, n = len(model.y), len(rows)
    folds = _folds(n, size)
    shuffled = np.random.default_rng(seed).permutation(n)
    mean, variance, distance = np.empty(n), np.empty(n), np.empty(n)
    noise = _array(model.prior.noise(model.X))
    together: list[Correlation | None] = []
    for group in np.array_split(shuffled, folds):
        places = rows[group]
        kept = np.setdiff1d(np.arange(size), places)
        again = model.again(kept, solver=solver.for_points(kept, size), storage="auto")
        test = model.X[torch.from_numpy(places).to(model.device)]
        post = again.predict(test, progress=False).observed(noise[places])
        mean[group], variance[group] = _array(post.mean), _array(post.variance)
        if correlated:
            together.append(correlation_of(post, size))
        distance[group] = _array(Geometry(again).distance(test))
        advance(len(group))
    one = "each in turn" if folds == n else f"in {folds} groups"
    which = f"All {size:,} observations" if n == size else f"{n:,} of the {size:,} observations, drawn at random,"
    how = f"{which} were left out {one} and predicted from the others by {solver!r} with new weights."
    short = "leave-one-out" if folds == n else f"{folds}-fold cross-validation"
    error = model.recipe.y[rows] - mean
    return Folds(error, variance, distance, how, short, Correlation.joined(together))


def _array(values: torch.Tensor) -> np.ndarray:
    return values.double().cpu().numpy()

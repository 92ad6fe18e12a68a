"""Is the method calibrated under its own prior? Simulations at a sample of the model's inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..calibration import SimulationResult, simulation_based_calibration
from ..solvers import Solver
from ..support.numbers import percent
from .refits import array, working

if TYPE_CHECKING:
    from ..model import Model

_TRAIN = 400
_TEST = 50
_SIMULATIONS = 1000
_TRAIN_EACH = 200
_SIMULATIONS_EACH = 300
"""Where every simulation needs a solve of its own."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """The ``result`` of simulations, with the ``solver`` used and ``how`` they were made, in sentences."""

    result: SimulationResult
    solver: Solver
    how: str


def simulate(model: Model, seed: int) -> Simulated:
    """Simulation-based calibration at some of the model's training inputs, predicting at others."""
    solver, size = working(model), len(model.y)
    most, n = (_TRAIN, _SIMULATIONS) if solver.calibrated else (_TRAIN_EACH, _SIMULATIONS_EACH)
    rng = np.random.default_rng(seed)
    order = rng.permutation(size)
    X = array(model.X)
    train = np.sort(order[: min(most, size)])
    rest = order[len(train) : len(train) + _TEST]
    test = X[rest] if len(rest) else _between(X, rng)
    chosen = solver.for_points(train, size)
    result = simulation_based_calibration(
        model.recipe.restricted(train).prior, X[train], test, chosen, n_simulations=n, seed=seed, progress=False
    )
    some = "at all training inputs"
    if len(train) < size:
        some = f"at {len(train):,} of the {size:,} training inputs, drawn at random"
    where = f"{len(test)} further inputs of the data" if len(rest) else f"{len(test)} points between them"
    how = (
        f"{n:,} times, a function and noisy observations of it were drawn from the prior {some}, and a weighted sum of "
        f"its values at {where} was predicted by {chosen!r} and compared with the truth. Here the model is right by "
        f"construction, so whatever is wrong is the method's. {_size(solver, chosen, len(train), size)}"
    )
    return Simulated(result, chosen, how)


def _size(solver: Solver, chosen: Solver, tested: int, size: int) -> str:
    """At which size the method was tested, as ``chosen`` for it, and what that means for the model's own solver."""
    said = []
    if tested < size:
        said.append(f"So the method was tested with {tested:,} observations, not with the model's {size:,}.")
        there, here = chosen.points_used(tested), solver.points_used(size)
        if there is not None and here is not None and there * size > here * tested:
            said.append(
                f"There, the {there} points that a prediction uses are {percent(there / tested)} of the data, in the "
                f"model {percent(here / size)}: the test is of a method that is closer to exact."
            )
        elif solver.calibrated and not solver.is_exact(size):
            said.append("With fewer observations the same settings usually come closer to the exact posterior.")
        said.append(
            "For a calibrated solver, error bars are right at every size by a theorem, so this tests its code."
            if solver.calibrated
            else "How far error bars that depend on y are off changes with the size."
        )
    said.append(
        "With one seed all solvers see the same draws, so two that are almost exact at this size show almost the same "
        "numbers."
    )
    return " ".join(said)


def _between(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points between random pairs of training points, where all of those are in use."""
    first, second = (X[rng.integers(len(X), size=_TEST)] for _ in range(2))
    return first + rng.uniform(0.2, 0.8, (_TEST, 1)) * (second - first)

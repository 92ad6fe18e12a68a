"""The contract of a solver.

A solver is a frozen dataclass of settings. ``prepare`` does, once, all that needs no test points and returns a
``Prepared``; its ``weights`` then yields the kriging weights for a batch of test points after every iteration,
starting with iteration 0, the prior. Whoever consumes the generator may stop at any time: every iterate is valid.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights, zero_weights
from ..gram import Gram
from ..gram.cross_covariance import Cross


class Prepared(ABC):
    """A solver that has seen the training points.

    ``gram`` and ``b`` (d,) are in the order the solver works in; ``order`` (d,) leads there from the order the
    solver was given: ``gram`` row i is training point ``order[i]``. ``picked`` is the solver that ``Auto`` chose.
    """

    picked: Solver | None = None
    held_bytes: int = 0
    """What the solver keeps in memory beside the Gram matrix."""

    limit: int = 1
    """How many iterations there will be at most: what a progress bar needs to know."""

    def __init__(self, gram: Gram, b: torch.Tensor, order: torch.Tensor | None = None) -> None:
        self.gram = gram
        self.b = b
        self.order = order

    @abstractmethod
    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        """Iterates 1, 2, … for G w = r from w = 0, for every row r of ``rhs`` (T, d); each is valid until the next.

        ``reduction`` is 2 rᵀw − wᵀGw, which for the right-hand sides V is what W takes off the variance.
        """

    def weights(self, cross: Cross) -> Iterator[Weights]:
        """The weights for a batch of test points after iterations 0, 1, 2, …; each is valid until the next step."""
        yield zero_weights(cross.size, self.gram.size, self.b)
        yield from self.corrections(cross.matrix)

    @property
    def rows_at_once(self) -> int | None:
        """How many test points ``final`` should be given at a time, so that Ctrl-C is heard; None for all."""
        return None

    @property
    def numbers_per_test_point(self) -> int:
        """How many numbers are alive per test point during a prediction: V, W, right-hand sides, temporaries."""
        return 10 * self.gram.size

    @abstractmethod
    def stopped(self, iteration: int) -> str:
        """Why the solver stops after ``iteration``: one or two sentences."""

    def final(self, cross: Cross) -> Weights | None:
        """The last iterate at once, where there is a shorter way to it than through all others."""
        return None

    def coefficients(self) -> Iterator[torch.Tensor] | None:
        """v (d,) after iterations 0, 1, 2, … with mean = m₀ + V v, where the solver can do this without test points."""
        return None


class Solver(ABC):
    """The settings of a method that approximates the kriging weights W* = G⁻¹ k(X, X′).

    ``calibrated``: W does not depend on y, so the error bars hold exactly under the prior, at any iteration.
    ``side``: "data" solvers work once in ``prepare`` and then predict cheaply; "test" solvers work per test point.
    ``name``: how the solver is called in text. ``cost``: for d training and T test points, m iterations.
    ``corrects``: it can go on from another solver's weights, by solving for what is left.
    """

    calibrated: ClassVar[bool]
    side: ClassVar[Literal["data", "test"]]
    name: ClassVar[str]
    cost: ClassVar[str]
    corrects: ClassVar[bool] = True

    @abstractmethod
    def prepare(self, gram: Gram, b: torch.Tensor) -> Prepared:
        """Do all that needs no test points. ``b`` (d,) is y − m₀(X); a calibrated solver's weights ignore it."""

    def __repr__(self) -> str:
        """The solver as one would write it: only what differs from the defaults."""
        shown = [
            f"{field.name}={_written(getattr(self, field.name))}"
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if getattr(self, field.name) != field.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    # --- what reports and the command line ask; a solver overrides what is not true of it ---------------------------

    picks: ClassVar[bool] = False
    """Whether it only picks another solver, which does the work."""

    @property
    def effort(self) -> str:
        """The setting that says how much work is done: "iterations", "steps", "k", "size"; "" where there is none."""
        return "iterations" if hasattr(self, "iterations") else ""

    def is_exact(self, size: int) -> bool:
        """Whether the weights for ``size`` training points have no computational error."""
        return False

    def points_used(self, size: int) -> int | None:
        """How many of ``size`` training points have a weight, if only some have; None where G is needed as a whole."""
        return None

    def with_more_work(self, size: int, seed: int = 0) -> MoreWork | None:
        """The same method with more work, for one that is not exact; None where there is no setting to raise."""
        if not self.effort:
            return None
        settings = {self.effort: getattr(self, self.effort) + _MORE}
        longer = dataclasses.replace(self, **settings)  # type: ignore[type-var]
        return MoreWork(longer, f"{_MORE} more iterations", counted=True)

    def for_points(self, kept: np.ndarray, size: int) -> Solver:
        """This solver for the training points ``kept`` (n,) alone, sorted indices into all ``size`` of them.

        Settings that name training points, or count more of them than are left, are cut down.
        """
        return self

    def for_test_points(self, number: int) -> Solver:
        """This solver, told how many test points to expect."""
        return self

    def operations(self, size: int, tests: int) -> Operations:
        """What it takes to condition on ``size`` points and to predict ``tests``: an iteration is one pass over G."""
        passes = getattr(self, "iterations", 1)
        count = Operations.each_test_point if self.side == "test" else Operations.directions
        return count(passes, size, tests)


_MORE = 10
"""How many more iterations ``with_more_work`` does."""


@dataclasses.dataclass(frozen=True)
class MoreWork:
    """A ``solver`` that does more work of the same kind, and ``what`` more it does; ``counted`` in iterations."""

    solver: Solver
    what: str
    counted: bool


def renumbered(indices: Sequence[int], kept: np.ndarray, size: int) -> tuple[int, ...]:
    """The training points ``indices`` by their places among those ``kept`` (n,) of ``size``, without the others."""
    place = np.full(size, -1)
    place[kept] = np.arange(len(kept))
    there = place[np.asarray(indices, dtype=int)]
    return tuple(there[there >= 0].tolist())


def _written(value: object) -> str:
    """A setting as one would write it: a function by its name."""
    return str(getattr(value, "__name__", None) or repr(value))


def iteration_limit(solver: Solver, iteration: int) -> str:
    """The usual reason to stop: the iterations that were asked for are done."""
    return f"{type(solver).__name__} did the {iteration} iterations asked for."

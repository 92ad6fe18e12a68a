"""The contract of a solver.

A solver is a frozen dataclass of settings. ``prepare`` does, once, all that needs no test points and returns a
``Prepared``; its ``weights`` then yields the kriging weights for a batch of test points after every iteration,
starting with iteration 0, the prior. Whoever consumes the generator may stop at any time: every iterate is valid.

Calibration is a matter of type. The ``prepare`` of a ``CalibratedSolver`` is given the Gram matrix alone, so its
weights cannot depend on y; a ``DataDrivenSolver`` is given the observations too, and says so by its type.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights, in_order, zero_weights
from ..errors import InputError
from ..gram import Cross, Gram


class Prepared(ABC):
    """A solver that has seen the training points.

    ``gram`` is in the order the solver works in; ``order`` (d,) leads there from the order the solver was given:
    ``gram`` row i is training point ``order[i]``. The weights that it yields know their order.
    """

    picked: Solver | None = None
    """The solver itself with what ``Auto`` chose in its place, where there is an ``Auto`` in it."""

    held_bytes: int = 0
    """What the solver keeps in memory beside the Gram matrix."""

    limit: int = 1
    """How many iterations there will be at most: what a progress bar needs to know."""

    unbiased: bool = False
    """Whether its weights satisfy the constraint of a trend, Hᵀw = h, by themselves."""

    def __init__(self, gram: Gram, order: torch.Tensor | None = None) -> None:
        self.gram = gram
        self.order = order

    @abstractmethod
    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        """Iterates 1, 2, … for G w = r from w = 0, for every row r of ``rhs`` (T, d); each is valid until the next.

        ``reduction`` is 2 rᵀw − wᵀGw, which for the right-hand sides V is what W takes off the variance.
        """

    factor: torch.Tensor | None = None
    """The Cholesky factor of G (d, d), in the order of the data, where the solver has it."""

    def grown(self, gram: Gram) -> Prepared | None:
        """The solver for a ``gram`` that begins with the training points of its own and has more behind them.

        With the results of a solver that is prepared anew, to rounding, for less work; None where there is no such way.
        """
        return None

    def inverse(self, rows: torch.Tensor) -> torch.Tensor | None:
        """The last iterate for other right-hand sides, rows (n, d) in the order that the solver was given.

        None where the solver knows test points only.
        """
        last = None
        for iterate in self.corrections(in_order(rows, self.order)):
            last = iterate
        return None if last is None else last.dense()

    def weights(self, cross: Cross) -> Iterator[Weights]:
        """The weights for a batch of test points after iterations 0, 1, 2, …; each is valid until the next step."""
        yield zero_weights(cross.size, self.gram)
        yield from self.corrections(cross.matrix)

    def settled(self, cross: Cross | None = None) -> tuple[Prepared, str]:
        """What works on the test points of a prediction, and what is expected of it, in words: itself, and nothing.

        A solver that picks another one says here which; without test points, by what it can guess about them. Whoever
        works with a prepared solver asks for this first.
        """
        return self, ""

    def arrange(self, cross: Cross) -> Cross:
        """What must be known of all test points of a prediction together, before they are cut into batches.

        Called once for each prediction. A solver that lets test points share work says here which of them do, so that
        the results do not depend on the batches.
        """
        return cross

    def pieces(self, cross: Cross) -> list[torch.Tensor]:
        """The test points that ``final`` should be given at a time, so that Ctrl-C is heard: all of them by default."""
        return [torch.arange(cross.size)]

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

    def coefficients(self, b: torch.Tensor) -> Iterator[torch.Tensor] | None:
        """v (d,) after iterations 0, 1, 2, … with mean = m₀ + V v, where the solver can do this without test points.

        ``b`` (d,) is y − m₀(X), and both are in the order that the solver was given.
        """
        return None


class Solver(ABC):
    """The settings of a method that approximates the kriging weights W* = G⁻¹ k(X, X′).

    A solver of one's own inherits ``CalibratedSolver`` or ``DataDrivenSolver``.

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
    def prepared_for(self, gram: Gram, b: torch.Tensor | None = None) -> Prepared:
        """Do all that needs no test points. ``b`` = y − m₀(X) (d,) reaches data-driven solvers only."""

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


class CalibratedSolver(Solver):
    """A solver whose weights do not depend on y: it is never shown any."""

    calibrated = True

    @abstractmethod
    def prepare(self, gram: Gram) -> Prepared:
        """Do all that needs no test points."""

    def prepared_for(self, gram: Gram, b: torch.Tensor | None = None) -> Prepared:
        return self.prepare(gram)


class DataDrivenSolver(Solver):
    """A solver that takes its directions from y: it may need fewer iterations, and its error bars are not exact."""

    calibrated = False

    @abstractmethod
    def prepare(self, gram: Gram, b: torch.Tensor) -> Prepared:
        """Do all that needs no test points; ``b`` (d,) is y − m₀(X)."""

    def prepared_for(self, gram: Gram, b: torch.Tensor | None = None) -> Prepared:
        if b is None:
            raise InputError(f"{self!r} takes its directions from the observations, and was given none")
        return self.prepare(gram, b)


def _written(value: object) -> str:
    """A setting as one would write it: a function by its name."""
    return str(getattr(value, "__name__", None) or repr(value))


def iteration_limit(solver: Solver, iteration: int) -> str:
    """The usual reason to stop: the iterations that were asked for are done."""
    return f"{type(solver).__name__} did the {iteration} iterations asked for."

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
from collections.abc import Iterator
from typing import ClassVar, Literal

import torch

from ..algebra.weights import Weights, zero_weights
from ..errors import InputError
from ..gram import Cross, Gram


class Prepared(ABC):
    """A solver that has seen the training points.

    ``gram`` is in the order the solver works in; ``order`` (d,) leads there from the order the solver was given:
    ``gram`` row i is training point ``order[i]``. The weights that it yields know their order.
    """

    picked: Solver | None = None
    """The solver itself with what ``Auto`` chose in its place, where there is an ``Auto`` in it."""

    unbiased: bool = False
    """Whether its weights satisfy the constraint of a trend, Hᵀw = h, by themselves."""

    held_bytes: int = 0
    """What the solver keeps in memory beside the Gram matrix."""

    limit: int = 1
    """How many iterations there will be at most: what a progress bar needs to know."""

    def __init__(self, gram: Gram, order: torch.Tensor | None = None) -> None:
        self.gram = gram
        self.order = order

    @abstractmethod
    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        """Iterates 1, 2, … for G w = r from w = 0, for every row r of ``rhs`` (T, d); each is valid until the next.

        ``reduction`` is 2 rᵀw − wᵀGw, which for the right-hand sides V is what W takes off the variance.
        """

    def weights(self, cross: Cross) -> Iterator[Weights]:
        """The weights for a batch of test points after iterations 0, 1, 2, …; each is valid until the next step."""
        yield zero_weights(cross.size, self.gram)
        yield from self.corrections(cross.matrix)

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
        """Why the solver stops after ``iteration``, with advice: one or two sentences."""

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
    return (
        f"{type(solver).__name__} did the {iteration} iterations asked for. "
        "`computational_variance` tells how much of the variance more iterations could remove."
    )

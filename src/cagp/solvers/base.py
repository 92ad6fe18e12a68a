"""The contract of a solver.

A solver is a frozen dataclass of settings. ``prepare`` does, once, all that needs no test points and returns a
``Prepared``; its ``weights`` then yields the kriging weights for a batch of test points after every iteration,
starting with iteration 0, the prior. Whoever consumes the generator may stop at any time: every iterate is valid.

Calibration is a matter of type: the ``prepare`` of a ``CalibratedSolver`` is given the Gram matrix alone, so its
weights cannot depend on y; a ``DataDrivenSolver`` is given the observations too.
"""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights, zero_weights
from ..errors import InputError
from ..gram import Cross, Gram
from ..support.validation import count


class Prepared(ABC):
    """A ``solver`` that has seen the training points. ``corrections`` is all that has to be written.

    ``gram`` is in the order the solver works in; ``order`` (d,) leads there from the order the solver was given:
    ``gram`` row i is training point ``order[i]``. The weights that it yields know their order.
    """

    held_bytes: int = 0  #: what the solver keeps in memory beside the Gram matrix
    unbiased: bool = False  #: whether its weights satisfy the constraint of a trend, Hᵀw = h, by themselves
    factor: torch.Tensor | None = None  #: the Cholesky factor of G (d, d), in the order of the data, if it has it
    picked: Solver | None = None  #: the solver with what ``Auto`` chose in its place, if there is an ``Auto`` in it
    undecided: bool = False  #: whether ``Auto`` has still to choose, and to prepare what it chooses
    why: object = ""  #: where ``Auto`` chose it, from what: printed, a table of operations, memory and excess

    def __init__(self, solver: Solver, gram: Gram, order: torch.Tensor | None = None) -> None:
        self.solver, self.gram, self.order = solver, gram, order
        self.limit: int = getattr(solver, "iterations", 1)  # of iterations: what a progress bar needs to know

    @abstractmethod
    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        """Iterates 1, 2, … for G w = r from w = 0, for every row r of ``rhs`` (T, d); each is valid until the next.

        ``reduction`` is 2 rᵀw − wᵀGw, which for the right-hand sides V is what W takes off the variance. A solver that
        knows test points only has none.
        """

    def stopped(self, iteration: int) -> str:
        """Why the solver stops after ``iteration``: one or two sentences."""
        return f"{type(self.solver).__name__} did the {iteration} iterations asked for."

    @property
    def numbers_per_test_point(self) -> int:
        """How many numbers are alive per test point during a prediction: V, W, right-hand sides, temporaries."""
        return 10 * self.gram.size

    def weights(self, cross: Cross) -> Iterator[Weights]:
        """The weights for a batch of test points after iterations 0, 1, 2, …; each is valid until the next step."""
        yield zero_weights(cross.size, self.gram)
        yield from self.corrections(cross.matrix)

    def final(self, cross: Cross) -> Weights | None:
        """The last iterate at once, where there is a shorter way to it than through all others."""
        return None

    def coefficients(self, b: torch.Tensor) -> Iterator[torch.Tensor] | None:
        """v (d,) after iterations 0, 1, 2, … with mean = m₀ + V v, where the solver can do this without test points.

        ``b`` (d,) is y − m₀(X), and both are in the order that the solver was given.
        """
        return None

    def grown(self, gram: Gram) -> Prepared | None:
        """The solver for a ``gram`` with points behind its own, as if prepared anew; None if there is no such way."""
        return None

    def picked_for(self, cross: Cross | None = None) -> tuple[Prepared, str]:
        """What works on these test points, and why, in words: by default itself, and nothing. To be asked for first."""
        return self, ""

    def pieces(self, cross: Cross) -> list[torch.Tensor]:
        """The test points that ``final`` should be given at a time, so that Ctrl-C is heard; none where it is all."""
        return []


class Solver(ABC):
    """The settings of a method that approximates the kriging weights W* = G⁻¹ k(X, X′).

    A solver of one's own inherits ``CalibratedSolver`` or ``DataDrivenSolver`` and writes ``prepare``.

    ``calibrated``: W does not depend on y, so the error bars hold exactly under the prior, at any iteration.
    ``side``: "data" solvers work once in ``prepare`` and then predict cheaply; "test" solvers work per test point.
    ``name``: how the solver is called in text, by default its class in small letters: GaussSeidel is "gauss-seidel".
    ``cost``: for d training and T test points, m iterations. ``corrects``: it can go on from another solver's weights.
    ``worth_threads``: not where it works in small pieces that threads share, inside of which they would only wait.
    """

    calibrated: ClassVar[bool]
    side: ClassVar[Literal["data", "test"]] = "test"
    name: ClassVar[str]
    cost: ClassVar[str] = "O(m d² T) time, O(dT) memory beside G"
    corrects: ClassVar[bool] = True
    worth_threads: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()

    def __post_init__(self) -> None:
        """Check the settings that most solvers have."""
        for name in ("iterations", "seed"):
            if hasattr(self, name):
                count(getattr(self, name), name)

    @abstractmethod
    def prepared_for(self, gram: Gram, b: torch.Tensor | None = None) -> Prepared:
        """Do all that needs no test points. ``b`` = y − m₀(X) (d,) reaches data-driven solvers only."""

    def description(self, size: int) -> Description:
        """What there is to say about it for ``size`` training points; by default that ``iterations`` can be raised."""
        return Description.iterative(self, "iterations" if hasattr(self, "iterations") else "")

    def operations(self, size: int, tests: int) -> Operations:
        """What it takes to condition on ``size`` points and to predict ``tests``: an iteration is one pass over G."""
        counted = Operations.each_test_point if self.side == "test" else Operations.directions
        return counted(getattr(self, "iterations", 1), size, tests)

    def for_points(self, kept: np.ndarray, size: int) -> Solver:
        """This solver with its settings cut down to the training points ``kept`` (n,), sorted indices into ``size``."""
        return self

    def for_test_points(self, number: int) -> Solver:
        """This solver, told how many test points to expect."""
        return self

    def __repr__(self) -> str:
        """The solver as one would write it: only what differs from the defaults, and a function by its name."""
        fields = [(field, getattr(self, field.name)) for field in dataclasses.fields(self)]  # type: ignore[arg-type]
        told = {field.name: value for field, value in fields if value != field.default}
        shown = [f"{name}={getattr(value, '__name__', None) or repr(value)}" for name, value in told.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


_MORE = 10  # how many more iterations are tried


@dataclasses.dataclass(frozen=True)
class Description:
    """What reports, the status and the command line ask about a solver for some number of training points.

    ``exact``: its weights have no computational error. ``points_used``: how many training points have a weight, None
    where G is needed as a whole. ``effort``: the setting that says how much work is done, if any. ``more``: the same
    method with more work, if any, and ``more_work`` what that is; ``continues``: its iterates begin with those of this.
    """

    exact: bool = False
    points_used: int | None = None
    effort: str = ""
    more: Solver | None = None
    more_work: str = ""
    continues: bool = False

    @classmethod
    def iterative(cls, solver: Solver, effort: str, exact: bool = False) -> Description:
        """That of a method whose iterations are counted by the setting ``effort``, if it has one."""
        if not effort:
            return cls(exact)
        more: Any = dataclasses.replace(solver, **{effort: getattr(solver, effort) + _MORE})  # type: ignore[type-var]
        return cls(exact, None, effort, more, f"{_MORE} more iterations", continues=True)


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

"""Solvers one after another, each from the weights of the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights
from ..errors import InputError, InputTypeError
from ..gram import Gram
from ..gram.cross_covariance import Cross
from ..support.memory import require
from .base import MoreWork, Prepared, Solver


@dataclass(frozen=True, repr=False)
class Chain(Solver):
    """Run solvers one after another: ``Chain([GaussSeidel(5), CalibratedCG(10, Nystrom(1000))])``.

    Each solves for what the ones before left over, W ← W + S(k(X, X′) − G W), which costs one pass in between. A chain
    is calibrated if all of its solvers are. Iterations are counted through. The paper's hybrid is ``SweepsThenCG``.
    """

    solvers: Sequence[Solver]

    calibrated = False  # of a chain: whether all its solvers are, see __post_init__
    side = "test"
    name = "chain"
    cost = "the sum of its solvers', and one pass between two of them"

    def __post_init__(self) -> None:
        solvers = tuple(self.solvers)
        if not solvers or not all(isinstance(solver, Solver) for solver in solvers):
            raise InputTypeError(f"solvers must be a sequence of at least one solver, got {self.solvers!r}")
        for solver in solvers[1:]:
            if not solver.corrects:
                raise InputError(f"{solver!r} cannot go on from another solver's weights; put it first")
        object.__setattr__(self, "solvers", solvers)
        object.__setattr__(self, "calibrated", all(solver.calibrated for solver in solvers))
        object.__setattr__(self, "corrects", solvers[0].corrects)

    def __repr__(self) -> str:
        return f"Chain([{', '.join(map(repr, self.solvers))}])"

    def prepare(self, gram: Gram, b: torch.Tensor) -> Prepared:
        prepared = self.solvers[0].prepare(gram, b)
        for solver in self.solvers[1:]:
            prepared = _PreparedChain(prepared, solver)
        return prepared

    def is_exact(self, size: int) -> bool:
        return any(solver.is_exact(size) for solver in self.solvers)

    def with_more_work(self, size: int, seed: int = 0) -> MoreWork | None:
        """More of its last solver's."""
        *before, last = self.solvers
        more = last.with_more_work(size, seed)
        return more and replace(more, solver=Chain([*before, more.solver]))

    def for_points(self, kept: np.ndarray, size: int) -> Solver:
        return Chain([solver.for_points(kept, size) for solver in self.solvers])

    def operations(self, size: int, tests: int) -> Operations:
        between = Operations.passes(len(self.solvers) - 1, size, tests)
        return sum((solver.operations(size, tests) for solver in self.solvers), between)


class _PreparedChain(Prepared):
    """``first``, then ``solver`` from its weights. Works in the order of the second, which starts from the first's."""

    def __init__(self, first: Prepared, solver: Solver) -> None:
        self._first = first
        self._second = solver.prepare(first.gram, first.b)
        order = _then(first.order, self._second.order)
        b = first.b if self._second.order is None else first.b[self._second.order]
        super().__init__(self._second.gram, b, order)
        self._matrices = getattr(first, "_matrices", 1) + (self._second.gram is not first.gram)
        if self.gram.storage == "dense":
            what = f"a chain of solvers in {self._matrices} different orders, each with its dense Gram matrix,"
            remedy = 'use storage="tiles", one order for all, or a larger memory_budget'
            require(self._matrices * self.gram.dense_bytes, self.gram.budget, what, remedy)
        another = self.gram is not first.gram and self.gram.storage == "dense"
        self.held_bytes = first.held_bytes + self._second.held_bytes + (self.gram.dense_bytes if another else 0)
        self.limit = first.limit + self._second.limit

    @property
    def numbers_per_test_point(self) -> int:
        return 14 * self.gram.size

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        own = rhs if self._second.order is None else _unpermuted(rhs, self._second.order)
        yield from self._run(self._first.corrections(own), rhs)

    def weights(self, cross: Cross) -> Iterator[Weights]:
        earlier = self._first.gram.cross(cross.test)
        yield from self._run(self._first.weights(earlier), None, cross)

    def _run(self, first: Iterator[Weights], rhs: torch.Tensor | None, cross: Cross | None = None) -> Iterator[Weights]:
        """The iterates of the first solver, then those of the second on what is left of the right-hand sides."""
        for start in first:
            yield self._in_order(start)
        base = self._in_order(start)
        W = base.dense()
        if rhs is None:
            assert cross is not None
            rhs = cross.matrix
        for correction in self._second.corrections(rhs - self.gram.matmul(W)):
            yield replace(
                correction,
                values=W + correction.dense(),
                indices=None,
                reduction=base.reduction + correction.reduction,
                iteration=base.iteration + correction.iteration,
                passes=base.passes + 1 + correction.passes,
            )

    def _in_order(self, weights: Weights) -> Weights:
        """Weights of the first solver in the order of the second."""
        order = self._second.order
        if order is None:
            return weights
        return replace(weights, values=weights.dense()[:, order], indices=None)

    def stopped(self, iteration: int) -> str:
        return f"Chain: {self._second.stopped(iteration - self._first.limit)}"


def _then(first: torch.Tensor | None, second: torch.Tensor | None) -> torch.Tensor | None:
    if first is None or second is None:
        return first if second is None else second
    return first[second]


def _unpermuted(rows: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(rows)
    out[:, order] = rows
    return out

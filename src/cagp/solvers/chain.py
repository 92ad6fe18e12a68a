"""Solvers one after another, each from the weights of the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights, in_given_order, in_order
from ..errors import InputError, InputTypeError
from ..gram import Cross, Gram
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

    def prepared_for(self, gram: Gram, b: torch.Tensor | None = None) -> Prepared:
        first, *others = self.solvers
        prepared = first.prepared_for(gram, b)
        picked = [prepared.picked or first]
        for solver in others:
            # each works on what the one before made of G, so that no order of the points is undone on the way
            seen = b if b is None or prepared.order is None else b[prepared.order]
            second = solver.prepared_for(prepared.gram, seen)
            picked.append(second.picked or solver)
            prepared = _PreparedChain(prepared, second)
        if tuple(picked) != self.solvers:
            prepared.picked = Chain(picked)
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
    """``first``, then ``second`` from its weights; the second was given the Gram matrix of the first."""

    def __init__(self, first: Prepared, second: Prepared) -> None:
        super().__init__(second.gram, _then(first.order, second.order))
        self._first, self._second = first, second
        another = second.gram is not first.gram
        self.matrices: int = (first.matrices if isinstance(first, _PreparedChain) else 1) + another
        if self.gram.storage == "dense":
            what = f"a chain of solvers in {self.matrices} different orders, each with its dense Gram matrix,"
            remedy = 'use storage="tiles", one order for all, or a larger memory_budget'
            require(self.matrices * self.gram.dense_bytes, self.gram.budget, what, remedy)
            self.held_bytes = self.gram.dense_bytes if another else 0
        self.held_bytes += first.held_bytes + second.held_bytes
        self.limit = first.limit + second.limit

    @property
    def numbers_per_test_point(self) -> int:
        return 14 * self.gram.size

    def arrange(self, cross: Cross) -> Cross:
        return self._second.arrange(self._first.arrange(cross))

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        earlier = self._first.corrections(in_given_order(rhs, self._second.order))
        yield from self._run(earlier, lambda: rhs)

    def weights(self, cross: Cross) -> Iterator[Weights]:
        earlier = self._first.weights(cross.seen_by(self._first.gram))
        yield from self._run(earlier, lambda: cross.matrix)

    def inverse(self, rows: torch.Tensor) -> torch.Tensor | None:
        start = self._first.inverse(rows)
        left = in_order(rows, self._first.order)
        if start is not None:
            left = left - self._first.gram.matmul(in_order(start, self._first.order))
        solved = self._second.inverse(left)
        if solved is None:
            return start
        solved = in_given_order(solved, self._first.order)
        return solved if start is None else start + solved

    def _run(self, first: Iterator[Weights], rhs: Callable[[], torch.Tensor]) -> Iterator[Weights]:
        """The iterates of the first solver, then those of the second on what is left of the right-hand sides."""
        for base in first:
            yield base
        W = in_order(base.dense(), self.order)
        for correction in self._second.corrections(rhs() - self.gram.matmul(W)):
            yield replace(
                correction,
                values=W + correction.in_order(self._second.order),
                indices=None,
                order=self.order,
                reduction=base.reduction + correction.reduction,
                iteration=base.iteration + correction.iteration,
                passes=base.passes + 1 + correction.passes,
            )

    def stopped(self, iteration: int) -> str:
        return f"Chain: {self._second.stopped(iteration - self._first.limit)}"


def _then(first: torch.Tensor | None, second: torch.Tensor | None) -> torch.Tensor | None:
    """The order that ``second`` makes of points which are in the order ``first`` already."""
    if first is None or second is None:
        return first if second is None else second
    return first[second]

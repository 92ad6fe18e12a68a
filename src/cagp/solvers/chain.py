"""Solvers one after another, each from the weights of the one before."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights, in_given_order, in_order, zero_weights
from ..errors import InputError, InputTypeError
from ..gram import Cross, Gram
from ..support.memory import require
from .base import Description, Prepared, Solver


@dataclass(frozen=True, repr=False)
class Chain(Solver):
    """Run solvers one after another: ``Chain([GaussSeidel(5), CalibratedCG(10, Nystrom(1000))])``.

    Each solves for what the ones before left over, W ← W + S(k(X, X′) − G W), which costs one pass in between. A chain
    is calibrated if all of its solvers are. Iterations are counted through. The paper's hybrid is ``SweepsThenCG``.
    """

    solvers: Sequence[Solver]

    calibrated = False  # of a chain: whether all its solvers are, see __post_init__
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
        prepared, _ = first.prepared_for(gram, b).picked_for()
        picked = [prepared.picked or first]
        for solver in others:
            # each works on what the one before made of G, so that no order of the points is undone on the way
            seen = b if b is None or prepared.order is None else b[prepared.order]
            second, _ = solver.prepared_for(prepared.gram, seen).picked_for()
            picked.append(second.picked or solver)
            prepared = _PreparedChain(self, prepared, second)
        if tuple(picked) != self.solvers:
            prepared.picked = Chain(picked)
        return prepared

    def description(self, size: int) -> Description:
        """More work is more of its last solver's."""
        *before, last = (solver.description(size) for solver in self.solvers)
        more = None if last.more is None else Chain([*self.solvers[:-1], last.more])
        return Description(any(each.exact for each in (*before, last)), None, "", more, last.more_work, last.continues)

    def for_points(self, kept: np.ndarray, size: int) -> Solver:
        return Chain([solver.for_points(kept, size) for solver in self.solvers])

    def operations(self, size: int, tests: int) -> Operations:
        between = Operations.passes(len(self.solvers) - 1, size, tests)
        return sum((solver.operations(size, tests) for solver in self.solvers), between)


class _PreparedChain(Prepared):
    """``first``, then ``second`` from its weights; the second was given the Gram matrix of the first."""

    def __init__(self, solver: Chain, first: Prepared, second: Prepared) -> None:
        order = first.order if second.order is None else second.order
        if first.order is not None and second.order is not None:
            order = first.order[second.order]
        super().__init__(solver, second.gram, order)
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

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        earlier = self._first.corrections(in_given_order(rhs, self._second.order))
        yield from self._run(earlier, lambda: rhs)

    def weights(self, cross: Cross) -> Iterator[Weights]:
        earlier = self._first.weights(cross.seen_by(self._first.gram))
        yield from self._run(earlier, lambda: cross.matrix)

    def _run(self, first: Iterator[Weights], rhs: Callable[[], torch.Tensor]) -> Iterator[Weights]:
        """The iterates of the first solver, then those of the second on what is left of the right-hand sides."""
        base = None
        for base in first:
            yield base
        left = rhs()
        if base is None:  # a first that has done nothing, or knows test points only
            base, W = zero_weights(len(left), self.gram), torch.zeros_like(left)
        else:
            W = in_order(base.dense(), self.order)
            left = left - self.gram.matmul(W)
        for correction in self._second.corrections(left):
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

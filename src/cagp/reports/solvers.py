"""Solvers in words, on fewer points, with more iterations, and how long they take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..preconditioners import Nystrom
from ..solvers import (
    Auto,
    CalibratedCG,
    Chain,
    Cholesky,
    GaussSeidel,
    NearestNeighbours,
    RandomDirections,
    RandomKrylov,
    Solver,
    Subset,
    SweepsThenCG,
)

if TYPE_CHECKING:
    from ..model import Model

EXTRA = 10
"""How many more iterations are tried."""

_KERNEL_SECONDS = 7e-9
_READ_SECONDS = 1e-9
_FLOPS_PER_SECOND = 3e10
"""Of one core, roughly: to tell seconds from minutes."""


def working(model: Model) -> Solver:
    """The solver that does the work: what Auto picked, where it was asked."""
    return model.prepared.picked or model.solver


def restricted(solver: Solver, kept: np.ndarray, size: int) -> Solver:
    """``solver`` for the training points ``kept`` (n,), sorted indices into all ``size`` of them.

    Settings that name training points, or count more of them than are left, are cut down.
    """
    if isinstance(solver, Subset):
        if solver.indices is None:
            assert solver.size is not None
            return replace(solver, size=min(solver.size, len(kept)))
        return replace(solver, indices=_renumbered(solver.indices, kept, size))
    if isinstance(solver, GaussSeidel) and not isinstance(solver.order, str):
        return replace(solver, order=_renumbered(solver.order, kept, size))
    if isinstance(solver, Chain):
        return Chain([restricted(part, kept, size) for part in solver.solvers])
    if isinstance(solver, CalibratedCG) and solver.start is not None:
        return replace(solver, start=restricted(solver.start, kept, size))
    return solver


def _renumbered(indices: Sequence[int], kept: np.ndarray, size: int) -> tuple[int, ...]:
    place = np.full(size, -1)
    place[kept] = np.arange(len(kept))
    there = place[np.asarray(indices, dtype=int)]
    return tuple(there[there >= 0].tolist())


@dataclass(frozen=True)
class More:
    """A solver that does more work of the same kind, and ``what`` more it does; ``counted`` in iterations."""

    solver: Solver
    what: str
    counted: bool


def more(solver: Solver, size: int, seed: int) -> More | None:
    """``solver`` with ten more iterations or, where it works in one step, twice the points; None where it is exact."""
    if isinstance(solver, Cholesky):
        return None
    if isinstance(solver, NearestNeighbours):
        k = min(max(2 * solver.k, 1), size)
        larger = replace(solver, k=k)
        return More(larger, f"{k} neighbours instead of {solver.k}", False) if solver.k < size else None
    if isinstance(solver, Subset):
        return _larger(solver, size, seed)
    if isinstance(solver, Chain):
        last = more(solver.solvers[-1], size, seed)
        return last and replace(last, solver=Chain([*solver.solvers[:-1], last.solver]))
    if isinstance(solver, RandomDirections) and solver.iterations >= size:
        return None
    if isinstance(solver, RandomKrylov) and solver.iterations * solver.block_size >= size:
        return None
    field = "steps" if isinstance(solver, SweepsThenCG) else "iterations"
    if not hasattr(solver, field):
        raise InputError(f"{solver!r} has no number of iterations to raise")
    settings: Any = {field: getattr(solver, field) + EXTRA}
    return More(replace(solver, **settings), f"{EXTRA} more iterations", True)  # type: ignore[type-var]


def _larger(solver: Subset, size: int, seed: int) -> More | None:
    chosen = solver.size if solver.indices is None else len(solver.indices)
    assert chosen is not None
    if chosen >= size:
        return None
    wanted = min(size, max(2 * chosen, 1))
    what = f"a subset of {wanted} points instead of {chosen}"
    if solver.indices is None:
        return More(replace(solver, size=wanted), what, False)
    free = np.setdiff1d(np.arange(size), solver.indices)
    added = np.random.default_rng(seed).permutation(free)[: wanted - chosen]
    return More(replace(solver, indices=(*solver.indices, *added.tolist())), what, False)


def pass_seconds(size: int, vectors: int, *, tiles: bool = True) -> float:
    """About how long one product of G with so many vectors takes, on one core."""
    square = float(size) ** 2
    return square * (_KERNEL_SECONDS / 2 if tiles else _READ_SECONDS) + 2 * square * vectors / _FLOPS_PER_SECOND


def seconds(solver: Solver, size: int, tests: int, *, tiles: bool) -> float:
    """About how long it takes to condition on ``size`` points and predict ``tests`` points, on one core.

    From operation counts, not from a clock: what is decided by it is the same on every machine.
    """
    square = float(size) ** 2
    fill = 0.0 if tiles else square * _KERNEL_SECONDS / 2

    def flops(count: float) -> float:
        return count / _FLOPS_PER_SECOND

    if isinstance(solver, Auto):
        solver = Cholesky() if size <= 8_000 else NearestNeighbours(200)
    if isinstance(solver, Cholesky):
        return fill + square * _KERNEL_SECONDS / 2 + flops(size * square / 3 + 2 * square * tests)
    if isinstance(solver, NearestNeighbours):
        k = min(solver.k, size)
        return tests * (flops(k**3 / 3.0) + 2 * k * k * _KERNEL_SECONDS) + size * 1e-6
    if isinstance(solver, Subset):
        m = solver.size if solver.indices is None else len(solver.indices)
        return flops(float(m or 0) ** 3 / 3 + float(m or 0) ** 2 * tests) + tests * (m or 0) * _KERNEL_SECONDS
    if isinstance(solver, Chain):
        return fill + sum(seconds(part, size, tests, tiles=tiles) for part in solver.solvers)
    if isinstance(solver, SweepsThenCG):
        passes = 2.0 * (solver.sweeps + solver.steps)
    else:
        passes = float(getattr(solver, "iterations", 1))
    vectors = tests if solver.side == "test" else getattr(solver, "block_size", 1)
    total = fill + passes * pass_seconds(size, vectors, tiles=tiles)
    if isinstance(solver, CalibratedCG):
        if isinstance(solver.preconditioner, Nystrom):
            rank = min(solver.preconditioner.rank, size)
            total += flops(4.0 * size * rank**2 + 4.0 * passes * size * rank * tests) + size * rank * _KERNEL_SECONDS
        if solver.start is not None:
            total += seconds(solver.start, size, tests, tiles=tiles) + pass_seconds(size, tests, tiles=tiles)
    if solver.side == "data":
        total += flops(4.0 * passes * vectors * size * tests) + size * tests * _KERNEL_SECONDS
    return total

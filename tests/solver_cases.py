"""Every solver with the settings its contract is tested at. A new solver is tested by adding it here."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import cagp
from cagp.gram import Gram
from outside import SteepestDescent


def half_jacobi(gram: Gram, R: torch.Tensor) -> torch.Tensor:
    """A user's own M̃: damped Jacobi with a damping that converges on the problems of these tests."""
    return 0.05 * R / gram.diagonal()


@dataclass(frozen=True)
class Case:
    """``solver`` after a few iterations, ``converged`` after enough for the exact posterior (d = 40)."""

    solver: cagp.Solver
    converged: cagp.Solver
    tolerance: float = 1e-6  # of the converged solver

    @property
    def idle(self) -> cagp.Solver:
        """The same kind of solver, told to do nothing."""
        if isinstance(self.solver, cagp.Subset):
            return cagp.Subset(size=0)
        if isinstance(self.solver, cagp.NearestNeighbours):
            return cagp.NearestNeighbours(0)
        if isinstance(self.solver, cagp.SweepsThenCG):
            return cagp.SweepsThenCG(0, 0)
        if isinstance(self.solver, cagp.Chain):
            return cagp.Chain([cagp.GaussSeidel(0), cagp.CalibratedCG(0)])
        return type(self.solver)(iterations=0)

    @property
    def id(self) -> str:
        return repr(self.solver)


CASES = [
    Case(cagp.Auto(), cagp.Auto(), 1e-10),
    Case(cagp.Cholesky(), cagp.Cholesky(), 1e-10),
    Case(cagp.GaussSeidel(3), cagp.GaussSeidel(1000)),
    Case(cagp.GaussSeidel(3, order="natural"), cagp.GaussSeidel(1000, order="natural")),
    Case(cagp.GaussSeidel(3, order="maximin"), cagp.GaussSeidel(1000, order="maximin")),
    Case(cagp.GaussSeidel(2, block_size=7), cagp.GaussSeidel(500, block_size=7)),
    Case(
        cagp.GaussSeidel(2, block_size=9, partition="spatial"),
        cagp.GaussSeidel(300, block_size=9, partition="spatial"),
    ),
    Case(cagp.CalibratedCG(4), cagp.CalibratedCG(80), 1e-9),
    Case(cagp.CalibratedCG(3, cagp.Jacobi()), cagp.CalibratedCG(80, cagp.Jacobi()), 1e-9),
    Case(cagp.CalibratedCG(3, cagp.Nystrom(6)), cagp.CalibratedCG(60, cagp.Nystrom(6)), 1e-9),
    Case(cagp.CalibratedCG(3, cagp.SymmetricGaussSeidel(7)), cagp.CalibratedCG(60, cagp.SymmetricGaussSeidel(7)), 1e-9),
    Case(
        cagp.CalibratedCG(2, cagp.Nystrom(5), start=cagp.NearestNeighbours(4)),
        cagp.CalibratedCG(60, cagp.Nystrom(5), start=cagp.NearestNeighbours(4)),
        1e-9,
    ),
    Case(cagp.NearestNeighbours(5), cagp.NearestNeighbours(40), 1e-9),
    Case(cagp.NearestNeighbours(5, far=6, seed=1), cagp.NearestNeighbours(40, far=3), 1e-9),
    Case(cagp.RandomKrylov(3, block_size=3), cagp.RandomKrylov(14, block_size=3), 1e-8),
    Case(
        cagp.Chain([cagp.GaussSeidel(2), cagp.CalibratedCG(3)]),
        cagp.Chain([cagp.GaussSeidel(2), cagp.CalibratedCG(80)]),
        1e-9,
    ),
    Case(
        cagp.Chain([cagp.NearestNeighbours(3), cagp.GaussSeidel(2), cagp.Stationary("sor", 1)]),
        cagp.Chain([cagp.NearestNeighbours(3), cagp.GaussSeidel(1000), cagp.Stationary("sor", 1)]),
    ),
    Case(
        cagp.Chain([cagp.GaussSeidel(2), cagp.ConjugateGradient(3)]),
        cagp.Chain([cagp.GaussSeidel(2), cagp.ConjugateGradient(40)]),
        1e-5,
    ),
    Case(
        cagp.Chain([cagp.GaussSeidel(2, seed=1), cagp.GaussSeidel(2, seed=2)]),
        cagp.Chain([cagp.GaussSeidel(2, seed=1), cagp.GaussSeidel(1000, seed=2)]),
    ),
    Case(
        cagp.Chain(
            [cagp.GaussSeidel(1, seed=5), cagp.Chain([cagp.GaussSeidel(1, seed=3), cagp.GaussSeidel(1, seed=4)])]
        ),
        cagp.Chain([cagp.GaussSeidel(1), cagp.Chain([cagp.GaussSeidel(1000, seed=3), cagp.GaussSeidel(1, seed=4)])]),
    ),
    Case(cagp.SweepsThenCG(2, 3), cagp.SweepsThenCG(2, 40), 1e-5),
    Case(cagp.ConjugateGradient(5), cagp.ConjugateGradient(40)),
    Case(cagp.RandomDirections(8), cagp.RandomDirections(40), 1e-9),
    Case(cagp.Subset(size=9), cagp.Subset(size=40), 1e-9),
    Case(cagp.Subset(indices=(3, 1, 17)), cagp.Subset(indices=tuple(range(40))), 1e-9),
    Case(cagp.Stationary("richardson", 6), cagp.Stationary("richardson", 6000)),
    Case(cagp.Stationary("jacobi", 6), cagp.Stationary("jacobi", 6000)),
    Case(cagp.Stationary("sor", 4, relaxation=1.3), cagp.Stationary("sor", 1000, relaxation=1.3)),
    Case(cagp.Stationary("ssor", 3, relaxation=0.8), cagp.Stationary("ssor", 1500)),
    Case(cagp.Stationary(half_jacobi, 6), cagp.Stationary(half_jacobi, 8000)),
]

OUTSIDE = [Case(SteepestDescent(4), SteepestDescent(2500))]
"""Solvers that are not of this package: what is promised of every solver holds for them."""

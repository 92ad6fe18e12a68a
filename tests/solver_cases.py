"""Every solver with the settings its contract is tested at. A new solver is tested by adding it here."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import cagp


def half_jacobi(gram: cagp.Gram, R: torch.Tensor) -> torch.Tensor:
    """A user's own M̃: damped Jacobi with a damping that converges on the problems of these tests."""
    return 0.05 * R / gram.diagonal()


@dataclass(frozen=True)
class Case:
    """``solver`` after a few iterations, ``converged`` after enough for the exact posterior (d = 40)."""

    solver: cagp.Solver
    converged: cagp.Solver
    tolerance: float = 1e-6  # of the converged solver

    @property
    def id(self) -> str:
        return repr(self.solver)


CASES = [
    Case(cagp.Cholesky(), cagp.Cholesky(), 1e-10),
    Case(cagp.GaussSeidel(3), cagp.GaussSeidel(2000)),
    Case(cagp.GaussSeidel(3, order="natural"), cagp.GaussSeidel(2000, order="natural")),
    Case(cagp.ConjugateGradient(5), cagp.ConjugateGradient(40)),
    Case(cagp.RandomDirections(8), cagp.RandomDirections(40), 1e-9),
    Case(cagp.Subset(size=9), cagp.Subset(size=40), 1e-9),
    Case(cagp.Subset(indices=(3, 1, 17)), cagp.Subset(indices=tuple(range(40))), 1e-9),
    Case(cagp.Stationary("richardson", 6), cagp.Stationary("richardson", 12000)),
    Case(cagp.Stationary("jacobi", 6), cagp.Stationary("jacobi", 12000)),
    Case(cagp.Stationary("sor", 4, relaxation=1.3), cagp.Stationary("sor", 1500, relaxation=1.3)),
    Case(cagp.Stationary("ssor", 3, relaxation=0.8), cagp.Stationary("ssor", 1500)),
    Case(cagp.Stationary(half_jacobi, 6), cagp.Stationary(half_jacobi, 12000)),
]

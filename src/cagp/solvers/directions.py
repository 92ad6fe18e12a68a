"""Solvers with search directions that are made once and then serve all test points.

With directions S, the Bayesian solver has W = S (SᵀGS)⁻¹ Sᵀ Vᵀ. In G-conjugate directions P, PᵀGP = I, with the
same nested spans, this is W = P Pᵀ Vᵀ: one direction more adds one rank-one term, and the variance falls by (pᵀ Vᵀ)².
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights, certified
from ..gram import Cross, Gram
from ..support.memory import require
from ..support.positive_definite import positive_definite_factor
from ..support.validation import count
from .base import CalibratedSolver, DataDrivenSolver, Description, Prepared, Solver
from .stationary import Stationary

_COST = "O(m d²) once, then O(m d) per test point; O(md) memory beside G"


@dataclass(frozen=True, repr=False)
class RandomDirections(CalibratedSolver):
    """The paper's CAGP-Rand: standard normal directions, seeded; slow to converge. After d of them it is exact."""

    iterations: int = 10
    seed: int = 0

    side = "data"
    cost = _COST

    def prepare(self, gram: Gram) -> Prepared:
        m = min(self.iterations, gram.size)
        _require_directions(gram, m)
        generator = torch.Generator().manual_seed(self.seed)
        # drawn direction by direction, so that a longer run repeats a shorter one and goes on
        draws = [torch.randn(gram.size, generator=generator, dtype=torch.float64) for _ in range(m)]
        rows = torch.stack(draws).to(gram.noise) if m else gram.noise.new_empty(0, gram.size)
        # an orthonormal basis spans the same nested spaces and keeps SᵀGS as well conditioned as G
        S = torch.linalg.qr(rows.T).Q.T.contiguous() if m else rows
        P = conjugate(S, gram.matmul(S)) if m else S
        early = f"after {m} iterations: {m} directions span everything, W is exact." if m < self.iterations else ""
        return _PreparedDirections(self, gram, P, early)

    def description(self, size: int) -> Description:
        return Description.iterative(self, "iterations", exact=self.iterations >= size)


@dataclass(frozen=True, repr=False)
class RandomKrylov(CalibratedSolver):
    """Directions spanning R, GR, G²R, … for a seeded random block R of ``block_size`` normal vectors.

    One iteration is one product of G with a block. As with conjugate gradients the dominant eigenvectors come first.
    """

    iterations: int = 10
    block_size: int = 32
    seed: int = 0

    side = "data"
    cost = "O(m d² s) once for blocks of s, then O(m d s) per test point; O(mds) memory beside G"

    def __post_init__(self) -> None:
        super().__post_init__()
        count(self.block_size, "block_size", minimum=1)

    def prepare(self, gram: Gram) -> Prepared:
        _require_directions(gram, min(self.iterations * self.block_size, gram.size))
        generator = torch.Generator().manual_seed(self.seed)
        block = torch.randn(self.block_size, gram.size, generator=generator, dtype=torch.float64).to(gram.noise)
        basis, products = (gram.noise.new_empty(0, gram.size) for _ in range(2))  # orthonormal, and times G
        for _ in range(self.iterations):
            block = block[: gram.size - len(basis)]
            for _ in range(2):  # twice is enough
                block = block - (block @ basis.T) @ basis
                block = torch.linalg.qr(block.T).Q.T
            product = gram.matmul(block.contiguous())
            basis, products = torch.cat([basis, block]), torch.cat([products, product])
            if len(basis) == gram.size:
                break
            block = product
        P = conjugate(basis, products) if len(basis) else basis
        all_of_it = len(P) == gram.size
        early = f"with {len(P)} directions: they span everything, W is exact." if all_of_it else ""
        return _PreparedDirections(self, gram, P, early, group=self.block_size)

    def description(self, size: int) -> Description:
        return Description.iterative(self, "iterations", exact=self.iterations * self.block_size >= size)

    def operations(self, size: int, tests: int) -> Operations:
        return Operations.directions(self.iterations, size, tests, vectors=self.block_size)


@dataclass(frozen=True, repr=False)
class ConjugateGradient(DataDrivenSolver):
    """Conjugate gradient directions from b = y − m₀(X), as in the paper's CAGP-CG.

    The directions depend on y, so the error bars are not calibrated: usually too wide. They come from Lanczos with full
    reorthogonalisation: the plain recurrences lose conjugacy and report negative variances in a few dozen steps.
    """

    iterations: int = 10

    side = "data"
    cost = _COST

    def prepare(self, gram: Gram, b: torch.Tensor) -> Prepared:
        _require_directions(gram, min(self.iterations, gram.size))
        directions = _conjugate_directions(*lanczos(gram, b, self.iterations))
        done, asked = len(directions), self.iterations
        why = "the Krylov space of b is exhausted and the mean is exact to rounding. More iterations change nothing."
        early = f"after {done} of {asked} iterations: {why}" if done < asked else ""
        return _PreparedDirections(self, gram, directions, early)


class _PreparedDirections(Prepared):
    """Weights from G-conjugate rows P (m, d), ``group`` an iteration; ``early`` says why they are fewer, if so."""

    def __init__(self, solver: Solver, gram: Gram, P: torch.Tensor, early: str, group: int = 1) -> None:
        super().__init__(solver, gram)
        self._P, self._groups, self._early = P, torch.split(P, group) if len(P) else (), early
        self.held_bytes = P.numel() * P.itemsize
        self.limit = max(1, len(self._groups))

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        values, reduction = torch.zeros_like(rhs), rhs.new_zeros(len(rhs))
        for i, P in enumerate(self._groups, start=1):
            coordinates = rhs @ P.T
            values.addmm_(coordinates, P)
            reduction = reduction + coordinates.square().sum(dim=1)
            yield Weights(values, reduction, i, float(i), self.gram.size)

    def final(self, cross: Cross) -> Weights | None:
        if not len(self._P):
            return None
        coordinates = cross.matrix @ self._P.T
        m = len(self._groups)
        return Weights(coordinates @ self._P, coordinates.square().sum(dim=1), m, float(m), self.gram.size)

    def coefficients(self, b: torch.Tensor) -> Iterator[torch.Tensor]:
        v = torch.zeros_like(b)
        yield v
        for P in self._groups:
            v = v + (P @ b) @ P
            yield v

    def stopped(self, iteration: int) -> str:
        own = type(self.solver).__name__
        return f"{own} stopped {self._early}" if self._early else super().stopped(iteration)


@dataclass(frozen=True, repr=False)
class SweepsThenCG(DataDrivenSolver):
    """``sweeps`` of Gauss-Seidel in natural order on G v = b, then ``steps`` of CG on the residual. Not calibrated.

    What the paper's conclusion proposes. With v = Q b after the sweeps and conjugate directions P of the residual the
    weights are W = Qᵀ Vᵀ + (I − Qᵀ G) P Pᵀ Vᵀ. (For b, a ``Chain`` of the two is the other way round: first CG.)
    """

    sweeps: int = 5
    steps: int = 5

    cost = "that of the sweeps, and as much again for the directions"

    def __post_init__(self) -> None:
        count(self.sweeps, "sweeps")
        count(self.steps, "steps")

    def prepare(self, gram: Gram, b: torch.Tensor) -> Prepared:
        first = Stationary("sor", self.sweeps).prepare(gram)
        coefficients = first.coefficients(b)
        assert coefficients is not None
        *_, v = coefficients
        basis, _, _ = lanczos(gram, b - gram.matmul(v[None, :])[0], self.steps)
        directions = conjugate(basis, gram.matmul(basis)) if len(basis) else basis
        return _PreparedSweepsThenCG(self, gram, first, directions)

    def description(self, size: int) -> Description:
        return Description.iterative(self, "steps")

    def operations(self, size: int, tests: int) -> Operations:
        return Operations.each_test_point(2.0 * (self.sweeps + self.steps), size, tests)


class _PreparedSweepsThenCG(Prepared):
    def __init__(self, solver: SweepsThenCG, gram: Gram, first: Prepared, P: torch.Tensor) -> None:
        super().__init__(solver, gram)
        self._sweeps, self._first, self._P = solver.sweeps, first, P
        self.limit = solver.sweeps + solver.steps
        self._left = P - self._swept(gram.matmul(P))  # (I − Qᵀ G) P, as rows

    def _swept(self, rhs: torch.Tensor) -> torch.Tensor:
        """Qᵀ applied to every row of ``rhs`` (T, d)."""
        last = deque(self._first.corrections(rhs), maxlen=1)
        return last[0].values if last else torch.zeros_like(rhs)

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        values = torch.zeros_like(rhs)
        for iterate in self._first.corrections(rhs):
            values = iterate.values
            yield iterate
        values, coordinates = values.clone(), rhs @ self._P.T
        for i in range(len(self._P)):
            values = values + coordinates[:, i : i + 1] * self._left[i]
            reduction = (values * (2 * rhs - self.gram.matmul(values))).sum(dim=1)
            yield self._weights(values, reduction, i + 1)

    def final(self, cross: Cross) -> Weights | None:
        if not len(self._P):
            return None
        values = self._swept(cross.matrix) + (cross.matrix @ self._P.T) @ self._left
        return self._weights(values, certified(values, cross).reduction, len(self._P))

    def _weights(self, values: torch.Tensor, reduction: torch.Tensor, steps: int) -> Weights:
        done = self._sweeps + steps
        return Weights(values, reduction, done, float(done + 1), self.gram.size)


def _require_directions(gram: Gram, m: int) -> None:
    """Refuse m directions that do not fit the memory budget: themselves, their products with G, and a copy."""
    n_bytes = 3 * m * gram.size * gram.dtype.itemsize
    what = f"{m} search directions of {gram.size} numbers"
    require(n_bytes, gram.working_budget, what, "ask for fewer iterations, or raise memory_budget")


def conjugate(S: torch.Tensor, product: torch.Tensor) -> torch.Tensor:
    """Directions S (m, d) made G-conjugate, given ``product`` = S G; the first i still span the first i of S."""
    inner = S @ product.T
    factor = positive_definite_factor((inner + inner.T) / 2, "SᵀGS of the search directions", "fewer iterations")
    return torch.linalg.solve_triangular(factor, S, upper=False)


def lanczos(gram: Gram, start: torch.Tensor, steps: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Orthonormal Krylov basis (m ≤ ``steps``, d), and the diagonals (m,) and (m−1,) of the tridiagonal QᵀGQ."""
    steps = min(steps, gram.size)
    basis = start.new_empty(steps, gram.size)
    alphas, betas = start.new_empty(steps), start.new_empty(max(steps - 1, 0))
    norm, largest = start.norm(), start.new_zeros(())
    candidate = start
    for i in range(steps):
        if norm <= 1e3 * torch.finfo(start.dtype).eps * largest or norm == 0:
            return basis[:i], alphas[:i], betas[: max(i - 1, 0)]
        if i:
            betas[i - 1] = norm
        basis[i] = candidate / norm
        candidate = gram.matmul(basis[i : i + 1])[0]
        alphas[i] = basis[i] @ candidate
        for _ in range(2):  # twice is enough
            candidate = candidate - (basis[: i + 1] @ candidate) @ basis[: i + 1]
        norm = candidate.norm()
        largest = torch.maximum(largest, alphas[i])
    return basis, alphas, betas


def _conjugate_directions(basis: torch.Tensor, alphas: torch.Tensor, betas: torch.Tensor) -> torch.Tensor:
    """G-conjugate rows P (m, d) with PᵀGP = I from the bidiagonal Cholesky factor of the tridiagonal matrix."""
    directions = torch.empty_like(basis)
    pivot = alphas.new_zeros(())
    for i in range(len(basis)):
        below = betas[i - 1] / pivot.sqrt() if i else alphas.new_zeros(())
        pivot = alphas[i] - below.square()
        if pivot <= torch.finfo(alphas.dtype).eps * alphas[i]:  # by rounding: the Krylov space holds nothing new
            return directions[:i]
        previous = directions[i - 1] * below if i else 0.0
        directions[i] = (basis[i] - previous) / pivot.sqrt()
    return directions

"""The paper's CAGP-GS: the probabilistic Gauss-Seidel method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from ..errors import InputError
from ..gram import Cross, Gram, check_order
from ..validation import count
from ..weights import Weights, zero_weights
from .base import Prepared, Solver, iteration_limit
from .sweeps import sweep

ORDERS = ("random", "natural")


@dataclass(frozen=True, repr=False)
class GaussSeidel(Solver):
    """Algorithm 2 of the paper in its weights form: W is the m-th *backward* Gauss-Seidel iterate of G W = k(X, X′).

    ``order`` is the order of the unknowns: "random" (seeded; the default, because on gridded data the natural order
    converges many times slower), "natural" (as the data come, what the paper does), or a permutation.
    """

    iterations: int = 10
    order: str | Sequence[int] = "random"
    seed: int = 0

    calibrated = True
    side = "test"
    name = "gauss-seidel"
    cost = "O(m d² T) time, O(dT) memory beside G"

    def __post_init__(self) -> None:
        count(self.iterations, "iterations")
        count(self.seed, "seed")
        if isinstance(self.order, str):
            if self.order not in ORDERS:
                raise InputError(f"order must be 'random', 'natural' or a permutation, got {self.order!r}")
        else:
            object.__setattr__(self, "order", tuple(int(i) for i in self.order))

    def prepare(self, gram: Gram, b: torch.Tensor) -> Prepared:
        order = self._permutation(gram.size).to(gram.device)
        return _PreparedGaussSeidel(self, gram.permuted(order), b[order], order)

    def _permutation(self, size: int) -> torch.Tensor:
        if self.order == "natural":
            return torch.arange(size)
        if self.order == "random":
            return torch.randperm(size, generator=torch.Generator().manual_seed(self.seed))
        return check_order(torch.tensor(self.order), size)


class _PreparedGaussSeidel(Prepared):
    def __init__(self, solver: GaussSeidel, gram: Gram, b: torch.Tensor, order: torch.Tensor) -> None:
        super().__init__(gram, b, order)
        self._solver = solver

    def weights(self, cross: Cross) -> Iterator[Weights]:
        start = zero_weights(cross.size, self.gram.size, self.b)
        yield start
        values, reduction = start.values, start.reduction
        for i in range(1, self._solver.iterations + 1):
            reduction = reduction + sweep(self.gram, values, cross.matrix, backward=True)
            yield Weights(values, reduction, i, float(i), self.gram.size)

    def coefficients(self) -> Iterator[torch.Tensor]:
        v = torch.zeros_like(self.b)
        yield v
        for _ in range(self._solver.iterations):
            v = v.clone()
            sweep(self.gram, v[None, :], self.b[None, :], backward=False)
            yield v

    def stopped(self, iteration: int) -> str:
        return iteration_limit(self._solver, iteration)

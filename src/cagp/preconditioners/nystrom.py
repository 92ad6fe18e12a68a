"""Nyström: the kernel matrix by its projection on some training points, plus the noise and what is left over."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..algebra.inducing import Inducing
from ..algebra.operations import Operations
from ..gram import Gram
from ..support.validation import count
from .base import Preconditioner, PreparedPreconditioner


@dataclass(frozen=True)
class Nystrom(Preconditioner):
    """M = Σ + τI + K_XU K_UU⁻¹ K_UX with ``rank`` training points U by randomly pivoted Cholesky (seeded).

    τ is the average of what the projection leaves over of the diagonal. O(d · rank²) once, O(d · rank) per iteration
    and test point, 8 · d · rank bytes. More rank, fewer iterations.
    """

    rank: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        count(self.rank, "rank", minimum=1)
        count(self.seed, "seed")

    def prepare(self, gram: Gram) -> PreparedPreconditioner:
        return _PreparedNystrom(gram, Inducing(gram, self.rank, self.seed))

    def operations(self, size: int, steps: int, vectors: int) -> Operations:
        rank = min(self.rank, size)
        flops = 4.0 * size * rank**2 + 4.0 * steps * size * rank * vectors
        return Operations(flops=flops, kernel_values=float(size) * rank)


class _PreparedNystrom(PreparedPreconditioner):
    def __init__(self, gram: Gram, inducing: Inducing) -> None:
        super().__init__(gram)
        self.floor, self.held_bytes = inducing.floor, inducing.held_bytes
        self._inducing = inducing

    def apply(self, R: torch.Tensor) -> torch.Tensor:
        return self._inducing.solve(R)

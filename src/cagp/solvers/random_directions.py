"""The paper's CAGP-Rand: independent normal search directions."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..gram import Gram
from ..support.validation import count
from .base import CalibratedSolver, Prepared, iteration_limit
from .directions import PreparedDirections, conjugate, require_directions


@dataclass(frozen=True, repr=False)
class RandomDirections(CalibratedSolver):
    """Search directions with independent standard normal entries, seeded. Calibrated, and slow to converge.

    After d iterations the directions span everything and the posterior is exact; more are not made.
    """

    iterations: int = 10
    seed: int = 0

    side = "data"
    name = "random-directions"
    cost = "O(m d²) once, then O(m d) per test point; O(md) memory beside G"

    def __post_init__(self) -> None:
        count(self.iterations, "iterations")
        count(self.seed, "seed")

    def prepare(self, gram: Gram) -> Prepared:
        m = min(self.iterations, gram.size)
        require_directions(gram, m)
        generator = torch.Generator().manual_seed(self.seed)
        # drawn direction by direction, so that a longer run repeats a shorter one and goes on
        draws = [torch.randn(gram.size, generator=generator, dtype=torch.float64) for _ in range(m)]
        rows = torch.stack(draws).to(gram.noise) if m else gram.noise.new_empty(0, gram.size)
        # an orthonormal basis spans the same nested spaces and keeps SᵀGS as well conditioned as G
        S = torch.linalg.qr(rows.T).Q.T.contiguous() if m else rows
        P = conjugate(S, gram.matmul(S)) if m else S
        reason = iteration_limit(self, m)
        if m < self.iterations:
            reason = f"RandomDirections stopped after {m} iterations: {m} directions span everything, W is exact."
        return PreparedDirections(gram, P, reason)

    def is_exact(self, size: int) -> bool:
        return self.iterations >= size

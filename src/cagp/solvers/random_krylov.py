"""Krylov directions from a random block instead of from the data: calibrated, and reusable for any test points."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..algebra.operations import Operations
from ..gram import Gram
from ..support.validation import count
from .base import CalibratedSolver, Prepared, iteration_limit
from .directions import PreparedDirections, conjugate, require_directions


@dataclass(frozen=True, repr=False)
class RandomKrylov(CalibratedSolver):
    """Directions spanning R, GR, G²R, … for a seeded random block R of ``block_size`` normal vectors.

    One iteration is one product of G with a block. The dominant eigenvectors of G are found first, as with conjugate
    gradients, but nothing depends on y.
    """

    iterations: int = 10
    block_size: int = 32
    seed: int = 0

    side = "data"
    name = "random-krylov"
    cost = "O(m d² s) once for blocks of s, then O(m d s) per test point; O(mds) memory beside G"

    def __post_init__(self) -> None:
        count(self.iterations, "iterations")
        count(self.block_size, "block_size", minimum=1)
        count(self.seed, "seed")

    def prepare(self, gram: Gram) -> Prepared:
        require_directions(gram, min(self.iterations * self.block_size, gram.size))
        P, exhausted = self._directions(gram)
        reason = iteration_limit(self, -(-len(P) // self.block_size))
        if exhausted:
            reason = f"RandomKrylov stopped with {len(P)} directions: they span everything, W is exact."
        return PreparedDirections(gram, P, reason, group=self.block_size)

    def _directions(self, gram: Gram) -> tuple[torch.Tensor, bool]:
        """G-conjugate directions (≤ iterations · block_size, d), and whether they span everything."""
        generator = torch.Generator().manual_seed(self.seed)
        block = torch.randn(self.block_size, gram.size, generator=generator, dtype=torch.float64).to(gram.noise)
        basis, products = (gram.noise.new_empty(0, gram.size) for _ in range(2))
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
        if not len(basis):
            return basis, False
        return conjugate(basis, products), len(basis) == gram.size

    def is_exact(self, size: int) -> bool:
        return self.iterations * self.block_size >= size

    def operations(self, size: int, tests: int) -> Operations:
        return Operations.directions(self.iterations, size, tests, vectors=self.block_size)

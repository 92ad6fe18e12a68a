"""Symmetric block Gauss-Seidel, at the price of one pass over G an iteration."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..algebra.block_diagonal import BlockDiagonal
from ..algebra.sweeps import substitute
from ..gram import Gram
from ..support.validation import count
from .base import Preconditioner, PreparedPreconditioner


@dataclass(frozen=True)
class SymmetricGaussSeidel(Preconditioner):
    """M = (D + L) D⁻¹ (D + U) for G = L + D + U with diagonal blocks D of ``block_size``.

    With D = C Cᵀ and F = (D + L) C⁻ᵀ, M = F Fᵀ. Eisenstat's trick: from G = (D + L) + (D + U) − D,

        F⁻¹ G F⁻ᵀ x = Cᵀ (t + (D + L)⁻¹ (C x − D t)),   t = (D + U)⁻¹ C x,

    two triangular substitutions that read half of the matrix each, and t is the direction in the weights.
    """

    block_size: int = 512

    def __post_init__(self) -> None:
        count(self.block_size, "block_size", minimum=1)

    def prepare(self, gram: Gram) -> PreparedPreconditioner:
        return _PreparedSymmetricGaussSeidel(gram, BlockDiagonal(gram, self.block_size))


class _PreparedSymmetricGaussSeidel(PreparedPreconditioner):
    def __init__(self, gram: Gram, blocks: BlockDiagonal) -> None:
        super().__init__(gram)
        self._blocks = blocks
        self.held_bytes = blocks.held_bytes

    def enter(self, R: torch.Tensor) -> torch.Tensor:
        return self._blocks.times_factor(substitute(self.gram, R, self._blocks, backward=False), transposed=True)

    def product(self, P: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q = self._blocks.times_factor(P, transposed=False)
        t = substitute(self.gram, q, self._blocks, backward=True)
        inner = t + substitute(self.gram, q - self._blocks.times(t), self._blocks, backward=False)
        return self._blocks.times_factor(inner, transposed=True), t

"""What conjugate gradients ask of a preconditioner, and the simple ones.

The plain form is z = M⁻¹ r and products with G. A preconditioner M = F Fᵀ may instead carry the whole iteration over to
the system F⁻¹ G F⁻ᵀ (``enter`` and ``product``), where its product can be cheaper than one with M and one with G.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from ..algebra.operations import Operations
from ..algebra.sweeps import BlockDiagonal, substitute
from ..gram import Gram
from ..support.validation import count


class PreparedPreconditioner:
    """M for one Gram matrix."""

    floor: float | None = None  #: a μ > 0 with G ⪰ μ M where a sharp one is known: it makes bounds certain
    held_bytes: int = 0  #: what it keeps in memory beside the Gram matrix

    def __init__(self, gram: Gram) -> None:
        self.gram = gram

    def enter(self, R: torch.Tensor) -> torch.Tensor:
        """Residual rows (T, d) in the coordinates of the iteration."""
        return R

    def apply(self, R: torch.Tensor) -> torch.Tensor:
        """The preconditioned residual rows, shape (T, d)."""
        return R

    def product(self, P: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The system matrix times direction rows P (T, d), and the directions in the coordinates of the weights."""
        return self.gram.matmul(P), P


class Preconditioner(ABC):
    """Settings of a preconditioner; immutable."""

    @abstractmethod
    def prepare(self, gram: Gram) -> PreparedPreconditioner:
        """Do all that needs no right-hand side."""

    def operations(self, size: int, steps: int, vectors: int) -> Operations:
        """What it takes beside the products with G, for so many steps with ``vectors`` each on ``size`` points."""
        return Operations()


@dataclass(frozen=True)
class Identity(Preconditioner):
    """M = I: plain conjugate gradients."""

    def prepare(self, gram: Gram) -> PreparedPreconditioner:
        return PreparedPreconditioner(gram)


@dataclass(frozen=True)
class Jacobi(Preconditioner):
    """M = diag(G). Helps where the noise or the kernel's variance differs between observations."""

    def prepare(self, gram: Gram) -> PreparedPreconditioner:
        return _PreparedJacobi(gram)


class _PreparedJacobi(PreparedPreconditioner):
    def apply(self, R: torch.Tensor) -> torch.Tensor:
        return R / self.gram.diagonal()


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
        self._blocks, self.held_bytes = blocks, blocks.held_bytes

    def enter(self, R: torch.Tensor) -> torch.Tensor:
        return self._blocks.times_factor(substitute(self.gram, R, self._blocks, backward=False), transposed=True)

    def product(self, P: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        q = self._blocks.times_factor(P, transposed=False)
        t = substitute(self.gram, q, self._blocks, backward=True)
        inner = t + substitute(self.gram, q - self._blocks.times(t), self._blocks, backward=False)
        return self._blocks.times_factor(inner, transposed=True), t

"""What conjugate gradients ask of a preconditioner.

``prepare(gram)`` does the work that needs no right-hand side and returns a ``Prepared`` preconditioner M. The plain
form is z = M⁻¹ r and products with G. A preconditioner M = F Fᵀ may instead carry the whole iteration over to the
system F⁻¹ G F⁻ᵀ (``enter`` and ``product``), where its product can be cheaper than one with M and one with G.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from ..algebra.operations import Operations
from ..gram import Gram


class PreparedPreconditioner:
    """M for one Gram matrix. ``floor`` is a μ > 0 with G ⪰ μ M where a sharp one is known: it makes bounds certain.

    ``held_bytes`` is what it keeps in memory beside the Gram matrix.
    """

    floor: float | None = None
    held_bytes: int = 0

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

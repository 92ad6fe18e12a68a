"""The diagonal blocks of G and their Cholesky factors."""

from __future__ import annotations

import torch

from ..gram import Gram
from ..support.memory import require
from ..support.positive_definite import positive_definite_factor


class BlockDiagonal:
    """D = blockdiag(G₁₁, G₂₂, …) in blocks of ``block_size`` rows (the last may be smaller), D = C Cᵀ.

    Rows x (T, d) come in, rows go out: ``times`` is (D x)ᵀ and so on. On a GPU C⁻¹ is kept beside C, because a product
    is many times faster there than a triangular solve.
    """

    def __init__(self, gram: Gram, block_size: int) -> None:
        self.block_size = min(block_size, gram.size)
        on_gpu = gram.device.type != "cpu"
        n_bytes = ((2 if on_gpu else 1) * gram.size + 2 * self.block_size) * self.block_size * gram.dtype.itemsize
        n_bytes += gram.panel_bytes(self.block_size)
        what = f"blocks of {self.block_size} for {gram.size} training points"
        require(n_bytes, gram.working_budget, what, "choose a smaller block_size, or raise memory_budget")
        self.ranges = list(gram.panels(self.block_size))
        self._factors: dict[int, torch.Tensor] = {}
        for start, stop in self.ranges:
            with gram.block(start, stop, start, stop) as block:
                factor = positive_definite_factor(block, "a diagonal block of G", "a larger noise_variance")
            self._factors[start] = factor
        self._inverses = {start: _inverse(factor) for start, factor in self._factors.items()} if on_gpu else {}

    @property
    def held_bytes(self) -> int:
        """What the factors and their inverses take in memory."""
        return sum(kept.nbytes for blocks in (self._factors, self._inverses) for kept in blocks.values())

    def solve_block(self, start: int, R: torch.Tensor) -> torch.Tensor:
        """D⁻¹ for the block that begins at row ``start``; R (T, rows of the block)."""
        inverse = self._inverses.get(start)
        if inverse is not None:
            return (R @ inverse.T) @ inverse
        return torch.cholesky_solve(R.T, self._factors[start]).T

    def times(self, X: torch.Tensor) -> torch.Tensor:
        """D x."""
        return self.times_factor(self.times_factor(X, transposed=True), transposed=False)

    def times_factor(self, X: torch.Tensor, transposed: bool) -> torch.Tensor:
        """C x, or Cᵀ x."""
        out = torch.empty_like(X)
        for start, stop in self.ranges:
            factor = self._factors[start]
            out[:, start:stop] = X[:, start:stop] @ (factor if transposed else factor.T)
        return out


def _inverse(factor: torch.Tensor) -> torch.Tensor:
    identity = torch.eye(len(factor), dtype=factor.dtype, device=factor.device)
    return torch.linalg.solve_triangular(factor, identity, upper=False)

"""The diagonal blocks of G and their Cholesky factors."""

from __future__ import annotations

import torch

from .factor import positive_definite_factor
from .gram import Gram
from .memory import require


class BlockDiagonal:
    """D = blockdiag(G₁₁, G₂₂, …) in blocks of ``block_size`` rows (the last may be smaller), D = C Cᵀ.

    Rows x (T, d) come in, rows go out: ``times`` is (D x)ᵀ and so on.
    """

    def __init__(self, gram: Gram, block_size: int) -> None:
        self.block_size = min(block_size, gram.size)
        n_bytes = (gram.size + 2 * self.block_size) * self.block_size * gram.dtype.itemsize
        if gram.storage == "tiles":
            n_bytes += self.block_size * gram.size * gram.dtype.itemsize  # a panel of the sweep
        what = f"blocks of {self.block_size} for {gram.size} training points"
        require(n_bytes, gram.working_budget, what, "choose a smaller block_size, or raise memory_budget")
        self.ranges = list(gram.panels(self.block_size))
        self._factors = {
            start: positive_definite_factor(
                gram.block(start, stop, start, stop), "a diagonal block of G", "a larger noise_variance"
            )
            for start, stop in self.ranges
        }

    def solve_block(self, start: int, R: torch.Tensor) -> torch.Tensor:
        """D⁻¹ for the block that begins at row ``start``; R (T, rows of the block)."""
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

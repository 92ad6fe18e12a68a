"""Gauss-Seidel and SOR sweeps over G, and block substitution, in panels of rows; and the diagonal blocks of G."""

from __future__ import annotations

import torch

from ..gram import Gram
from ..support.memory import require
from ..support.positive_definite import positive_definite_factor


def sweep(
    gram: Gram,
    W: torch.Tensor,
    rhs: torch.Tensor,
    *,
    backward: bool,
    relaxation: float = 1.0,
    blocks: BlockDiagonal | None = None,
) -> torch.Tensor:
    """One SOR sweep on G w = r for every row w of W (T, d), in place; Gauss-Seidel where ``relaxation`` ω is 1.

    ``backward`` goes from the last unknown to the first. With ``blocks``, whole diagonal blocks are solved exactly
    (block Gauss-Seidel). Returns by how much each row's energy wᵀGw − 2rᵀw fell, shape (T,), which for the right-hand
    sides V is what the sweep takes off the variance. One unknown changed by δ lowers it by (2/ω − 1) Gᵢᵢ δ², a block
    solved exactly by δᵀ Gᵢᵢ δ: that needs no product with G.
    """
    gain = W.new_zeros(W.shape[0])
    with gram.sweeping(W, rhs, backward=backward) as run:
        for start, stop in gram.panels(blocks.block_size if blocks else None, reverse=backward):
            residual = run.residual(start, stop)
            if blocks is None:
                change, energy = run.relax(start, stop, residual, relaxation)
            else:
                change = blocks.solve_block(start, residual)
                energy = (change * residual).sum(dim=1)
            gain += energy
            run.put(start, stop, change)
    return gain


def substitute(gram: Gram, rhs: torch.Tensor, blocks: BlockDiagonal, *, backward: bool) -> torch.Tensor:
    """(D + U)⁻¹ r where ``backward``, else (D + L)⁻¹ r, for every row r of ``rhs`` (T, d): a sweep from zero."""
    X = torch.zeros_like(rhs)
    sweep(gram, X, rhs, backward=backward, blocks=blocks)
    return X


class BlockDiagonal:
    """D = blockdiag(G₁₁, G₂₂, …) in blocks of ``block_size`` rows (the last may be smaller), D = C Cᵀ.

    Rows x (T, d) come in, rows go out. On a GPU C⁻¹ is kept too: there a product is many times faster than a solve.
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
        self._inverses: dict[int, torch.Tensor] = {}
        for start, stop in self.ranges:
            with gram.block(start, stop, start, stop) as block:
                factor = positive_definite_factor(block, "a diagonal block of G", "a larger noise_variance")
            self._factors[start] = factor
            if on_gpu:
                identity = torch.eye(len(factor)).to(factor)
                self._inverses[start] = torch.linalg.solve_triangular(factor, identity, upper=False)

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

"""Gauss-Seidel and SOR sweeps over G, and block substitution, in panels of rows.

A sweep is a sequence of d/B products of size B × d: this is the parallel, matrix-free triangular solve. How the
residual of a panel comes about fastest is up to how G is kept, see ``gram.sweeping``.
"""

from __future__ import annotations

import torch

from ..gram import Gram
from .block_diagonal import BlockDiagonal


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
    (block Gauss-Seidel). Returns by how much each row's energy wᵀGw − 2rᵀw fell, shape (T,): changing one unknown by δ
    lowers it by (2/ω − 1) Gᵢᵢ δ², solving a block exactly by δᵀ Gᵢᵢ δ, so the total costs O(dT) and needs no product
    with G. For the right-hand sides V this is what the sweep takes off the variance of W.
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

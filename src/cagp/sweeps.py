"""Gauss-Seidel and SOR sweeps over G, in panels of rows.

A sweep is a sequence of d/B products of size B × d: this is the parallel, matrix-free triangular solve. It reads
half of the matrix: the panel to the left of a diagonal block gives the residual of its rows with the old weights,
and then, transposed, brings the new weights of these rows to all rows that are still to come.
"""

from __future__ import annotations

import torch

from .block_diagonal import BlockDiagonal
from .gram import Gram


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
    pending = rhs.clone()  # rhs minus what the unknowns already updated in this sweep contribute
    gain = W.new_zeros(W.shape[0])
    for start, stop in gram.panels(blocks.block_size if blocks else None, reverse=backward):
        # columns start:stop are the diagonal block, the others belong to unknowns that are still to come
        first, last = (0, stop) if backward else (start, gram.size)
        panel = gram.block(start, stop, first, last)
        residual = torch.addmm(pending[:, start:stop], W[:, first:last], panel.T, alpha=-1)
        if blocks is not None:
            delta = blocks.solve_block(start, residual)
            gain += (delta * residual).sum(dim=1)
        else:
            delta, energy = _relax(panel[:, start - first : stop - first], residual, backward, relaxation)
            gain += energy
        W[:, start:stop] += delta
        if backward:
            pending[:, :start].addmm_(W[:, start:stop], panel[:, :start], alpha=-1)
        else:
            pending[:, stop:].addmm_(W[:, start:stop], panel[:, stop - first :], alpha=-1)
    return gain


def _relax(
    block: torch.Tensor, residual: torch.Tensor, backward: bool, relaxation: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """SOR within one diagonal block: the change of its unknowns (T, B), and what it lowers the energy by (T,)."""
    triangle = block.triu() if backward else block.tril()
    diagonal = triangle.diagonal()
    if relaxation != 1.0:
        diagonal.div_(relaxation)
    # rows: δ Mᵀ = residual with the triangle M, so the transposed triangle stands on the right
    delta = torch.linalg.solve_triangular(triangle.T, residual, upper=not backward, left=False)
    return delta, (2 - relaxation) * (delta.square() @ diagonal)


def substitute(gram: Gram, rhs: torch.Tensor, blocks: BlockDiagonal, *, backward: bool) -> torch.Tensor:
    """(D + U)⁻¹ r where ``backward``, else (D + L)⁻¹ r, for every row r of ``rhs`` (T, d): half a pass over G."""
    X = rhs.clone()
    for start, stop in gram.panels(blocks.block_size, reverse=backward):
        first, last = (stop, gram.size) if backward else (0, start)
        if first < last:
            X[:, start:stop].addmm_(X[:, first:last], gram.block(start, stop, first, last).T, alpha=-1)
        X[:, start:stop] = blocks.solve_block(start, X[:, start:stop])
    return X

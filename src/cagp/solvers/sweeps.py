"""Gauss-Seidel and SOR sweeps over G, in panels of rows.

A sweep is a sequence of d/B products of size B × d: this is the parallel, matrix-free triangular solve. It reads
half of the matrix: the panel to the left of a diagonal block gives the residual of its rows with the old weights,
and then, transposed, brings the new weights of these rows to all rows that are still to come.
"""

from __future__ import annotations

import torch

from ..gram import Gram


def sweep(gram: Gram, W: torch.Tensor, rhs: torch.Tensor, *, backward: bool, relaxation: float = 1.0) -> torch.Tensor:
    """One SOR sweep on G w = r for every row w of W (T, d), in place; Gauss-Seidel where ``relaxation`` ω is 1.

    ``backward`` goes from the last unknown to the first. Returns by how much each row's energy wᵀGw − 2rᵀw fell,
    shape (T,): changing one unknown by δ lowers it by (2/ω − 1) Gᵢᵢ δ², so the total costs O(dT) and needs no
    product with G. For the right-hand sides V this is what the sweep takes off the variance of W.
    """
    pending = rhs.clone()  # rhs minus what the unknowns already updated in this sweep contribute
    gain = W.new_zeros(W.shape[0])
    for start, stop in gram.panels(reverse=backward):
        # columns start:stop are the diagonal block, the others belong to unknowns that are still to come
        first, last = (0, stop) if backward else (start, gram.size)
        panel = gram.block(start, stop, first, last)
        diagonal_block = panel[:, start - first : stop - first]
        residual = torch.addmm(pending[:, start:stop], W[:, first:last], panel.T, alpha=-1)
        triangle = diagonal_block.triu() if backward else diagonal_block.tril()
        diagonal = triangle.diagonal()
        if relaxation != 1.0:
            diagonal.div_(relaxation)
        # rows: δ Mᵀ = residual with the triangle M, so the transposed triangle stands on the right
        delta = torch.linalg.solve_triangular(triangle.T, residual, upper=not backward, left=False)
        W[:, start:stop] += delta
        gain += delta.square() @ diagonal
        if backward:
            pending[:, :start].addmm_(W[:, start:stop], panel[:, :start], alpha=-1)
        else:
            pending[:, stop:].addmm_(W[:, start:stop], panel[:, stop - first :], alpha=-1)
    return gain * (2 - relaxation)

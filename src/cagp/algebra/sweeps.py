"""Gauss-Seidel and SOR sweeps over G, in panels of rows.

A sweep is a sequence of d/B products of size B × d: this is the parallel, matrix-free triangular solve. It reads
half of the matrix: the panel to the left of a diagonal block gives the residual of its rows with the old weights,
and then, transposed, brings the new weights of these rows to all rows that are still to come.

Where products are fused on a GPU no panel is ever stored; then each block takes one product with the weights as they
are, and the whole matrix is recomputed once. So it is with a stored matrix and a few dozen right-hand sides on a CPU:
whole rows of it multiply faster than halves do, see ``skinny.py``.
"""

from __future__ import annotations

import numpy as np
import torch

from ..gram import Gram
from ..gram.few_columns import SkinnyProduct, on_this_thread, pays
from ..gram.triangles import sweep_triangle
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
    if gram.fused_products:
        return _fused_sweep(gram, W, rhs, backward, relaxation, blocks)
    if gram.storage == "dense" and pays(gram.device, len(W)):
        return _dense_sweep(gram, W, rhs, backward, relaxation, blocks)
    pending = rhs.clone()  # rhs minus what the unknowns already updated in this sweep contribute
    gain = W.new_zeros(W.shape[0])
    for start, stop in gram.panels(blocks.block_size if blocks else None, reverse=backward):
        # columns start:stop are the diagonal block, the others belong to unknowns that are still to come
        first, last = (0, stop) if backward else (start, gram.size)
        panel = gram.block(start, stop, first, last)
        residual = torch.addmm(pending[:, start:stop], W[:, first:last], panel.T, alpha=-1)
        diagonal = panel[:, start - first : stop - first]
        delta, energy = _change(diagonal, residual, start, backward, relaxation, blocks)
        gain += energy
        W[:, start:stop] += delta
        if backward:
            pending[:, :start].addmm_(W[:, start:stop], panel[:, :start], alpha=-1)
        else:
            pending[:, stop:].addmm_(W[:, start:stop], panel[:, stop - first :], alpha=-1)
    return gain


def _fused_sweep(
    gram: Gram,
    W: torch.Tensor,
    rhs: torch.Tensor,
    backward: bool,
    relaxation: float,
    blocks: BlockDiagonal | None,
) -> torch.Tensor:
    """The same sweep with fused products: each residual from the weights as they are at that moment."""
    gain = W.new_zeros(W.shape[0])
    product = gram.running_product(W, largest_weights(gram, W, rhs))
    for start, stop in gram.panels(blocks.block_size if blocks else None, reverse=backward):
        inside = slice(start, stop)
        residual = rhs[:, inside] - product.columns(start, stop)
        residual.addcmul_(W[:, inside], gram.noise[inside], value=-1)
        diagonal = None if blocks else gram.block(start, stop, start, stop)
        delta, energy = _change(diagonal, residual, start, backward, relaxation, blocks)
        gain += energy
        W[:, inside] += delta
        product.put(start, W[:, inside])
    return gain


def _dense_sweep(
    gram: Gram,
    W: torch.Tensor,
    rhs: torch.Tensor,
    backward: bool,
    relaxation: float,
    blocks: BlockDiagonal | None,
) -> torch.Tensor:
    """The same sweep with whole rows of a stored matrix.

    All of it in NumPy: the threads of torch and those of a product side by side get in each other's way.
    """
    X, right = (np.ascontiguousarray(part.numpy().T) for part in (W, rhs))
    gain, diagonal = np.zeros(len(W), X.dtype), gram.diagonal().numpy() * (2 / relaxation - 1)
    with SkinnyProduct(gram.dense().numpy(), X) as product:
        for start, stop in gram.panels(blocks.block_size if blocks else None, reverse=backward):
            residual = right[start:stop] - product.rows(start, stop)
            if blocks is not None:
                delta = blocks.solve_block(start, torch.from_numpy(residual).T).T.numpy()
                gain += (delta * residual).sum(axis=0)
            else:
                delta = on_this_thread(gram.triangle_inverse(start, stop, backward, relaxation).numpy(), residual)
                gain += (diagonal[start:stop, None] * np.square(delta)).sum(axis=0)
            X[start:stop] += delta
    W.numpy()[...] = X.T
    return torch.from_numpy(gain)


def largest_weights(gram: Gram, W: torch.Tensor, rhs: torch.Tensor) -> torch.Tensor:
    """About the largest weight that a sweep on G w = r meets in each row (T,): now, or after one step from zero."""
    return torch.maximum(W.abs().amax(dim=1), (rhs / gram.diagonal()).abs().amax(dim=1))


def _change(
    diagonal: torch.Tensor | None,
    residual: torch.Tensor,
    start: int,
    backward: bool,
    relaxation: float,
    blocks: BlockDiagonal | None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The change of the unknowns of one diagonal block (T, B), and what it lowers the energy by (T,)."""
    if blocks is None:
        assert diagonal is not None
        return _relax(diagonal, residual, backward, relaxation)
    delta = blocks.solve_block(start, residual)
    return delta, (delta * residual).sum(dim=1)


def _relax(
    block: torch.Tensor, residual: torch.Tensor, backward: bool, relaxation: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """SOR within one diagonal block: the change of its unknowns (T, B), and what it lowers the energy by (T,)."""
    triangle = sweep_triangle(block, backward, relaxation)
    # rows: δ Mᵀ = residual with the triangle M, so the transposed triangle stands on the right
    delta = torch.linalg.solve_triangular(triangle.T, residual, upper=not backward, left=False)
    return delta, (2 - relaxation) * (delta.square() @ triangle.diagonal())


def substitute(gram: Gram, rhs: torch.Tensor, blocks: BlockDiagonal, *, backward: bool) -> torch.Tensor:
    """(D + U)⁻¹ r where ``backward``, else (D + L)⁻¹ r, for every row r of ``rhs`` (T, d): half a pass over G."""
    X = rhs.clone()
    product = None
    if gram.fused_products:
        unsolved = torch.zeros_like(X)  # rows that are not solved yet count as zero
        product = gram.running_product(unsolved, largest_weights(gram, unsolved, rhs))
    for start, stop in gram.panels(blocks.block_size, reverse=backward):
        first, last = (stop, gram.size) if backward else (0, start)
        if first < last:
            if product is not None:
                X[:, start:stop] -= product.columns(start, stop, first, last)
            else:
                X[:, start:stop].addmm_(X[:, first:last], gram.block(start, stop, first, last).T, alpha=-1)
        X[:, start:stop] = blocks.solve_block(start, X[:, start:stop])
        if product is not None:
            product.put(start, X[:, start:stop])
    return X

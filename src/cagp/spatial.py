"""Points in blocks of neighbours."""

from __future__ import annotations

import torch


def spatial_blocks(points: torch.Tensor, block_size: int, seed: int | None) -> torch.Tensor:
    """An order in which every ``block_size`` consecutive points (d, q) are neighbours: the leaves of a KD tree.

    Where the points do not fill the last block, that block stays last; with a ``seed`` the others are shuffled.
    """
    leaves: list[torch.Tensor] = []

    def split(indices: torch.Tensor) -> None:
        if len(indices) <= block_size:
            leaves.append(indices)
            return
        coordinates = points[indices]
        widest = int((coordinates.amax(dim=0) - coordinates.amin(dim=0)).argmax())
        ranked = indices[coordinates[:, widest].argsort()]
        blocks = -(-len(ranked) // block_size)
        middle = block_size * (blocks // 2)  # whole blocks to the left, so that only the very last one is short
        split(ranked[:middle])
        split(ranked[middle:])

    split(torch.arange(len(points), device=points.device))
    if seed is not None:
        full = [leaf for leaf in leaves if len(leaf) == block_size]
        shuffled = torch.randperm(len(full), generator=torch.Generator().manual_seed(seed)).tolist()
        leaves = [full[i] for i in shuffled] + [leaf for leaf in leaves if len(leaf) < block_size]
    return torch.cat(leaves).cpu()

"""The interface behind ``Gram``: what a way of keeping G must answer; and the one that keeps nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager

import torch

from ..support.threads import share_out
from .entries import Entries
from .sweeping import PanelSweep, SharedPanelSweep, Sweep

_PASSES = 5  # A solver goes through a matrix that is not stored so often at the least, as a rule


class Backend(ABC):
    """G for training points given by their ``Entries``: ``Dense`` stores it, ``Tiles`` and ``Fused`` recompute it."""

    computed = False  # whether the whole matrix is in memory

    def __init__(self, entries: Entries) -> None:
        self.entries = entries

    @abstractmethod
    def matmul(self, W: torch.Tensor) -> torch.Tensor:
        """W G for rows W (T, d), shape (T, d)."""

    @abstractmethod
    def sweeping(self, W: torch.Tensor, rhs: torch.Tensor, backward: bool) -> Sweep:
        """A sweep that changes W (T, d) in place, in the way that is fastest here."""

    def block(self, start: int, stop: int, first: int, last: int) -> AbstractContextManager[torch.Tensor]:
        """Lend G[start:stop, first:last]."""
        return self.entries.block(start, stop, first, last)

    def matrix(self) -> torch.Tensor:
        """The whole of G, not to be changed; where it is not in memory it is computed and not kept."""
        return self.entries.matrix()

    @property
    def panel_rows(self) -> int:
        """How many rows a sweep takes at once: enough for fast products, few enough to stay near the cache."""
        return min(self.entries.size, self.entries.tiling.panel_rows)

    def panel_bytes(self, rows: int) -> int:
        """What a sweep with so many rows at once takes in memory beside the matrix and the weights."""
        return 0


class Tiles(Backend):
    """G in tiles that are never stored (matrix-free). Every kernel value serves twice, for its row and its column."""

    def __init__(self, entries: Entries) -> None:
        super().__init__(entries)
        entries.passes = _PASSES

    def matmul(self, W: torch.Tensor) -> torch.Tensor:
        product = torch.zeros_like(W)
        # on a GPU tiles that fill it, on a CPU whole panels, or a part of them for every thread
        on_cpu, tiling = self.entries.device.type == "cpu", self.entries.tiling
        rows = self.panel_rows if on_cpu else tiling.panel_rows
        for start in range(0, self.entries.size, rows):
            stop = min(start + rows, self.entries.size)
            self._add(W, start, stop, -(-stop // self._own_threads) if on_cpu else tiling.tile_columns, product)
        return product

    def _add(self, W: torch.Tensor, start: int, stop: int, width: int, product: torch.Tensor) -> None:
        """Add to W G what the rows start:stop contribute, left of the diagonal and mirrored, in tiles of this width."""
        lefts = range(0, stop, width)
        # what each tile says about the rows of the panel: all that a thread has of its own
        parts = W.new_zeros(len(lefts), len(W), stop - start) if len(lefts) > 1 else product[None, :, start:stop]

        def multiply(number: int) -> None:
            left = lefts[number]
            right, above = min(left + width, stop), min(left + width, start)
            with self.block(start, stop, left, right) as tile:
                parts[number].addmm_(W[:, left:right], tile.T)
                if left < above:
                    product[:, left:above].addmm_(W[:, start:stop], tile[:, : above - left])

        share_out(multiply, range(len(lefts)), self.entries.device)
        if len(lefts) > 1:
            product[:, start:stop] += parts.sum(dim=0)

    @property
    def _own_threads(self) -> int:
        """How many threads share out whole panels, products and all; one where torch does it within each step."""
        # compiled code cannot run on the threads of torch, which wait busily after each product and get in its way
        return torch.get_num_threads() if self.entries.fills_compiled else 1

    def sweeping(self, W: torch.Tensor, rhs: torch.Tensor, backward: bool) -> Sweep:
        if (threads := self._own_threads) > 1:
            return SharedPanelSweep(self.entries, W, rhs, backward, threads)
        return PanelSweep(self.block, W, rhs, backward)

    @property
    def panel_rows(self) -> int:
        return min(super().panel_rows, max(16, self.entries.tiling.panel_bytes // self.panel_bytes(1)))

    def panel_bytes(self, rows: int) -> int:
        return rows * self.entries.size * self.entries.dtype.itemsize

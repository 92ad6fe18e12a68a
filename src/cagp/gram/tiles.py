"""G in tiles that are computed whenever they are needed, and never stored (matrix-free)."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch

from .backend import Backend
from .sweeping import PanelSweep, Sweep


class Tiles(Backend):
    """Every kernel value serves twice, for its row and for its column."""

    def block(self, start: int, stop: int, first: int, last: int) -> AbstractContextManager[torch.Tensor]:
        return self.entries.block(start, stop, first, last)

    def matmul(self, W: torch.Tensor) -> torch.Tensor:
        d, tiling, product = self.entries.size, self.entries.tiling, torch.zeros_like(W)
        # on a CPU whole panels, on a GPU tiles that fill it
        on_cpu = self.entries.device.type == "cpu"
        rows, width = (self.panel_rows, d) if on_cpu else (tiling.panel_rows, tiling.tile_columns)
        for start in range(0, d, rows):
            stop = min(start + rows, d)
            for left in range(0, stop, width):
                right, above = min(left + width, stop), min(left + width, start)
                with self.block(start, stop, left, right) as tile:
                    product[:, start:stop].addmm_(W[:, left:right], tile.T)
                    if left < above:
                        product[:, left:above].addmm_(W[:, start:stop], tile[:, : above - left])
        return product

    def sweeping(self, W: torch.Tensor, rhs: torch.Tensor, backward: bool) -> Sweep:
        return PanelSweep(self.block, W, rhs, backward)

    @property
    def panel_rows(self) -> int:
        return min(super().panel_rows, max(16, self.entries.tiling.panel_bytes // self.panel_bytes(1)))

    def panel_bytes(self, rows: int) -> int:
        return rows * self.entries.size * self.entries.dtype.itemsize

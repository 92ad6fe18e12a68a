"""Kernel values written into memory, tile by tile: by fused GPU kernels where there are any, else by torch."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..kernels import Embedding, Kernel, slice_embedding
from ..support.buffers import Buffers
from .fused import FusedGram


@dataclass(frozen=True)
class Tiling:
    """How the matrix is cut: on a CPU so that tiles stay in the cache, on a GPU so that one launch fills it."""

    panel_rows: int
    panel_bytes: int
    tile_columns: int

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a tile."""
        return self.panel_rows, self.tile_columns


TILINGS = {"cpu": Tiling(192, 64 * 2**20, 2048), "cuda": Tiling(2048, 2**30, 2**15)}


@dataclass(frozen=True)
class Tiles:
    """The covariances of training points with each other and with test points, without noise."""

    kernel: Kernel
    embedding: Embedding
    fused: FusedGram | None
    tiling: Tiling
    buffers: Buffers

    def fill(self, start: int, stop: int, first: int, last: int, out: torch.Tensor) -> None:
        """Compute k(X, X)[start:stop, first:last] into ``out``."""
        if self.fused is not None:
            self.fused.fill(start, stop, first, last, out)
        else:
            self._evaluate(
                slice_embedding(self.embedding, start, stop), slice_embedding(self.embedding, first, last), out
            )

    def fill_cross(self, test: Embedding, train: Embedding | None, out: torch.Tensor) -> None:
        """Compute k(test, train) into ``out``; ``train`` is all training points where it is None."""
        if self.fused is not None:
            self.fused.fill_cross(test, train, out)
        else:
            self._evaluate(test, self.embedding if train is None else train, out)

    def _evaluate(self, A: Embedding, B: Embedding, out: torch.Tensor) -> None:
        height, width = self.tiling.tile
        for top in range(0, out.shape[0], height):
            rows = slice_embedding(A, top, top + height)
            for left in range(0, out.shape[1], width):
                columns = slice_embedding(B, left, left + width)
                self.kernel.evaluate(rows, columns, out[top : top + height, left : left + width], self.buffers)

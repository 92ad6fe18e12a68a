"""The entries of G and of k(X′, X), computed into memory tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from ..kernels import Embedding, Kernel, embedding_size, plan, slice_embedding
from ..support.memory import Buffers
from ..support.threads import share_out
from .few_columns import few_columns

if TYPE_CHECKING:
    from .compiled import CompiledCovariances


@dataclass(frozen=True)
class Tiling:
    """How the matrix is cut: on a CPU so that tiles stay in the cache, on a GPU so that one launch fills it."""

    panel_rows: int  # fewer where a panel would take more than
    panel_bytes: int
    tile_columns: int
    few_columns: range = range(0)  # with so many a stored matrix multiplies as ``few_columns.py`` does

    @classmethod
    def of(cls, device: torch.device) -> Tiling:
        """The one that suits a device."""
        if device.type == "cuda":
            return cls(2048, 2**30, 2**15)
        return cls(192, 64 * 2**20, 2048, few_columns(device))


_THREAD_TILE = (64, 1024)  # rows and columns that stay in the cache of one core together with their scratch memory


class Entries:
    """G = k(X, X) + diag(noise) for training points X given by their ``embedding``, in blocks that are not kept."""

    def __init__(self, kernel: Kernel, embedding: Embedding, noise: torch.Tensor, tiling: Tiling) -> None:
        self.kernel, self.embedding, self.noise, self.tiling = kernel, embedding, noise, tiling
        self.size, self.dtype, self.device = embedding_size(embedding), noise.dtype, noise.device
        self.buffers = Buffers(self.dtype, self.device)
        self.passes = 1  # how often all entries of G are likely to be computed, at the least

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "compiled"}

    @cached_property
    def compiled(self) -> CompiledCovariances | None:
        """Code that computes covariances in one compiled pass; None without numba, on a GPU, and for other kernels."""
        if self.device.type != "cpu":
            return None
        try:
            from .compiled import CompiledCovariances
        except ImportError:
            return None
        return CompiledCovariances.of(self.kernel, self.embedding)

    @property
    def fills_compiled(self) -> bool:
        """Whether ``fill`` uses compiled code; every value below the diagonal is computed once in a pass."""
        return self.passes * self.size**2 / 2 >= plan.COMPILED_FROM and self.compiled is not None

    def diagonal(self) -> torch.Tensor:
        """diag(G), shape (d,)."""
        return self.kernel.diagonal(self.embedding) + self.noise

    def fill(self, start: int, stop: int, first: int, last: int, out: torch.Tensor) -> None:
        """Compute G[start:stop, first:last] into ``out``."""
        self._fill_covariances(start, stop, first, last, out)
        low, high = max(start, first), min(stop, last)
        if low < high:
            overlap = out[low - start : high - start, low - first : high - first]
            overlap.diagonal().add_(self.noise[low:high])

    @contextmanager
    def block(self, start: int, stop: int, first: int, last: int) -> Iterator[torch.Tensor]:
        """Lend G[start:stop, first:last]."""
        with self.buffers.borrow((stop - start, last - first)) as out:
            self.fill(start, stop, first, last, out)
            yield out

    def matrix(self) -> torch.Tensor:
        """The whole of G as a new matrix; each kernel value below the diagonal is computed once and mirrored."""
        matrix = torch.empty(self.size, self.size, dtype=self.dtype, device=self.device)
        rows, columns = _THREAD_TILE if self.device.type == "cpu" else (self.tiling.panel_rows, self.size)

        def panel(start: int) -> None:
            stop = min(start + rows, self.size)
            for first in range(0, stop, columns):
                last = min(first + columns, stop)
                self.fill(start, stop, first, last, matrix[start:stop, first:last])
            matrix[:start, start:stop] = matrix[start:stop, :start].T

        # each thread with panels of its own, the widest first: none waits for another between the steps of a tile
        share_out(panel, range(0, self.size, rows)[::-1], self.device)
        return matrix

    def fill_cross(
        self, test: Embedding, train: Embedding | None, out: torch.Tensor, compiled: bool | None = None
    ) -> None:
        """k(test, train), or k(test, X), into ``out``; by ``compiled`` code, if any, by default for many values."""
        many = out.numel() >= plan.COMPILED_FROM if compiled is None else compiled
        if many and (code := self.compiled) is not None:
            columns = code.X if train is None else code.coordinates(train)
            code.fill(code.coordinates(test), 0, columns, 0, out)
        else:
            self._evaluate(test, self.embedding if train is None else train, out)

    def _fill_covariances(self, start: int, stop: int, first: int, last: int, out: torch.Tensor) -> None:
        """Compute k(X, X)[start:stop, first:last], without noise, into ``out``."""
        if self.fills_compiled and (code := self.compiled) is not None:
            code.fill(code.X, start, code.X, first, out)
            return
        rows, columns = slice_embedding(self.embedding, start, stop), slice_embedding(self.embedding, first, last)
        self._evaluate(rows, columns, out)

    def _evaluate(self, A: Embedding, B: Embedding, out: torch.Tensor) -> None:
        height, width = self.tiling.panel_rows, self.tiling.tile_columns
        if out.shape[0] <= height and out.shape[1] <= width:
            self.kernel.evaluate(A, B, out, self.buffers)
            return
        for top in range(0, out.shape[0], height):
            rows = slice_embedding(A, top, top + height)
            for left in range(0, out.shape[1], width):
                columns = slice_embedding(B, left, left + width)
                self.kernel.evaluate(rows, columns, out[top : top + height, left : left + width], self.buffers)

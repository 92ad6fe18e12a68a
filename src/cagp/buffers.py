"""Scratch memory that is reused: fresh buffers cost several times the arithmetic in page faults."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

import torch


class Buffers:
    """A stack of reusable scratch tensors of one dtype on one device.

    ``with buffers.borrow((rows, columns)) as scratch`` lends an uninitialised tensor; nested borrows get
    different memory, and the memory is kept for the next time.
    """

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype = dtype
        self._device = device
        self._stack: list[torch.Tensor] = []
        self._lent = 0

    @contextmanager
    def borrow(self, shape: tuple[int, ...]) -> Iterator[torch.Tensor]:
        """Lend an uninitialised tensor of ``shape`` until the end of the block."""
        size, level = prod(shape), self._lent
        if level == len(self._stack):
            self._stack.append(torch.empty(0, dtype=self._dtype, device=self._device))
        if self._stack[level].numel() < size:
            self._stack[level] = torch.empty(size, dtype=self._dtype, device=self._device)
        self._lent += 1
        try:
            yield self._stack[level][:size].view(shape)
        finally:
            self._lent -= 1

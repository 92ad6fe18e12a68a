"""Scratch memory that is reused: fresh buffers cost several times the arithmetic in page faults."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod

import torch


class Buffers:
    """A stack of scratch tensors, one for each thread: nested borrows get different memory, kept for the next time."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self._dtype, self._device, self._own = dtype, device, threading.local()

    def __reduce__(self) -> tuple[type[Buffers], tuple[torch.dtype, torch.device]]:
        return Buffers, (self._dtype, self._device)

    @contextmanager
    def borrow(self, shape: tuple[int, ...]) -> Iterator[torch.Tensor]:
        """Lend an uninitialised tensor of ``shape`` until the end of the block."""
        own = self._own.__dict__
        stack: list[torch.Tensor] = own.setdefault("stack", [])
        size, level = prod(shape), own.setdefault("lent", 0)
        if level == len(stack):
            stack.append(torch.empty(0, dtype=self._dtype, device=self._device))
        if stack[level].numel() < size:
            stack[level] = torch.empty(size, dtype=self._dtype, device=self._device)
        own["lent"] += 1
        try:
            yield stack[level][:size].view(shape)
        finally:
            own["lent"] -= 1

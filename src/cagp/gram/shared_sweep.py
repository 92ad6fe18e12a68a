"""A matrix-free sweep whose panels are shared out among threads of its own, products and all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch

from .entries import Entries
from .sweeping import Change, PanelSweep


class SharedPanelSweep(PanelSweep):
    """Each of so many ``threads`` has some columns of every panel: it computes them and multiplies with them.

    All on these threads, with single-threaded torch: torch's own wait busily for a while after each product, and would
    be in the way of those that compute entries.
    """

    def __init__(self, entries: Entries, W: torch.Tensor, rhs: torch.Tensor, backward: bool, threads: int) -> None:
        super().__init__(entries.block, W, rhs, backward)
        self._entries, self._threads, self._before = entries, threads, torch.get_num_threads()
        self._pool = ThreadPoolExecutor(threads, "cagp", torch.set_num_threads, (1,))

    def __exit__(self, error: type[BaseException] | None, *details: object) -> None:
        self._pool.shutdown()
        torch.set_num_threads(self._before)  # the last number set is what new threads start with
        super().__exit__(error, *details)

    def _share(self, work: Callable[[int, int], torch.Tensor], columns: int) -> list[torch.Tensor]:
        width = max(1, -(-columns // self._threads))
        waiting = [self._pool.submit(work, a, min(a + width, columns)) for a in range(0, columns, width)]
        return [each.result() for each in waiting]

    def residual(self, start: int, stop: int) -> torch.Tensor:
        rows = stop - start
        inner = 0 if self._from_zero else rows
        first, last = (0, start + inner) if self._backward else (stop - inner, self._W.shape[1])
        self._lent.close()
        panel = self._lent.enter_context(self._entries.buffers.borrow((rows, last - first)))

        def part(a: int, b: int) -> torch.Tensor:
            self._entries.fill(start, stop, first + a, first + b, panel[:, a:b])
            return self._W[:, first + a : first + b] @ panel[:, a:b].T if inner else self._W.new_zeros(1)

        parts = self._share(part, last - first)
        if self._from_zero:
            self._coming = panel
            return self._pending[:, start:stop]
        split = start if self._backward else rows
        left, right = panel[:, :split], panel[:, split:]
        self._coming, self._diagonal = (left, right) if self._backward else (right, left)
        return self._pending[:, start:stop] - torch.stack(parts).sum(dim=0)

    def relax(self, start: int, stop: int, residual: torch.Tensor, relaxation: float) -> Change:
        return self._pool.submit(super().relax, start, stop, residual, relaxation).result()

    def put(self, start: int, stop: int, change: torch.Tensor) -> None:
        new = self._W[:, start:stop].add_(change)
        coming = self._pending[:, :start] if self._backward else self._pending[:, stop:]

        def part(a: int, b: int) -> torch.Tensor:
            return coming[:, a:b].addmm_(new, self._coming[:, a:b], alpha=-1)

        self._share(part, coming.shape[1])

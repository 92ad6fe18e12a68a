"""A matrix-free sweep whose panels are shared out among threads of its own, products and all."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

from .entries import Entries
from .sweeping import PanelSweep


class SharedPanelSweep(PanelSweep):
    """Each of so many ``threads`` has some columns of every panel: it computes them and multiplies with them.

    All on these threads and the caller's, with single-threaded torch: torch's own wait busily for a while after each
    product, and would be in the way of those that compute entries. Threads meet once for each panel: what the last one
    brings to the rows that are still to come is added when the next one is asked for.
    """

    def __init__(self, entries: Entries, W: torch.Tensor, rhs: torch.Tensor, backward: bool, threads: int) -> None:
        super().__init__(entries.block, W, rhs, backward)
        self._entries, self._threads, self._before = entries, threads, torch.get_num_threads()
        self._pool = ThreadPoolExecutor(threads - 1, "cagp", torch.set_num_threads, (1,))
        self._room = [torch.empty(0, dtype=entries.dtype), torch.empty(0, dtype=entries.dtype)]
        self._brought: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None

    def __enter__(self) -> SharedPanelSweep:
        torch.set_num_threads(1)
        return self

    def __exit__(self, error: type[BaseException] | None, *details: object) -> None:
        self._pool.shutdown()
        torch.set_num_threads(self._before)  # the last number set is what new threads start with
        super().__exit__(error, *details)

    def residual(self, start: int, stop: int) -> torch.Tensor:
        rows, brought = stop - start, self._brought
        inner = 0 if self._from_zero else rows
        first, last = (0, start + inner) if self._backward else (stop - inner, self._W.shape[1])
        panel = self._panel(rows, last - first)

        def part(number: int) -> torch.Tensor:
            if brought is not None:
                coming, new, before = brought
                a, b = self._share(number, coming.shape[1])
                coming[:, a:b].addmm_(new, before[:, a:b], alpha=-1)
            a, b = self._share(number, last - first)
            self._entries.fill(start, stop, first + a, first + b, panel[:, a:b])
            return self._W[:, first + a : first + b] @ panel[:, a:b].T if inner else self._W.new_zeros(1)

        waiting = [self._pool.submit(part, number) for number in range(1, self._threads)]
        parts = [part(0), *(each.result() for each in waiting)]
        self._brought = None
        if self._from_zero:
            self._coming = panel
            return self._pending[:, start:stop]
        split = start if self._backward else rows
        left, right = panel[:, :split], panel[:, split:]
        self._coming, self._diagonal = (left, right) if self._backward else (right, left)
        return self._pending[:, start:stop] - torch.stack(parts).sum(dim=0)

    def put(self, start: int, stop: int, change: torch.Tensor) -> None:
        new = self._W[:, start:stop].add_(change)
        coming = self._pending[:, :start] if self._backward else self._pending[:, stop:]
        self._brought = coming, new, self._coming

    def _panel(self, rows: int, columns: int) -> torch.Tensor:
        """Memory for a panel beside that of the last one, which is still needed."""
        self._room.reverse()
        if self._room[0].numel() < rows * columns:
            self._room[0] = torch.empty(rows * columns, dtype=self._entries.dtype)
        return self._room[0][: rows * columns].view(rows, columns)

    def _share(self, number: int, columns: int) -> tuple[int, int]:
        """The columns of a thread."""
        return number * columns // self._threads, (number + 1) * columns // self._threads

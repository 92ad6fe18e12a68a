"""A sweep over G as the backends do it: residual, solve, put, one block of unknowns after another."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext

import torch

from .entries import Entries

Lend = Callable[[int, int, int, int], AbstractContextManager[torch.Tensor]]  # G[start:stop, first:last], in a ``with``
Change = tuple[torch.Tensor, torch.Tensor]  # of a block of unknowns (T, B), and what it takes off the energy (T,)


class Sweep(AbstractContextManager["Sweep"]):
    """One pass over G that changes the rows of W (T, d) in place, on G w = r for the rows r of ``rhs`` (T, d).

    In a ``with``, for every block of unknowns, from the last to the first where ``backward``: ask for the ``residual``,
    make a change from it, by ``relax`` or otherwise, and ``put`` it. From W = 0 this is substitution.
    """

    def __init__(self, W: torch.Tensor, rhs: torch.Tensor, backward: bool) -> None:
        self._W, self._rhs, self._backward = W, rhs, backward
        # on a CPU in NumPy: torch would wake its threads, which are in the way of ``few_columns``
        self._from_zero = not bool(W.numpy().any() if W.device.type == "cpu" else W.any())
        self._lent = ExitStack()

    def __exit__(self, error: type[BaseException] | None, *details: object) -> None:
        self._lent.close()

    @abstractmethod
    def residual(self, start: int, stop: int) -> torch.Tensor:
        """(rhs − W G)[:, start:stop] for the weights as they are now, shape (T, stop − start)."""

    @abstractmethod
    def relax(self, start: int, stop: int, residual: torch.Tensor, relaxation: float) -> Change:
        """SOR from unknown to unknown within the block: the change to ``put``, and what it is worth."""

    @abstractmethod
    def put(self, start: int, stop: int, change: torch.Tensor) -> None:
        """Add a ``change`` (T, stop − start) to the unknowns start:stop."""

    def _counting(self, start: int, stop: int) -> tuple[int, int]:
        """The range of weights that may not be zero when the block start:stop is reached."""
        d = self._W.shape[1]
        if not self._from_zero:
            return 0, d
        return (stop, d) if self._backward else (0, start)


class PanelSweep(Sweep):
    """A sweep in panels of rows that reads half of the matrix, whatever W is."""

    # The panel beside a diagonal block gives the residual of its rows with the old weights, and then, transposed,
    # brings the new weights of these rows to all rows that are still to come.

    def __init__(self, lend: Lend, W: torch.Tensor, rhs: torch.Tensor, backward: bool) -> None:
        super().__init__(W, rhs, backward)
        self._lend = lend
        self._pending = rhs.clone()  # minus what the unknowns already put contribute

    def residual(self, start: int, stop: int) -> torch.Tensor:
        first, last = self._reach(start, stop)
        self._lent.close()
        panel = self._lent.enter_context(self._lend(start, stop, first, last))
        pending = self._split(panel, start, stop)
        return pending if self._from_zero else torch.addmm(pending, self._W[:, first:last], panel.T, alpha=-1)

    def _reach(self, start: int, stop: int) -> tuple[int, int]:
        """The columns of a panel; from zero the diagonal block is not needed, unless it is relaxed."""
        inner = 0 if self._from_zero else stop - start
        return (0, start + inner) if self._backward else (stop - inner, self._W.shape[1])

    def _split(self, panel: torch.Tensor, start: int, stop: int) -> torch.Tensor:
        """Take note of what a panel has of rows to come and of the diagonal block; returns what its rows wait for."""
        if self._from_zero:
            self._coming = panel
        elif self._backward:
            self._coming, self._diagonal = panel[:, :start], panel[:, start:]
        else:
            self._coming, self._diagonal = panel[:, stop - start :], panel[:, : stop - start]
        return self._pending[:, start:stop]

    def relax(self, start: int, stop: int, residual: torch.Tensor, relaxation: float) -> Change:
        with self._lend(start, stop, start, stop) if self._from_zero else nullcontext(self._diagonal) as block:
            return relaxed(block, residual, self._backward, relaxation)

    def put(self, start: int, stop: int, change: torch.Tensor) -> None:
        coming, new = self._brings(start, stop, change)
        coming.addmm_(new, self._coming, alpha=-1)

    def _brings(self, start: int, stop: int, change: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Change the unknowns; returns what rows still to come wait for, and the new unknowns that they hear of."""
        new = self._W[:, start:stop].add_(change)
        return self._pending[:, :start] if self._backward else self._pending[:, stop:], new


class SharedPanelSweep(PanelSweep):
    """Each of so many ``threads`` has some columns of every panel: it computes them and multiplies with them.

    With single-threaded torch: its own threads wait busily for a while after each product, and would be in the way of
    these. Threads meet once for each panel: what one brings to the rows to come is added with the next.
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
        brought, (first, last) = self._brought, self._reach(start, stop)
        panel = self._panel(stop - start, last - first)

        def part(number: int) -> torch.Tensor:
            if brought is not None:
                coming, new, before = brought
                a, b = self._share(number, coming.shape[1])
                coming[:, a:b].addmm_(new, before[:, a:b], alpha=-1)
            a, b = self._share(number, last - first)
            self._entries.fill(start, stop, first + a, first + b, panel[:, a:b])
            return self._W[:, first + a : first + b] @ panel[:, a:b].T if not self._from_zero else panel[:0]

        waiting = [self._pool.submit(part, number) for number in range(1, self._threads)]
        parts = [part(0), *(each.result() for each in waiting)]
        self._brought = None
        pending = self._split(panel, start, stop)
        return pending if self._from_zero else pending - torch.stack(parts).sum(dim=0)

    def put(self, start: int, stop: int, change: torch.Tensor) -> None:
        self._brought = *self._brings(start, stop, change), self._coming

    def _panel(self, rows: int, columns: int) -> torch.Tensor:
        """Memory for a panel beside that of the last one, which is still needed."""
        self._room.reverse()
        if self._room[0].numel() < rows * columns:
            self._room[0] = torch.empty(rows * columns, dtype=self._entries.dtype)
        return self._room[0][: rows * columns].view(rows, columns)

    def _share(self, number: int, columns: int) -> tuple[int, int]:
        return number * columns // self._threads, (number + 1) * columns // self._threads


def sweep_triangle(block: torch.Tensor, backward: bool, relaxation: float) -> torch.Tensor:
    """What an SOR sweep solves with in a diagonal block: the upper (backward) or lower triangle, diagonal over ω."""
    triangle = block.triu() if backward else block.tril()
    if relaxation != 1.0:
        triangle.diagonal().div_(relaxation)
    return triangle


def relaxed(block: torch.Tensor, residual: torch.Tensor, backward: bool, relaxation: float) -> Change:
    """``Sweep.relax`` with a diagonal ``block`` (B, B) of G."""
    triangle = sweep_triangle(block, backward, relaxation)
    # rows: δ Mᵀ = residual with the triangle M, so the transposed triangle stands on the right
    change = torch.linalg.solve_triangular(triangle.T, residual, upper=not backward, left=False)
    return change, (2 - relaxation) * (change.square() @ triangle.diagonal())

"""A sweep over G as the backends do it: residual, solve, put, one block of unknowns after another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Self

import torch

Lend = Callable[[int, int, int, int], AbstractContextManager[torch.Tensor]]
"""G[start:stop, first:last], lent for the length of a ``with``."""

Change = tuple[torch.Tensor, torch.Tensor]
"""The change of a block of unknowns (T, B), and what it lowers the energy of each row by (T,)."""


class Sweep(ABC):
    """One pass over G that changes the rows of W (T, d) in place, on G w = r for the rows r of ``rhs`` (T, d).

    For every block of unknowns, from the last to the first where ``backward``: ask for the ``residual``, make a change
    of the unknowns from it, by ``relax`` or otherwise, and ``put`` it. Where W begins as zero only the unknowns that
    were put count, and half of the matrix is read: this is substitution. Use it in a ``with``; W is complete after it.
    """

    def __init__(self, W: torch.Tensor, rhs: torch.Tensor, backward: bool) -> None:
        self._W, self._rhs, self._backward = W, rhs, backward
        # on a CPU in NumPy: torch would wake its threads, which are in the way of ``few_columns``
        self._from_zero = not bool(W.numpy().any() if W.device.type == "cpu" else W.any())
        self._lent = ExitStack()

    def __enter__(self) -> Self:
        return self

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
    """A sweep in panels of rows that reads half of the matrix, whatever W is.

    The panel beside a diagonal block, on the side of what is still to come, gives the residual of its rows with the old
    weights, and then, transposed, brings the new weights of these rows to all rows that are still to come.
    """

    def __init__(self, lend: Lend, W: torch.Tensor, rhs: torch.Tensor, backward: bool) -> None:
        super().__init__(W, rhs, backward)
        self._lend = lend
        self._pending = rhs.clone()  # minus what the unknowns already put contribute

    def residual(self, start: int, stop: int) -> torch.Tensor:
        rows = stop - start
        inner = 0 if self._from_zero else rows  # the diagonal block is not needed from zero, unless it is relaxed
        first, last = (0, start + inner) if self._backward else (stop - inner, self._W.shape[1])
        self._lent.close()
        panel = self._lent.enter_context(self._lend(start, stop, first, last))
        if self._from_zero:
            self._coming = panel
            return self._pending[:, start:stop]
        if self._backward:
            self._coming, self._diagonal = panel[:, :start], panel[:, start:]
        else:
            self._coming, self._diagonal = panel[:, rows:], panel[:, :rows]
        return torch.addmm(self._pending[:, start:stop], self._W[:, first:last], panel.T, alpha=-1)

    def relax(self, start: int, stop: int, residual: torch.Tensor, relaxation: float) -> Change:
        with self._lend(start, stop, start, stop) if self._from_zero else nullcontext(self._diagonal) as block:
            return relaxed(block, residual, self._backward, relaxation)

    def put(self, start: int, stop: int, change: torch.Tensor) -> None:
        new = self._W[:, start:stop].add_(change)
        coming = self._pending[:, :start] if self._backward else self._pending[:, stop:]
        coming.addmm_(new, self._coming, alpha=-1)


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

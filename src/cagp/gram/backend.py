"""What a way of keeping G must answer: the interface behind ``Gram``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import ClassVar

import torch

from .entries import Entries
from .sweeping import Sweep


class Backend(ABC):
    """G for training points given by their ``Entries``: ``Dense`` stores it, ``Tiles`` and ``Fused`` recompute it."""

    storage: ClassVar[str] = "tiles"
    computed = False
    """Whether the whole matrix is in memory."""

    def __init__(self, entries: Entries) -> None:
        self.entries = entries

    @abstractmethod
    def block(self, start: int, stop: int, first: int, last: int) -> AbstractContextManager[torch.Tensor]:
        """Lend G[start:stop, first:last]."""

    @abstractmethod
    def matmul(self, W: torch.Tensor) -> torch.Tensor:
        """W G for rows W (T, d), shape (T, d)."""

    @abstractmethod
    def sweeping(self, W: torch.Tensor, rhs: torch.Tensor, backward: bool) -> Sweep:
        """A sweep that changes W (T, d) in place, in the way that is fastest here."""

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

    @property
    def arithmetic(self) -> str:
        """The precision of products."""
        return str(self.entries.dtype)

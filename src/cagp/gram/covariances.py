"""Covariances of training points with each other and with test points, some at a time; and who is near."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch

from ..kernels import Embedding, Kernel, embedding_leaves, embedding_size, map_embedding, plan
from ..kernels.nearness import Near, coordinates_of, near_coordinates
from ..kernels.varying import without_amplitude
from .entries import Entries, Tiling
from .fused import fused_entries
from .neighbours import Search, search

if TYPE_CHECKING:
    from .compiled import CompiledCovariances

_SHORT_ROWS = 0.1  # compiled code pays so much earlier for blocks of neighbours, whose rows are short for torch


class Covariances:
    """The entries of G = k(X, X) + diag(noise) and of k(X′, X) for d training points X, given by an ``embedding``."""

    def __init__(self, kernel: Kernel, embedding: Embedding, noise: torch.Tensor, tiling: Tiling | None = None) -> None:
        self.embedding, self.noise = embedding, noise
        self.size = embedding_size(embedding)
        self.dtype, self.device = noise.dtype, noise.device
        self._kernel, self._tiling = kernel, tiling or Tiling.of(self.device)
        parts = kernel, embedding, noise, self._tiling
        self._entries = fused_entries(*parts) or Entries(*parts)
        self._near: Near | None = None
        self._search: Search | None = None
        self._compiles = False
        self._lock = threading.Lock()  # several threads may predict from one model

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: without what can be computed again."""
        return {**self.__dict__, "_search": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def kernel_diagonal(self) -> torch.Tensor:
        """diag(k(X, X)), without noise, shape (d,)."""
        return self._kernel.diagonal(self.embedding)

    def diagonal(self) -> torch.Tensor:
        """diag(G), shape (d,)."""
        return self._entries.diagonal()

    @cached_property
    def scale(self) -> torch.Tensor:
        """√diag(G), shape (d,), which what rounding can do goes by."""
        return self.diagonal().sqrt()

    def submatrix(self, indices: torch.Tensor) -> torch.Tensor:
        """G[indices, indices], shape (k, k), as a new matrix."""
        chosen = self.chosen(indices)
        matrix = self._kernel.evaluate(chosen, chosen)
        matrix.diagonal().add_(self.noise[indices])
        return matrix

    @contextmanager
    def systems(self, test: Embedding, indices: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Lend G[i, i] (B, k, k), as ``blocks`` does, and k(test, X[i]) (B, s, k) for rows i of ``indices`` (B, k).

        The parts of ``test`` have shape (coordinates, B, s).
        """
        leaves, (B, k), buffers = embedding_leaves(test), indices.shape, self._entries.buffers
        with self.blocks(indices) as G, buffers.borrow((B, leaves[0].shape[2], k)) as V:
            self._kernel.evaluate(test, self.chosen(indices), V, buffers)
            yield G, V

    @contextmanager
    def blocks(self, indices: torch.Tensor) -> Iterator[torch.Tensor]:
        """Lend G[i, i] for every row i of ``indices`` (B, k), shape (B, k, k); above the diagonal may be anything."""
        buffers = self._entries.buffers
        with buffers.borrow((*indices.shape, indices.shape[1])) as G:
            if (compiled := self.compiled) is not None:
                compiled.lower(self.noise, indices.contiguous().numpy(), G.numpy())
            else:
                chosen = self.chosen(indices)
                self._kernel.evaluate(chosen, chosen, G, buffers)
                G.diagonal(dim1=1, dim2=2).add_(self.noise[indices])
            yield G

    @contextmanager
    def between(self, A: Embedding, B: Embedding) -> Iterator[torch.Tensor]:
        """Lend k(A, B) of any two sets of points, given by their embeddings, without noise."""
        with self._entries.buffers.borrow((embedding_size(A), embedding_size(B))) as out:
            self._entries.fill_cross(A, B, out, compiled=self.compiled is not None)
            yield out

    def expect(self, values: float, in_short_rows: bool = True) -> None:
        """So many values will be asked of ``systems``, ``between``, …: many are computed by compiled code then on."""
        # loading it takes a fraction of a second, compiling it several seconds; values differ in the last digits
        self._compiles = self._compiles or values >= (_SHORT_ROWS if in_short_rows else 1) * plan.COMPILED_FROM

    @property
    def compiled(self) -> CompiledCovariances | None:
        """The code that is used where ``expect`` has said that it pays, in float64; None where there is none."""
        return self._entries.compiled if self._compiles and self.dtype == torch.float64 else None

    def kernel_rows(self, indices: torch.Tensor) -> torch.Tensor:
        """k(X[indices], X), without noise, shape (k, d), as a new matrix."""
        return self.cross_block(self.chosen(indices))

    def cross_block(self, test: Embedding, indices: torch.Tensor | None = None) -> torch.Tensor:
        """V = k(test, X), or only the columns ``indices`` of it, shape (T, d) or (T, k), as a new matrix."""
        train = None if indices is None else self.chosen(indices)
        columns = self.size if indices is None else len(indices)
        out = torch.empty(embedding_size(test), columns, dtype=self.dtype, device=self.device)
        self._entries.fill_cross(test, train, out, compiled=None if self.compiled is None else True)
        return out

    def chosen(self, indices: torch.Tensor) -> Embedding:
        """The embedding of the training points ``indices``, of any shape."""
        return map_embedding(self.embedding, lambda part: part[:, indices].contiguous())

    def coordinates(self) -> torch.Tensor:
        """The points in the kernel's own scaled coordinates, shape (d, q): near means strongly correlated."""
        return torch.cat(embedding_leaves(without_amplitude(self._kernel, self.embedding)[1])).T

    def search_coordinates(self, embedding: Embedding | None = None) -> torch.Tensor | None:
        """Points, the training points by default, in the coordinates of a search (n, q); None where there is none."""
        if self._near is None:
            self._near = near_coordinates(self._kernel, self.embedding)
        return coordinates_of(self._near, self.embedding if embedding is None else embedding) if self._near else None

    @property
    def neighbours(self) -> Search | None:
        """The training points, ready for questions about neighbours; None where no part of the kernel is radial."""
        with self._lock:
            if self._search is None and (points := self.search_coordinates()) is not None:
                self._search = search(points)
        return self._search

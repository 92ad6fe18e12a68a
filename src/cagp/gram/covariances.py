"""Covariances of training points with each other and with test points, some at a time; and who is near."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from ..kernels import Embedding, Kernel, Varying, embedding_leaves, embedding_size, map_embedding
from ..kernels.nearness import near_leaves
from ..kernels.varying import without_amplitude
from .entries import Entries, Tiling
from .fused import fused_entries
from .neighbours import Search, search

if TYPE_CHECKING:
    from .compiled_blocks import CompiledBlocks


class Covariances:
    """The entries of G = k(X, X) + diag(noise) and of k(X′, X) for d training points X, given by their ``embedding``.

    ``tiling`` is how work is cut; left out, as suits the device.
    """

    def __init__(self, kernel: Kernel, embedding: Embedding, noise: torch.Tensor, tiling: Tiling | None = None) -> None:
        self.embedding, self.noise = embedding, noise
        self.size = embedding_size(embedding)
        self.dtype, self.device = noise.dtype, noise.device
        self._kernel, self._tiling = kernel, tiling or Tiling.of(self.device)
        parts = kernel, embedding, noise, self._tiling
        self._entries = fused_entries(*parts) or Entries(*parts)
        self._near = near_leaves(kernel, embedding)
        self._search: Search | None = None
        self._compiled: CompiledBlocks | None = None
        self._compiles = False
        self._lock = threading.Lock()  # several threads may predict from one model

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: without what can be computed again."""
        return {**self.__dict__, "_search": None, "_compiled": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def kernel_diagonal(self) -> torch.Tensor:
        """diag(k(X, X)), without noise, shape (d,)."""
        return self._kernel.diagonal(self.embedding)

    def diagonal(self) -> torch.Tensor:
        """diag(G), shape (d,)."""
        return self._entries.diagonal()

    def submatrix(self, indices: torch.Tensor) -> torch.Tensor:
        """G[indices, indices], shape (k, k), as a new matrix."""
        chosen = self.chosen(indices)
        matrix = self._kernel.evaluate(chosen, chosen)
        matrix.diagonal().add_(self.noise[indices])
        return matrix

    @contextmanager
    def systems(self, test: Embedding, indices: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Lend G[i, i] and k(test, X[i]) for every row i of ``indices`` (B, k), shapes (B, k, k) and (B, s, k).

        The parts of ``test`` have shape (coordinates, B, s). What G has above the diagonal may be anything.
        """
        leaves, (B, k), buffers = embedding_leaves(test), indices.shape, self._entries.buffers
        with buffers.borrow((B, k, k)) as G, buffers.borrow((B, leaves[0].shape[2], k)) as V:
            if (compiled := self._compiled_blocks()) is not None:
                which = indices.contiguous().numpy()
                compiled.lower(which, G.numpy())
                compiled.cross(torch.cat(leaves).numpy(), which, V.numpy())
                if isinstance(self._kernel, Varying):
                    near = self.embedding[1][0][indices]
                    G.mul_(near[:, :, None]).mul_(near[:, None, :])
                    V.mul_(leaves[-1][0][:, :, None]).mul_(near[:, None, :])
            else:
                chosen = map_embedding(self.embedding, lambda part: part[:, indices])
                self._kernel.evaluate(chosen, chosen, G, buffers)
                G.diagonal(dim1=1, dim2=2).add_(self.noise[indices])
                self._kernel.evaluate(test, chosen, V, buffers)
            yield G, V

    @contextmanager
    def between(self, A: Embedding, B: Embedding) -> Iterator[torch.Tensor]:
        """Lend k(A, B) of any two sets of points, given by their embeddings, without noise."""
        with self._entries.buffers.borrow((embedding_size(A), embedding_size(B))) as out:
            self._entries.fill_cross(A, B, out, compiled=self._compiled_blocks() is not None)
            yield out

    def compile_blocks(self) -> None:
        """From now on compute what ``systems`` and ``between`` lend in one compiled pass, where there is numba and code
        for the kernel. To load that code takes a fraction of a second, and several seconds when it is compiled
        first; values differ in the last digits.
        """
        with self._lock:
            self._compiles = True

    def _compiled_blocks(self) -> CompiledBlocks | None:
        with self._lock:
            if self._compiles and self._compiled is None:
                self._compiled = self._compile()
                self._compiles = self._compiled is not None
        return self._compiled

    def _compile(self) -> CompiledBlocks | None:
        kernel, embedding, amplitude = without_amplitude(self._kernel, self.embedding)
        # with an amplitude S, G = S (K + S⁻¹ N S⁻¹) S: what is compiled lies in between
        noise = self.noise if amplitude is None else self.noise / amplitude.square()
        terms = kernel.radial_terms(embedding)
        if self.device.type != "cpu" or self.dtype != torch.float64:
            return None
        try:
            from .compiled_blocks import CompiledBlocks
            from .compiled_tiles import has_code
        except ImportError:
            return None
        if not has_code(terms):
            return None
        return CompiledBlocks(terms, torch.cat(embedding_leaves(embedding)).numpy(), noise.numpy())

    def kernel_rows(self, indices: torch.Tensor) -> torch.Tensor:
        """k(X[indices], X), without noise, shape (k, d), as a new matrix."""
        return self.cross_block(self.chosen(indices))

    def cross_block(self, test: Embedding, indices: torch.Tensor | None = None) -> torch.Tensor:
        """V = k(test, X), or only the columns ``indices`` of it, shape (T, d) or (T, k), as a new matrix."""
        train = None if indices is None else self.chosen(indices)
        columns = self.size if indices is None else len(indices)
        out = torch.empty(embedding_size(test), columns, dtype=self.dtype, device=self.device)
        self._entries.fill_cross(test, train, out)
        return out

    def chosen(self, indices: torch.Tensor) -> Embedding:
        """The embedding of the training points ``indices`` (k,)."""
        return map_embedding(self.embedding, lambda part: part[:, indices].contiguous())

    @property
    def radial(self) -> bool:
        """Whether the kernel falls with the distance between ``coordinates`` and with nothing else."""
        return self._kernel.radial

    def coordinates(self) -> torch.Tensor:
        """The points in the kernel's own scaled coordinates, shape (d, q): near means strongly correlated."""
        return torch.cat(embedding_leaves(without_amplitude(self._kernel, self.embedding)[1])).T

    def search_coordinates(self, embedding: Embedding | None = None) -> torch.Tensor | None:
        """Points in the coordinates in which neighbours are searched, shape (n, q); the training points by default.

        None where no part of the kernel falls with distance.
        """
        if not self._near:
            return None
        leaves = embedding_leaves(self.embedding if embedding is None else embedding)
        return torch.cat([leaves[i] for i in self._near]).T

    @property
    def neighbours(self) -> Search | None:
        """The training points, ready for questions about neighbours; None where no part of the kernel is radial."""
        with self._lock:
            if self._search is None and self._near:
                points = self.search_coordinates()
                assert points is not None
                self._search = search(points)
        return self._search

"""The Gram matrix G = k(X, X) + Σ: the only place that knows how it is stored.

Either dense, filled once and kept, or in tiles that are recomputed whenever they are needed (matrix-free).
Everything else in the library asks for blocks, products and the diagonal, and cannot tell the two apart.

Vectors are rows throughout: a batch of right-hand sides has shape (columns of W, d), so that each is contiguous
and the skinny products with G run at full speed.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from ..kernels import Embedding, Kernel, embedding_leaves, embedding_size, map_embedding
from ..support.buffers import Buffers
from ..support.memory import human, require
from ..support.positive_definite import positive_definite_factor
from ..support.validation import choice
from .cross_covariance import Cross
from .few_columns import SkinnyProduct, pays
from .fused import RunningProduct, fused
from .neighbours import Search, search
from .tiles import TILINGS, Tiles
from .triangles import TriangleInverses

STORAGES = ("auto", "dense", "tiles")

_DENSE_SHARE = 0.75


class Gram:
    """The symmetric positive definite matrix G = k(X, X) + diag(noise), shape (d, d).

    ``storage`` is "dense", "tiles", or "auto": dense where the matrix takes at most three quarters of the memory
    ``budget`` (bytes); the rest is for the work with it. Dense storage beyond that is refused here, before anything
    is allocated. On a GPU, sums and products of radial kernels run through fused kernels, and in float32 "auto" then
    stores nothing: recomputing is faster. ``accurate=False`` gives weights 11 bits in their products,
    as TF32 has.
    """

    def __init__(
        self,
        kernel: Kernel,
        embedding: Embedding,
        noise: torch.Tensor,
        *,
        storage: str = "auto",
        budget: int,
        accurate: bool = True,
    ) -> None:
        self._kernel = kernel
        self.embedding = embedding
        self.noise = noise
        self.budget = budget
        self.size = embedding_size(embedding)
        self.dtype, self.device = noise.dtype, noise.device
        self.accurate = accurate
        self._fused = fused(kernel, embedding, noise, accurate)
        self.storage = self._choose_storage(choice(storage, "storage", STORAGES))
        self._matrix: torch.Tensor | None = None
        self._triangles = TriangleInverses()
        self._buffers = Buffers(self.dtype, self.device)
        self._search: Search | None = None
        self._lock = threading.RLock()  # several threads may predict from one model
        self.tiling = TILINGS.get(self.device.type, TILINGS["cpu"])
        self._tiles = Tiles(kernel, embedding, self._fused, self.tiling, self._buffers)

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: without what can be computed again."""
        return {**self.__dict__, "_matrix": None, "_search": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    @property
    def computed(self) -> bool:
        """Whether the dense matrix is in memory."""
        return self._matrix is not None

    @property
    def fused(self) -> bool:
        """Whether kernel values come from fused GPU kernels."""
        return self._fused is not None

    @property
    def fused_products(self) -> bool:
        """Whether products are fused too, so that no tile is ever stored."""
        return self._fused is not None and self._fused.multiplies

    @property
    def dense_bytes(self) -> int:
        """What the whole matrix takes in memory."""
        return self.size**2 * self.dtype.itemsize

    def _choose_storage(self, storage: str) -> str:
        if storage == "auto":
            if self.fused_products:
                return "tiles"
            return "dense" if self.dense_bytes <= _DENSE_SHARE * self.budget else "tiles"
        if storage == "dense":
            remedy = 'use storage="tiles" (matrix-free) or a larger memory_budget'
            what = f"the dense Gram matrix of {self.size} points ({human(self.dense_bytes)}) with room to work"
            require(self.dense_bytes / _DENSE_SHARE, self.budget, what, remedy)
        return storage

    @property
    def working_budget(self) -> int:
        """What the budget leaves beside the matrix, in bytes."""
        return self.budget - (self.dense_bytes if self.storage == "dense" else 0)

    def __repr__(self) -> str:
        memory = human(self.dense_bytes) if self.storage == "dense" else "matrix-free"
        return f"Gram({self.size} × {self.size}, {self.storage}, {memory}, {self.dtype}, {self.device})"

    def permuted(self, order: torch.Tensor) -> Gram:
        """The same matrix with rows and columns in another order, shape of ``order`` (d,); nothing is computed yet."""
        embedding = map_embedding(self.embedding, lambda part: part[:, order].contiguous())
        noise = self.noise[order]
        return Gram(self._kernel, embedding, noise, storage=self.storage, budget=self.budget, accurate=self.accurate)

    def cast(self, dtype: torch.dtype) -> Gram:
        """The same matrix in another arithmetic, matrix-free; nothing is computed yet."""
        embedding = map_embedding(self.embedding, lambda part: part.to(dtype))
        return Gram(self._kernel, embedding, self.noise.to(dtype), storage="tiles", budget=self.budget)

    # --- blocks ---------------------------------------------------------------------------------------------------

    @property
    def panel_rows(self) -> int:
        """How many rows a sweep takes at once: enough for fast products, few enough to stay near the cache."""
        rows = min(self.size, self.tiling.panel_rows)
        if self.storage == "dense" or self.fused_products:
            return rows
        return min(rows, max(16, self.tiling.panel_bytes // (self.size * self.dtype.itemsize)))

    def panels(self, rows: int | None = None, reverse: bool = False) -> Iterator[tuple[int, int]]:
        """Row ranges (start, stop) that cover the matrix, from the first to the last or in reverse."""
        step = rows or self.panel_rows
        starts = range(0, self.size, step)
        for start in reversed(starts) if reverse else starts:
            yield start, min(start + step, self.size)

    def block(self, start: int, stop: int, first: int, last: int) -> torch.Tensor:
        """G[start:stop, first:last]. Read it, do not keep it: the memory is used again by the next call."""
        if self.storage == "dense":
            return self.dense()[start:stop, first:last]
        with self._buffers.borrow((stop - start, last - first)) as out:
            self._fill(start, stop, first, last, out)
        return out

    def _fill(self, start: int, stop: int, first: int, last: int, out: torch.Tensor) -> None:
        """Compute G[start:stop, first:last] into ``out``, tile by tile."""
        self._tiles.fill(start, stop, first, last, out)
        low, high = max(start, first), min(stop, last)
        if low < high:
            overlap = out[low - start : high - start, low - first : high - first]
            overlap.diagonal().add_(self.noise[low:high])

    def dense(self) -> torch.Tensor:
        """The stored matrix (d, d), where storage is dense; computed once. Do not change it."""
        with self._lock:
            if self._matrix is None:
                self._matrix = self._assemble()
            return self._matrix

    def triangle_inverse(self, start: int, stop: int, backward: bool, relaxation: float) -> torch.Tensor:
        """The inverse of the triangle that a sweep solves with in rows start:stop, kept for the next sweep."""
        return self._triangles.get(start, self.block(start, stop, start, stop), backward, relaxation)

    def _assemble(self) -> torch.Tensor:
        """The whole matrix; each kernel value below the diagonal is computed once and mirrored."""
        matrix = torch.empty(self.size, self.size, dtype=self.dtype, device=self.device)
        for start, stop in self.panels():
            self._fill(start, stop, 0, stop, matrix[start:stop, :stop])
            matrix[:start, start:stop] = matrix[start:stop, :start].T
        return matrix

    # --- what solvers ask for -------------------------------------------------------------------------------------

    @property
    def radial(self) -> bool:
        """Whether the kernel falls with the distance between ``coordinates`` and with nothing else."""
        return self._kernel.radial

    def kernel_diagonal(self) -> torch.Tensor:
        """diag(k(X, X)), without noise, shape (d,)."""
        return self._kernel.diagonal(self.embedding)

    def diagonal(self) -> torch.Tensor:
        """diag(G), shape (d,)."""
        return self.kernel_diagonal() + self.noise

    def matmul(self, W: torch.Tensor) -> torch.Tensor:
        """W G for rows W (T, d), shape (T, d). By symmetry each row is (G w)ᵀ."""
        if self.storage == "dense":
            return self._dense_matmul(W)
        if self._fused is not None and self._fused.multiplies:
            return self._fused.matmul(W)
        product = torch.zeros_like(W)
        # on a CPU whole panels, on a GPU tiles that fill it
        rows, width = (None, self.size) if self.device.type == "cpu" else self.tiling.tile
        for start, stop in self.panels(rows):
            # lower triangle: every kernel value serves twice
            for left in range(0, stop, width):
                right = min(left + width, stop)
                tile = self.block(start, stop, left, right)
                product[:, start:stop].addmm_(W[:, left:right], tile.T)
                above = min(right, start)
                if left < above:
                    product[:, left:above].addmm_(W[:, start:stop], tile[:, : above - left])
        return product

    def _dense_matmul(self, W: torch.Tensor) -> torch.Tensor:
        if not pays(self.device, len(W)):
            return W @ self.dense()
        with SkinnyProduct(self.dense().numpy(), np.ascontiguousarray(W.numpy().T)) as product:
            rows = [product.rows(start, stop) for start, stop in self.panels()]
        return torch.from_numpy(np.concatenate(rows).T.copy())

    def running_product(self, W: torch.Tensor, largest: torch.Tensor) -> RunningProduct:
        """Products with rows W (T, d) that a sweep changes as it goes, where products are fused.

        ``largest`` (T,) is about the largest weight of each row that the sweep will meet.
        """
        assert self._fused is not None
        return self._fused.running(W, largest)

    def nearest(self, test: torch.Tensor, k: int) -> torch.Tensor:
        """The k training points nearest to ``test`` (T, q) in the coordinates of this Gram matrix, shape (T, k)."""
        with self._lock:
            if self._search is None:
                self._search = search(self.coordinates())
        return self._search.query(test, k)

    def submatrix(self, indices: torch.Tensor) -> torch.Tensor:
        """G[indices, indices], shape (k, k), as a new matrix."""
        chosen = map_embedding(self.embedding, lambda part: part[:, indices].contiguous())
        matrix = self._kernel.evaluate(chosen, chosen)
        matrix.diagonal().add_(self.noise[indices])
        return matrix

    def kernel_rows(self, indices: torch.Tensor) -> torch.Tensor:
        """k(X[indices], X), without noise, shape (k, d), as a new matrix."""
        chosen = map_embedding(self.embedding, lambda part: part[:, indices].contiguous())
        return self.cross_block(chosen)

    def coordinates(self) -> torch.Tensor:
        """The points in the kernel's own scaled coordinates, shape (d, q): near means strongly correlated."""
        return torch.cat(embedding_leaves(self.embedding)).T

    def submatrices(self, indices: torch.Tensor) -> torch.Tensor:
        """G[i, i] for every row i of ``indices`` (T, k), shape (T, k, k); memory that the next call uses again."""
        chosen = map_embedding(self.embedding, lambda part: part[:, indices])
        T, k = indices.shape
        with self._buffers.borrow((T, k, k)) as blocks:
            self._kernel.evaluate(chosen, chosen, blocks, self._buffers)
        blocks.diagonal(dim1=1, dim2=2).add_(self.noise[indices])
        return blocks

    def cross_block(self, test: Embedding, indices: torch.Tensor | None = None) -> torch.Tensor:
        """V = k(test, X), or only the columns ``indices`` of it, shape (T, d) or (T, k), as a new matrix."""
        train = None if indices is None else map_embedding(self.embedding, lambda part: part[:, indices].contiguous())
        columns = self.size if indices is None else len(indices)
        out = torch.empty(embedding_size(test), columns, dtype=self.dtype, device=self.device)
        self._tiles.fill_cross(test, train, out)
        return out

    def cholesky(self) -> torch.Tensor:
        """The lower Cholesky factor of G, shape (d, d), as a new matrix."""
        remedy = "use an iterative solver such as GaussSeidel, or a larger memory_budget"
        copies = 2 * self.dense_bytes
        require(copies, self.budget, f"the Cholesky factor of {self.size} points (matrix and factor)", remedy)
        matrix = self._matrix if self._matrix is not None else self._assemble()
        return positive_definite_factor(matrix, "the Gram matrix", "a larger noise_variance")

    def cross(self, test: Embedding) -> Cross:
        """The covariances between test points, given by their embedding, and the training points."""
        cast = map_embedding(test, lambda part: part.to(dtype=self.dtype, device=self.device))
        return Cross(self, self._kernel, cast)

"""The Gram matrix G = k(X, X) + Σ, and the covariances k(X′, X) with test points.

How G is kept is between it and its ``Backend``. Vectors are rows throughout: a batch of right-hand sides has shape
(columns of W, d), so that each is contiguous and products of G with few of them run at full speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch

from ..kernels import Embedding, Kernel, embedding_leaves, embedding_size, map_embedding, slice_embedding
from ..support.memory import human, require
from ..support.positive_definite import positive_definite_factor
from ..support.validation import choice
from .backend import Backend, Tiles
from .covariances import Covariances
from .dense import Dense
from .entries import Tiling
from .fused import Fused, FusedEntries, installed
from .sweeping import Sweep

STORAGES = ("auto", "dense", "tiles")
_DENSE_SHARE = 0.75  # of the budget that a dense matrix may take
_NEAREST_ENTRIES = 2**24  # covariances that are looked at together


class Gram(Covariances):
    """The symmetric positive definite matrix G = k(X, X) + diag(noise), shape (d, d).

    ``storage`` is "dense", "tiles", or "auto": dense where the matrix takes at most three quarters of the memory
    ``budget`` (bytes). Dense storage beyond that is refused here, before anything is allocated. On a GPU, sums and
    products of radial kernels are fused, and in float32 "auto" then stores nothing: recomputing is faster.
    ``accurate=False`` gives weights 11 bits in their products, as TF32 has. ``tiling`` is how work is cut; left out, as
    suits the device. ``basis`` H (d, q) are the functions of a trend with unknown coefficients, where there is one.
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
        tiling: Tiling | None = None,
        basis: torch.Tensor | None = None,
    ) -> None:
        super().__init__(kernel, embedding, noise, tiling)
        self.basis, self.budget, self.accurate = basis, budget, accurate
        self.dense_bytes = self.size**2 * self.dtype.itemsize  # what the whole matrix takes in memory, if stored
        self._backend = self._choose_backend(choice(storage, "storage", STORAGES))
        self.storage = "dense" if isinstance(self._backend, Dense) else "tiles"  # what was decided
        self.stored_bytes = self.dense_bytes if self.storage == "dense" else 0  # of the matrix, or will be
        self.working_budget = budget - self.stored_bytes  # what is left beside the matrix
        rounded = isinstance(self._backend, Fused) and not accurate
        self.arithmetic = "tf32 (weights of 11 bits, sums in float32)" if rounded else str(self.dtype)  # of products
        self.fused = isinstance(self._entries, FusedEntries)  # whether kernel values come from fused GPU kernels

    def _choose_backend(self, storage: str) -> Backend:
        # products are fused in float32 alone: in float64 the tiles go through memory
        entries = self._entries
        fused = entries if isinstance(entries, FusedEntries) and self.dtype == torch.float32 else None
        if storage == "dense":
            remedy = 'use storage="tiles" (matrix-free) or a larger memory_budget'
            what = f"the dense Gram matrix of {self.size} points ({human(self.dense_bytes)}) with room to work"
            require(self.dense_bytes / _DENSE_SHARE, self.budget, what, remedy)
        elif storage == "auto" and fused is None and self.dense_bytes <= _DENSE_SHARE * self.budget:
            storage = "dense"
        if storage == "dense":
            return Dense(self._entries)
        return Tiles(self._entries) if fused is None else Fused(fused, self.accurate)

    def permuted(self, order: torch.Tensor) -> Gram:
        """The same matrix in another ``order`` (d,); nothing is computed yet, and stored once: see ``Dense``."""
        other = self._like(self.chosen(order), lambda part: part[order], self.storage, self.accurate)
        if isinstance(self._backend, Dense):
            self._backend.also(other._backend, order)
        return other

    def without(self, rows: torch.Tensor) -> Gram:
        """The matrix of all other training points than ``rows`` (n,), matrix-free; nothing is computed yet."""
        kept = torch.ones(self.size, dtype=torch.bool, device=self.device)
        kept[rows] = False
        return self._like(self.chosen(kept), lambda part: part[kept], "tiles", True)

    def cast(self, dtype: torch.dtype) -> Gram:
        """The same matrix in another arithmetic, matrix-free; nothing is computed yet."""
        embedding = map_embedding(self.embedding, lambda part: part.to(dtype))
        return self._like(embedding, lambda part: part.to(dtype), "tiles", True)

    def _like(
        self, embedding: Embedding, change: Callable[[torch.Tensor], torch.Tensor], storage: str, accurate: bool
    ) -> Gram:
        """The matrix for another ``embedding``, with noise and basis changed in the same way."""
        basis = None if self.basis is None else change(self.basis)
        options: dict[str, Any] = {"budget": self.budget, "tiling": self._tiling, "basis": basis}
        return Gram(self._kernel, embedding, change(self.noise), storage=storage, accurate=accurate, **options)

    @property
    def computed(self) -> bool:
        """Whether the dense matrix is in memory; that of a ``permuted`` one is that one's."""
        return self._backend.computed

    def panel_bytes(self, rows: int) -> int:
        """What a sweep in blocks of so many rows takes in memory beside the matrix and the weights."""
        return self._backend.panel_bytes(rows)

    def describe(self) -> str:
        """How the matrix is kept and, where a GPU computes it again, by what: "dense, 12.5 KiB"."""
        if self.stored_bytes or self.device.type == "cpu":
            return self._kept
        reason = f"{self._kernel!r} has no fused form" if installed() else "Triton is not installed"
        return f"{self._kept}. GPU: " + ("fused kernels" if self.fused else f"blocked torch, because {reason}")

    @property
    def _kept(self) -> str:
        return f"dense, {human(self.stored_bytes)}" if self.stored_bytes else "tiles, matrix-free"

    def __repr__(self) -> str:
        return f"Gram({self.size} × {self.size}, {self._kept}, {self.dtype}, {self.device})"

    def panels(self, rows: int | None = None, reverse: bool = False) -> Iterator[tuple[int, int]]:
        """Row ranges (start, stop) that cover the matrix, from the first to the last or in reverse."""
        step = rows or self._backend.panel_rows
        starts = range(0, self.size, step)
        for start in reversed(starts) if reverse else starts:
            yield start, min(start + step, self.size)

    def block(self, start: int, stop: int, first: int, last: int) -> AbstractContextManager[torch.Tensor]:
        """Lend G[start:stop, first:last], to be read within the ``with``."""
        return self._backend.block(start, stop, first, last)

    def matmul(self, W: torch.Tensor) -> torch.Tensor:
        """W G for rows W (T, d), shape (T, d). By symmetry each row is (G w)ᵀ."""
        return self._backend.matmul(W)

    def sweeping(self, W: torch.Tensor, rhs: torch.Tensor, *, backward: bool) -> Sweep:
        """A sweep on G w = r for every row of W and ``rhs`` (T, d), which changes W in place: see ``Sweep``."""
        return self._backend.sweeping(W, rhs, backward)

    def cholesky(self) -> torch.Tensor:
        """The lower Cholesky factor of G, shape (d, d), as a new matrix."""
        remedy = "use an iterative solver such as GaussSeidel, or a larger memory_budget"
        copies = 2 * self.dense_bytes
        require(copies, self.budget, f"the Cholesky factor of {self.size} points (matrix and factor)", remedy)
        return positive_definite_factor(self._backend.matrix(), "the Gram matrix", "a larger noise_variance")

    def cross(self, test: Embedding, basis: torch.Tensor | None = None) -> Cross:
        """The covariances with test points, given by their embedding and, where there is a trend, ``basis`` (T, q)."""
        cast = map_embedding(test, lambda part: part.to(dtype=self.dtype, device=self.device))
        return Cross(self, self._kernel, cast, None if basis is None else basis.to(self.noise))


Pair = tuple[torch.Tensor, torch.Tensor]


class PortablePoints(NamedTuple):
    """Test points on the CPU, to be sent to a copy of the Gram matrix elsewhere: what ``Gram.cross`` takes."""

    test: Embedding
    basis: torch.Tensor | None

    @property
    def nbytes(self) -> int:
        """What they take in memory."""
        basis = 0 if self.basis is None else self.basis.nbytes
        return sum(leaf.nbytes for leaf in embedding_leaves(self.test)) + basis


class Cross:
    """V = k(X′, X) and K″ = k(X′, X′) for test points, computed when asked for; ``basis`` (T, q) is that of a trend."""

    travels = True  # whether it can be sent to other processes, as ``portable`` points
    of_values = True  # whether V are values of the kernel, which compiled code computes

    def __init__(self, gram: Gram, kernel: Kernel, test: Embedding, basis: torch.Tensor | None) -> None:
        self.gram, self.kernel, self.test, self.basis = gram, kernel, test, basis
        self._matrix: torch.Tensor | None = None
        self.size = embedding_size(test)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_matrix": None}

    @property
    def matrix(self) -> torch.Tensor:
        """V, shape (T, d); computed once."""
        if self._matrix is None:
            self._matrix = self.gram.cross_block(self.test)
        return self._matrix

    def rows(self, part: slice | torch.Tensor) -> Cross:
        """Some of the test points: a slice, a mask (T,), or indices."""
        basis = None if self.basis is None else self.basis[part]
        return Cross(self.gram, self.kernel, map_embedding(self.test, lambda leaf: leaf[:, part]), basis)

    def seen_by(self, gram: Gram) -> Cross:
        """The same test points for another Gram matrix of the same training points; itself where it is this one."""
        return self if gram is self.gram else gram.cross(self.test, self.basis)

    def portable(self) -> PortablePoints:
        """These test points as they travel; a view would be sent with all it views."""
        basis = None if self.basis is None else self.basis.cpu().clone()
        return PortablePoints(map_embedding(self.test, lambda leaf: leaf.cpu().clone()), basis)

    def forget(self) -> None:
        """Let V go; it is computed again when asked for."""
        self._matrix = None

    def columns(self, indices: torch.Tensor) -> torch.Tensor:
        """V[:, indices], shape (T, k), without computing the rest of V."""
        return self.gram.cross_block(self.test, indices)

    def systems(self, rows: torch.Tensor, indices: torch.Tensor) -> AbstractContextManager[Pair]:
        """Lend G[i, i] (B, k, k), as ``blocks`` does, and V[r, i] (B, s, k), for r ``rows`` (B, s), i ``indices``."""
        return self.gram.systems(map_embedding(self.test, lambda part: part[:, rows]), indices)

    def nearest(self, k: int) -> torch.Tensor:
        """The k training points nearest to each test point, shape (T, k); by correlation where there is no search."""
        coordinates, neighbours = self.gram.search_coordinates(self.test), self.gram.neighbours
        if coordinates is not None and neighbours is not None:
            return neighbours.query(coordinates, k)
        return self.strongest(k, None)

    def strongest(self, k: int, among: torch.Tensor | None) -> torch.Tensor:
        """The k training points of the largest correlations with each test point, shape (T, k); ``among`` some (n,)."""
        scale = self.gram.kernel_diagonal().rsqrt().nan_to_num_(posinf=0.0)  # no variance, no information
        scale = scale if among is None else scale[among]
        step = max(1, _NEAREST_ENTRIES // len(scale))
        found = []
        for top in range(0, self.size, step):  # the largest covariances, k(x, x) apart
            rows = slice_embedding(self.test, top, top + step)
            found.append(self.gram.cross_block(rows, among).abs_().mul_(scale).topk(k, dim=1).indices)
        return torch.cat(found)

    def prior_variance(self) -> torch.Tensor:
        """diag(K″), shape (T,)."""
        return self.kernel.diagonal(self.test)

    def prior_scale(self) -> torch.Tensor:
        """The size of the terms that make up a variance, as a standard deviation, shape (T,): what rounding goes by."""
        return self.prior_variance().sqrt()

    def prior_covariance(self) -> torch.Tensor:
        """K″, shape (T, T)."""
        return self.kernel.matrix(self.test, self.test)

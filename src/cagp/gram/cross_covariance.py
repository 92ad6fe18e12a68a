"""The covariances between test points and training points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..kernels import Embedding, Kernel, embedding_leaves, embedding_size, map_embedding, slice_embedding

if TYPE_CHECKING:
    from .gram import Gram

_NEAREST_ENTRIES = 2**24


class Cross:
    """V = k(X′, X) and K″ = k(X′, X′) for a batch of test points, computed when asked for."""

    def __init__(self, gram: Gram, kernel: Kernel, test: Embedding) -> None:
        self.gram = gram
        self._kernel = kernel
        self.test = test
        self._matrix: torch.Tensor | None = None
        self.size = embedding_size(test)

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: without what can be computed again."""
        return {**self.__dict__, "_matrix": None}

    @property
    def matrix(self) -> torch.Tensor:
        """V, shape (T, d); computed once."""
        if self._matrix is None:
            self._matrix = self.gram.cross_block(self.test)
        return self._matrix

    def rows(self, part: slice | torch.Tensor) -> Cross:
        """Some of the test points: a slice, or a mask (T,)."""
        return Cross(self.gram, self._kernel, map_embedding(self.test, lambda leaf: leaf[:, part]))

    def forget(self) -> None:
        """Let V go; it is computed again when asked for."""
        self._matrix = None

    def columns(self, indices: torch.Tensor) -> torch.Tensor:
        """V[:, indices], shape (T, k), without computing the rest of V."""
        return self.gram.cross_block(self.test, indices)

    def entries(self, indices: torch.Tensor) -> torch.Tensor:
        """V[t, indices[t]] for every test point t, ``indices`` (T, k), shape (T, k)."""
        train = map_embedding(self.gram.embedding, lambda part: part[:, indices])
        test = map_embedding(self.test, lambda part: part[:, :, None])
        return self._kernel.evaluate(test, train)[:, 0]

    def nearest(self, k: int) -> torch.Tensor:
        """The k training points nearest to each test point in the kernel's sense, shape (T, k)."""
        if self.gram.radial:
            return self.gram.nearest(torch.cat(embedding_leaves(self.test)).T, k)
        step = max(1, _NEAREST_ENTRIES // self.gram.size)
        found = []
        for top in range(0, self.size, step):  # the largest covariances, k(x, x) apart
            rows = slice_embedding(self.test, top, top + step)
            scale = self.gram.kernel_diagonal().rsqrt().nan_to_num_(posinf=0.0)  # no variance, no information
            strength = self.gram.cross_block(rows).abs_().mul_(scale)
            found.append(strength.topk(k, dim=1).indices)
        return torch.cat(found)

    def prior_variance(self) -> torch.Tensor:
        """diag(K″), shape (T,)."""
        return self._kernel.diagonal(self.test)

    def prior_covariance(self) -> torch.Tensor:
        """K″, shape (T, T)."""
        return self._kernel.evaluate(self.test, self.test)

"""What a Gram matrix on a GPU asks of the fused kernels."""

from __future__ import annotations

from functools import cached_property

import torch

from ...kernels import Embedding, Kernel
from .functions import Function, function_of, installed
from .products import FusedProduct, SplitRows, fill

_COLUMNS = 2**12
"""Columns of a product at once: enough to keep a GPU busy, few enough for the memory of its partial sums."""


def supported(device: torch.device) -> bool:
    """Whether fused kernels run there: on a GPU, with Triton."""
    return device.type == "cuda" and installed()


def fused(kernel: Kernel, embedding: Embedding, noise: torch.Tensor, accurate: bool) -> FusedGram | None:
    """The fused kernels for these training points; None without a GPU and Triton, or for another kind of kernel."""
    if not supported(noise.device):
        return None
    function = function_of(kernel, embedding)
    return None if function is None else FusedGram(function, embedding, noise, accurate)


class FusedGram:
    """G = k(X, X) + diag(noise) for d training points, in tiles that are never stored."""

    def __init__(self, function: Function, embedding: Embedding, noise: torch.Tensor, accurate: bool) -> None:
        self._function, self._noise, self._accurate = function, noise, accurate
        self._coordinates = function.coordinates(embedding)

    def fill(self, start: int, stop: int, first: int, last: int, out: torch.Tensor) -> None:
        """k(X, X)[start:stop, first:last], without noise, into ``out``."""
        fill(self._function, self._coordinates[:, start:stop], self._coordinates[:, first:last], out)

    def fill_cross(self, test: Embedding, train: Embedding | None, out: torch.Tensor) -> None:
        """k(test, train) into ``out``; ``train`` is all training points where it is None."""
        B = self._coordinates if train is None else self._function.coordinates(train)
        fill(self._function, self._function.coordinates(test), B, out)

    @property
    def multiplies(self) -> bool:
        """Whether products are fused too: in float32 they are, in float64 the tiles go through memory."""
        return self._noise.dtype == torch.float32

    @cached_property
    def _product(self) -> FusedProduct:
        return FusedProduct(self._function, self._coordinates, self._accurate)

    def matmul(self, W: torch.Tensor) -> torch.Tensor:
        """W G for rows W (T, d), shape (T, d)."""
        split, out = self._product.split(W), W * self._noise
        for start in range(0, W.shape[1], _COLUMNS):
            stop = min(start + _COLUMNS, W.shape[1])
            out[:, start:stop] += self._product(split, start, stop)
        return out

    def running(self, W: torch.Tensor, largest: torch.Tensor) -> RunningProduct:
        """Products with rows W (T, d) that change on the way; ``largest`` (T,) is about the largest that will be."""
        return RunningProduct(self._product, self._product.split(W, largest))


class RunningProduct:
    """(W K)[:, start:stop] for weights W (T, d) that a sweep changes block by block."""

    def __init__(self, product: FusedProduct, split: SplitRows) -> None:
        self._product, self._split = product, split

    def columns(self, start: int, stop: int, first: int = 0, last: int | None = None) -> torch.Tensor:
        """(W K)[:, start:stop], without noise, for the weights as they are now: zero outside ``first`` to ``last``."""
        return self._product(self._split, start, stop, first, last)

    def put(self, start: int, W: torch.Tensor) -> None:
        """Replace the weights from ``start`` on by W (T, n)."""
        self._split.put(start, W)

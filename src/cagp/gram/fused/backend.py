"""The Gram matrix on a GPU by fused kernels: its entries, and products and sweeps that never store one."""

from __future__ import annotations

import torch

from ...kernels import Embedding, Kernel
from ..backend import Backend
from ..entries import Entries, Tiling
from ..sweeping import Change, Sweep, relaxed
from .functions import Function, function_of, installed
from .products import FusedProduct, fill

# Columns of a product at once: enough to keep a GPU busy, few enough for the memory of its partial sums.
_COLUMNS = 2**12


def supported(device: torch.device) -> bool:
    """Whether fused kernels run there: on a GPU of NVIDIA, with Triton."""
    return device.type == "cuda" and torch.version.cuda is not None and installed()


def fused_entries(kernel: Kernel, embedding: Embedding, noise: torch.Tensor, tiling: Tiling) -> FusedEntries | None:
    """The fused kernels for these training points; None without a GPU and Triton, or for another kind of kernel."""
    if not supported(noise.device):
        return None
    function = function_of(kernel, embedding)
    return None if function is None else FusedEntries(function, kernel, embedding, noise, tiling)


class FusedEntries(Entries):
    """Entries that one launch computes."""

    def __init__(
        self, function: Function, kernel: Kernel, embedding: Embedding, noise: torch.Tensor, tiling: Tiling
    ) -> None:
        super().__init__(kernel, embedding, noise, tiling)
        self.function, self.coordinates = function, function.coordinates(embedding)

    def _fill_covariances(self, start: int, stop: int, first: int, last: int, out: torch.Tensor) -> None:
        fill(self.function, self.coordinates[:, start:stop], self.coordinates[:, first:last], out)

    def fill_cross(
        self, test: Embedding, train: Embedding | None, out: torch.Tensor, compiled: bool | None = None
    ) -> None:
        B = self.coordinates if train is None else self.function.coordinates(train)
        fill(self.function, self.function.coordinates(test), B, out)


class Fused(Backend):
    """G in float32, products and all. Where not ``accurate``, weights have 11 bits in products, as TF32 has."""

    def __init__(self, entries: FusedEntries, accurate: bool) -> None:
        super().__init__(entries)
        self._product = FusedProduct(entries.function, entries.coordinates, accurate)

    def matmul(self, W: torch.Tensor) -> torch.Tensor:
        split, out = self._product.split(W), W * self.entries.noise
        for start in range(0, W.shape[1], _COLUMNS):
            stop = min(start + _COLUMNS, W.shape[1])
            out[:, start:stop] += self._product(split, start, stop)
        return out

    def sweeping(self, W: torch.Tensor, rhs: torch.Tensor, backward: bool) -> Sweep:
        return FusedSweep(self.entries, self._product, W, rhs, backward)


class FusedSweep(Sweep):
    """A sweep in which each block takes one fused product with the weights as they are: no panel is ever stored."""

    def __init__(
        self, entries: Entries, product: FusedProduct, W: torch.Tensor, rhs: torch.Tensor, backward: bool
    ) -> None:
        super().__init__(W, rhs, backward)
        self._entries, self._product = entries, product
        # about the largest weight that the sweep meets in each row: now, or after one step from zero
        largest = torch.maximum(W.abs().amax(dim=1), (rhs / entries.diagonal()).abs().amax(dim=1))
        self._split = product.split(W, largest)

    def residual(self, start: int, stop: int) -> torch.Tensor:
        inside = slice(start, stop)
        first, last = self._counting(start, stop)
        if first == last:
            return self._rhs[:, inside]
        residual = self._rhs[:, inside] - self._product(self._split, start, stop, first, last)
        return residual.addcmul_(self._W[:, inside], self._entries.noise[inside], value=-1)

    def relax(self, start: int, stop: int, residual: torch.Tensor, relaxation: float) -> Change:
        with self._entries.block(start, stop, start, stop) as block:
            return relaxed(block, residual, self._backward, relaxation)

    def put(self, start: int, stop: int, change: torch.Tensor) -> None:
        self._split.put(start, self._W[:, start:stop].add_(change))

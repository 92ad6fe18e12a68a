"""GPyTorch kernels as cagp kernels: the usual ones natively, any other block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any

import torch
from gpytorch import kernels as gk
from gpytorch.kernels import keops

from ..kernels import RBF, CustomKernel, Embedding, Kernel, Matern12, Matern32, Matern52, Periodic, RationalQuadratic

_MATERN: dict[float, Callable[[Any], Kernel]] = {0.5: Matern12, 1.5: Matern32, 2.5: Matern52}
_POINTS = 256
"""How many variances are asked for at once: some kernels make the whole matrix for its diagonal."""


@dataclass(frozen=True)
class KernelBlocks:
    """Blocks k(A, B) from a GPyTorch kernel in float64, on the kernel's own ``device``."""

    module: Any
    device: torch.device

    def __call__(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        """A (n, p) and B (m, p) to the block (n, m), in float64 on the device of A."""
        with torch.no_grad():
            return self._block(self._given(A), self._given(B)).to(A.device)

    def diagonal(self, A: torch.Tensor) -> torch.Tensor:
        """k(a, a) for every point of A (n, p), shape (n,), in float64 on the device of A."""
        with torch.no_grad():
            parts = [self._variances(part) for part in torch.split(self._given(A), _POINTS)]
        return torch.cat(parts).to(A.device)

    def _given(self, A: torch.Tensor) -> torch.Tensor:
        return A.to(device=self.device, dtype=torch.float64).contiguous()

    def _block(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        return self.module(A, B).to_dense()

    def _variances(self, A: torch.Tensor) -> torch.Tensor:
        return self.module(A, diag=True)

    def __repr__(self) -> str:
        return type(self.module).__name__


@dataclass(frozen=True, repr=False)
class ForwardBlocks(KernelBlocks):
    """Blocks of the covariance from a GPyTorch model's own ``forward``: for models that transform their inputs."""

    def _block(self, A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        joint = self.module.forward(torch.cat([A, B])).lazy_covariance_matrix
        return joint[: len(A), len(A) :].to_dense()

    def _variances(self, A: torch.Tensor) -> torch.Tensor:
        return self.module.forward(A).lazy_covariance_matrix.diagonal(dim1=-1, dim2=-2)

    def __repr__(self) -> str:
        return f"{type(self.module).__name__}.forward"


@dataclass(frozen=True)
class GPyTorchKernel(CustomKernel):
    """variance · k(a, b) of a GPyTorch kernel, evaluated block by block in float64.

    Works for every GPyTorch kernel with one output per input. Slower than a native kernel, and without a search tree
    for neighbours.
    """

    function: KernelBlocks

    def diagonal(self, A: Embedding) -> torch.Tensor:
        assert isinstance(A, torch.Tensor)
        return self.variance * self.function.diagonal(A.T).to(A.dtype)


def kernel_from_gpytorch(kernel: Any, device: torch.device) -> Kernel:
    """A cagp kernel with the values of a GPyTorch kernel that nobody else changes, in float64 and on ``device``."""
    if type(kernel) is gk.MultiDeviceKernel:
        return kernel_from_gpytorch(kernel.base_kernel, device)
    native = _native(kernel, device)
    if native is None:
        return GPyTorchKernel(KernelBlocks(kernel, device))
    return native if kernel.active_dims is None else native.on(*kernel.active_dims.tolist())


def _native(kernel: Any, device: torch.device) -> Kernel | None:
    """The same function on the columns that ``kernel.forward`` sees; None where cagp has none.

    Classes are compared exactly: a subclass may compute anything.
    """
    kind = type(kernel)
    if kind is gk.ScaleKernel:  # calls base_kernel.forward, so that only its own active_dims count
        inner = _native(kernel.base_kernel, device)
        return None if inner is None else inner.scaled(kernel.outputscale.item())
    if kind is gk.AdditiveKernel or kind is gk.ProductKernel:
        parts = [kernel_from_gpytorch(part, device) for part in kernel.kernels]
        return reduce(add if kind is gk.AdditiveKernel else mul, parts)
    if kind in (gk.MaternKernel, keops.MaternKernel):
        return _MATERN[kernel.nu](_each(kernel.lengthscale))
    if kind in (gk.RBFKernel, keops.RBFKernel):
        return RBF(_each(kernel.lengthscale))
    if kind is gk.RQKernel:
        return RationalQuadratic(_each(kernel.lengthscale), alpha=kernel.alpha.item())
    if kind in (gk.PeriodicKernel, keops.PeriodicKernel):
        # GPyTorch's lengthscale of this kernel is not squared: exp(−2 Σⱼ sin²(π δⱼ / period) / lengthscale)
        return Periodic(_each(kernel.lengthscale.sqrt()), period=_each(kernel.period_length))
    return None


def _each(values: torch.Tensor) -> float | tuple[float, ...]:
    """A parameter (1, p) as one number or one per column."""
    return values.item() if values.numel() == 1 else tuple(values.flatten().tolist())

"""Kernels of unknown constants and slopes, and powers of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from ..errors import InputTypeError
from ..support.buffers import Buffers
from ..support.validation import count, positive
from .base import Kernel, Product, validate_hyperparameter
from .embeddings import Embedding


@dataclass(frozen=True)
class Level(Kernel):
    """k(a, b) = variance everywhere: an unknown constant is added to the function."""

    variance: float = 1.0

    hyperparameters: ClassVar[tuple[str, ...]] = ("variance",)

    def __post_init__(self) -> None:
        validate_hyperparameter(self, "variance", positive)

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        return torch.zeros(1, X.shape[0], dtype=X.dtype, device=X.device)

    def evaluate(
        self, A: Embedding, B: Embedding, out: torch.Tensor | None = None, buffers: Buffers | None = None
    ) -> torch.Tensor:
        assert isinstance(A, torch.Tensor)
        assert isinstance(B, torch.Tensor)
        block = A[0][..., :, None] + B[0][..., None, :] + self.variance
        return block if out is None else out.copy_(block)

    def diagonal(self, A: Embedding) -> torch.Tensor:
        assert isinstance(A, torch.Tensor)
        return A[0] + self.variance

    def scaled(self, factor: float) -> Kernel:
        return Level(self.variance * factor)


@dataclass(frozen=True)
class Linear(Kernel):
    """k(a, b) = variance · (offset + a · b): a plane with unknown slopes and, where ``offset`` is large, height."""

    variance: float = 1.0
    offset: float = 1.0

    hyperparameters: ClassVar[tuple[str, ...]] = ("variance", "offset")

    def __post_init__(self) -> None:
        validate_hyperparameter(self, "variance", positive)
        validate_hyperparameter(self, "offset", positive)

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        return X.T.clone(memory_format=torch.contiguous_format)  # not of differences alone: the origin stays

    def evaluate(
        self, A: Embedding, B: Embedding, out: torch.Tensor | None = None, buffers: Buffers | None = None
    ) -> torch.Tensor:
        assert isinstance(A, torch.Tensor)
        assert isinstance(B, torch.Tensor)
        block = self.variance * (torch.einsum("p...n,p...m->...nm", A, B) + self.offset)
        return block if out is None else out.copy_(block)

    def diagonal(self, A: Embedding) -> torch.Tensor:
        assert isinstance(A, torch.Tensor)
        return self.variance * (A.square().sum(dim=0) + self.offset)

    def scaled(self, factor: float) -> Kernel:
        return Linear(self.variance * factor, self.offset)


@dataclass(frozen=True)
class Power(Kernel):
    """kernelⁿ for a whole number n ≥ 1: the product of n copies that share their hyperparameters."""

    kernel: Kernel
    exponent: int

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise InputTypeError(f"Power takes a kernel, got {self.kernel!r}; write Power(Linear(), 2)")
        object.__setattr__(self, "exponent", count(self.exponent, "exponent", minimum=1))

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        return self.kernel.embed(X, origin)

    def evaluate(
        self, A: Embedding, B: Embedding, out: torch.Tensor | None = None, buffers: Buffers | None = None
    ) -> torch.Tensor:
        block = self.kernel.evaluate(A, B, out, buffers)
        return torch.pow(block, self.exponent, out=out)

    def diagonal(self, A: Embedding) -> torch.Tensor:
        return self.kernel.diagonal(A).pow(self.exponent)

    def scaled(self, factor: float) -> Kernel:
        return Product((Level(factor), self))

"""Kernels of unknown constants and slopes, powers of kernels, and a function that a user has written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import torch

from ..errors import InputError, InputTypeError
from ..support.memory import Buffers
from ..support.validation import count, positive
from .base import Embedding, Jet, Kernel, Product, Target, WriteNumber, validate_hyperparameter

_DIAGONAL_CHUNK = 256


@dataclass(frozen=True)
class Level(Kernel):
    """k(a, b) = variance everywhere: an unknown constant is added to the function."""

    variance: float = 1.0

    hyperparameters: ClassVar[tuple[str, ...]] = ("variance",)

    def __post_init__(self) -> None:
        validate_hyperparameter(self, "variance", positive)

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        return torch.zeros(1, X.shape[0], dtype=X.dtype, device=X.device)

    def evaluate(self, A: Any, B: Any, out: Target = None, buffers: Buffers | None = None) -> torch.Tensor:
        block = A[0][..., :, None] + B[0][..., None, :] + self.variance
        return block if out is None else out.copy_(block)

    def diagonal(self, A: Any) -> torch.Tensor:
        return A[0] + self.variance

    def at_itself(self, A: Any, slopes: Any) -> Jet:
        flat = torch.zeros_like(slopes[0])
        return Jet(self.diagonal(A), flat, flat[:, :, None] * flat[:, None, :])


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

    def evaluate(self, A: Any, B: Any, out: Target = None, buffers: Buffers | None = None) -> torch.Tensor:
        block = self.variance * (torch.einsum("p...n,p...m->...nm", A, B) + self.offset)
        return block if out is None else out.copy_(block)

    def diagonal(self, A: Any) -> torch.Tensor:
        return self.variance * (A.square().sum(dim=0) + self.offset)

    def at_itself(self, A: Any, slopes: Any) -> Jet:
        first, second = torch.einsum("qt,qti->ti", A, slopes), torch.einsum("qti,qtj->tij", slopes, slopes)
        return Jet(self.diagonal(A), self.variance * first, self.variance * second)


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

    def evaluate(self, A: Embedding, B: Embedding, out: Target = None, buffers: Buffers | None = None) -> torch.Tensor:
        block = self.kernel.evaluate(A, B, out, buffers)
        return torch.pow(block, self.exponent, out=out)

    def diagonal(self, A: Embedding) -> torch.Tensor:
        return self.kernel.diagonal(A).pow(self.exponent)

    def at_itself(self, A: Embedding, slopes: Embedding) -> Jet:
        return reduce(Jet.times, [self.kernel.at_itself(A, slopes)] * self.exponent)

    def scaled(self, factor: float) -> Kernel:
        return Product((Level(factor), self))


@dataclass(frozen=True)
class CustomKernel(Kernel):
    """variance · function(A, B), from a function of two blocks of points.

    ``function`` takes torch tensors of shapes (n, p) and (m, p) and returns the block (n, m). That it is symmetric and
    positive semidefinite, and that a value does not depend on its block (as with ``torch.cdist``), its author promises.
    """

    function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    variance: float = 1.0

    hyperparameters: ClassVar[tuple[str, ...]] = ("variance",)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputTypeError(f"function must take two blocks of points, got {self.function!r}")
        validate_hyperparameter(self, "variance", positive)

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        return X.T.clone(memory_format=torch.contiguous_format)  # never the user's own array

    def evaluate(self, A: Any, B: Any, out: Target = None, buffers: Buffers | None = None) -> torch.Tensor:
        if A.ndim == 3:  # a batch of blocks
            blocks = torch.stack([self.evaluate(a, b) for a, b in zip(A.unbind(1), B.unbind(1), strict=True)])
            return blocks if out is None else out.copy_(blocks)
        block = self.function(A.T, B.T)
        if not isinstance(block, torch.Tensor) or block.shape != (A.shape[1], B.shape[1]):
            shape = tuple(block.shape) if hasattr(block, "shape") else type(block).__name__
            raise InputError(
                f"the kernel function must return a tensor of shape {(A.shape[1], B.shape[1])}, it returned {shape}"
            )
        return torch.mul(block.to(A.dtype), self.variance, out=out)

    def diagonal(self, A: Any) -> torch.Tensor:
        return torch.cat([self.evaluate(part, part).diagonal() for part in torch.split(A, _DIAGONAL_CHUNK, dim=1)])

    def in_words(self, columns: Sequence[str]) -> str:
        return f"the user's own function {getattr(self.function, '__name__', self.function)!s}"

    def formula(self, number: WriteNumber) -> str:
        return f"{number(self.variance)} · {getattr(self.function, '__name__', 'function')}(x, x′)"

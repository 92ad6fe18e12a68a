"""A user's own kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from ..errors import InputError, InputTypeError
from ..support.buffers import Buffers
from ..support.validation import positive
from .base import Kernel, WriteNumber, validate_hyperparameter
from .embeddings import Embedding

_DIAGONAL_CHUNK = 256


@dataclass(frozen=True)
class CustomKernel(Kernel):
    """variance · function(A, B), from a function of two blocks of points.

    ``function`` takes torch tensors of shapes (n, p) and (m, p) and returns the block (n, m). That it is
    symmetric and positive semidefinite, and that a value does not depend on the block it is in (``torch.cdist`` rounds
    large blocks of far-off points otherwise than small ones), is the author's promise.
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

    def evaluate(
        self, A: Embedding, B: Embedding, out: torch.Tensor | None = None, buffers: Buffers | None = None
    ) -> torch.Tensor:
        assert isinstance(A, torch.Tensor)
        assert isinstance(B, torch.Tensor)
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

    def diagonal(self, A: Embedding) -> torch.Tensor:
        assert isinstance(A, torch.Tensor)
        return torch.cat([self.evaluate(part, part).diagonal() for part in torch.split(A, _DIAGONAL_CHUNK, dim=1)])

    def scaled(self, factor: float) -> Kernel:
        return dataclasses.replace(self, variance=self.variance * factor)

    def in_words(self, columns: Sequence[str]) -> str:
        return f"the user's own function {getattr(self.function, '__name__', self.function)!s}"

    def formula(self, number: WriteNumber) -> str:
        return f"{number(self.variance)} · {getattr(self.function, '__name__', 'function')}(x, x′)"

"""What a kernel is, and how kernels combine.

``embed`` turns points into coordinates in which the kernel is cheap to evaluate (scaled by the lengthscale, on the unit
sphere, …), once per point set, in float64, centred so that nothing is lost in a cast to float32. ``evaluate`` fills one
block k(A, B) from two embeddings in place in reused buffers; without buffers torch can differentiate through it.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, NamedTuple

import torch

from ..errors import InputError, InputTypeError
from ..support.memory import Buffers
from ..support.validation import ArrayLike, count, points, positive
from .plan import Terms, product_of_terms, sum_of_terms
from .tree import KernelTree

Embedding = torch.Tensor | tuple[Any, ...]
"""Points in the coordinates of a kernel: a tensor (coordinates, points), or a tuple of embeddings."""

_AT_ONCE = 2**20  # values that ``matrix`` computes at once
WriteNumber = Callable[[float], str]  # how a formula writes a number
Target = torch.Tensor | None  # memory for a result, where it is given


def map_embedding(embedding: Embedding, function: Callable[[torch.Tensor], torch.Tensor]) -> Embedding:
    """Apply ``function`` to every tensor of an embedding."""
    if isinstance(embedding, tuple):
        return tuple(map_embedding(part, function) for part in embedding)
    return function(embedding)


def slice_embedding(embedding: Embedding, start: int, stop: int) -> Embedding:
    """The points start … stop − 1 of an embedding, as a view."""
    return map_embedding(embedding, lambda part: part[:, start:stop])


def embedding_leaves(embedding: Embedding) -> list[torch.Tensor]:
    """Every tensor of an embedding, each (coordinates, points)."""
    if isinstance(embedding, tuple):
        return [leaf for part in embedding for leaf in embedding_leaves(part)]
    return [embedding]


def embedding_size(embedding: Embedding) -> int:
    """Number of points in an embedding."""
    return int(embedding_leaves(embedding)[0].shape[1])


def embedding_coordinates(embedding: Embedding) -> int:
    """Number of coordinates in all tensors of an embedding together."""
    return sum(leaf.shape[0] for leaf in embedding_leaves(embedding))


def validate_hyperparameter(kernel: Any, name: str, check: Callable[[Any, str], Any]) -> None:
    """Check one hyperparameter. Tensors pass: they are hyperparameters being optimised through autograd."""
    value = getattr(kernel, name)
    if not (isinstance(value, torch.Tensor) and value.requires_grad):
        object.__setattr__(kernel, name, check(value, name))


class Jet(NamedTuple):
    """k(x, x′) at x′ = x for T points with p columns: its value, its slopes in x, and those of the slopes in x′."""

    value: torch.Tensor  # (T,)
    first: torch.Tensor  # (T, p)
    second: torch.Tensor  # (T, p, p), the covariance of the slopes of f

    def plus(self, other: Jet) -> Jet:
        """That of the sum of two kernels."""
        return Jet(*(a + b for a, b in zip(self, other, strict=True)))

    def times(self, other: Jet) -> Jet:
        """That of the product of two kernels."""
        (a, da, dda), (b, db, ddb) = self, other
        mixed = da[:, :, None] * db[:, None, :]
        second = dda * b[:, None, None] + mixed + mixed.mT + a[:, None, None] * ddb
        return Jet(a * b, da * b[:, None] + a[:, None] * db, second)


class Kernel(KernelTree, ABC):
    """A positive semidefinite covariance function.

    Kernels are immutable. They combine with ``+`` and ``*``, and a number times a kernel scales its variance.
    Calling a kernel on two arrays of points, shapes (n, p) and (m, p), gives the matrix k(A, B), shape (n, m).

    ``hyperparameters`` names the fields that hold positive numbers (or tuples of them) which ``Prior.fit`` may choose;
    they must also work as tensors that torch differentiates through. A kernel is a frozen dataclass, whose fields say
    what it is made of; a class that is no dataclass works too, and has nothing to fit.
    """

    @property
    def radial(self) -> bool:
        """Whether k(a, b) falls with the Euclidean distance between embeddings and nothing else: trees search it."""
        return False

    @abstractmethod
    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        """Points (n, p) in float64 to the kernel's own coordinates, which may be less the ``origin`` (p,)."""

    @abstractmethod
    def evaluate(self, A: Embedding, B: Embedding, out: Target = None, buffers: Buffers | None = None) -> torch.Tensor:
        """The block k(A, B), shape ([batch,] points of A, points of B), written to ``out`` where it is given."""

    def matrix(self, A: Embedding, B: Embedding) -> torch.Tensor:
        """k(A, B) as a new matrix, so many rows at a time: the steps of ``evaluate`` take several times its memory."""
        m, n = embedding_size(A), embedding_size(B)
        if m * n <= _AT_ONCE:
            return self.evaluate(A, B)
        rows = max(1, _AT_ONCE // n)
        first = self.evaluate(slice_embedding(A, 0, rows), B)
        out = first.new_empty(m, n)
        out[:rows] = first
        for start in range(rows, m, rows):
            out[start : start + rows] = self.evaluate(slice_embedding(A, start, start + rows), B)
        return out

    @abstractmethod
    def diagonal(self, A: Embedding) -> torch.Tensor:
        """k(a, a) for every point of A, shape (n,)."""

    def at_itself(self, A: Embedding, slopes: Embedding) -> Jet:
        """How k(a, a′) changes at a′ = a for every point of A, whose embedding changes by ``slopes``.

        These have a dimension more, the columns of the points: their tensors are (coordinates, n, p).
        """
        raise InputError(f"{self!r} does not say whether its functions have slopes, nor how large those are")

    def scaled(self, factor: float) -> Kernel:
        """This kernel with its variance multiplied by ``factor`` > 0; by default that is its field ``variance``."""
        variance = self.hyperparameter_values["variance"] * factor
        return dataclasses.replace(self, variance=variance)  # type: ignore[type-var]

    def in_words(self, columns: Sequence[str]) -> str:
        """What the kernel says about the function, in a phrase; ``columns`` are the names of those it sees."""
        return type(self).__name__

    def formula(self, number: WriteNumber) -> str:
        """The covariance of f(x) and f(x′); ``number`` writes a number."""
        return repr(self)

    def radial_terms(self, embedding: Embedding, first: int = 0) -> Terms | None:
        """This kernel as a sum of products of radial ones, whose coordinates begin at ``first``; None if it is none."""
        return None

    def on(self, *columns: int) -> Kernel:
        """This kernel on some columns of the points only: ``Matern32(0.2).on(0, 1)``."""
        return OnColumns(self, columns)

    def __add__(self, other: Any) -> Kernel:
        return Sum((*_parts(self, Sum), *_parts(other, Sum))) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Kernel:
        if isinstance(other, Kernel):
            return Product((*_parts(self, Product), *_parts(other, Product)))
        return self.scaled(positive(other, "the factor of a kernel"))

    __rmul__ = __mul__

    def __call__(self, A: ArrayLike, B: ArrayLike | None = None) -> Any:
        """k(A, B) as a dense matrix, numpy in and out or torch in and out; B defaults to A."""
        first = points(A, "A")
        second = first if B is None else points(B, "B", first.device, columns=first.shape[1])
        origin = first.mean(0)
        block = self.evaluate(self.embed(first, origin), self.embed(second, origin))
        return block if isinstance(A, torch.Tensor) else block.numpy()


def _parts(kernel: Kernel, kind: type) -> tuple[Kernel, ...]:
    return kernel.kernels if isinstance(kernel, (Sum, Product)) and isinstance(kernel, kind) else (kernel,)


@dataclass(frozen=True)
class _Composite(Kernel):
    """Several kernels on the same points, combined by ``_combine(left, right, out=out)``; their terms likewise."""

    kernels: tuple[Kernel, ...]

    _combine: ClassVar[Callable[..., torch.Tensor]]
    _combine_terms: ClassVar[Callable[..., Terms | None]]
    _combine_jets: ClassVar[Callable[..., Jet]]
    _word: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "kernels", tuple(self.kernels))
        if not self.kernels or not all(isinstance(k, Kernel) for k in self.kernels):
            raise InputTypeError(f"kernels must be a sequence of at least one kernel, got {self.kernels!r}")

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        return tuple(kernel.embed(X, origin) for kernel in self.kernels)

    def evaluate(self, A: Embedding, B: Embedding, out: Target = None, buffers: Buffers | None = None) -> torch.Tensor:
        block = self.kernels[0].evaluate(A[0], B[0], out, buffers)
        for kernel, a, b in zip(self.kernels[1:], A[1:], B[1:], strict=True):
            if buffers is None:
                block = self._combine(block, kernel.evaluate(a, b), out=out)
            else:
                with buffers.borrow(tuple(block.shape)) as scratch:
                    block = self._combine(block, kernel.evaluate(a, b, scratch, buffers), out=out)
        return block

    def diagonal(self, A: Embedding) -> torch.Tensor:
        return reduce(self._combine, (kernel.diagonal(a) for kernel, a in zip(self.kernels, A, strict=True)))

    def at_itself(self, A: Embedding, slopes: Embedding) -> Jet:
        each = (kernel.at_itself(a, slope) for kernel, a, slope in zip(self.kernels, A, slopes, strict=True))
        return reduce(self._combine_jets, each)

    def radial_terms(self, embedding: Embedding, first: int = 0) -> Terms | None:
        parts: list[Terms] = []
        for kernel, part in zip(self.kernels, embedding, strict=True):
            terms = kernel.radial_terms(part, first)
            if terms is None:
                return None
            parts.append(terms)
            first += embedding_coordinates(part)
        return self._combine_terms(parts)

    def in_words(self, columns: Sequence[str]) -> str:
        return f" {self._word} ".join(f"[{kernel.in_words(columns)}]" for kernel in self.kernels)


@dataclass(frozen=True)
class Sum(_Composite):
    """k₁ + k₂ + …; write it with ``+``."""

    part_called: ClassVar[str] = "term"
    _combine = staticmethod(torch.add)
    _combine_terms = staticmethod(sum_of_terms)
    _combine_jets = staticmethod(Jet.plus)
    _word: ClassVar[str] = "plus"

    def formula(self, number: WriteNumber) -> str:
        return " + ".join(kernel.formula(number) for kernel in self.kernels)

    def scaled(self, factor: float) -> Kernel:
        return Sum(tuple(kernel.scaled(factor) for kernel in self.kernels))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.kernels))


@dataclass(frozen=True)
class Product(_Composite):
    """k₁ · k₂ · …; write it with ``*``."""

    part_called: ClassVar[str] = "factor"
    _combine = staticmethod(torch.mul)
    _combine_terms = staticmethod(product_of_terms)
    _combine_jets = staticmethod(Jet.times)
    _word: ClassVar[str] = "times"

    def formula(self, number: WriteNumber) -> str:
        return " · ".join(f"({k.formula(number)})" if isinstance(k, Sum) else k.formula(number) for k in self.kernels)

    def scaled(self, factor: float) -> Kernel:
        return Product((self.kernels[0].scaled(factor), *self.kernels[1:]))

    def __repr__(self) -> str:
        return " * ".join(f"({k!r})" if isinstance(k, Sum) else repr(k) for k in self.kernels)


@dataclass(frozen=True)
class Wrapper(Kernel):
    """Another kernel on points that are changed first: all but ``embed`` is that kernel's."""

    kernel: Kernel

    @property
    def radial(self) -> bool:
        return self.kernel.radial

    def evaluate(self, A: Embedding, B: Embedding, out: Target = None, buffers: Buffers | None = None) -> torch.Tensor:
        return self.kernel.evaluate(A, B, out, buffers)

    def diagonal(self, A: Embedding) -> torch.Tensor:
        return self.kernel.diagonal(A)

    def at_itself(self, A: Embedding, slopes: Embedding) -> Jet:
        return self.kernel.at_itself(A, slopes)

    def scaled(self, factor: float) -> Kernel:
        return self.with_children({"kernel": self.kernel.scaled(factor)})

    def formula(self, number: WriteNumber) -> str:
        return self.kernel.formula(number)

    def radial_terms(self, embedding: Embedding, first: int = 0) -> Terms | None:
        return self.kernel.radial_terms(embedding, first)


@dataclass(frozen=True)
class OnColumns(Wrapper):
    """A kernel that sees some columns of the points only; write it with ``kernel.on(0, 1)``."""

    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise InputTypeError(f"OnColumns wraps a kernel, got {self.kernel!r}; write kernel.on(0, 1)")
        if not self.columns:
            raise InputError("on() needs at least one column, for example kernel.on(0)")
        columns = tuple(count(c, "columns") for c in self.columns)
        if len(set(columns)) != len(columns):
            raise InputError(f"columns must be distinct, got {columns}")
        object.__setattr__(self, "columns", columns)

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        if max(self.columns) >= X.shape[1]:
            raise InputError(f"{self!r} needs column {max(self.columns)}, the points have {X.shape[1]} columns")
        chosen = list(self.columns)
        return self.kernel.embed(X[:, chosen], origin[chosen])

    def columns_below(self, columns: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(columns[i] for i in self.columns if i < len(columns))

    def in_words(self, columns: Sequence[str]) -> str:
        chosen = [columns[i] if i < len(columns) else f"coordinate {i + 1}" for i in self.columns]
        return f"{self.kernel.in_words(chosen)} on {', '.join(chosen)}"

    def __repr__(self) -> str:
        inner = f"({self.kernel!r})" if isinstance(self.kernel, _Composite) else repr(self.kernel)
        return f"{inner}.on({', '.join(map(str, self.columns))})"

"""Kernels of the distance alone; and the periodic one, which is the squared exponential on a circle.

Each has its profile as torch's formula, which is the reference, for one number, which numba compiles, and for a GPU.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from ..errors import InputError
from ..support.memory import Buffers
from ..support.validation import positive, positive_or_each
from .base import Embedding, Jet, Kernel, Target, WriteNumber, validate_hyperparameter
from .plan import Factor, Terms, decay

_SMALLEST = 1e-300  # added to squared distances before a square root, whose derivative at zero is infinite
_STEEPEST = 1e100  # a profile that falls faster at zero has a kink there
_MANY_PAIRS = 2**14  # blocks of so many pairs are differentiated by matrix products
_VALUES = ("profile", "evaluate", "diagonal")
_MEANING = (*_VALUES, "embed")  # what decides which profile a kernel has between embeddings, and which between points


def _depth(cls: type, name: str) -> int:
    """How far up the line of its ancestors a class finds ``name``."""
    return next(i for i, each in enumerate(cls.__mro__) if name in vars(each))


def squared_distances(
    A: torch.Tensor, B: torch.Tensor, out: Target = None, buffers: Buffers | None = None
) -> torch.Tensor:
    """Squared Euclidean distances between the columns of A (p, …, n) and B (p, …, m), shape (…, n, m)."""
    # direct differences: exact zeros for equal points, and no cancellation, as |a|² + |b|² − 2a·b would have
    if out is None or buffers is None:
        if A.shape[-1] * B.shape[-1] >= _MANY_PAIRS and (A.requires_grad or B.requires_grad):
            distances: torch.Tensor = _SquaredDistances.apply(A, B)
            return distances
        total = (A[0][..., :, None] - B[0][..., None, :]).square()
        for a, b in zip(A[1:], B[1:], strict=True):
            total = total + (a[..., :, None] - b[..., None, :]).square()
        return total
    rows, columns = A.unsqueeze(-1).unbind(), B.unsqueeze(-2).unbind()
    torch.sub(rows[0], columns[0], out=out)
    out.mul_(out)
    if len(rows) > 1:
        with buffers.borrow(out.shape) as scratch:
            for a, b in zip(rows[1:], columns[1:], strict=True):
                torch.sub(a, b, out=scratch)
                out.addcmul_(scratch, scratch)
    return out


class _SquaredDistances(torch.autograd.Function):
    """``squared_distances`` whose derivative is a matrix product, not one pass over all pairs for each coordinate."""

    # Σⱼ Mᵢⱼ · 2 (aᵢ − bⱼ) = 2 (aᵢ Σⱼ Mᵢⱼ − Σⱼ Mᵢⱼ bⱼ): cancels where all points are near each other and far from the
    # origin, which many points are not

    generate_vmap_rule = True

    @staticmethod
    def forward(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
        difference = A[0][..., :, None] - B[0][..., None, :]
        total = difference * difference
        for a, b in zip(A[1:], B[1:], strict=True):
            difference = torch.sub(a[..., :, None], b[..., None, :])
            total = total.addcmul_(difference, difference)
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor, torch.Tensor], output: torch.Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, M: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        A, B, distances = ctx.saved_tensors
        M = torch.where(distances > 0, M, 0.0)  # a profile may have an infinite slope at zero, times a zero
        rows = A * M.sum(dim=-1) - torch.einsum("...nm,p...m->p...n", M, B)
        columns = B * M.sum(dim=-2) - torch.einsum("...nm,p...n->p...m", M, A)
        return 2 * rows, 2 * columns


@dataclass(frozen=True)
class Radial(Kernel):
    """``variance · profile(|a − b|² / lengthscale²)``.

    ``lengthscale`` is one number, or one per column of the points (automatic relevance determination).

    ``scalar_profile`` is the profile for compilers, written with ``math`` and ``decay``, or None; it may depend on one
    number more, which ``profile_parameter`` names. ``gpu_profile`` is its code for Triton: lines that make ``value`` of
    ``s``, the squared distance of coordinates times ``gpu_unit`` / √alpha, and of ``alpha``, the parameter. ``family``
    and ``profile_formula`` describe it for readers. A subclass that computes something else does not inherit them.
    """

    lengthscale: float | tuple[float, ...] = 1.0
    variance: float = 1.0

    hyperparameters: ClassVar[tuple[str, ...]] = ("lengthscale", "variance")
    scalar_profile: ClassVar[Any] = None  # a ScalarProfile
    profile_parameter: ClassVar[str | None] = None
    gpu_profile: ClassVar[str | None] = None
    gpu_unit: ClassVar[float] = 1.0
    family: ClassVar[str | None] = None
    profile_formula: ClassVar[str | None] = None
    most_columns: ClassVar[int | None] = None  # in which it is positive definite

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        code, words = ("scalar_profile", "gpu_profile"), ("family", "profile_formula")
        for described, by in [*((each, _VALUES) for each in code), *((each, _MEANING) for each in words)]:
            if min(_depth(cls, method) for method in by) < _depth(cls, described):
                setattr(cls, described, None)

    def __post_init__(self) -> None:
        validate_hyperparameter(self, "lengthscale", positive_or_each)
        validate_hyperparameter(self, "variance", positive)

    @property
    def radial(self) -> bool:
        return True

    @staticmethod
    def _root(s: torch.Tensor, factor: float, out: torch.Tensor | None) -> torch.Tensor:
        """factor · √s; safe to differentiate where s = 0."""
        if out is None:
            return factor * torch.sqrt(s + _SMALLEST)
        return torch.sqrt(s, out=out).mul_(factor)

    @abstractmethod
    def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
        """The correlation at squared scaled distance ``s``; with ``scratch``, computed in place in ``s``."""

    def _per_column(self, name: str, X: torch.Tensor) -> torch.Tensor:
        """A hyperparameter that is one number or one per column, as a tensor that fits the points X (n, p)."""
        value = torch.as_tensor(getattr(self, name), dtype=X.dtype, device=X.device)
        if value.ndim == 1 and value.shape[0] != X.shape[1]:
            raise InputError(
                f"{type(self).__name__} has {value.shape[0]} values of {name}, the points have {X.shape[1]} columns; "
                "give one per column, or a single number"
            )
        return value

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        if self.most_columns is not None and X.shape[1] > self.most_columns:
            name = type(self).__name__
            raise InputError(
                f"{name} is positive definite in up to {self.most_columns} columns, the points have {X.shape[1]}; say "
                f"which it sees, {name}(...).on(0, 1), or take Matern12, which has no such limit"
            )
        # each coordinate by itself before the arithmetic: to turn the result around takes longer than all of it
        return (X.T.contiguous() - origin[:, None]) / self._per_column("lengthscale", X)[..., None]

    def evaluate(self, A: Any, B: Any, out: Target = None, buffers: Buffers | None = None) -> torch.Tensor:
        if out is None or buffers is None:
            return self.variance * self.profile(squared_distances(A, B))
        squared_distances(A, B, out, buffers)
        with buffers.borrow(out.shape) as scratch:
            self.profile(out, scratch)
        return out if self.variance == 1.0 else out.mul_(self.variance)

    def diagonal(self, A: Any) -> torch.Tensor:
        if isinstance(self.variance, float):
            return A.new_full((A.shape[1],), self.variance)
        return self.variance * A.new_ones(A.shape[1])

    @property
    def _falls(self) -> float:
        """How fast the profile falls at zero."""
        return -float(self.scalar_profile(0.0, self._parameter)[1])

    @property
    def kinked(self) -> bool:
        """Whether it has a kink at distance zero: its functions are continuous, but have no slope anywhere."""
        return self.scalar_profile is not None and self._falls > _STEEPEST

    def at_itself(self, A: Any, slopes: Any) -> Jet:
        if self.scalar_profile is None:
            return super().at_itself(A, slopes)
        if self.kinked:
            raise InputError(f"{self!r} has a kink at distance zero, so that its functions have no slope anywhere")
        value = self.diagonal(A)
        second = 2 * self._falls * value[:, None, None] * torch.einsum("qti,qtj->tij", slopes, slopes)
        return Jet(value, value.new_zeros(slopes.shape[1:]), second)

    def in_words(self, columns: Sequence[str]) -> str:
        words = self.family or type(self).__name__
        if isinstance(self.lengthscale, tuple):
            return f"{words}, one lengthscale per column"
        return f"{words}, one lengthscale for all columns" if len(columns) > 1 else words

    def formula(self, number: WriteNumber) -> str:
        if self.profile_formula is None:
            return repr(self)
        shape = f"{number(self.variance)} · {self.profile_formula}"
        if isinstance(self.lengthscale, tuple):
            return f"{shape}, r² = Σⱼ (xⱼ − x′ⱼ)² / ℓⱼ²"
        return f"{shape}, r = |x − x′| / {number(self.lengthscale)}"

    def radial_terms(self, embedding: Any, first: int = 0) -> Terms | None:
        if self.scalar_profile is None:
            return None
        return ((Factor(type(self), first, embedding.shape[0], _number(self.variance), self._parameter),),)

    @property
    def _parameter(self) -> float:
        """What the profile depends on, 1 where there is nothing."""
        return 1.0 if self.profile_parameter is None else _number(getattr(self, self.profile_parameter))


def _number(value: float | torch.Tensor) -> float:
    return float(value.detach() if isinstance(value, torch.Tensor) else value)


@dataclass(frozen=True)
class Matern12(Radial):
    """Matérn 1/2, the exponential kernel: σ² exp(−r). Continuous, nowhere differentiable functions."""

    family: ClassVar[str | None] = "Matérn 1/2 (continuous, rough functions)"
    profile_formula: ClassVar[str | None] = "exp(−r)"

    def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
        out = None if scratch is None else s
        return torch.exp(torch.neg(self._root(s, 1.0, out), out=out), out=out)

    @staticmethod
    def scalar_profile(s: float, parameter: float) -> tuple[float, float, float]:
        r = math.sqrt(s)
        value = decay(r)
        return value, -0.5 * value / (r + 1e-150), 0.0  # finite at zero, where s in front of it is zero

    gpu_profile: ClassVar[str | None] = "value = half_to(root(s))"
    gpu_unit: ClassVar[float] = 1 / math.log(2)  # exp(−r) = 2^(−r′)


@dataclass(frozen=True)
class Matern32(Radial):
    """Matérn 3/2: σ² (1 + √3 r) exp(−√3 r). Once differentiable functions; the kernel of the paper."""

    family: ClassVar[str | None] = "Matérn 3/2 (once differentiable functions)"
    profile_formula: ClassVar[str | None] = "(1 + √3 r) exp(−√3 r)"

    def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
        out = None if scratch is None else s
        r = self._root(s, math.sqrt(3), out)
        falling = torch.exp(torch.neg(r, out=scratch), out=scratch)
        return torch.mul(torch.add(r, 1.0, out=out), falling, out=out)

    @staticmethod
    def scalar_profile(s: float, parameter: float) -> tuple[float, float, float]:
        r = math.sqrt(3.0) * math.sqrt(s)
        falling = decay(r)
        return (1.0 + r) * falling, -1.5 * falling, 0.0

    gpu_profile: ClassVar[str | None] = """
        r = root(s)
        value = (r * LN2 + 1.0) * half_to(r)
    """
    gpu_unit: ClassVar[float] = math.sqrt(3) / math.log(2)


@dataclass(frozen=True)
class Matern52(Radial):
    """Matérn 5/2: σ² (1 + √5 r + 5r²/3) exp(−√5 r). Twice differentiable functions."""

    family: ClassVar[str | None] = "Matérn 5/2 (twice differentiable functions)"
    profile_formula: ClassVar[str | None] = "(1 + √5 r + 5r²/3) exp(−√5 r)"

    def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
        out = None if scratch is None else s
        r = self._root(s, math.sqrt(5), out)
        # 1 + r + r²/3 = 1 + r (1 + r/3), then times exp(−r)
        bracket = torch.add(torch.mul(r, 1 / 3, out=scratch), 1.0, out=scratch)
        polynomial = torch.add(torch.mul(bracket, r, out=scratch), 1.0, out=scratch)
        return torch.mul(torch.exp(torch.neg(r, out=out), out=out), polynomial, out=out)

    @staticmethod
    def scalar_profile(s: float, parameter: float) -> tuple[float, float, float]:
        r = math.sqrt(5.0) * math.sqrt(s)
        falling = decay(r)
        return (1.0 + r * (1.0 + r * (1.0 / 3.0))) * falling, (-5.0 / 6.0) * (1.0 + r) * falling, 0.0

    gpu_profile: ClassVar[str | None] = """
        r = root(s)
        value = ((r * (LN2 * LN2 / 3.0) + LN2) * r + 1.0) * half_to(r)
    """
    gpu_unit: ClassVar[float] = math.sqrt(5) / math.log(2)


@dataclass(frozen=True)
class RBF(Radial):
    """Squared exponential: σ² exp(−r²/2). Infinitely smooth functions; its Gram matrices are nearly singular."""

    family: ClassVar[str | None] = "squared exponential (infinitely smooth functions)"
    profile_formula: ClassVar[str | None] = "exp(−r²/2)"

    def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
        out = None if scratch is None else s
        return torch.exp(torch.mul(s, -0.5, out=out), out=out)

    @staticmethod
    def scalar_profile(s: float, parameter: float) -> tuple[float, float, float]:
        value = decay(0.5 * s)
        return value, -0.5 * value, 0.0

    gpu_profile: ClassVar[str | None] = "value = half_to(s)"
    gpu_unit: ClassVar[float] = math.sqrt(0.5 / math.log(2))  # exp(−s/2) = 2^(−s′)


@dataclass(frozen=True)
class Spherical(Radial):
    """Spherical: σ² (1 − 3r/2 + r³/2) up to r = 1, and 0 beyond: the lengthscale is the range, in up to three columns.

    Continuous, nowhere differentiable functions, independent beyond the range. With more than three columns it is not
    positive definite.
    """

    family: ClassVar[str | None] = "spherical (continuous, rough functions, independent beyond the lengthscale)"
    profile_formula: ClassVar[str | None] = "(1 − 3r/2 + r³/2 up to r = 1, 0 beyond)"
    most_columns: ClassVar[int | None] = 3

    def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
        # (1 − r)² (1 + r/2): no cancellation of large numbers near the range
        out = None if scratch is None else s
        r = self._root(torch.clamp(s, max=1.0, out=out), 1.0, out)
        rising = torch.add(torch.mul(r, 0.5, out=scratch), 1.0, out=scratch)
        left = torch.sub(1.0, r, out=out)
        return torch.mul(torch.mul(left, left, out=out), rising, out=out)

    @staticmethod
    def scalar_profile(s: float, parameter: float) -> tuple[float, float, float]:
        near = s if s < 1.0 else 1.0
        r = math.sqrt(near)
        left = 1.0 - r
        return left * left * (1.0 + 0.5 * r), -0.75 * (1.0 - near) / (r + 1e-150), 0.0

    gpu_profile: ClassVar[str | None] = """
        r = root(tl.minimum(s, 1.0))
        value = (1.0 - r) * (1.0 - r) * (1.0 + 0.5 * r)
    """


@dataclass(frozen=True)
class RationalQuadratic(Radial):
    """Rational quadratic: σ² (1 + r²/(2α))^(−α), a mixture of squared exponentials of many lengthscales."""

    family: ClassVar[str | None] = "rational quadratic (smooth functions of many lengthscales)"
    profile_formula: ClassVar[str | None] = "(1 + r²/(2α))^(−α)"

    alpha: float = 1.0

    hyperparameters: ClassVar[tuple[str, ...]] = (*Radial.hyperparameters, "alpha")
    profile_parameter: ClassVar[str | None] = "alpha"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_hyperparameter(self, "alpha", positive)

    def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
        out = None if scratch is None else s
        logarithm = torch.log1p(torch.mul(s, 0.5 / self.alpha, out=out), out=out)
        return torch.exp(torch.mul(logarithm, -self.alpha, out=out), out=out)

    @staticmethod
    def scalar_profile(s: float, parameter: float) -> tuple[float, float, float]:
        ratio = 0.5 * s / parameter
        logarithm = math.log1p(ratio)
        value = math.exp(-parameter * logarithm)
        bend = parameter * value * (ratio / (1.0 + ratio) - logarithm)
        return value, -0.5 * value / (1.0 + ratio), bend

    gpu_profile: ClassVar[str | None] = """
        u = s + 1.0
        # log1p as Kahan writes it: what rounding takes from u is given back by the quotient
        logarithm = tl.where(u == 1.0, s * LOG2E, tl.log2(u) * (s / tl.where(u == 1.0, 1.0, u - 1.0)))
        value = half_to(alpha * logarithm)
    """
    gpu_unit: ClassVar[float] = math.sqrt(0.5)  # 1 + r²/(2α) = 1 + s′

    def formula(self, number: WriteNumber) -> str:
        return super().formula(number).replace("α", number(self.alpha))


@dataclass(frozen=True)
class Periodic(RBF):
    """Periodic: σ² exp(−2 Σⱼ sin²(π (aⱼ − bⱼ) / period) / lengthscale²).

    Each coordinate goes round a circle, where 2 sin(π δ / period) is the chord: this is ``RBF`` on the circle.
    """

    period: float | tuple[float, ...] = 1.0

    hyperparameters: ClassVar[tuple[str, ...]] = (*RBF.hyperparameters, "period")
    family: ClassVar[str | None] = "periodic (functions that repeat themselves)"
    profile_formula: ClassVar[str | None] = "exp(−2 Σⱼ sin²(π (xⱼ − x′ⱼ) / periodⱼ) / ℓⱼ²)"

    def __post_init__(self) -> None:
        super().__post_init__()
        validate_hyperparameter(self, "period", positive_or_each)

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        period, lengthscale = self._per_column("period", X), self._per_column("lengthscale", X)
        angle = 2 * math.pi * (X - origin) / period
        return torch.cat([torch.cos(angle) / lengthscale, torch.sin(angle) / lengthscale], dim=1).T.contiguous()

    def formula(self, number: WriteNumber) -> str:
        return f"{number(self.variance)} · {self.profile_formula}" if self.profile_formula else repr(self)

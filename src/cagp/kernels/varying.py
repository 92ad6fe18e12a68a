"""Functions that vary more in one place than in another: an amplitude that depends on the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..errors import InputError, InputTypeError
from ..support.convert import Output
from ..support.memory import Buffers
from ..support.validation import ArrayLike, points, positive
from .base import Embedding, Jet, Kernel, Target, WriteNumber

_FAR = 1e-6  # the share of all centres alike in what is near: beyond the last centre a pattern goes back to its average
_AT_ONCE = 65_536  # points whose shares are in memory together


@dataclass(frozen=True)
class Pattern:
    """A positive number for every point: near each of the ``centres`` about its own of the ``values``.

    In between it is a weighted geometric average of the values; the kernel ``near``, whose variance does not matter,
    says how much a centre counts. Far from all of them it is the geometric average of all values.

        log pattern(x) = Σⱼ φⱼ(x) log valuesⱼ,     φⱼ(x) ∝ near(x, centresⱼ) + 10⁻⁶ near(x, x),     Σⱼ φⱼ(x) = 1

    >>> import numpy as np, cagp
    >>> rough_east = cagp.Pattern(cagp.RBF(0.3), centres=[[0.0], [1.0]], values=[0.5, 2.0])
    >>> rough_east(np.array([[0.0], [0.5], [1.0]])).round(2).tolist()
    [0.5, 1.0, 1.99]
    """

    near: Kernel
    centres: Sequence[Sequence[float]]
    values: Sequence[float]

    def __post_init__(self) -> None:
        if not isinstance(self.near, Kernel):
            raise InputTypeError(f"near must be a kernel such as RBF(0.2), got {self.near!r}")
        centres = points(self.centres, "centres").cpu()
        values = tuple(positive(value, f"values[{i}]") for i, value in enumerate(self.values))
        if len(values) != len(centres):
            raise InputError(f"values has {len(values)} numbers for {len(centres)} centres; give one each")
        object.__setattr__(self, "centres", tuple(map(tuple, centres.tolist())))
        object.__setattr__(self, "values", values)

    def __call__(self, X: ArrayLike) -> ArrayLike:
        """The pattern at points X (n, p), shape (n,)."""
        test = points(X, "X", columns=len(self.centres[0]))
        return Output.like(X)(self.at(test))

    def at(self, X: torch.Tensor) -> torch.Tensor:
        """The same for a float64 tensor of points, unchecked."""
        logs = torch.tensor(self.values, dtype=torch.float64, device=X.device).log()
        return torch.cat([torch.exp(self.shares(some) @ logs) for some in X.split(_AT_ONCE)])

    def shares(self, X: torch.Tensor) -> torch.Tensor:
        """φ: how much each centre counts at points X (n, p), shape (n, centres); rows add up to one."""
        centres = torch.tensor(self.centres, dtype=torch.float64, device=X.device)
        origin = centres.mean(dim=0)
        embedding = self.near.embed(X, origin)
        near = self.near.evaluate(embedding, self.near.embed(centres, origin))
        near = near + _FAR * self.near.diagonal(embedding)[:, None]
        return near / near.sum(dim=1, keepdim=True)

    def __repr__(self) -> str:
        return f"Pattern({len(self.values)} centres, from {min(self.values):.3g} to {max(self.values):.3g})"


@dataclass(frozen=True)
class Varying(Kernel):
    """amplitude(a) · kernel(a, b) · amplitude(b): a function whose size differs from place to place.

    ``amplitude`` is a ``Pattern``. A fit of hyperparameters holds it; ``cagp.hyperparameters.fit_patterns`` finds one.
    """

    kernel: Kernel
    amplitude: Pattern

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel) or not isinstance(self.amplitude, Pattern):
            raise InputTypeError(
                f"Varying takes a kernel and a Pattern, got {self.kernel!r} and {self.amplitude!r}; write "
                "Varying(Matern32(0.2), Pattern(RBF(0.5), centres, values))"
            )

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        return self.kernel.embed(X, origin), self.amplitude.at(X)[None, :]

    def evaluate(self, A: Embedding, B: Embedding, out: Target = None, buffers: Buffers | None = None) -> torch.Tensor:
        block = self.kernel.evaluate(A[0], B[0], out, buffers)
        rows, columns = A[1][0][..., :, None], B[1][0][..., None, :]
        return block * rows * columns if out is None else out.mul_(rows).mul_(columns)

    def diagonal(self, A: Embedding) -> torch.Tensor:
        return self.kernel.diagonal(A[0]) * A[1][0].square()

    def at_itself(self, A: Embedding, slopes: Embedding) -> Jet:
        size, change = A[1][0], slopes[1][0]
        both = Jet(size.square(), size[:, None] * change, change[:, :, None] * change[:, None, :])
        return both.times(self.kernel.at_itself(A[0], slopes[0]))

    def scaled(self, factor: float) -> Kernel:
        return Varying(self.kernel.scaled(factor), self.amplitude)

    def in_words(self, columns: Sequence[str]) -> str:
        low, high = min(self.amplitude.values), max(self.amplitude.values)
        return f"{self.kernel.in_words(columns)}, with an amplitude that varies, times {low:.3g} to {high:.3g}"

    def formula(self, number: WriteNumber) -> str:
        return f"s(x) s(x′) ({self.kernel.formula(number)})"

    def __repr__(self) -> str:
        return f"Varying({self.kernel!r}, {self.amplitude!r})"


def without_amplitude(kernel: Kernel, embedding: Embedding) -> tuple[Kernel, Embedding, torch.Tensor | None]:
    """The kernel, its embedding and the amplitude (n,) of k(a, b) = s(a) kernel(a, b) s(b), None where that is one."""
    if isinstance(kernel, Varying):
        return kernel.kernel, embedding[0], embedding[1][0]
    return kernel, embedding, None

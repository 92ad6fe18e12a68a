"""Several quantities at once: points (x, i), whose last column is the number i = 0, 1, … of the quantity.

A sum of ``Coregionalised`` kernels is the linear model of coregionalisation, Σᵣ Bᵣ[i, j] kᵣ(x, x′).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from ..errors import InputError, InputTypeError
from ..support.memory import Buffers
from ..support.validation import ArrayLike, points, positive, real
from .base import Embedding, Kernel, Target, WriteNumber, validate_hyperparameter


def quantity_of(X: torch.Tensor, quantities: int) -> torch.Tensor:
    """The last column of points X (n, p + 1) as numbers of quantities, shape (n,)."""
    given = X[:, -1]
    found = given.round().clamp(0, quantities - 1)
    if bool((found != given).any()):
        wrong = float(given[found != given][0])
        raise InputError(
            f"the last column of the points must be the number of a quantity, 0 to {quantities - 1}, got {wrong:g}"
        )
    return found.long()


@dataclass(frozen=True)
class Coregionalised(Kernel):
    """B[i, j] · kernel(x, x′) for quantities i and j at places x and x′; the points are (x, i).

    ``deviations`` (q,) are the standard deviations of the q quantities beside those of ``kernel``, whose variance stays
    1. Their correlations are the cosines of angles between q directions: ``angle`` has, in degrees, what turns each
    direction away from those before it, one for the second quantity, two for the third, q (q − 1) / 2 in all. For two
    quantities the correlation is the cosine of the angle. Any angles make a matrix B that is positive semidefinite.

    >>> import cagp
    >>> both = cagp.Coregionalised(cagp.Matern32(0.2), deviations=(1.0, 3.0), angle=(60.0,))
    >>> both([[0.0, 0], [0.0, 1]]).round(2).tolist()
    [[1.0, 1.5], [1.5, 9.0]]
    """

    kernel: Kernel
    deviations: tuple[float, ...]
    angle: tuple[float, ...]

    hyperparameters: ClassVar[tuple[str, ...]] = ("deviations", "angle")
    angles: ClassVar[tuple[str, ...]] = ("angle",)
    coordinate_called: ClassVar[str] = "quantity"

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise InputTypeError(f"Coregionalised takes a kernel, got {self.kernel!r}")
        validate_hyperparameter(self, "deviations", _each(positive))
        validate_hyperparameter(self, "angle", _each(real))
        q = len(self.deviations)
        if q < 2 or len(self.angle) != q * (q - 1) // 2:
            raise InputError(
                f"q quantities, two or more, have q deviations and q (q − 1) / 2 angles; got {q} deviations and "
                f"{len(self.angle)} angles"
            )

    @classmethod
    def of(cls, kernel: Kernel, B: ArrayLike) -> Coregionalised:
        """From the matrix B (q, q) of covariances between quantities, which must be positive definite."""
        matrix = points(B, "B").cpu().numpy()
        if matrix.shape[0] != matrix.shape[1] or not np.allclose(matrix, matrix.T):
            raise InputError(f"B must be a symmetric matrix, got shape {matrix.shape}")
        try:
            rows = np.linalg.cholesky(matrix)
        except np.linalg.LinAlgError:
            raise InputError("B must be positive definite, as covariances of quantities are") from None
        deviations = np.linalg.norm(rows, axis=1)
        angle = [
            np.degrees(np.arctan2(np.linalg.norm(row[j + 1 : i + 1]), row[j]))
            for i, row in enumerate(rows)
            for j in range(i)
        ]
        return cls(kernel, tuple(deviations.tolist()), tuple(map(float, angle)))

    @property
    def quantities(self) -> int:
        """How many quantities there are."""
        return len(self.deviations)

    @property
    def B(self) -> np.ndarray:
        """The covariances between quantities at one place, shape (q, q)."""
        rows = self._rows(torch.zeros(1, dtype=torch.float64))
        return np.asarray(rows @ rows.T)

    @property
    def correlations(self) -> np.ndarray:
        """The correlations between quantities, shape (q, q)."""
        return self.B / np.outer(self.deviations, self.deviations)

    def _rows(self, like: torch.Tensor) -> torch.Tensor:
        """A (q, q) with B = A Aᵀ: the directions of the quantities, times their deviations."""
        angle, deviations = (
            torch.as_tensor(each, dtype=like.dtype, device=like.device) for each in (self.angle, self.deviations)
        )
        cosine, sine = torch.cos(torch.deg2rad(angle)), torch.sin(torch.deg2rad(angle))
        rows, at = [], 0
        for i in range(len(deviations)):
            left, row = torch.ones_like(deviations[0]), []
            for _ in range(i):
                row.append(left * cosine[at])
                left, at = left * sine[at], at + 1
            row += [left, *[torch.zeros_like(left)] * (len(deviations) - i - 1)]
            rows.append(torch.stack(row) * deviations[i])
        return torch.stack(rows)

    def embed(self, X: torch.Tensor, origin: torch.Tensor) -> Embedding:
        if X.shape[1] < 2:
            raise InputError("Coregionalised needs points (x, i): the places, and the number of the quantity last")
        directions = self._rows(X)[quantity_of(X, self.quantities)]
        return self.kernel.embed(X[:, :-1], origin[:-1]), directions.T.contiguous()

    def evaluate(self, A: Embedding, B: Embedding, out: Target = None, buffers: Buffers | None = None) -> torch.Tensor:
        block, between = self.kernel.evaluate(A[0], B[0], out, buffers), _products(A[1], B[1])
        return block * between if out is None else out.mul_(between)

    def diagonal(self, A: Embedding) -> torch.Tensor:
        own: torch.Tensor = A[1]  # type: ignore[assignment]
        return self.kernel.diagonal(A[0]) * own.square().sum(dim=0)

    def scaled(self, factor: float) -> Kernel:
        deviations = tuple(factor**0.5 * each for each in self.deviations)
        return Coregionalised(self.kernel, deviations, self.angle)

    def in_words(self, columns: Sequence[str]) -> str:
        return f"{self.kernel.in_words(columns)}, of {self.quantities} quantities that go together"

    def formula(self, number: WriteNumber) -> str:
        return f"B[i, i′] ({self.kernel.formula(number)})"


def _products(A: Any, B: Any) -> torch.Tensor:
    """a · b for columns of A (q, …, n) and B (q, …, m), shape (…, n, m)."""
    total = A[0][..., :, None] * B[0][..., None, :]
    for a, b in zip(A[1:], B[1:], strict=True):
        total = total + a[..., :, None] * b[..., None, :]
    return total


def _each(check: Any) -> Any:
    """A check of a tuple of numbers from that of one."""
    return lambda value, name: tuple(check(each, f"{name}[{i}]") for i, each in enumerate(value))


@dataclass(frozen=True)
class NoiseByQuantity:
    """What multiplies the standard deviation of the noise: for quantity i of points (x, i) the i-th of ``values``.

    The ``noise_pattern`` of a prior of several quantities; a fit of its hyperparameters finds the values.
    """

    values: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", _each(positive)(self.values, "values"))

    def at(self, X: torch.Tensor) -> torch.Tensor:
        """The factors at points X (n, p + 1), shape (n,)."""
        return torch.tensor(self.values, dtype=torch.float64, device=X.device)[quantity_of(X, len(self.values))]

"""Prior mean functions m₀.

A mean is first resolved against the data (``fit``), which fills in whatever it takes from them, and then evaluated.
A mean that is estimated from y is plugged in as if it had been known: its own uncertainty is not in the error bars.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import torch

from .errors import InputError, InputTypeError
from .support.validation import as_float64, count, real


class Mean(ABC):
    """A prior mean function."""

    @abstractmethod
    def fit(self, X: torch.Tensor, y: torch.Tensor) -> Mean:
        """This mean with everything it takes from the data, X (n, p) and y (n,), filled in."""

    @abstractmethod
    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """m₀ at the points X (n, p), shape (n,)."""

    def basis(self, X: torch.Tensor) -> torch.Tensor | None:
        """H (n, q) where m₀(X) = H β for some coefficients β (q,); None for a mean that has no coefficients."""
        return None

    def with_coefficients(self, coefficients: Sequence[float]) -> Mean:
        """This mean with other coefficients β (q,), in the order of the columns of ``basis``."""
        raise InputError(f"{self!r} has no coefficients; Constant and Polynomial have")


@dataclass(frozen=True)
class Zero(Mean):
    """m₀ = 0."""

    def fit(self, X: torch.Tensor, y: torch.Tensor) -> Mean:
        return self

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        return torch.zeros(X.shape[0], dtype=X.dtype, device=X.device)


@dataclass(frozen=True)
class Constant(Mean):
    """m₀ = value; ``Constant()`` is the average of y."""

    value: float | None = None

    def __repr__(self) -> str:
        return "Constant()" if self.value is None else f"Constant({self.value!r})"

    def __post_init__(self) -> None:
        if self.value is not None:
            object.__setattr__(self, "value", real(self.value, "value"))

    def fit(self, X: torch.Tensor, y: torch.Tensor) -> Mean:
        return self if self.value is not None else Constant(float(y.mean()))

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        if self.value is None:
            raise InputError("Constant() takes its value from the data; call fit(X, y) first, or give a value")
        return torch.full((X.shape[0],), self.value, dtype=X.dtype, device=X.device)

    def basis(self, X: torch.Tensor) -> torch.Tensor:
        return torch.ones(X.shape[0], 1, dtype=X.dtype, device=X.device)

    def with_coefficients(self, coefficients: Sequence[float]) -> Mean:
        (value,) = coefficients
        return Constant(value)


@dataclass(frozen=True)
class Polynomial(Mean):
    """A polynomial of total degree ≤ ``degree`` in the chosen ``columns`` (all by default), by least squares.

    The paper's trend for global temperature is ``Polynomial(degree=2, columns=(0,))`` on (latitude, longitude).
    Coefficients belong to the monomials in the order 1, x₁, x₂, …, x₁², x₁x₂, … of the columns as they are.
    """

    degree: int = 2
    columns: tuple[int, ...] | None = None
    coefficients: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "degree", count(self.degree, "degree"))
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(count(c, "columns") for c in self.columns))
        if self.coefficients is not None:
            values = tuple(real(c, f"coefficients[{i}]") for i, c in enumerate(self.coefficients))
            object.__setattr__(self, "coefficients", values)
            if len(values) <= self.degree and self.columns != ():
                raise InputError(
                    f"coefficients has {len(values)} values, a polynomial of degree {self.degree} has at least "
                    f"{self.degree + 1} terms; give one for each"
                )

    def basis(self, X: torch.Tensor) -> torch.Tensor:
        columns = range(X.shape[1]) if self.columns is None else self.columns
        if any(c >= X.shape[1] for c in columns):
            raise InputError(f"Polynomial uses columns {tuple(columns)}, the points have {X.shape[1]} columns")
        terms = [torch.ones(X.shape[0], dtype=X.dtype, device=X.device)]
        for degree in range(1, self.degree + 1):
            terms += [X[:, list(c)].prod(dim=1) for c in combinations_with_replacement(columns, degree)]
        return torch.stack(terms, dim=1)

    def with_coefficients(self, coefficients: Sequence[float]) -> Mean:
        return Polynomial(self.degree, self.columns, tuple(coefficients))

    def fit(self, X: torch.Tensor, y: torch.Tensor) -> Mean:
        if self.coefficients is not None:
            return self
        columns = X.shape[1] if self.columns is None else len(self.columns)
        terms = math.comb(columns + self.degree, columns)  # counted before they are made: a high degree has too many
        monomials = self.basis(X) if terms <= X.shape[0] else None
        if monomials is not None:
            scale = monomials.abs().amax(dim=0).clamp_min(torch.finfo(X.dtype).tiny)
            singular = torch.linalg.svdvals(monomials / scale)
        if monomials is None or singular[-1] <= 1e-13 * singular[0]:
            raise InputError(
                f"{self!r} has {terms} terms, which these {X.shape[0]} points do not determine; "
                "lower the degree or choose fewer columns"
            )
        solution = torch.linalg.lstsq(monomials / scale, y[:, None]).solution[:, 0] / scale
        return self.with_coefficients(solution.tolist())

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        if self.coefficients is None:
            raise InputError("Polynomial takes its coefficients from the data; call fit(X, y) first, or give them")
        monomials = self.basis(X)
        if monomials.shape[1] != len(self.coefficients):
            raise InputError(f"{self!r} needs {monomials.shape[1]} coefficients, got {len(self.coefficients)}")
        return monomials @ torch.tensor(self.coefficients, dtype=X.dtype, device=X.device)


@dataclass(frozen=True)
class CallableMean(Mean):
    """Any function of the points: takes X (n, p) as a numpy array and returns n values."""

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputTypeError(f"a mean must be a cagp mean or a function of the points, got {self.function!r}")

    def fit(self, X: torch.Tensor, y: torch.Tensor) -> Mean:
        return self

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        values = as_float64(self.function(X.cpu().numpy()), "the mean function's result", X.device)
        if values.shape != (X.shape[0],):
            raise InputError(
                f"the mean function must return shape ({X.shape[0]},), one value a point, got {tuple(values.shape)}"
            )
        return values


def as_mean(mean: Any) -> Mean:
    """A mean from what a user writes: a mean, a number, or a function of the points."""
    if isinstance(mean, Mean):
        return mean
    return CallableMean(mean) if callable(mean) else Constant(real(mean, "mean"))

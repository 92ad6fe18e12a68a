"""Prior mean functions m₀: known ones, and trends with unknown coefficients.

``Constant()``, ``Polynomial(2)`` and ``Basis(function)`` without coefficients are *unknown*: y = Hβ + f + noise with
any β. The error bars then hold whatever it is: ordinary and universal kriging. With coefficients given, a mean is
known. To plug estimates in as if they had been known, call ``fit(X, y)`` and use what it returns.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any

import torch

from .errors import InputError, InputTypeError
from .kernels.coregionalised import quantity_of
from .support.orthonormal import not_determined, orthonormal
from .support.validation import as_float64, count, real

_MOST_TERMS = 10_000


class Mean(ABC):
    """A prior mean function."""

    def fit(self, X: torch.Tensor, y: torch.Tensor) -> Mean:
        """A known mean: this one with the coefficients filled in by least squares from X (n, p) and y (n,)."""
        return self

    @abstractmethod
    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """m₀ at the points X (n, p), shape (n,)."""

    def basis(self, X: torch.Tensor) -> torch.Tensor | None:
        """H (n, q) where m₀(X) = H β for some coefficients β (q,); None for a mean that has no coefficients."""
        return None

    def spanning(self, X: torch.Tensor, origin: torch.Tensor, scale: torch.Tensor) -> torch.Tensor | None:
        """Functions (n, q) with the span of ``basis``, better to compute with, by ``origin`` and ``scale`` (p,)."""
        return self.basis(X)

    def unseeing(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """m₀ at observations X (n, p) as it would be without each of g groups of them, (g, n), and their groups (n,).

        What does not depend on observations is the same for all.
        """
        return self(X)[None], torch.zeros(len(X), dtype=torch.long, device=X.device)

    def restricted(self, X: torch.Tensor) -> Mean:
        """This mean where of all observations those at X (n, p) alone are known."""
        return self

    @property
    def given(self) -> tuple[float, ...] | None:
        """The coefficients β (q,) that were given, in the order of the columns of ``basis``."""
        return None

    @property
    def learned(self) -> bool:
        """Whether it was learned from observations, by what has no prior."""
        return False

    @property
    def unknown(self) -> bool:
        """Whether it has coefficients that are not given."""
        return False

    def with_coefficients(self, coefficients: Sequence[float]) -> Mean:
        """This mean with other coefficients β (q,), in the order of the columns of ``basis``."""
        raise InputError(f"{self!r} has no coefficients; Constant, Polynomial and Basis have")


@dataclass(frozen=True)
class Zero(Mean):
    """m₀ = 0."""

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        return torch.zeros(X.shape[0], dtype=X.dtype, device=X.device)


@dataclass(frozen=True)
class Constant(Mean):
    """m₀ = value; ``Constant()`` is a constant that nobody knows (ordinary kriging)."""

    value: float | None = None

    def __repr__(self) -> str:
        return "Constant()" if self.value is None else f"Constant({self.value!r})"

    def __post_init__(self) -> None:
        if self.value is not None:
            object.__setattr__(self, "value", real(self.value, "value"))

    @property
    def given(self) -> tuple[float, ...] | None:
        return None if self.value is None else (self.value,)

    @property
    def unknown(self) -> bool:
        return self.value is None

    def fit(self, X: torch.Tensor, y: torch.Tensor) -> Mean:
        return self if self.value is not None else Constant(float(y.mean()))

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        if self.value is None:
            raise InputError("the value of Constant() is unknown; give one, or take that of the data with fit(X, y)")
        return torch.full((X.shape[0],), self.value, dtype=X.dtype, device=X.device)

    def basis(self, X: torch.Tensor) -> torch.Tensor:
        return torch.ones(X.shape[0], 1, dtype=X.dtype, device=X.device)

    def with_coefficients(self, coefficients: Sequence[float]) -> Mean:
        (value,) = coefficients
        return Constant(value)


class _Combination(Mean):
    """A trend of several functions, with ``coefficients`` or without."""

    coefficients: tuple[float, ...] | None

    def __post_init__(self) -> None:
        if self.coefficients is not None:
            values = tuple(real(c, f"coefficients[{i}]") for i, c in enumerate(self.coefficients))
            object.__setattr__(self, "coefficients", values)

    @abstractmethod
    def basis(self, X: torch.Tensor) -> torch.Tensor: ...

    @property
    def given(self) -> tuple[float, ...] | None:
        return self.coefficients

    @property
    def unknown(self) -> bool:
        return self.coefficients is None

    def with_coefficients(self, coefficients: Sequence[float]) -> Mean:
        return replace(self, coefficients=tuple(coefficients))  # type: ignore[type-var]

    def fit(self, X: torch.Tensor, y: torch.Tensor) -> Mean:
        if self.coefficients is not None:
            return self
        basis = self.basis(X)
        if not bool(torch.isfinite(basis).all()):
            raise InputError(f"X is too far out for {self!r}: its terms overflow there; rescale the points")
        Q, R = orthonormal(basis, repr(self))
        return self.with_coefficients(torch.linalg.solve_triangular(R, Q.T @ y[:, None], upper=True)[:, 0].tolist())

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        basis, values = self.basis(X), self.coefficients
        if values is None:
            raise InputError(
                f"the coefficients of {self!r} are unknown; give them, or take those of the data: fit(X, y)"
            )
        if basis.shape[1] != len(values):
            raise InputError(f"{self!r} needs {basis.shape[1]} coefficients, got {len(values)}")
        return basis @ torch.tensor(values, dtype=basis.dtype, device=basis.device)


@dataclass(frozen=True)
class Polynomial(_Combination):
    """A polynomial of total degree ≤ ``degree`` in the chosen ``columns`` (all by default).

    Without ``coefficients`` these are unknown (universal kriging; external drift, where a column holds a covariate).
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
        super().__post_init__()
        if self.coefficients is not None and len(self.coefficients) <= self.degree and self.columns != ():
            raise InputError(
                f"coefficients has {len(self.coefficients)} values, a polynomial of degree {self.degree} has at least "
                f"{self.degree + 1} terms; give one for each"
            )

    def basis(self, X: torch.Tensor) -> torch.Tensor:
        columns = range(X.shape[1]) if self.columns is None else self.columns
        if any(c >= X.shape[1] for c in columns):
            raise InputError(f"Polynomial uses columns {tuple(columns)}, the points have {X.shape[1]} columns")
        terms = [torch.ones(X.shape[0], dtype=X.dtype, device=X.device)]
        # the number of terms, before they are: one of a high degree in many columns would take for ever
        k, most = len(columns), _MOST_TERMS
        if k and (k > most or self.degree > most or math.comb(k + self.degree, self.degree) > most):
            raise InputError(
                f"a polynomial of degree {self.degree} in {k} columns has more than {most:,} terms; "
                "choose a lower degree, or fewer columns"
            )
        for degree in range(1, self.degree + 1) if k else ():
            terms += [X[:, list(c)].prod(dim=1) for c in combinations_with_replacement(columns, degree)]
        return torch.stack(terms, dim=1)

    def spanning(self, X: torch.Tensor, origin: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return self.basis((X - origin) / scale)

    def fit(self, X: torch.Tensor, y: torch.Tensor) -> Mean:
        columns = X.shape[1] if self.columns is None else len(self.columns)
        terms = math.comb(columns + self.degree, columns)  # counted before they are made: a high degree has too many
        if self.unknown and terms > X.shape[0]:
            raise not_determined(terms, len(X), repr(self))
        return super().fit(X, y)


@dataclass(frozen=True)
class Basis(_Combination):
    """A trend of any functions: ``function`` takes X (n, p) as a numpy array and returns their values (n, q).

    Without ``coefficients`` (q,) these are unknown. It adds no constant of its own: return a column of ones for one.
    """

    function: Callable[[Any], Any]
    coefficients: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputTypeError(f"Basis takes a function of the points, got {self.function!r}")
        super().__post_init__()

    def basis(self, X: torch.Tensor) -> torch.Tensor:
        values = as_float64(self.function(X.cpu().numpy()), "the result of the basis function", X.device)
        if values.ndim != 2 or values.shape[0] != X.shape[0] or not values.shape[1]:
            raise InputError(
                f"the basis function must return shape ({X.shape[0]}, functions), one row a point, got "
                f"{tuple(values.shape)}"
            )
        return values


@dataclass(frozen=True)
class ByQuantity(_Combination):
    """For points (x, i), i = 0, 1, … the number of a quantity: a polynomial in x of its own for each of ``quantities``.

    Without ``coefficients`` these are unknown. They are those of ``Polynomial`` for the first quantity, then the next.
    """

    quantities: int
    degree: int = 0
    coefficients: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantities", count(self.quantities, "quantities", minimum=1))
        object.__setattr__(self, "degree", count(self.degree, "degree"))
        super().__post_init__()

    def basis(self, X: torch.Tensor) -> torch.Tensor:
        each = Polynomial(self.degree).basis(X[:, :-1])
        if self.quantities * each.shape[1] > _MOST_TERMS:  # counted before they are made
            raise InputError(f"{self!r} has more than {_MOST_TERMS:,} terms; take fewer quantities, or a lower degree")
        own = torch.nn.functional.one_hot(quantity_of(X, self.quantities), self.quantities).to(X)
        return (own[:, :, None] * each[:, None, :]).flatten(1)

    def spanning(self, X: torch.Tensor, origin: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        places = (X[:, :-1] - origin[:-1]) / scale[:-1]
        return self.basis(torch.cat([places, X[:, -1:]], dim=1))


@dataclass(frozen=True)
class CallableMean(Mean):
    """Any function of the points: takes X (n, p) as a numpy array and returns n values."""

    function: Callable[[Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise InputTypeError(f"a mean must be a cagp mean or a function of the points, got {self.function!r}")

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
    if isinstance(mean, type):
        raise InputTypeError(f"mean is the class {mean.__name__} itself; give one of its objects: {mean.__name__}(…)")
    if hasattr(mean, "fit") and not callable(mean):
        raise InputTypeError(
            f"a regressor has to see observations before it is the mean of a prior: mean=cagp.Regression({mean!r})"
            ".fit(X, y); cagp.fit does that by itself"
        )
    return CallableMean(mean) if callable(mean) else Constant(real(mean, "mean"))

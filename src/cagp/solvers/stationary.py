"""Any completely consistent stationary iterative method (the paper's proposition on probabilistic iterative methods).

v ← v + M̃ (b − G v) makes v_m = Q_m b, so the weights are W_m = Q_mᵀ Vᵀ: the same iteration with M̃ᵀ on G W = Vᵀ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from ..algebra.sweeps import sweep
from ..algebra.weights import Weights
from ..errors import DivergenceError, InputError
from ..gram import Gram
from ..support.validation import choice, positive
from .base import CalibratedSolver, Prepared

METHODS = ("richardson", "jacobi", "sor", "ssor")

Correction = Callable[[Gram, torch.Tensor], torch.Tensor]

_POWER_ITERATIONS = 30


@dataclass(frozen=True, repr=False)
class Stationary(CalibratedSolver):
    """A stationary iterative method v ← v + M̃ (b − G v), made probabilistic.

    ``method`` is "richardson" (M̃ = ωI), "jacobi" (M̃ = ω D⁻¹, damped), "sor" (M̃ = (D/ω + L)⁻¹, Gauss-Seidel at
    ω = 1), "ssor" (a forward and a backward sweep), or a function ``correction(gram, R)`` that takes rows R (T, d)
    and returns M̃ᵀ applied to each, shape (T, d); M̃ must be nonsingular and must not depend on y.
    ``relaxation`` is ω; left out, it is 1 for "sor" and "ssor" and is set from the largest eigenvalue for the others.
    A method that does not converge on the given Gram matrix, judged by power iteration where no theorem decides, is
    refused unless ``allow_divergence``. The order of the training points is as given.
    """

    method: str | Correction = "richardson"
    iterations: int = 10
    relaxation: float | None = None
    allow_divergence: bool = False

    cost = "O(m d² T) time, O(dT) memory beside G; twice that for ssor"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.method):
            choice(self.method, "method", METHODS)
        elif self.relaxation is not None:
            raise InputError("relaxation has no meaning for a method given as a function; build it into the function")
        if self.relaxation is not None:
            positive(self.relaxation, "relaxation")

    def prepare(self, gram: Gram) -> Prepared:
        step, radius = self._step(gram)
        if radius >= 1 and not self.allow_divergence:
            raise DivergenceError(
                f"{self!r} does not converge on this Gram matrix: the spectral radius of I − M̃G is about {radius:.4g}, "
                "it must be below 1; use a smaller relaxation, another method such as GaussSeidel (which always "
                "converges), or allow_divergence=True (the error bars stay calibrated, and grow)"
            )
        return _PreparedStationary(self, step, gram)

    def _step(self, gram: Gram) -> tuple[_Step, float]:
        """One iteration, and the spectral radius of I − M̃G: for "sor" and "ssor" a bound that decides convergence."""
        if callable(self.method):
            own = _Step(gram, partial(_checked, self.method, gram))
            return own, abs(_dominant(lambda x: x - own.correction(gram.matmul(x[None, :]))[0], gram))
        if self.method in ("sor", "ssor"):
            relaxation = self.relaxation or 1.0
            # Kahan's lower bound; by Ostrowski and Reich they converge if and only if 0 < ω < 2
            return _Sweeps(gram, relaxation, symmetric=self.method == "ssor"), abs(relaxation - 1)
        scale = gram.diagonal() if self.method == "jacobi" else torch.ones_like(gram.noise)
        root = scale.rsqrt()
        largest = abs(_dominant(lambda x: root * gram.matmul((root * x)[None, :])[0], gram))
        # power iteration finds the largest eigenvalue from below; 1/λ leaves a factor of two until divergence
        relaxation = 1.0 / largest if self.relaxation is None else self.relaxation
        smallest = float((gram.noise / scale).min())  # G ⪰ Σ
        radius = max(abs(1 - relaxation * largest), abs(1 - relaxation * smallest))
        return _Step(gram, partial(torch.mul, relaxation / scale)), radius


class _Step:
    """One iteration on G w = r for every row w, with ``correction`` M̃ᵀ of every row of the residual (T, d)."""

    passes = 1.0

    def __init__(self, gram: Gram, correction: Callable[[torch.Tensor], torch.Tensor]) -> None:
        self.gram, self.correction = gram, correction

    def advance(self, W: torch.Tensor, rhs: torch.Tensor, residual: torch.Tensor, transposed: bool) -> torch.Tensor:
        """Update W and its ``residual`` (T, d) in place, by M̃ᵀ if ``transposed``, else M̃; what the energy fell by."""
        delta = self.correction(residual)
        product = self.gram.matmul(delta)
        gain = (delta * (2 * residual - product)).sum(dim=1)
        W += delta
        residual -= product
        return gain


class _Sweeps(_Step):
    """SOR and symmetric SOR, which keep no residual."""

    def __init__(self, gram: Gram, relaxation: float, symmetric: bool) -> None:
        self.gram, self._relaxation, self._symmetric = gram, relaxation, symmetric
        self.passes = 2.0 if symmetric else 1.0

    def advance(self, W: torch.Tensor, rhs: torch.Tensor, residual: torch.Tensor, transposed: bool) -> torch.Tensor:
        directions = (False, True) if self._symmetric else (transposed,)
        gains = [sweep(self.gram, W, rhs, backward=way, relaxation=self._relaxation) for way in directions]
        return torch.stack(gains).sum(dim=0)


def _checked(function: Correction, gram: Gram, residual: torch.Tensor) -> torch.Tensor:
    """A user's own M̃ᵀ."""
    delta = function(gram, residual)
    if not isinstance(delta, torch.Tensor) or delta.shape != residual.shape:
        shape = tuple(delta.shape) if hasattr(delta, "shape") else type(delta).__name__
        raise InputError(f"the method must return a tensor of shape {tuple(residual.shape)}, it returned {shape}")
    return delta


def _dominant(apply: Callable[[torch.Tensor], torch.Tensor], gram: Gram) -> float:
    """The modulus of the dominant eigenvalue by power iteration, averaged over the later steps (it may be complex)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(gram.size, generator=generator, dtype=torch.float64).to(gram.noise)
    growth = []
    for _ in range(_POWER_ITERATIONS):
        x = apply(x / x.norm())
        norm = float(x.norm())
        if norm == 0:
            return 0.0
        growth.append(norm)
    late = torch.tensor(growth[_POWER_ITERATIONS // 2 :], dtype=torch.float64)
    return float(late.log().mean().exp())


class _PreparedStationary(Prepared):
    solver: Stationary

    def __init__(self, solver: Stationary, step: _Step, gram: Gram) -> None:
        super().__init__(solver, gram)
        self._step = step

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        values, reduction, residual = torch.zeros_like(rhs), rhs.new_zeros(len(rhs)), rhs.clone()
        for i in range(1, self.limit + 1):
            reduction = reduction + self._step.advance(values, rhs, residual, transposed=True)
            yield Weights(values, reduction, i, i * self._step.passes, self.gram.size)

    def coefficients(self, b: torch.Tensor) -> Iterator[torch.Tensor] | None:
        own = callable(self.solver.method)  # of those only M̃ᵀ was given
        return None if own else self._coefficients(b)

    def _coefficients(self, b: torch.Tensor) -> Iterator[torch.Tensor]:
        v, residual = torch.zeros_like(b), b.clone()
        yield v
        for _ in range(self.limit):
            v = v.clone()
            self._step.advance(v[None, :], b[None, :], residual[None, :], transposed=False)
            yield v

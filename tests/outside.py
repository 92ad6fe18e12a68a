"""A solver and a kernel as somebody outside the package would write them, from public names alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch

from cagp.algebra.weights import Weights
from cagp.gram import Gram
from cagp.kernels import Radial
from cagp.solvers import CalibratedSolver, Prepared


@dataclass(frozen=True, repr=False)
class SteepestDescent(CalibratedSolver):
    """Each test point goes down the gradient of its own energy, as far as it falls."""

    iterations: int = 10

    def prepare(self, gram: Gram) -> Prepared:
        return _PreparedDescent(self, gram)


class _PreparedDescent(Prepared):
    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        values, residual, reduction = torch.zeros_like(rhs), rhs.clone(), rhs.new_zeros(len(rhs))
        for i in range(1, self.limit + 1):
            product = self.gram.matmul(residual)
            squared, curvature = residual.square().sum(dim=1), (residual * product).sum(dim=1)
            step = torch.where(curvature > 0, squared / curvature, 0)
            values += step[:, None] * residual
            residual = residual - step[:, None] * product
            reduction = reduction + step * squared
            yield Weights(values, reduction, i, float(i), self.gram.size)


@dataclass(frozen=True)
class Cauchy(Radial):
    """variance / (1 + r²)."""

    hyperparameters: ClassVar[tuple[str, ...]] = Radial.hyperparameters

    def profile(self, s: torch.Tensor, scratch: torch.Tensor | None = None) -> torch.Tensor:
        out = None if scratch is None else s
        return torch.reciprocal(torch.add(s, 1.0, out=out), out=out)

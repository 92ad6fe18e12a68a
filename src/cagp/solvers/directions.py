"""What all solvers with search directions share.

With directions S, the Bayesian solver has W = S (SᵀGS)⁻¹ Sᵀ Vᵀ. In G-conjugate directions P, PᵀGP = I, with the
same nested spans, this is W = P Pᵀ Vᵀ: one direction more adds one rank-one term, and the variance falls by (pᵀ Vᵀ)².
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..algebra.weights import Weights
from ..gram import Cross, Gram
from ..support.memory import require
from ..support.positive_definite import positive_definite_factor
from .base import Prepared


def require_directions(gram: Gram, m: int) -> None:
    """Refuse m directions that do not fit the memory budget: themselves, their products with G, and a copy."""
    n_bytes = 3 * m * gram.size * gram.dtype.itemsize
    what = f"{m} search directions of {gram.size} numbers"
    require(n_bytes, gram.working_budget, what, "ask for fewer iterations, or raise memory_budget")


def conjugate(S: torch.Tensor, product: torch.Tensor) -> torch.Tensor:
    """Directions S (m, d) made G-conjugate, given ``product`` = S G; the first i still span the first i of S."""
    inner = S @ product.T
    factor = positive_definite_factor((inner + inner.T) / 2, "SᵀGS of the search directions", "fewer iterations")
    return torch.linalg.solve_triangular(factor, S, upper=False)


class PreparedDirections(Prepared):
    """Weights from G-conjugate directions, rows of P (m, d); one iteration adds ``group`` of them."""

    def __init__(self, gram: Gram, P: torch.Tensor, reason: str, group: int = 1) -> None:
        super().__init__(gram)
        self._groups = torch.split(P, group)
        self._P = P
        self.held_bytes = P.numel() * P.itemsize
        self.limit = len(self._groups)
        self._reason = reason

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        values, reduction = torch.zeros_like(rhs), rhs.new_zeros(len(rhs))
        for i, P in enumerate(self._groups, start=1):
            if len(P):
                coordinates = rhs @ P.T
                values.addmm_(coordinates, P)
                reduction = reduction + coordinates.square().sum(dim=1)
                yield Weights(values, reduction, i, float(i), self.gram.size)

    def final(self, cross: Cross) -> Weights | None:
        if not len(self._P):
            return None
        coordinates = cross.matrix @ self._P.T
        m = len(self._groups)
        return Weights(coordinates @ self._P, coordinates.square().sum(dim=1), m, float(m), self.gram.size)

    def coefficients(self, b: torch.Tensor) -> Iterator[torch.Tensor]:
        v = torch.zeros_like(b)
        yield v
        for P in self._groups:
            if len(P):
                v = v + (P @ b) @ P
                yield v

    def stopped(self, iteration: int) -> str:
        return self._reason

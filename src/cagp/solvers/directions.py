"""What all solvers with search directions share.

With directions S, the Bayesian solver has W = S (SᵀGS)⁻¹ Sᵀ Vᵀ. In G-conjugate directions P, PᵀGP = I, with the
same nested spans, this is W = P Pᵀ Vᵀ: one direction more adds one rank-one term, and the variance falls by (pᵀ Vᵀ)².
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from ..gram import Cross, Gram, positive_definite_factor
from ..weights import Weights, zero_weights
from .base import Prepared


def conjugate(S: torch.Tensor, product: torch.Tensor) -> torch.Tensor:
    """Directions S (m, d) made G-conjugate, given ``product`` = S G; the first i still span the first i of S."""
    inner = S @ product.T
    factor = positive_definite_factor((inner + inner.T) / 2, "SᵀGS of the search directions", "fewer iterations")
    return torch.linalg.solve_triangular(factor, S, upper=False)


class PreparedDirections(Prepared):
    """Weights from G-conjugate directions, rows of P (m, d)."""

    def __init__(self, gram: Gram, b: torch.Tensor, P: torch.Tensor, reason: str) -> None:
        super().__init__(gram, b)
        self.P = P
        self._reason = reason

    def weights(self, cross: Cross) -> Iterator[Weights]:
        yield zero_weights(cross.size, self.gram.size, self.b)
        coordinates = cross.matrix @ self.P.T
        reductions = coordinates.square().cumsum(dim=1)
        values = torch.zeros_like(cross.matrix)
        for i in range(len(self.P)):
            values.addr_(coordinates[:, i], self.P[i])
            yield Weights(values, reductions[:, i], i + 1, float(i + 1), self.gram.size)

    def final(self, cross: Cross) -> Weights:
        coordinates = cross.matrix @ self.P.T
        m = len(self.P)
        return Weights(coordinates @ self.P, coordinates.square().sum(dim=1), m, float(m), self.gram.size)

    def coefficients(self) -> Iterator[torch.Tensor]:
        v = torch.zeros_like(self.b)
        yield v
        for p in self.P:
            v = v + p * (p @ self.b)
            yield v

    def stopped(self, iteration: int) -> str:
        return self._reason

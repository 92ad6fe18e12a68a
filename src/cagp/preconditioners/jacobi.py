"""The diagonal of G."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..gram import Gram
from .base import Preconditioner, PreparedPreconditioner


@dataclass(frozen=True)
class Jacobi(Preconditioner):
    """M = diag(G). Helps where the noise or the kernel's variance differs between observations."""

    def prepare(self, gram: Gram) -> PreparedPreconditioner:
        return _PreparedJacobi(gram)


class _PreparedJacobi(PreparedPreconditioner):
    def __init__(self, gram: Gram) -> None:
        super().__init__(gram)
        self._diagonal = gram.diagonal()

    def apply(self, R: torch.Tensor) -> torch.Tensor:
        return R / self._diagonal

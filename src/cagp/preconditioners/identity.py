"""No preconditioner."""

from __future__ import annotations

from dataclasses import dataclass

from ..gram import Gram
from .base import Preconditioner, PreparedPreconditioner


@dataclass(frozen=True)
class Identity(Preconditioner):
    """M = I: plain conjugate gradients."""

    def prepare(self, gram: Gram) -> PreparedPreconditioner:
        prepared = PreparedPreconditioner(gram)
        prepared.floor = float(gram.noise.min())  # G ⪰ Σ
        return prepared

"""No preconditioner."""

from __future__ import annotations

from dataclasses import dataclass

from ..gram import Gram
from .base import Preconditioner, PreparedPreconditioner


@dataclass(frozen=True)
class Identity(Preconditioner):
    """M = I: plain conjugate gradients."""

    def prepare(self, gram: Gram) -> PreparedPreconditioner:
        return PreparedPreconditioner(gram)

"""Which columns matter most to the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .kernels import hyperparameters
from .names import Names
from .refits import array

if TYPE_CHECKING:
    from ..model import Model


def most_relevant(model: Model, names: Names, most: int) -> list[int]:
    """All columns where there are no more than ``most``, else the most relevant, in their own order.

    A column is relevant by its spread in units of its own lengthscale, or by its spread alone where no column has one.
    """
    spread = array(model.X.std(dim=0, correction=0))
    if len(spread) <= most:
        return list(range(len(spread)))
    own = np.zeros(len(spread))
    for parameter in hyperparameters(model.prior.kernel, names):
        if parameter.kind == "lengthscale" and parameter.column is not None:
            own[parameter.column] = max(own[parameter.column], spread[parameter.column] / parameter.value)
    relevance = own if own.any() else spread
    return sorted(np.argsort(-relevance, kind="stable")[:most].tolist())

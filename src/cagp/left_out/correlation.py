"""How strongly the errors of predictions from one data set hang together.

Where a solver has not converged, or two points lie close together, they are wrong together. The model knows by how
much: an error y − mean is a combination aᵀy of the observations, so two have the covariance aᵀG a′.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights
from ..errors import MemoryBudgetError
from ..predicting.conditioned import Conditioned
from ..prediction import Prediction

SAMPLE = 300  # at most so many errors are compared with one another
_TOUCHED = 4_000  # so many observations may have a part in the errors that are compared
_ENTRIES = 2**22  # so many covariances are computed at once
_LIMIT_SECONDS = 5.0


@dataclass(frozen=True)
class Correlation:
    """Average ``correlation`` of the errors at two points, and of its ``square``; over so many ``pairs``."""

    correlation: float
    square: float
    pairs: int

    @classmethod
    def within(cls, covariance: torch.Tensor) -> Correlation | None:
        """That of errors with this covariance (T, T), if their variance is finite and positive; None without a pair."""
        known = covariance.diagonal().isfinite() & (covariance.diagonal() > 0)
        covariance = covariance[known][:, known]
        std = covariance.diagonal().sqrt()
        values = (covariance / std / std[:, None])[*torch.triu_indices(len(std), len(std), 1)].double()
        return cls(float(values.mean()), float(values.square().mean()), len(values)) if len(values) else None

    @classmethod
    def joined(cls, parts: list[Correlation | None]) -> Correlation | None:
        """The average over several groups of points; None without any pair."""
        known = [part for part in parts if part is not None]
        pairs = sum(part.pairs for part in known)
        if not pairs:
            return None
        first, second = (sum(getattr(p, name) * p.pairs for p in known) / pairs for name in ("correlation", "square"))
        return cls(first, second, pairs)


def correlation_of(posterior: Prediction, size: int) -> Correlation | None:
    """The average correlation under ``posterior``, given ``size`` observations; None where it would take long."""
    T = len(posterior)
    if T < 2 or Operations.passes(1, size, T).seconds(tiles=True) > _LIMIT_SECONDS:
        return None
    try:
        covariance = posterior.covariance()
    except MemoryBudgetError:
        return None
    return Correlation.within(torch.as_tensor(covariance))


def some_of(n: int, size: int, each: int, seed: int) -> np.ndarray:
    """Which of n errors are compared, if ``each`` is made of so many of ``size`` observations; sorted."""
    few = SAMPLE if size <= _TOUCHED else max(2, min(SAMPLE, _TOUCHED // max(each, 1)))
    return np.sort(np.random.default_rng(seed).permutation(n)[:few])


def correlation_of_sparse(model: Conditioned, rows: torch.Tensor, weights: Weights) -> Correlation | None:
    """That of the errors of training points ``rows`` (n,), predicted with ``weights`` on a few others each."""
    assert weights.indices is not None
    members = torch.cat([rows[:, None], weights.indices.expand_as(weights.values)], dim=1)
    parts = torch.cat([torch.ones_like(weights.values[:, :1]), -weights.values], dim=1)
    touched, place = members.unique(return_inverse=True)
    a = parts.new_zeros(len(rows), len(touched)).scatter_add_(1, place, parts)
    covariance = (a * model.gram.noise[touched]) @ a.T
    for chosen in torch.arange(len(touched), device=rows.device).split(max(1, _ENTRIES // len(touched))):
        K = model.cross(model.X[touched[chosen]]).columns(touched)
        covariance += a[:, chosen] @ (K @ a.T)
    return Correlation.within(covariance)

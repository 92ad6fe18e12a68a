"""The log-likelihood of a prior as it stands, nothing fitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ..support.memory import resolve_budget
from ..support.validation import ArrayLike, choice, count
from .fitting import LIKELIHOODS, generators, with_neighbours
from .likelihood import ExactLikelihood
from .observations import observations
from .parameters import Space

if TYPE_CHECKING:
    from ..prior import Prior


def log_likelihood(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    *,
    likelihood: str = "exact",
    n_neighbours: int = 45,
    seed: int = 0,
    memory_budget: float | None = None,
    device: str | torch.device | None = None,
) -> float:
    """log p(y) for observations y (n,), or (n, outputs), at points X (n, p).

    ``likelihood`` "exact" takes O(n³) time and two n × n matrices, "nearest-neighbours" is the approximation that
    ``fit`` uses for large n, with the same ``n_neighbours`` and ``seed``. A mean that takes something from the data is
    filled in from these.
    """
    choice(likelihood, "likelihood", LIKELIHOODS)
    count(n_neighbours, "n_neighbours", minimum=1)
    data = observations(prior, X, y, device).with_mean(prior.mean)
    nothing = np.zeros(0)
    space = Space(prior, (), nothing, nothing, nothing)
    budget = resolve_budget(memory_budget, data.y.device)
    if likelihood == "exact":
        return ExactLikelihood(space, data, budget)(nothing).log_likelihood
    _, orders, _ = generators(count(seed, "seed"))
    data = data.rows(orders.permutation(data.size))
    return with_neighbours(space, data, nothing, n_neighbours, budget)(nothing).log_likelihood

"""The options of a fit, for type checkers; ``cagp.hyperparameters.fit`` explains them and has the defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict

import numpy as np
import torch

from ..support.validation import ArrayLike


class FitOptions(TypedDict, total=False):
    """Keyword arguments that ``Prior.fit`` hands on to ``cagp.hyperparameters.fit``."""

    likelihood: str
    subset: int | Sequence[int] | np.ndarray | None
    fix: str | Iterable[str]
    fix_noise: bool
    refit_mean: bool
    bounds: Mapping[str, tuple[float, float]] | None
    n_restarts: int
    n_neighbours: int
    seed: int
    jitter: float
    known_noise: ArrayLike | None
    tolerance: float
    max_iterations: int
    standard_errors: bool
    memory_budget: float | None
    device: str | torch.device | None
    progress: bool | None


class LikelihoodOptions(TypedDict, total=False):
    """Keyword arguments that ``Prior.log_likelihood`` hands on to ``cagp.hyperparameters.log_likelihood``."""

    likelihood: str
    n_neighbours: int
    seed: int
    memory_budget: float | None
    device: str | torch.device | None

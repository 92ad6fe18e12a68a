"""Jackknife+ intervals of an exact model: each training observation left out, and what that changes at the test points.

Without observation i the mean at x is m(x) − wᵢ(x) eᵢ and the variance of f is v(x) + wᵢ(x)² sᵢ², where w(x) are the
kriging weights with all observations, eᵢ the error of observation i predicted from the others, and sᵢ its standard
deviation, noise included: the model with i is the one without it that learns its error. So all n models cost one.

The interval is that of Barber, Candès, Ramdas and Tibshirani (2021) with errors measured in standard deviations:
between the quantiles of m₋ᵢ(x) ∓ |eᵢ| / sᵢ · σ₋ᵢ(x), with σ₋ᵢ² = v₋ᵢ + noise. The proof needs nothing of the score but
that it does not depend on the order of the data. Jaber and others (2025) call it J+GP; MAPIE has it by refitting.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..errors import InputError
from ..left_out import Geometry, leave_out
from ..left_out.closed_form import COPIES
from ..support.memory import require
from ..support.validation import ArrayLike, not_negative_each, real

if TYPE_CHECKING:
    from ..model import Model

_ENTRIES = 2**23
"""So many pairs of a test point and an observation are looked at at once."""

_ROUNDING = 1e-9
"""A rank that is whole but for rounding is whole."""


def jackknife_interval(model: Model, X_test: ArrayLike, level: float, noise_variance: Any = None) -> tuple[Any, Any]:
    """Intervals for new observations at X_test (T, p); see ``Model.jackknife_interval``."""
    level = real(level, "level")
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, got {level!r}; for 95% write 0.95")
    test, convert = model.test_points(X_test)
    model, *_ = model.settled(test)
    if model.prepared.factor is None:
        raise InputError(
            f"jackknife_interval needs an exact model, and this one predicts with {model.solver!r}; condition with "
            'solver="cholesky", or take recalibrated(), which works for every solver'
        )
    noise = model.prior.new_noise(test) if noise_variance is None else noise_variance
    if noise is None:
        raise InputError(
            "the noise of the training observations, one variance each, says nothing about new ones; give "
            "noise_variance, one number or one per test point"
        )
    noises = not_negative_each(noise, "noise_variance", len(test)).to(model.device)
    n = len(model.y)
    require(COPIES * model.gram.dense_bytes, model.gram.budget, "jackknife+", "raise memory_budget")
    found = leave_out(model, Geometry(model), np.arange(n), None)
    if len(found) < n:
        raise InputError(
            f"{n - len(found)} observations are not determined by the others; jackknife+ needs all of them"
        )
    error, std = (torch.from_numpy(each).to(model.device) for each in (found.y - found.mean, found.std))
    rank = math.floor((n + 1) * (1 - level) + _ROUNDING)  # from below, and as many from above
    ends = []
    for part in torch.arange(len(test), device=model.device).split(max(1, _ENTRIES // n)):
        posterior = model.predict(test[part], progress=False)
        weights, mean, variance = (each.double() for each in (posterior.weights.T, posterior.mean, posterior.variance))
        without = mean[:, None] - weights * error
        spread = (variance[:, None] + (weights * std).square() + noises[part, None]).sqrt() * (error.abs() / std)
        ends.append(torch.stack([_smallest(without - spread, rank), -_smallest(-without - spread, rank)]))
    lower, upper = torch.cat(ends, dim=1)
    return convert(lower), convert(upper)


def _smallest(values: torch.Tensor, rank: int) -> torch.Tensor:
    """The value (T,) of that rank among the columns of (T, n); −∞ where there are too few for it."""
    if rank < 1:
        return values.new_full((len(values),), -torch.inf)
    return values.kthvalue(rank, dim=1).values

"""Intervals that hold what they promise for exchangeable points, whatever the model: split conformal and jackknife+.

The PIT of a new observation, exchangeable with n calibration observations, is equally likely to have each of n + 1
ranks. So the interval between the values whose PIT has the ranks ⌊(n + 1) α/2⌋ and ⌈(n + 1)(1 − α/2)⌉ holds it with
probability at least 1 − α, at any n and for any inner prediction.

Jackknife+ of an exact model needs no calibration set. Without observation i the mean at x is m(x) − wᵢ(x) eᵢ and the
variance of f is v(x) + wᵢ(x)² sᵢ², with the kriging weights w(x) of all observations, and the error eᵢ of observation i
predicted from the others, with its standard deviation sᵢ, noise included. So all n models cost one. The interval is
that of Barber, Candès, Ramdas and Tibshirani (2021), between the quantiles of m₋ᵢ(x) ∓ |eᵢ| / sᵢ · σ₋ᵢ(x), with
σ₋ᵢ² = v₋ᵢ + noise. Jaber and others (2025) call it J+GP; MAPIE has it by refitting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..left_out import leave_out_of
from ..left_out.ways import COPIES
from ..posterior import solve
from ..predicting.conditioned import Conditioned
from ..predicting.distributions import Distribution
from ..prediction import Guarantee, Reshape
from ..support.convert import Output
from ..support.memory import require
from ..support.validation import fraction, not_negative_each
from .margins import Margins, PlacedMargins, saved_array
from .recalibrated import Recalibration
from .shape import KNOTS, scores_at, shape_of, spread_of, values_at

_ROUNDING = 1e-9  # a rank that is whole but for rounding is whole
_ENTRIES = 2**23  # so many pairs of a test point and an observation are looked at at once
_FURTHEST = 8.0  # beyond this normal score probabilities round to 0 or 1


@dataclass(frozen=True, eq=False)
class Conformal(Margins):
    """Sorted normal ``scores`` (n,) of calibration observations, under a ``recalibration`` or under the prior."""

    name = "conformal"

    scores: np.ndarray
    recalibration: Recalibration | None = None

    def __repr__(self) -> str:
        return f"Conformal({len(self.scores):,} calibration observations)"

    @property
    def in_words(self) -> str:
        return f"split conformal with {len(self.scores):,} calibration observations"

    @property
    def guarantee(self) -> Guarantee:
        n = len(self.scores)
        return Guarantee(
            "marginal, distribution-free",
            f"Intervals hold new observations at least as often as they promise, on average over data sets, if these "
            f"are exchangeable with the {n:,} calibration observations, whatever the model; beyond "
            f"{100 * (1 - 2 / (n + 1)):.3g}% they are infinite.",
        )

    def around(self, component: Conditioned) -> PlacedMargins:
        return _Placed(self.scores, None if self.recalibration is None else self.recalibration.around(component))

    @property
    def of_fields(self) -> Recalibration | None:
        return self.recalibration

    def after(self, added: int) -> Conformal:
        raise InputError(
            "the intervals of this model hold for the observations that it has, since the calibration observations "
            "were predicted from those; add further ones before calibrating: model.replace(margins=None)"
            ".with_more(X, y).recalibrated(calibration=(X_calibration, y_calibration))"
        )

    def to_json(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        arrays["scores"] = self.scores
        return {}

    @classmethod
    def from_json(cls, content: Any, arrays: Mapping[str, np.ndarray], size: int) -> Conformal:
        scores = saved_array(arrays, "scores", "float64")
        if content != {} or not len(scores) or np.isnan(scores).any() or (scores[1:] < scores[:-1]).any():
            raise InputError("a conformal layer must have nothing but sorted scores, at least one")
        return cls(scores)


class _Placed(PlacedMargins):
    """The same everywhere, around those of a recalibration; it promises nothing about fields, which keep theirs."""

    def __init__(self, scores: np.ndarray, inner: PlacedMargins | None) -> None:
        self._scores, self._inner = scores, inner

    def at(self, test: torch.Tensor, distance: torch.Tensor | None = None) -> Reshape:
        if self._inner is None:
            return lambda base: Conformed(base, self._scores)
        recalibrated = self._inner.at(test, distance)
        return lambda base: Conformed(recalibrated(base), self._scores)


@dataclass(frozen=True, eq=False)
class Conformed(Distribution):
    """Distributions whose intervals hold for exchangeable points, at least as often as they promise.

    ``known`` (n,) are the sorted normal scores of calibration observations under the ``base`` ones. Quantiles below one
    half are rounded down to them, those above up, and infinite where these are few; densities and ``std`` are smooth.
    """

    base: Distribution
    known: np.ndarray
    furthest = 12.0

    @cached_property
    def _shape(self) -> torch.Tensor:
        finite = torch.from_numpy(self.known[np.isfinite(self.known)])
        return (shape_of(finite) if len(finite) else KNOTS).to(self.base.mean.device)

    @cached_property
    def _spread(self) -> float:
        return spread_of(self._shape)

    @property
    def under_prior(self) -> Distribution:
        return self.base.under_prior

    @property
    def mean(self) -> torch.Tensor:  # type: ignore[override]
        return self.base.mean

    @property
    def std(self) -> torch.Tensor:  # type: ignore[override]
        return self.base.std * self._spread

    def at(self, columns: torch.Tensor) -> Conformed:
        return Conformed(self.base.at(columns), self.known)

    def values(self, scores: torch.Tensor) -> torch.Tensor:
        """By the smooth shape: quantiles far out may be infinite."""
        return self.base.values(values_at(self._shape, scores).clamp(-_FURTHEST, _FURTHEST))

    def quantiles(self, p: torch.Tensor) -> torch.Tensor:
        ranked = torch.tensor([self._ranked(each) for each in p.tolist()], dtype=torch.float64, device=p.device)
        finite = torch.where(ranked.isfinite(), ranked, 0.0)
        found = self.base.values(finite[:, None].expand(-1, len(self.mean)))
        return torch.where(ranked.isfinite()[:, None], found, ranked[:, None])

    def _ranked(self, p: float) -> float:
        n = len(self.known)
        rank = math.floor((n + 1) * p + _ROUNDING) if p < 0.5 else math.ceil((n + 1) * p - _ROUNDING)
        return -math.inf if rank < 1 else math.inf if rank > n else float(self.known[rank - 1])

    def scores(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        inner, log_densities = self.base.scores(values)
        scores, own = scores_at(self._shape, inner)
        # by the chain rule: the density of the inner score times that of this one, over the normal one
        return scores, log_densities + own + 0.5 * (inner.square() + math.log(2 * math.pi))

    def drawn(self, draws: torch.Tensor) -> torch.Tensor:
        """As far from the mean as ``std`` says."""
        return self.mean + (self.base.drawn(draws) - self.mean) * self._spread


def jackknife_interval(
    component: Conditioned, test: torch.Tensor, level: float, noise_variance: Any = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Intervals for new observations at test points (T, p); see ``Model.jackknife_interval``."""
    level = fraction(level, "level")
    model, *_ = component.ready_for(test)
    if model.prepared.factor is None:
        raise InputError(
            f"jackknife_interval needs an exact model, and this one predicts with {model.solver!r}; condition with "
            'solver="cholesky", or take recalibrated(), which works for every solver'
        )
    noise = model.prior.new_noise(test) if noise_variance is None else noise_variance
    if noise is None:
        wrong = "the noise of the training observations, one variance each, says nothing about new ones"
        raise InputError(f"{wrong}; give noise_variance, one number or one per test point")
    noises = not_negative_each(noise, "noise_variance", len(test)).to(model.device)
    own = model.recipe.judging  # of one quantity of several these are its observations
    n = len(own)
    require(COPIES * model.gram.dense_bytes, model.gram.budget, "jackknife+", "raise memory_budget")
    found = leave_out_of(model, own)
    if len(found) < n:
        lost = f"{n - len(found)} observations are not determined by the others"
        raise InputError(f"{lost}; jackknife+ needs all of them")
    error, std = (torch.from_numpy(each).to(model.device) for each in (found.y - found.mean, found.std))
    rank = math.floor((n + 1) * (1 - level) + _ROUNDING)  # from below, and as many from above
    ends = []
    for part in torch.arange(len(test), device=model.device).split(max(1, _ENTRIES // n)):
        (posterior,) = solve([model], test[part], Output(model.device))
        weights, mean, variance = (each.double() for each in (posterior.weights.T, posterior.mean, posterior.variance))
        weights = weights[:, own]
        without = mean[:, None] - weights * error
        spread = (variance[:, None] + (weights * std).square() + noises[part, None]).sqrt() * (error.abs() / std)
        both = torch.stack([without - spread, -without - spread])
        # infinite where there are too few for the rank
        ends.append(both.kthvalue(rank, dim=2).values if rank else torch.full_like(both[:, :, 0], -torch.inf))
    lower, upper = torch.cat(ends, dim=1)
    return lower, -upper

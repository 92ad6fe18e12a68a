"""Split conformal prediction: intervals that hold what they promise for exchangeable points, whatever the model.

Of n calibration observations and a new one that is exchangeable with them, the predicted probability of at most its
value, PIT, is equally likely to have each of n + 1 ranks. So the interval between the values whose PIT has the ranks
⌊(n + 1) α/2⌋ and ⌈(n + 1)(1 − α/2)⌉ holds it with probability at least 1 − α, at any n and for any inner prediction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..prediction import Guarantee, Prediction, over_normal_scores, probabilities
from ..support.convert import Output
from ..support.validation import ArrayLike, as_float64, targets
from .layer import Layer, LayeredModel, Learned, Predicting, saved_array
from .shape import KNOTS, scores_at, shape_of, spread_of, values_at

_ROUNDING = 1e-9
"""A rank that is whole but for rounding is whole."""

_FURTHEST = 8.0
"""Beyond this normal score probabilities round to 0 or 1."""


@dataclass(frozen=True)
class Calibration(Learned):
    """The normal scores (n,) of calibration observations under the inner model, sorted."""

    name = "conformal"

    scores: np.ndarray

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

    def to_json(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        arrays["scores"] = self.scores
        return {}

    @classmethod
    def from_json(cls, content: Any, arrays: Mapping[str, np.ndarray], size: int) -> Calibration:
        scores = saved_array(arrays, "scores", "float64")
        if content != {} or not len(scores) or np.isnan(scores).any() or (scores[1:] < scores[:-1]).any():
            raise InputError("a conformal layer must have nothing but sorted scores, at least one")
        return cls(scores)


class ConformalModel(LayeredModel):
    """A model with intervals that hold for exchangeable points; ``learned`` has the calibration observations."""

    learned: Calibration
    learns = Calibration

    @classmethod
    def calibrated(cls, inner: Predicting, calibration: tuple[ArrayLike, ArrayLike]) -> ConformalModel:
        """From observations that the model has not seen: X (n, p) and y (n,)."""
        try:
            X, y = calibration
        except (TypeError, ValueError):
            raise InputError(f"calibration must be a pair (X, y), got {type(calibration).__name__}") from None
        prediction = inner.predict(X, progress=False).observed()
        truth = targets(y, len(prediction), torch.device("cpu"))
        scores = as_float64(prediction.normal_score(truth), "scores").cpu().numpy()
        return cls(inner, Calibration(np.sort(scores)))

    def with_more(self, X: ArrayLike, y: ArrayLike, *, noise_variance: Any = None) -> ConformalModel:
        """Refused: the calibration observations were predicted without these, so nothing is promised with them."""
        raise InputError(
            "the intervals of this model hold for the observations that it has, since the calibration observations "
            "were predicted from those; add further ones to the model inside and calibrate again: "
            "model.plain.with_more(X, y).recalibrated(calibration=(X_calibration, y_calibration))"
        )

    @property
    def scores(self) -> np.ndarray:
        """The sorted normal scores (n,) of the calibration observations under the inner model."""
        return self.learned.scores

    def __repr__(self) -> str:
        return f"ConformalModel({self.inner!r}, {len(self.scores)} calibration points)"

    def wrapped(self, prediction: Prediction, test: torch.Tensor, convert: Output) -> Conformal:
        return Conformal(prediction, convert, self.scores)


class Conformal(Layer):
    """A prediction whose intervals hold for exchangeable points, at least as often as they promise.

    Quantiles below one half are rounded down to the calibration observations, those above up; where there are too few
    of them for a quantile, it is infinite. ``cdf`` and ``log_density`` are smooth between them, as is the ``std``.
    """

    def __init__(self, inner: Prediction, convert: Output, scores: np.ndarray) -> None:
        super().__init__(inner, convert)
        self._known = torch.from_numpy(scores)
        finite = self._known[self._known.isfinite()]
        self._shape = shape_of(finite) if len(finite) else KNOTS

    @property
    def guarantee(self) -> Guarantee:
        return Calibration(self._known.numpy()).guarantee

    @property
    def std(self) -> Any:
        return self.inner.std * spread_of(self._shape)

    def quantile(self, p: ArrayLike) -> Any:
        chosen = probabilities(p, torch.device("cpu"))
        columns = [self._quantile(float(each)) for each in chosen.reshape(-1)]
        return self._convert(torch.stack(columns, dim=1) if chosen.ndim else columns[0])

    def _quantile(self, p: float) -> torch.Tensor:
        n = len(self._known)
        rank = math.floor((n + 1) * p + _ROUNDING) if p < 0.5 else math.ceil((n + 1) * p - _ROUNDING)
        score = -math.inf if rank < 1 else math.inf if rank > n else float(self._known[rank - 1])
        if math.isfinite(score):
            return self._tensor(self.inner.at_normal_score(score))
        return torch.full_like(self._tensor(self.mean), score)

    def cdf(self, values: ArrayLike) -> Any:
        return self._convert(torch.special.ndtr(self._reshaped(self._inner_scores(values))[0]))

    def log_density(self, values: ArrayLike) -> Any:
        score = self._inner_scores(values)
        normal = -0.5 * (score.square() + math.log(2 * math.pi))
        # by the chain rule: the density of the inner prediction times that of its normal score, over the normal one
        return self._convert(self._tensor(self.inner.log_density(values)) + self._reshaped(score)[1] - normal)

    def _inner_scores(self, values: ArrayLike) -> torch.Tensor:
        return self._tensor(self.inner.normal_score(values))

    def _reshaped(self, score: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return scores_at(self._shape.to(score.device).expand(len(score), -1), score)

    def expected(self, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        """By the smooth shape, since quantiles far out may be infinite."""

        def at(score: float) -> torch.Tensor:
            moved = float(values_at(self._shape[None], torch.tensor([score], dtype=torch.float64)))
            return function(self._tensor(self.inner.at_normal_score(min(max(moved, -_FURTHEST), _FURTHEST))))

        return over_normal_scores(at)

    def observed(self, noise_variance: Any = None) -> Conformal:
        return Conformal(self.inner.observed(noise_variance), self._convert, self._known.numpy())

    def shaped(self, draws: Any) -> Any:
        """Joint draws (n, T) of the inner prediction, as far from the mean as ``std`` says."""
        return self.mean + (draws - self.mean) * spread_of(self._shape)

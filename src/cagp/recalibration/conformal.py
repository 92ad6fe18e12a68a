"""Split conformal prediction: intervals that hold what they promise for exchangeable points, whatever the model.

Of n calibration observations and a new one that is exchangeable with them, the predicted probability of at most its
value, PIT, is equally likely to have each of n + 1 ranks. So the interval between the values whose PIT has the ranks
⌊(n + 1) α/2⌋ and ⌈(n + 1)(1 − α/2)⌉ holds it with probability at least 1 − α, at any n and for any inner prediction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..prediction import Guarantee, Prediction, probabilities
from ..support.convert import Output
from ..support.validation import ArrayLike, as_float64, targets
from .layer import Layer, LayeredModel, Predicting
from .shape import KNOTS, scores_at, shape_of, spread_of

_ROUNDING = 1e-9
"""A rank that is whole but for rounding is whole."""


class ConformalModel(LayeredModel):
    """A model with intervals that hold for exchangeable points; ``scores`` (n,) are the sorted normal scores of the
    calibration observations under the inner model.
    """

    def __init__(self, inner: Predicting, scores: np.ndarray) -> None:
        super().__init__(inner)
        self.scores = np.sort(scores)

    @classmethod
    def calibrated(cls, inner: Predicting, calibration: tuple[ArrayLike, ArrayLike]) -> ConformalModel:
        """From observations that the model has not seen: X (n, p) and y (n,)."""
        try:
            X, y = calibration
        except (TypeError, ValueError):
            raise InputError(f"calibration must be a pair (X, y), got {type(calibration).__name__}") from None
        prediction = inner.predict(X, progress=False).observed()
        truth = targets(y, len(prediction), torch.device("cpu"))
        pit = as_float64(prediction.cdf(truth), "cdf").cpu()
        return cls(inner, torch.special.ndtri(pit).numpy())

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
        n = len(self._known)
        return Guarantee(
            "marginal, distribution-free",
            f"Intervals hold new observations at least as often as they promise, on average over data sets, if these "
            f"are exchangeable with the {n:,} calibration observations, whatever the model; beyond "
            f"{100 * (1 - 2 / (n + 1)):.3g}% they are infinite.",
        )

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
        inner = 0.0 if rank < 1 else 1.0 if rank > n else float(torch.special.ndtr(self._known[rank - 1]))
        if 0 < inner < 1:
            return self._tensor(self.inner.quantile(inner))
        return torch.full((len(self),), -torch.inf if inner == 0 else torch.inf, dtype=torch.float64)

    def cdf(self, values: ArrayLike) -> Any:
        return self._convert(torch.special.ndtr(self._reshaped(self._inner_scores(values))[0]))

    def log_density(self, values: ArrayLike) -> Any:
        score = self._inner_scores(values)
        normal = -0.5 * (score.square() + math.log(2 * math.pi))
        # by the chain rule: the density of the inner prediction times that of its normal score, over the normal one
        return self._convert(self._tensor(self.inner.log_density(values)) + self._reshaped(score)[1] - normal)

    def _inner_scores(self, values: ArrayLike) -> torch.Tensor:
        limits = torch.finfo(torch.float64)
        return torch.special.ndtri(self._tensor(self.inner.cdf(values)).clamp(limits.tiny, 1 - limits.eps))

    def _reshaped(self, score: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return scores_at(self._shape.to(score.device).expand(len(score), -1), score)

    def observed(self, noise_variance: Any = None) -> Conformal:
        return Conformal(self.inner.observed(noise_variance), self._convert, self._known.numpy())

    def sample(self, n: int = 1, seed: int = 0) -> Any:
        """``n`` joint draws, shape (n, T): those of the inner prediction, as far from the mean as ``std`` says."""
        return self.mean + (self.inner.sample(n, seed) - self.mean) * spread_of(self._shape)

"""Predictions of observations that the weights have not seen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..calibration import Scores, evaluate
from ..left_out import Correlation, Geometry, LeftOut, affordable, correlation_of, left_out
from ..mixtures import MixtureModel
from ..posterior import Posterior
from ..prediction import Prediction
from ..recalibration import Layer, LayeredModel
from ..recalibration.diagnosis import Diagnosis, diagnose
from .inputs import Given
from .refits import array, seconds, working

if TYPE_CHECKING:
    from ..model import Model

_POINTS = 20_000
_POINTS_OF_MIXTURES = 5000
_FEWER_POINTS = 1000
"""So many are left out where the model's own solver conditions anew on the others."""

_HOLDOUT_SECONDS = 60.0
_AROUND = 10
"""So many observations around a point say how rough it is there."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Observations ``truth`` (n,) at X (n, p), and the ``prediction`` of them, noise included.

    ``distance`` (n,) is how far the nearest observation lies that predicts each, ``roughness`` (n,) how much the
    observations around it differ; None where there are too few. ``rows`` (n,) are their positions, from 0, in
    ``rows_of``: the held-out data as given, or the training data. ``how`` says in sentences where they come from,
    ``short`` in a few words. ``correlation`` is that of the errors under the model, where it was computed.
    """

    X: np.ndarray
    truth: np.ndarray
    prediction: Prediction
    distance: np.ndarray
    roughness: np.ndarray | None
    rows: np.ndarray
    rows_of: str
    how: str
    short: str
    correlation: Correlation | None = None

    def __len__(self) -> int:
        return len(self.truth)

    @cached_property
    def scores(self) -> Scores:
        """RMSE, proper scores, z and PIT of the observations."""
        return evaluate(self.prediction, self.truth, "observed")

    @cached_property
    def z(self) -> np.ndarray:
        """Error / std where the prediction is normal, else the normal score of the predicted probability, (n,)."""
        return array(self.prediction.normal_score(self.truth))

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """What the observations say about the error bars."""
        return diagnose(self.z, self.correlation)

    def predicted_by(self, prediction: Prediction, how: str) -> HeldOut:
        """The same observations under another prediction; ``how`` is added to what is said of them."""
        return replace(self, prediction=prediction, how=f"{self.how} {how}".strip())


def predict_held_out(model: Model | LayeredModel, holdout: Given, seed: int) -> HeldOut:
    """Predictions of the data held out, by the model as it is."""
    plain = model.plain
    n = size = len(holdout.y)
    while n > 50 and seconds(plain, working(plain), len(plain.y), n) > _HOLDOUT_SECONDS:
        n = max(50, n // 2)
    how = f"{size:,} observations that are not among the training rows, predicted by the model itself."
    if n < size:
        holdout = holdout.some(np.sort(np.random.default_rng(seed).choice(size, n, replace=False)))
        how = f"{n:,} observations, drawn at random from the held-out ones, predicted by the model itself."
    if holdout.known:
        how += (
            f" {holdout.known:,} of the {size + holdout.known:,} rows given are training rows, the same in all columns "
            "and the target, and were left out of the judgement."
        )
    noise: Any = plain.prior.noise_variance if holdout.noise is None else holdout.noise
    if holdout.noise is None and np.ndim(noise):
        noise = float(np.mean(noise))
        how += (
            " The training observations each have a noise variance of their own, which says nothing about new ones: "
            "their average was used."
        )
    X = array(holdout.X)
    found = model.predict(X, progress=False)
    predicted = found.observed(None if noise is plain.prior.noise_variance else noise)
    innermost = plain_of(predicted)
    geometry = Geometry(plain)
    return HeldOut(
        X=X,
        truth=array(holdout.y),
        prediction=predicted,
        distance=array(geometry.distance(holdout.X)),
        roughness=_spread(plain, geometry.search.query(geometry.coordinates(holdout.X), _around(plain))),
        rows=holdout.rows,
        rows_of="held-out data",
        how=how,
        short="held-out data",
        correlation=correlation_of(innermost, len(plain.y)) if isinstance(innermost, Posterior) else None,
    )


def leave_out(model: Model | MixtureModel, like: torch.Tensor | None, seed: int) -> LeftOut | None:
    """Some training observations predicted from the others before any recalibration; None where there are not two."""
    plain = model.plain
    size = len(plain.y)
    if size < 2:
        return None
    fewer = min(size, _FEWER_POINTS)
    most = _POINTS if model is plain else _POINTS_OF_MIXTURES
    n = fewer if like is None and affordable(plain, working(plain), fewer) else min(size, most)
    return left_out(model, like, n, seed, progress=False, correlated=True)


def left_out_data(model: Model, found: LeftOut) -> HeldOut:
    """Left-out observations as held-out data."""
    geometry, rows = Geometry(model), torch.from_numpy(found.index).to(model.device)
    how = f"{found.how} The hyperparameters have seen them, so this is slightly kinder than data that were never used."
    return HeldOut(
        X=found.X,
        truth=found.y,
        prediction=found.prediction,
        distance=found.distance,
        roughness=_spread(model, geometry.beyond(rows, geometry.single(rows), _around(model))),
        rows=found.index,
        rows_of="training data",
        how=how,
        short=found.short,
        correlation=found.correlation,
    )


def plain_of(prediction: Prediction) -> Prediction:
    """The innermost prediction: what the prior alone says."""
    return plain_of(prediction.inner) if isinstance(prediction, Layer) else prediction


def _around(model: Model) -> int:
    return min(_AROUND, len(model.y) - 1)


def _spread(model: Model, around: torch.Tensor) -> np.ndarray | None:
    """The standard deviation of the observations at training points ``around`` (n, k), shape (n,)."""
    if around.shape[1] < 2 or bool((around < 0).any()):
        return None
    return array(model.y[around].double().std(dim=1))

"""What the estimator predicts with: for each output a model, and the error bars that belong to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..choosing.judging import judged, recalibration_wanted
from ..mixtures import MixtureModel, before_recalibration
from ..model import Model
from ..posterior import kept
from ..prediction import Prediction
from ..recalibration import LayeredModel
from ..transforms import untransformed
from .several_outputs import covariances, means, means_and_variances


@dataclass(frozen=True)
class Outputs:
    """For each output its model, plain or with layers around it; what was done about the error bars, in words.

    ``shared`` says that the plain models have one prior, so that one solve is enough for all of them.
    """

    models: list[Model | LayeredModel]
    message: str
    shared: bool

    @property
    def plain(self) -> list[Model]:
        """The innermost models."""
        return [model.plain for model in self.models]

    @property
    def transformed(self) -> bool:
        """Whether some output is predicted on another scale than it was modelled on."""
        return any(untransformed(model)[1] is not None for model in self.models)

    def log_likelihood(self, **options: Any) -> float:
        """log p(y) of all outputs together, each under its own prior, with the slope of a transform in it."""
        total = 0.0
        for model in self.models:
            recipe, transform = model.plain.recipe, untransformed(model)[1]
            total += recipe.prior.log_likelihood(recipe.X, recipe.y, **options)
            if transform is not None:
                total += float(transform.log_slope(transform.inverse(torch.from_numpy(recipe.y))).sum())
        return total

    def means(self, X: np.ndarray) -> np.ndarray:
        """The means at X (T, p), shape (T, outputs)."""
        if self.shared:
            return means(self.plain, X)
        return np.column_stack([model.predict_mean(X) for model in self.models])

    def predictions(self, X: np.ndarray) -> list[Prediction]:
        """What each output says of f at X (T, p)."""
        if not self.shared:
            return [model.predict(X, progress=False) for model in self.models]
        mean, variance = means_and_variances(self.plain, X)
        posteriors = [kept(model, X, mean[:, j], variance[:, j]) for j, model in enumerate(self.plain)]
        return [model.over(each, X) for model, each in zip(self.models, posteriors, strict=True)]

    def noises(self, X: np.ndarray) -> np.ndarray:
        """The noise variance of new observations at X (T, p), (T, outputs): the average one of a mixture."""
        return np.column_stack([_noise(before_recalibration(model), X) for model in self.models])

    def covariances(self, X: np.ndarray, noise: Any) -> np.ndarray:
        """Of f with ``noise``, one or (T, outputs), at X (T, p), before any recalibration, shape (T, T, outputs)."""
        if self.shared:
            found = covariances(self.plain, X)
        else:
            found = np.stack([_covariance(model, X) for model in self.models], axis=2)
        return found + np.broadcast_to(noise, found.shape[1:])[:, None] * np.eye(len(X))[:, :, None]


def _noise(model: Model | MixtureModel, X: np.ndarray) -> np.ndarray:
    if isinstance(model, Model):
        return model.prior.noise(torch.from_numpy(X)).numpy()
    return np.asarray(model.weights @ np.stack([_noise(each, X) for each in model.components]))


def _covariance(model: Model | LayeredModel, X: np.ndarray) -> np.ndarray:
    """The covariance (T, T) of f by a model below any recalibration: that within, and between, its components."""
    model = before_recalibration(model)
    if isinstance(model, Model):
        return np.asarray(model.predict(X, progress=False).covariance())
    parts = [each.predict(X, progress=False) for each in model.components]
    mean = sum(weight * part.mean for weight, part in zip(model.weights, parts, strict=True))
    return np.asarray(
        sum(
            weight * (part.covariance() + np.outer(part.mean - mean, part.mean - mean))
            for weight, part in zip(model.weights, parts, strict=True)
        )
    )


def outputs_of(models: Sequence[Model], recalibrate: Any, seed: int) -> Outputs:
    """The models of outputs that share a prior, with the error bars that ``recalibrate`` asks for."""
    recalibrate = bool(recalibrate) if isinstance(recalibrate, np.bool_) else recalibrate
    recalibration_wanted(recalibrate, len(models[0].y))
    if recalibrate is False:
        return Outputs([*models], "", True)
    found = [judged(model, recalibrate=recalibrate, seed=seed) for model in models]
    return Outputs([each.model for each in found], " " + " ".join(each.found for each in found), True)

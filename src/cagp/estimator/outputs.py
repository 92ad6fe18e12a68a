"""What the estimator predicts with: a model for each output; those that share a prior share one solve and variance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..choosing.judging import judged
from ..choosing.options import check_recalibrate
from ..errors import NotPositiveDefiniteError
from ..model import Model
from ..prediction import Prediction
from ..prior import Prior

_NUMBERS_AT_ONCE = 2**24  # of weights (d, T) in memory at a time, where the means are taken from them


@dataclass(frozen=True)
class Outputs:
    """The model of each output, what was done about error bars, and whether all have one component with one prior."""

    models: list[Model]
    message: str
    shared: bool

    @property
    def transformed(self) -> bool:
        """Whether some output is predicted on another scale than it was modelled on."""
        return any(model.transform is not None for model in self.models)

    @property
    def _one_variance(self) -> bool:
        """Whether all outputs have the weights, and so the variance, of the first: those of others depend on y."""
        return self.shared and len(self.models) > 1 and self.models[0].solver.calibrated

    def log_likelihood(self, **options: Any) -> float:
        """log p(y) of all outputs together, each under its own prior, with the slope of a transform in it."""
        total = 0.0
        for model in self.models:
            if not model.quantity:  # those of one model have one prior
                total += model.prior.log_likelihood(model.recipe.X, model.recipe.y, **options)
            if model.transform is not None:
                total += float(model.transform.log_slope(model.y).sum())
        return total

    def means(self, X: np.ndarray) -> np.ndarray:
        """The means at X (T, p), shape (T, outputs), without variances."""
        if self._one_variance and not self.models[0].means_are_cheap:
            return self._solved_once(X)[0]
        return np.column_stack([model.predict_mean(X) for model in self.models])

    def predictions(self, X: np.ndarray) -> list[Prediction]:
        """What each output says of f at X (T, p)."""
        if not self._one_variance:
            return [_whole(model, X) for model in self.models]
        if not self.models[0].means_are_cheap:
            mean, variance = self._solved_once(X)
        else:
            first = _whole(self.models[0].replace(margins=None), X)
            mean = np.column_stack([first.mean, *(model.predict_mean(X) for model in self.models[1:])])
            variance = first.variance
        return [model.prediction_of(X, mean[None, :, j], variance[None]) for j, model in enumerate(self.models)]

    def _solved_once(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (T, outputs) and variances (T,) from one solve: Wᵀb for every b."""
        first = self.models[0].replace(margins=None)  # margins are for each output by itself
        components = [model.components[0] for model in self.models]
        B = np.column_stack([each.b.cpu().numpy() for each in components])
        means, variances, step = [], [], max(1, _NUMBERS_AT_ONCE // len(B))
        for test in np.array_split(X, range(step, len(X), step)):
            posterior: Any = _whole(first, test)
            prior_means = np.column_stack([each.offset(torch.from_numpy(test)).numpy() for each in components])
            means.append(prior_means + posterior.weights.T @ B)
            variances.append(posterior.variance)
        return np.concatenate(means), np.concatenate(variances)

    def noises(self, X: np.ndarray) -> np.ndarray:
        """The noise variance of new observations at X (T, p), (T, outputs): the average one of a mixture."""

        def noise(prior: Prior, places: torch.Tensor) -> np.ndarray:  # of new observations, without factors of old ones
            return replace(prior, noise_factors=None).noise(places).cpu().numpy()

        points = [model.test_points(X)[0] for model in self.models]
        both = list(zip(self.models, points, strict=True))
        each = [np.stack([noise(part.prior, places) for part in model.components]) for model, places in both]
        return np.column_stack([model.weights @ noise for model, noise in zip(self.models, each, strict=True)])

    def covariances(self, X: np.ndarray, noise: Any) -> np.ndarray:
        """Of f with ``noise``, one or (T, outputs), at X (T, p), before any recalibration, shape (T, T, outputs)."""
        different = self.models[:1] if self._one_variance else self.models
        found = np.stack([_whole(model.replace(margins=None), X).covariance() for model in different], axis=2)
        found = np.repeat(found, len(self.models) // len(different), axis=2)
        return found + np.broadcast_to(noise, found.shape[1:])[:, None] * np.eye(len(X))[:, :, None]


def outputs_of(models: Sequence[Model], recalibrate: Any, seed: int) -> Outputs:
    """The models of outputs that share a prior, with the error bars that ``recalibrate`` asks for."""
    recalibrate = bool(recalibrate) if isinstance(recalibrate, np.bool_) else recalibrate
    check_recalibrate(recalibrate, len(models[0].recipe.y))
    if recalibrate is False:
        return Outputs([*models], "", True)
    found = [judged(model, recalibrate=recalibrate, seed=seed) for model in models]
    return Outputs([model for model, _ in found], " " + " ".join(said for _, said in found), True)


def _whole(model: Model, X: np.ndarray) -> Prediction:
    """The prediction, unless Ctrl-C cut it short: a loop that scores models must end, and not score half of one."""
    prediction = model.predict(X, progress=False)
    if prediction.status.reason == "interrupted":
        raise KeyboardInterrupt(prediction.status.message)
    return prediction


def sklearn_draws(mean: np.ndarray, cov: np.ndarray, n: int, rng: np.random.RandomState, eps: float) -> np.ndarray:
    """``n`` joint draws, shape (T, n), as GaussianProcessRegressor has them; ``eps`` is the covariance's precision."""
    values = np.linalg.eigvalsh(cov)
    if values[0] < -100 * len(values) * eps * np.abs(values).max():
        found = f"the posterior covariance has the eigenvalue {values[0]:.3g}, beyond rounding"
        raise NotPositiveDefiniteError(f"{found}; fit with dtype float64 or more noise")
    return rng.multivariate_normal(mean, cov, n, check_valid="ignore").T

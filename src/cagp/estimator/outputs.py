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
from ..quantities import QuantitiesModel

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
        places = torch.from_numpy(X)

        def noise(prior: Prior) -> np.ndarray:  # of new observations: no factors of those that it has seen
            return replace(prior, noise_factors=None).noise(places).numpy()

        each = [np.stack([noise(part.prior) for part in model.components]) for model in self.models]
        return np.column_stack([model.weights @ noise for model, noise in zip(self.models, each, strict=True)])

    def covariances(self, X: np.ndarray, noise: Any) -> np.ndarray:
        """Of f with ``noise``, one or (T, outputs), at X (T, p), before any recalibration, shape (T, T, outputs)."""
        different = self.models[:1] if self._one_variance else self.models
        found = np.stack([_whole(model.replace(margins=None), X).covariance() for model in different], axis=2)
        found = np.repeat(found, len(self.models) // len(different), axis=2)
        return found + np.broadcast_to(noise, found.shape[1:])[:, None] * np.eye(len(X))[:, :, None]


@dataclass(frozen=True)
class TogetherOutputs(Outputs):
    """Outputs that one model of points (x, i) predicts, for each of which ``models`` has that model."""

    together: QuantitiesModel

    @classmethod
    def of(cls, together: QuantitiesModel) -> TogetherOutputs:
        assert together.joint is not None
        return cls([together.joint] * len(together.names), "", False, together)

    @property
    def transformed(self) -> bool:
        return any(scale.transform is not None for scale in self.together.scales)

    def _of(self, i: int, X: np.ndarray) -> np.ndarray:
        """Points (x, i) of an output at X (T, p)."""
        return np.column_stack([X, np.full(len(X), float(i))])

    def log_likelihood(self, **options: Any) -> float:
        """log p(y) of all outputs together, with the slopes of transforms in it."""
        joint = self.models[0]
        total = joint.prior.log_likelihood(joint.recipe.X, joint.recipe.y, **options)
        for i, scale in enumerate(self.together.scales):
            own = torch.from_numpy(joint.recipe.y[joint.recipe.X[:, -1] == i])
            if scale.transform is not None:
                total += float(scale.transform.log_slope(scale.inverse(own)).sum())
        return total

    def means(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.together.predict(X, progress=False).mean)

    def predictions(self, X: np.ndarray) -> list[Prediction]:
        found = [_whole(model, self._of(i, X)) for i, model in enumerate(self.models)]
        scales = self.together.scales
        return [each.carried_back(own.transform, own.reach) for each, own in zip(found, scales, strict=True)]

    def noises(self, X: np.ndarray) -> np.ndarray:
        prior = replace(self.models[0].prior, noise_factors=None)
        return np.column_stack([prior.noise(torch.from_numpy(self._of(i, X))) for i in range(len(self.models))])

    def covariances(self, X: np.ndarray, noise: Any) -> np.ndarray:
        plain = self.models[0].replace(margins=None)
        found = np.stack([_whole(plain, self._of(i, X)).covariance() for i in range(len(self.models))], axis=2)
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

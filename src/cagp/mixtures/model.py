"""A model that is a mixture of models of the same data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from ..fields import Simulator, Wanted
from ..left_out import Gaps, Geometry, LeftOut
from ..left_out import left_out as leave_some_out
from ..model import Model
from ..prediction import Guarantee, Prediction
from ..prior import Prior
from ..recalibration import ConformalModel, LayeredModel, Learned, RecalibratedModel, recalibrated
from ..recalibration.layer import Predicting, saved_array
from ..support.convert import Output
from ..support.validation import ArrayLike
from .averages import MixtureOfAverages
from .prediction import Mixture, guarantee_of_mixture
from .simulator import MixtureSimulator


@dataclass(frozen=True, eq=False)
class Blend(Learned):
    """The ``priors`` of a mixture but for the first, which is that of the inner model; the ``weights`` (m,) of all."""

    name = "mixture"

    priors: tuple[Prior, ...]
    weights: np.ndarray

    def __post_init__(self) -> None:
        fits = self.weights.shape == (1 + len(self.priors),)
        if not fits or not (self.weights > 0).all() or not np.isclose(self.weights.sum(), 1.0):
            raise InputError(f"weights must be one for each of {1 + len(self.priors)} models, positive, with the sum 1")

    @property
    def in_words(self) -> str:
        return f"a mixture of {len(self.weights)} models"

    @property
    def guarantee(self) -> Guarantee:
        return guarantee_of_mixture(len(self.weights))

    def to_json(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        from ..saving.objects import encode

        arrays["weights"] = self.weights
        written = []
        for i, prior in enumerate(self.priors):
            if np.ndim(prior.noise_variance):
                arrays[f"noise_variance[{i}]"] = np.asarray(prior.noise_variance, dtype=np.float64)
            noise = None if np.ndim(prior.noise_variance) else float(prior.noise_variance)
            kernel, mean = (encode(each, f"priors[{i}]", {}) for each in (prior.kernel, prior.mean))
            own = {"kernel": kernel, "mean": mean, "noise_variance": noise}
            if prior.noise_pattern is not None:
                own["noise_pattern"] = encode(prior.noise_pattern, f"priors[{i}]", {})
            written.append(own)
        return {"priors": written}

    @classmethod
    def from_json(cls, content: Any, arrays: Mapping[str, np.ndarray], size: int) -> Blend:
        from ..kernels import Kernel, Pattern
        from ..means import Mean
        from ..saving.objects import decode

        if set(content) != {"priors"} or not isinstance(content["priors"], list):
            raise InputError("a mixture must have its priors and nothing else")
        priors = []
        for i, each in enumerate(content["priors"]):
            noise = each["noise_variance"]
            if noise is None:
                noise = saved_array(arrays, f"noise_variance[{i}]", "float64")
            kernel, mean = decode(each["kernel"], "kernel", {}, Kernel), decode(each["mean"], "mean", {}, Mean)
            pattern = each.get("noise_pattern")
            pattern = pattern and decode(pattern, "noise_pattern", {}, Pattern)
            priors.append(Prior(kernel, mean=mean, noise_variance=noise, noise_pattern=pattern))
            if np.shape(noise) not in ((), (size,)):
                raise InputError(f"a mixture has {len(noise)} noise variances for {size} observations")
        return cls(tuple(priors), saved_array(arrays, "weights", "float64"))


class MixtureModel(LayeredModel):
    """A model with others of the same data beside it; it predicts their mixture. ``inner`` has the most weight.

    ``components`` are all of them, ``weights`` (m,) theirs. What ``predict`` is told about stopping rules, batches and
    workers is for all of them.
    """

    learned: Blend
    learns = Blend

    def __init__(self, inner: Model, learned: Blend, others: Sequence[Model] | None = None) -> None:
        super().__init__(inner, learned)
        if others is None:
            recipe = inner.recipe
            others = [
                prior.condition(
                    recipe.X,
                    recipe.y,
                    inner.solver,
                    memory_budget=recipe.budget,
                    dtype=recipe.dtype,
                    device=inner.device,
                )
                for prior in learned.priors
            ]
        self.components = (inner, *others)

    @classmethod
    def of(cls, components: Sequence[Model], weights: ArrayLike) -> MixtureModel:
        """From models of the same data, with a weight for each."""
        share = np.asarray(weights, dtype=np.float64)
        if share.shape != (len(components),) or not len(components):
            raise InputError(f"weights must be one for each of {len(components)} models, got shape {share.shape}")
        order = np.argsort(-share, kind="stable")
        first, *others = (components[i] for i in order)
        return cls(first, Blend(tuple(each.prior for each in others), share[order]), others)

    @property
    def weights(self) -> np.ndarray:
        """The weights of the components, shape (m,)."""
        return self.learned.weights

    def __repr__(self) -> str:
        parts = zip(self.weights, self.components, strict=True)
        return f"MixtureModel({', '.join(f'{weight:.2g} × {each.prior!r}' for weight, each in parts)})"

    def predict(self, X_test: ArrayLike, **settings: Any) -> Mixture:
        """The mixture at X_test (T, p); ``settings`` are those of ``Model.predict``, for each of the components."""
        first, *others = self.components
        parts = [first.predict(X_test, **settings)]  # which shows progress; the others take as long each
        parts += [each.predict(X_test, **{**settings, "progress": False}) for each in others]
        return Mixture(parts, self.weights, Output.like(X_test))

    def wrapped(self, prediction: Prediction, test: torch.Tensor, convert: Output) -> Mixture:
        place = test if convert.device is not None else test.cpu().numpy()
        others = [each.predict(place, progress=False) for each in self.components[1:]]
        return Mixture([prediction, *others], self.weights, convert)

    def averaged(self, X_test: ArrayLike, asked: Wanted, **settings: Any) -> MixtureOfAverages:
        first, *others = self.components
        parts = [first.averaged(X_test, asked, **settings)]
        parts += [each.averaged(X_test, asked, progress=False) for each in others]
        return MixtureOfAverages(parts, self.weights, Output.like(X_test), asked.groups)

    def simulator(self, X_test: ArrayLike, *, method: str = "auto") -> Simulator:
        """What draws fields at X_test (T, p): each field is one of a single component, chosen by its weight."""
        parts = [each.simulator(X_test, method=method) for each in self.components]
        return MixtureSimulator(parts, self.weights, Output.like(X_test))

    def predict_mean(self, X_test: ArrayLike) -> Any:
        """The mean at X_test (T, p), shape (T,)."""
        means = [each.predict_mean(X_test) for each in self.components]
        return sum(float(weight) * mean for weight, mean in zip(self.weights, means, strict=True))

    def left_out(
        self,
        like: ArrayLike | None = None,
        n: int | None = None,
        seed: int = 0,
        *,
        progress: bool | None = None,
    ) -> LeftOut:
        """Training observations predicted from the others by the mixture; see ``Model.left_out``."""
        return leave_some_out(self, like, n, seed, progress)

    def with_more(self, X: ArrayLike, y: ArrayLike, *, noise_variance: Any = None) -> MixtureModel:
        """The mixture with further observations y (m,) at X (m, p) in each of its models; their weights stay."""
        first, *others = (each.with_more(X, y, noise_variance=noise_variance) for each in self.components)
        return MixtureModel(first, Blend(tuple(each.prior for each in others), self.weights), others)

    def recalibrated(self, *arguments: Any, **settings: Any) -> RecalibratedModel | ConformalModel:
        """The mixture with error bars that hold on its data; see ``Model.recalibrated``."""
        return recalibrated(self, *arguments, **settings)

    def leave_out(
        self,
        geometry: Geometry,
        rows: np.ndarray,
        gaps: Gaps | None,
        advance: Callable[[float], None] = lambda steps: None,
        seed: int = 0,
        correlated: bool = False,
    ) -> LeftOut:
        """The training points ``rows`` (n,) predicted from the others, but for those in the gap of each."""
        first, *others = self.components
        found = [first.leave_out(geometry, rows, gaps, advance, seed, correlated)]
        found += [each.leave_out(geometry, rows, gaps, advance, seed) for each in others]
        there = set.intersection(*(set(each.index.tolist()) for each in found))
        found = [each.some(np.isin(each.index, list(there))) for each in found]
        means, stds = (np.stack([getattr(each, name) for each in found]) for name in ("mean", "std"))
        mean = self.weights @ means
        std = np.sqrt(self.weights @ (stds**2 + (means - mean) ** 2))
        return replace(found[0], mean=mean, std=std)


def before_recalibration(model: Predicting) -> Model | MixtureModel:
    """What predicts inside a model of any kind: one prior, or a mixture of several."""
    while isinstance(model, LayeredModel) and not isinstance(model, MixtureModel):
        model = model.inner
    assert isinstance(model, (Model, MixtureModel))
    return model


def is_recalibrated(model: Predicting) -> bool:
    """Whether the error bars of a model are other than those of what predicts inside."""
    while isinstance(model, LayeredModel):
        if isinstance(model, (RecalibratedModel, ConformalModel)):
            return True
        model = model.inner
    return False

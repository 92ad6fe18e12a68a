"""A model that is a mixture of models of the same data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..left_out import Gaps, Geometry, LeftOut
from ..left_out import left_out as leave_some_out
from ..model import Model
from ..recalibration import ConformalModel, RecalibratedModel, recalibrated
from ..support.convert import Output
from ..support.validation import ArrayLike
from .prediction import Mixture


class MixtureModel:
    """``components`` are models of the same data with ``weights`` (m,); it predicts their mixture.

    ``plain`` is where one model has to stand for all, in a report for example: the one with the most weight unless it
    is given.
    """

    def __init__(self, components: Sequence[Model], weights: ArrayLike, plain: Model | None = None) -> None:
        self.components = tuple(components)
        self.weights = np.asarray(weights, dtype=np.float64)
        shapes_fit = self.weights.shape == (len(self.components),) and len(self.components) > 0
        if not shapes_fit or (self.weights < 0).any() or not np.isclose(self.weights.sum(), 1.0):
            raise InputError(
                f"weights must be one for each of {len(self.components)} models, positive, and add up to 1"
            )
        self.plain = self.components[int(np.argmax(self.weights))] if plain is None else plain

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{weight:.2g} × {each.prior!r}" for weight, each in zip(self.weights, self.components, strict=True)
        )
        return f"MixtureModel({parts})"

    def predict(self, X_test: ArrayLike, **settings: Any) -> Mixture:
        """The mixture of the predictions at X_test (T, p); ``settings`` are those of ``Model.predict``."""
        parts = [each.predict(X_test, **settings) for each in self.components]
        return Mixture(parts, self.weights, Output.like(X_test))

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
    ) -> LeftOut:
        """The training points ``rows`` (n,) predicted from the others, but for those in the gap of each."""
        found = [each.leave_out(geometry, rows, gaps, advance, seed) for each in self.components]
        there = set.intersection(*(set(each.index.tolist()) for each in found))
        found = [each.some(np.isin(each.index, list(there))) for each in found]
        means, variances = (np.stack([getattr(f, name) for f in found]) for name in ("mean", "std"))
        mean = self.weights @ means
        std = np.sqrt(self.weights @ (variances**2 + (means - mean) ** 2))
        return replace(found[int(np.argmax(self.weights))], mean=mean, std=std)

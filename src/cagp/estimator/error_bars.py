"""The error bars of the estimator: those of the prior, or recalibrated for each output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..model import Model
from ..posterior import kept
from ..prediction import Prediction
from ..recalibration import LayeredModel, RecalibratedModel

_JUDGED = 2000
"""So many left-out predictions decide where ``recalibrate="auto"``."""


@dataclass(frozen=True)
class ErrorBars:
    """For each output its model, plain or recalibrated; what was done, in words."""

    models: list[Model | LayeredModel]
    message: str

    @property
    def plain(self) -> bool:
        """Whether no output is recalibrated."""
        return all(isinstance(model, Model) for model in self.models)

    def predictions(self, X: np.ndarray, mean: np.ndarray, variance: np.ndarray, noise: float) -> list[Prediction]:
        """What each output says at X (T, p), of f with ``noise``, from mean and variance of f, each (T, outputs)."""
        found = []
        for j, model in enumerate(self.models):
            of_f = model.over(kept(model.plain, mean[:, j], variance[:, j]), X)
            found.append(of_f.observed(noise) if noise else of_f)
        return found

    def factors(self, X: np.ndarray, mean: np.ndarray, variance: np.ndarray, noise: float) -> np.ndarray:
        """How many times as wide as the plain ones the error bars are, shape (T, outputs)."""
        stds = [each.std for each in self.predictions(X, mean, variance, noise)]
        return np.column_stack(stds) / np.sqrt(variance + noise)


def error_bars(models: list[Model], recalibrate: Any, seed: int) -> ErrorBars:
    """The models of the outputs with the error bars that ``recalibrate`` asks for: False, True or "auto"."""
    if not (isinstance(recalibrate, (bool, np.bool_)) or recalibrate == "auto"):
        raise InputError(f'recalibrate must be True, False or "auto", got {recalibrate!r}')
    if recalibrate == "auto":
        return _where_needed(models, seed)
    if not recalibrate:
        return ErrorBars([*models], "")
    mended = [model.recalibrated(seed=seed, progress=False) for model in models]
    return ErrorBars([*mended], " The error bars are recalibrated by left-out predictions.")


def _where_needed(models: list[Model], seed: int) -> ErrorBars:
    from ..recalibration.diagnosis import FEW, diagnose
    from ..support.numbers import coverage_percent

    n = len(models[0].y)
    if n < FEW:
        return ErrorBars(
            [*models], f" {n} observations are too few to judge the error bars: they are those of the prior."
        )
    chosen: list[Model | LayeredModel] = []
    sentences = []
    for model in models:
        judged = diagnose(model.left_out(n=min(n, _JUDGED), seed=seed, progress=False).z)
        hold = {each.level: coverage_percent(each.found) for each in judged.coverage}
        chosen.append(model if judged.right else model.recalibrated(seed=seed, progress=False))
        done = "are recalibrated" if isinstance(chosen[-1], RecalibratedModel) else "stay as they are"
        said = f"Left-out predictions: 50% intervals hold {hold[0.5]}, 95% hold {hold[0.95]}: the error bars {done}."
        sentences.append(said)
    return ErrorBars(chosen, " " + " ".join(sentences))

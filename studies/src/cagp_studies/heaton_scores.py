"""The scores of the competition: this is the only place where predictions and test values meet."""

from __future__ import annotations

from typing import Any

import numpy as np

from cagp.calibration import evaluate, score
from cagp.prediction import Prediction
from cagp.support.validation import ArrayLike


def scores_of(prediction: Prediction, truth: np.ndarray) -> dict[str, float]:
    """Averages over the places where the ``truth`` (T,) is known, for a prediction of observations.

    ``crps``, ``interval_score`` (of central 95% intervals) and coverages are those of the predicted distributions.
    The competition scored every method as normal with its mean and standard deviation: ``normal_…`` do the same.
    """
    known = np.isfinite(truth)
    mean, std = (np.asarray(each)[known] for each in (prediction.mean, prediction.std))
    normal = score(mean, std, truth[known])
    if prediction.is_normal:
        own = normal
    else:
        own = evaluate(prediction if known.all() else _Somewhere(prediction, known), truth[known], "observed")
    return {
        "scored": int(known.sum()),
        "mae": float(np.abs(own.error).mean()),
        "rmse": own.rmse,
        "crps": own.crps,
        "interval_score": own.interval_score,
        "holds_50": own.coverage(0.5),
        "holds_80": own.coverage(0.8),
        "holds_95": own.coverage(0.95),
        "log_score": own.log_score,
        "normal_crps": normal.crps,
        "normal_interval_score": normal.interval_score,
        "normal_holds_95": normal.coverage(0.95),
    }


class _Somewhere(Prediction):
    """A prediction at some of its places: those ``chosen``, boolean (T,)."""

    def __init__(self, whole: Prediction, chosen: np.ndarray) -> None:
        self._whole, self._chosen = whole, chosen
        self.status, self.guarantee, self.includes_noise = whole.status, whole.guarantee, whole.includes_noise

    def __len__(self) -> int:
        return int(self._chosen.sum())

    @property
    def is_normal(self) -> bool:
        return self._whole.is_normal

    @property
    def mean(self) -> Any:
        return self._whole.mean[self._chosen]

    @property
    def std(self) -> Any:
        return self._whole.std[self._chosen]

    def quantile(self, p: ArrayLike) -> Any:
        return self._whole.quantile(p)[self._chosen]

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        lower, upper = self._whole.interval(level)
        return lower[self._chosen], upper[self._chosen]

    def cdf(self, values: ArrayLike) -> Any:
        return self._whole.cdf(self._everywhere(values))[self._chosen]

    def log_density(self, values: ArrayLike) -> Any:
        return self._whole.log_density(self._everywhere(values))[self._chosen]

    def _everywhere(self, values: ArrayLike) -> np.ndarray:
        """The ``values`` at the chosen places, and the mean, which will not be looked at, at the others."""
        filled = np.array(self._whole.mean)
        filled[self._chosen] = values
        return filled

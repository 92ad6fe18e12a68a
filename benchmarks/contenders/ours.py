"""cagp as a contender: the front door as it is, the front door with one kernel, and the field's own parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .contender import Contender, Predict, Scores
from .problems import LENGTHSCALE, NOISE_VARIANCE, VARIANCE


@dataclass(frozen=True)
class Ours:
    """A prediction of observations by cagp, which need not be normal, and the model and points that it came from."""

    prediction: Any
    model: Any
    X_test: np.ndarray

    def scores(self, y: np.ndarray, chosen: np.ndarray) -> Scores:
        from cagp.calibration import evaluate

        some = self.prediction if chosen.all() else self.model.predict(self.X_test[chosen], progress=False).observed()
        found = evaluate(some, y[chosen], "observed")
        half, most = found.coverage([0.5, 0.95])
        return {"rmse": float(found.rmse), "crps": float(found.crps), "50": float(half), "95": float(most)}


def _predicts(model: Any) -> Predict:
    def predict(X_test: np.ndarray) -> Ours:
        prediction = model.predict(X_test, progress=False).observed()
        prediction.interval(0.95)  # whatever waits until somebody asks is computed here
        return Ours(prediction, model, X_test)

    return predict


def front_door(X: np.ndarray, y: np.ndarray) -> Predict:
    import cagp

    return _predicts(cagp.fit(X, y, progress=False))


def one_kernel(X: np.ndarray, y: np.ndarray) -> Predict:
    import cagp

    plain: dict[str, Any] = {"mixture": False, "uncertainty": False, "recalibrate": False, "transform": None}
    plain |= {"varying": False, "rotate": False}
    return _predicts(cagp.fit(X, y, kernel="matern32", mean="constant", progress=False, **plain))


def true_parameters(X: np.ndarray, y: np.ndarray) -> Predict:
    import cagp

    prior = cagp.Prior(cagp.Matern32(LENGTHSCALE, VARIANCE), noise_variance=NOISE_VARIANCE)
    return _predicts(prior.condition(X, y, cagp.NearestNeighbours(200)))


CONTENDERS = (
    Contender("cagp", "cagp, `cagp.fit(X, y)`", "cagp", front_door, "Nothing was set."),
    Contender(
        "cagp-matern32",
        "cagp, one kernel",
        "cagp",
        one_kernel,
        "`cagp.fit` with Matérn 3/2, a constant trend, and no mixture, integration over hyperparameters, "
        "recalibration or transform: the same model as most of the others fit.",
    ),
    Contender(
        "truth",
        "the true parameters",
        "cagp",
        true_parameters,
        "Not a contender: the parameters that the field was drawn with, predicted by `cagp.NearestNeighbours(200)`. "
        "About the lowest CRPS that one can expect, up to chance.",
        on_tables=False,
    ),
)

"""Gradient-boosted trees: scikit-learn's with quantile losses, and MAPIE's conformal intervals around them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .contender import TABLE, Contender, Predict, Quantiles

CENTRAL = (0.2, 0.4, 0.5, 0.6, 0.8, 0.9, 0.95)
"""Central intervals whose bounds are predicted; with the median they are fifteen quantiles."""

QUANTILES = np.sort([0.5, *((1 + sign * level) / 2 for level in CENTRAL for sign in (-1, 1))])


def _trees(loss: str, quantile: float | None = None) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    # as many trees as a held-out tenth of the rows asks for
    return HistGradientBoostingRegressor(
        loss=loss, quantile=quantile, max_iter=1_000, early_stopping=True, random_state=0
    )


def boosted(X: np.ndarray, y: np.ndarray) -> Predict:
    mean = _trees("squared_error").fit(X, y)
    models = [_trees("quantile", level).fit(X, y) for level in QUANTILES]

    def predict(X_test: np.ndarray) -> Quantiles:
        return Quantiles(mean.predict(X_test), QUANTILES, np.stack([each.predict(X_test) for each in models]))

    return predict


def conformal(X: np.ndarray, y: np.ndarray) -> Predict:
    from mapie.regression import ConformalizedQuantileRegressor
    from sklearn.model_selection import train_test_split

    mean = _trees("squared_error").fit(X, y)
    X_fit, X_kept, y_fit, y_kept = train_test_split(X, y, test_size=0.25, random_state=0)
    models = [
        ConformalizedQuantileRegressor(_trees("quantile"), confidence_level=level)
        .fit(X_fit, y_fit)
        .conformalize(X_kept, y_kept)
        for level in CENTRAL
    ]

    def predict(X_test: np.ndarray) -> Quantiles:
        found = [each.predict_interval(X_test) for each in models]
        bounds = [intervals[:, side, 0] for _, intervals in found for side in (0, 1)]
        levels = np.array([(1 + sign * level) / 2 for level in CENTRAL for sign in (-1, 1)] + [0.5])
        order = np.argsort(levels)
        return Quantiles(mean.predict(X_test), levels[order], np.stack([*bounds, found[0][0]])[order])

    return predict


CONTENDERS = (
    Contender(
        "trees",
        "scikit-learn, boosted trees",
        "scikit-learn",
        boosted,
        f"`HistGradientBoostingRegressor`, {len(QUANTILES)} models of quantiles and one of the mean, stopped early.",
        kinds=(TABLE,),
    ),
    Contender(
        "mapie",
        "MAPIE around boosted trees",
        "MAPIE",
        conformal,
        f"`ConformalizedQuantileRegressor` at {len(CENTRAL)} levels; a quarter of the rows conformalises.",
        kinds=(TABLE,),
        warm_up_rows=400,  # of 100 rows a quarter is too few for an interval of 95%
    ),
)

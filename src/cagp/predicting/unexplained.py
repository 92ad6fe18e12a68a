"""New observations that no error bar of a model explains: a slipped decimal, a code for what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..solvers import NearestNeighbours
from ..support.numbers import datum
from ..support.validation import ArrayLike, as_float64

UNEXPLAINED = 10.0
"""Further out, in predicted standard deviations, a new observation is not explained by any error bar."""

_OF_SPREAD = 1.0  # of the observations: nearer, the error bars of a prior made by hand may be what is wrong
_LOOKED_AT, _NAMED = 1000, 5


def told_of_unexplained(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    noise_variance: Any = None,
    place: Callable[[int], str] = "row {} (counted from 0)".format,
) -> str:
    """What is to be said of new observations y (m,) at X (m, p) that lie too far from what the model predicts.

    Of many a thousand are looked at, half of them the most extreme; ``place`` is where a row is found.
    """
    X, y = as_float64(X, "X", model.device), as_float64(y, "y", model.device)
    values = y.cpu().numpy()
    extreme = np.argsort(-np.abs(values - np.median(values)), kind="stable")
    few = extreme[: _LOOKED_AT // 2], np.random.default_rng(0).permutation(extreme[_LOOKED_AT // 2 :])
    rows = np.sort(np.concatenate(few)[:_LOOKED_AT])
    noise = None if noise_variance is None else as_float64(noise_variance, "noise_variance")
    noise = noise[rows] if noise is not None and noise.ndim else noise
    chosen = torch.from_numpy(rows).to(model.device)
    given = modelled = y[chosen]
    if model.transform is not None:
        modelled = model.transform.of(given)
    quick = NearestNeighbours()  # another solver may take minutes
    parts = [
        each if isinstance(each.solver, NearestNeighbours) else each.rebuilt(solver=quick, storage="auto")
        for each in model.components
    ]
    predicted = model.replace(components=parts).predict(X[chosen], progress=False).observed(noise)
    off = (modelled - predicted.mixture.mean.to(modelled)).abs().cpu().numpy()
    away = np.abs(np.asarray(torch.as_tensor(predicted.normal_score(given)).cpu()))
    far = np.flatnonzero((away > UNEXPLAINED) & (off > _OF_SPREAD * float(model.components[0].y.std(correction=0))))
    if not len(far):
        return ""
    median, worst = torch.as_tensor(predicted.median).cpu(), far[np.argsort(-away[far], kind="stable")][:_NAMED]
    named = [f"{place(int(rows[i]))} with {datum(values[rows[i]])} for {datum(float(median[i]))}" for i in worst]
    more = f", and {len(far) - len(worst):,} more" if len(far) > len(worst) else ""
    looked = f"{len(far):,} of the {len(rows):,} new observations" + " that were looked at" * (len(rows) < len(values))
    looked = "The new observation" if len(values) == 1 else looked
    return (
        f"{looked} lie{'s' * (len(far) == 1)} further out than {UNEXPLAINED:g} predicted standard "
        f"deviations, which no error bar explains: {', '.join(named)}{more}. Added as they are, such "
        "values spoil predictions around them. Leave them out, or mend them; where they are right, fit "
        "anew to all observations: a fit gives outliers a noise of their own."
    )

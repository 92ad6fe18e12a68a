"""An estimator without a kernel: everything that is not given is chosen by ``cagp.fit``, each output by itself."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..choosing import fit
from ..choosing.options import Options
from ..errors import InputError
from ..hyperparameters.result import warn
from ..model import Model
from ..support.validation import not_negative_each
from .maximum_likelihood import HowToLearn, known_noise, require_noise


def chosen(
    estimator: Any, X: np.ndarray, Y: np.ndarray, noise_variance: Any, like: Any, how: HowToLearn
) -> list[Model]:
    """For each column of Y (n, outputs) the model that ``cagp.fit`` chooses, by the parameters of the estimator."""
    if callable(how.optimizer):
        raise InputError(
            "a callable optimizer needs a scikit-learn kernel, whose theta it can move; leave it out where the kernel "
            "is chosen"
        )
    if estimator.normalize_y and estimator.target_transform not in (None, "auto"):
        raise InputError(
            f"target_transform={estimator.target_transform!r} is for y as it was given, and normalize_y=True changes "
            "it first; leave normalize_y out"
        )
    fit_options = {"n_restarts": how.n_restarts, **how.options}
    names = {each.name: each.metadata["estimator"] for each in dataclasses.fields(Options)}
    options = {name: getattr(estimator, own or name) for name, own in names.items() if own is not None} | {
        "like": like,
        "noise_variance": _noise(estimator, noise_variance, len(X)),
        "likelihood": fit_options.pop("likelihood", "auto"),
        "recalibrate": "auto" if estimator.recalibrate is None else estimator.recalibrate,
        "fit_options": fit_options,
        "seed": how.seed,
        "progress": False,
    }
    fitted = []
    for column in Y.T:
        fitted.append(fit(X, column, **options))
        result = fitted[-1].result
        warn(result if result is not None and not result.converged else None)
    return fitted


def _noise(estimator: Any, given: Any, n: int) -> Any:
    """Where the noise starts, or the known noise of each observation (n,); None where nothing is known."""
    level = estimator.noise_variance if given is None else None
    if estimator.alpha is None and (level is None or np.ndim(level) == 0):
        return level if given is None else not_negative_each(given, "noise_variance", n).numpy()
    if level is not None and np.ndim(level) == 0:
        raise InputError(
            f"alpha={estimator.alpha!r} beside noise_variance={level!r}, one known and one fitted, needs a kernel; "
            "give one, or leave one of the two out"
        )
    known = known_noise(n, alpha=estimator.alpha, noise_variance=level if given is None else given)
    require_noise(known)
    return known

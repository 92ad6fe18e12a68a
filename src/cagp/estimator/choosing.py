"""An estimator without a kernel: everything that is not given is chosen by ``cagp.fit``, each output by itself."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np

from ..choosing import fit
from ..errors import InputError
from ..hyperparameters import FitWarning
from ..mixtures import FittedModel
from ..support.validation import not_negative_each
from .maximum_likelihood import HowToLearn


class Asked(Protocol):
    """The parameters of an estimator that ``cagp.fit`` has as well."""

    kernel: Any
    mean: Any
    noise_variance: Any
    alpha: Any
    solver: Any
    mixture: bool
    uncertainty: Any
    recalibrate: Any
    target_transform: Any
    varying: Any
    globe: Any
    rotate: Any
    condition_options: Any
    normalize_y: bool


def is_names(kernel: Any) -> bool:
    """Whether a kernel is given by its name, or as several names to choose from."""
    return isinstance(kernel, str) or (
        isinstance(kernel, (list, tuple)) and all(isinstance(each, str) for each in kernel)
    )


def chosen(
    asked: Asked, X: np.ndarray, Y: np.ndarray, noise_variance: Any, like: Any, how: HowToLearn
) -> list[FittedModel]:
    """For each column of Y (n, outputs) the model that ``cagp.fit`` chooses, with what the estimator was ``asked``."""
    if callable(how.optimizer):
        raise InputError(
            "a callable optimizer needs a scikit-learn kernel, whose theta it can move; leave it out where the kernel "
            "is chosen"
        )
    if asked.normalize_y and asked.target_transform not in (None, "auto"):
        raise InputError(
            f"target_transform={asked.target_transform!r} is for y as it was given, and normalize_y=True changes it "
            "first; leave normalize_y out"
        )
    options = {"n_restarts": how.n_restarts, **how.options}
    likelihood = options.pop("likelihood", "auto")
    fitted = []
    for column in Y.T:
        fitted.append(
            fit(
                X,
                column,
                like=like,
                kernel=asked.kernel,
                mean=asked.mean,
                noise_variance=_noise(asked, noise_variance, len(X)),
                solver=asked.solver,
                likelihood=likelihood,
                mixture=asked.mixture,
                uncertainty=asked.uncertainty,
                recalibrate="auto" if asked.recalibrate is None else asked.recalibrate,
                transform=asked.target_transform,
                varying=asked.varying,
                globe=asked.globe,
                rotate=asked.rotate,
                fit_options=options,
                condition_options=asked.condition_options,
                seed=how.seed,
                progress=False,
            )
        )
        result = fitted[-1].result
        if result is not None and not result.converged:
            for sentence in result.warnings:
                warnings.warn(sentence, FitWarning, stacklevel=4)
    return fitted


def _noise(asked: Asked, given: Any, n: int) -> Any:
    """Where the noise starts, or the known noise of each observation (n,); None where nothing is known."""
    level = asked.noise_variance if given is None else None
    if asked.alpha is None and (level is None or np.ndim(level) == 0):
        return level if given is None else not_negative_each(given, "noise_variance", n).numpy()
    if level is not None and np.ndim(level) == 0:
        raise InputError(
            f"alpha={asked.alpha!r} beside noise_variance={level!r}, one known and one fitted, needs a kernel; give "
            "one, or leave one of the two out"
        )
    known = np.zeros(n)
    for value, name in ((asked.alpha, "alpha"), (level if given is None else given, "noise_variance")):
        if value is not None:
            known = known + not_negative_each(np.squeeze(value) if np.size(value) == 1 else value, name, n).numpy()
    if not (known > 0).all():
        raise InputError(
            f"alpha and noise_variance leave the observation at index {int(known.argmin())} without noise; give all a "
            "positive noise variance, for data without noise a small one, such as 1e-8 times the variance of y"
        )
    return known

"""Choosing the hyperparameters of an estimator, and saying how it was done.

| when | how |
|---|---|
| at most 2,000 observations | the exact likelihood of all of them |
| more | the nearest-neighbour likelihood, from a sample of its terms |
| fit_options names a likelihood or a subset | that |
| a scikit-learn kernel that cagp has no equal of, or a callable optimizer | scikit-learn's own optimiser, on as many |
"""

from __future__ import annotations

import dataclasses
import numbers
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from ..errors import InputError
from ..hyperparameters import FitResult, FitWarning, fit
from ..hyperparameters.result import told_by_a_constant
from ..hyperparameters.search_space import BOUND_FACTOR
from ..interop.sklearn_kernels import from_sklearn
from ..kernels import Kernel
from .starting_prior import Start

EXACT_POINTS = 2_000
"""Up to this many observations the likelihood is exact on all of them: about half a minute on one core."""

OPTIMIZER = "fmin_l_bfgs_b"

_NO_ALPHA = float(np.finfo(float).tiny)
"""GaussianProcessRegressor wants a positive alpha even where a WhiteKernel is all the noise."""


@dataclass(frozen=True)
class Learned:
    """The hyperparameters that were chosen: those of ``kernel``, and the ``level`` of the noise.

    ``public`` is the kernel in the form in which it was given: scikit-learn's in, scikit-learn's out. ``result`` is
    what the fit found out, where cagp did it; ``message`` says what was done.
    """

    kernel: Kernel
    level: float | None
    public: Any
    result: FitResult | None
    message: str


@dataclass(frozen=True)
class HowToLearn:
    """The parameters of the estimator that are about fitting. ``quiet``: warn only where a fit did not converge."""

    optimizer: str | Callable[..., Any] | None
    n_restarts: int
    seed: int
    options: Mapping[str, Any]
    quiet: bool

    def __post_init__(self) -> None:
        if self.optimizer not in (None, OPTIMIZER) and not callable(self.optimizer):
            raise InputError(
                f"optimizer must be {OPTIMIZER!r}, None, or a callable as GaussianProcessRegressor takes it, "
                f"got {self.optimizer!r}"
            )


def learn(start: Start, X: np.ndarray, Y: np.ndarray, how: HowToLearn) -> Learned:
    """Maximum-likelihood hyperparameters for Y (n, outputs) at X (n, p)."""
    public = start.kernel if start.translation is None else start.translation.source
    if how.optimizer is None:
        return Learned(start.kernel, start.level, public, None, "Nothing was fitted: optimizer=None.")
    if start.translation is not None and (callable(how.optimizer) or any(k.n_dims for k in start.translation.opaque)):
        return _learn_by_sklearn(start, X, Y, how)
    if callable(how.optimizer):
        raise InputError(
            "a callable optimizer needs a scikit-learn kernel, whose theta it can move; "
            f"use optimizer={OPTIMIZER!r} with kernels of cagp"
        )
    free = [name for name in start.kernel.hyperparameter_names() if name not in start.fixed]
    if not free and not start.level_is_free:
        return Learned(start.kernel, start.level, public, None, "Nothing was fitted: all hyperparameters are fixed.")
    settings = _settings(start, len(X), how)
    alone = dataclasses.replace(start, known=np.zeros_like(start.known))  # the known noise goes beside the unknown
    if start.level is None:
        alone = start
    elif start.known.any():
        settings["known_noise"] = start.known
    result = fit(alone.prior(), X, Y if Y.shape[1] > 1 else Y[:, 0], **settings)
    for sentence in () if how.quiet and result.converged else result.warnings:
        warnings.warn(sentence, FitWarning, stacklevel=4)
    if constant := told_by_a_constant(Y, result):
        warnings.warn(constant, FitWarning, stacklevel=4)
    level = None if start.level is None else float(result.prior.noise_variance)
    public = result.prior.kernel
    if start.translation is not None:
        public = start.translation.to_sklearn(result.values, level if start.white else None)
    random = result.size < len(X) and isinstance(settings.get("subset"), numbers.Integral)
    drawn = f", drawn at random (seed {how.seed})" if random else ""
    done = f"Maximum of the {result.likelihood} likelihood of {result.size} of {len(X)} observations{drawn}."
    return Learned(result.prior.kernel, level, public, result, f"{done} {result.message}")


def _settings(start: Start, n: int, how: HowToLearn) -> dict[str, Any]:
    """The options of ``hyperparameters.fit``: the estimator's, under those that were given as ``fit_options``."""
    given = dict(how.options)
    fix = given.pop("fix", ())
    held = () if start.level is None or start.level_is_free else ("noise_variance",)
    settings: dict[str, Any] = {
        "n_restarts": how.n_restarts,
        "seed": how.seed,
        "standard_errors": False,
        "progress": False,
        "fix": (*([fix] if isinstance(fix, str) else fix), *start.fixed, *held),
        "fix_noise": start.level is None,
        "bounds": {**start.bounds, **(given.pop("bounds", None) or {})},
    }
    if "likelihood" not in given and "subset" not in given and n > EXACT_POINTS:
        settings["likelihood"] = "nearest-neighbours"
    return {**settings, **given}


# --- the scikit-learn fallback: its own Gaussian process, for what only it can do: differentiate its kernels ----------


def _learn_by_sklearn(start: Start, X: np.ndarray, Y: np.ndarray, how: HowToLearn) -> Learned:
    """Hyperparameters by scikit-learn's optimiser, on a random subset where there are many observations."""
    assert start.translation is not None
    unknown = sorted(set(how.options) - {"subset"})
    if unknown:
        raise InputError(
            f"fit_options has {', '.join(map(repr, unknown))}, but this kernel is fitted by scikit-learn, since cagp "
            "has no equal of it or the optimizer is a callable; only a number as 'subset' can be given"
        )
    size = how.options.get("subset") or EXACT_POINTS
    rows = np.arange(len(X))
    if size < len(X):
        rows = np.sort(np.random.default_rng(how.seed).choice(len(X), size, replace=False))
    kernel, separate = start.translation.source, False
    if start.level is not None and not start.white:  # noise_variance beside a kernel without WhiteKernel
        bounds = (start.level / BOUND_FACTOR, start.level * BOUND_FACTOR)
        kernel, separate = kernel + WhiteKernel(start.level, bounds), True
    theirs = GaussianProcessRegressor(
        kernel,
        alpha=_alpha(start.known[rows]),
        optimizer=how.optimizer,
        n_restarts_optimizer=how.n_restarts,
        random_state=how.seed,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        theirs.fit(X[rows], _residuals(start, X[rows], Y[rows]))
    for warning in caught:
        category = FitWarning if issubclass(warning.category, ConvergenceWarning) else warning.category
        warnings.warn(str(warning.message), category, stacklevel=5)
    found = from_sklearn(theirs.kernel_, X.shape[1])
    assert found.kernel is not None
    drawn = f", drawn at random (seed {how.seed})" if len(rows) < len(X) else ""
    message = (
        f"Maximum of the exact likelihood of {len(rows)} of {len(X)} observations{drawn}, found by scikit-learn's "
        f"optimiser: log p = {theirs.log_marginal_likelihood_value_:.6g}."
    )
    level = None if start.level is None else found.noise_variance
    return Learned(found.kernel, level, theirs.kernel_.k1 if separate else theirs.kernel_, None, message)


def log_likelihood_at(
    start: Start, noise: Any, kernel: Any, X: np.ndarray, Y: np.ndarray, theta: np.ndarray, eval_gradient: bool
) -> Any:
    """The exact log-likelihood at scikit-learn's ``theta`` (q,), and its gradient (q,) where it is asked for.

    ``noise``, one number or one per observation, is what the kernel has not in a WhiteKernel.
    """
    theirs = GaussianProcessRegressor(kernel, alpha=_alpha(noise))
    theirs.kernel_, theirs.X_train_, theirs.y_train_ = kernel, X, _residuals(start, X, Y)
    return theirs.log_marginal_likelihood(theta, eval_gradient=eval_gradient)


def _residuals(start: Start, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Y (n, outputs) less the prior mean at X (n, p): scikit-learn's prior has the mean zero."""
    points = torch.from_numpy(X)
    columns = [torch.from_numpy(np.ascontiguousarray(y)) for y in Y.T]
    return np.column_stack([(y - start.mean.fit(points, y)(points)).numpy() for y in columns])


def _alpha(noise: Any) -> Any:
    return noise if np.any(noise) else _NO_ALPHA

"""From the parameters of the estimator and the data to a prior: a fit starts from it, and before that it predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.gaussian_process.kernels import Kernel as SklearnKernel

from ..errors import InputError, InputTypeError
from ..hyperparameters.starting_prior import (
    NOISE_SHARE,
    Group,
    lengthscale_bounds,
    scale_of,
    starting_kernel,
    starting_lengthscale,
)
from ..interop.sklearn_kernels import Translation, from_sklearn
from ..kernels import Kernel
from ..means import Constant, Mean, Zero, as_mean
from ..prior import Prior
from ..support.validation import not_negative_each, positive

SKLEARN_ALPHA = 1e-10
"""What GaussianProcessRegressor adds to the diagonal unless it is told otherwise."""


@dataclass(frozen=True)
class Start:
    """A prior to start from.

    ``level`` is the part of the noise that is one unknown number, fitted where ``level_is_free``, or None; ``known``
    (n,) the part that is known. ``white`` says that ``level`` comes from a WhiteKernel, which scikit-learn counts as
    part of the function. ``fixed`` and ``bounds`` are for ``hyperparameters.fit``.
    """

    kernel: Kernel
    mean: Mean
    level: float | None
    level_is_free: bool
    known: np.ndarray
    white: bool
    translation: Translation | None
    fixed: tuple[str, ...]
    bounds: Mapping[str, tuple[float, float]]

    def prior(self, kernel: Kernel | None = None, level: float | None = None) -> Prior:
        """The prior, with another kernel and level of noise where they are given."""
        first = self.level if level is None else level
        total = self.known if first is None else self.known + first
        noise: Any = float(total[0]) if (total == total[0]).all() else total
        return Prior(self.kernel if kernel is None else kernel, mean=self.mean, noise_variance=noise)


def start_from(
    kernel: Any, mean: Any, noise_variance: Any, alpha: Any, X: np.ndarray, y: np.ndarray, given_noise: Any = None
) -> Start:
    """What a fit to X (n, p) and y (n, outputs) starts from; ``given_noise`` is what was handed to ``fit``."""
    n, p = X.shape
    translation = None
    if isinstance(kernel, SklearnKernel):
        translation = from_sklearn(kernel, p)
        if translation.kernel is None:
            raise InputError(f"the kernel {kernel} is noise and no function; add a kernel such as RBF()")
    elif kernel is not None and not isinstance(kernel, Kernel):
        raise InputTypeError(f"kernel must be a kernel of cagp or of scikit-learn, or None, got {kernel!r}")
    if alpha is None and translation is not None and noise_variance is None and given_noise is None:
        alpha = SKLEARN_ALPHA
    known = np.zeros(n)
    for value, name in ((alpha, "alpha"), (given_noise, "noise_variance")):
        if value is not None:
            known = known + not_negative_each(np.squeeze(value) if np.size(value) == 1 else value, name, n).numpy()
    level, free = None, False
    if noise_variance is not None and given_noise is None:
        if np.ndim(noise_variance):
            known = known + not_negative_each(noise_variance, "noise_variance", n).numpy()
        else:
            level, free = positive(noise_variance, "noise_variance"), True
    white = translation is not None and translation.noise_variance > 0
    if white and noise_variance is not None:
        raise InputError(
            f"noise_variance={noise_variance!r} is given, and the kernel {kernel} has its noise in a WhiteKernel; "
            "leave one of them out, or give known noise as alpha"
        )
    scale = scale_of(y)
    if translation is not None:
        if white:
            level, free = translation.noise_variance, translation.noise_is_free
        assert translation.kernel is not None
        bounds = dict(translation.bounds)
        if white and free:
            bounds["noise_variance"] = translation.noise_bounds
        start_kernel, fixed = translation.kernel, translation.fixed
    elif kernel is None:
        start_kernel, fixed = starting_kernel([Group(None, starting_lengthscale(X, share=1.0))], scale)
        bounds = lengthscale_bounds(X)
    else:
        start_kernel, fixed, bounds = kernel, (), {}
    if level is None and noise_variance is None and alpha is None and given_noise is None:
        level, free = NOISE_SHARE * scale, True
    if level is None and not (known > 0).all():
        raise InputError(
            f"alpha and noise_variance leave the observation at index {int(known.argmin())} without noise; give all a "
            "positive noise variance, for data without noise a small one, such as 1e-8 times the variance of y"
        )
    chosen = as_mean(mean) if mean is not None else Constant() if kernel is None else Zero()
    return Start(start_kernel, chosen, level, free, known, white, translation, fixed, bounds)


def prior_mean(prior: Prior, X: np.ndarray) -> np.ndarray:
    """m₀ at the points X (n, p), shape (n,), before any data; zero where it is unknown."""
    points = torch.from_numpy(X)
    return (torch.zeros(len(X)).double() if prior.mean.unknown else prior.mean(points)).numpy()


def prior_prediction(
    start: Start, X: np.ndarray, outputs: int, return_std: bool, return_cov: bool, of: str | None
) -> Any:
    """What an estimator with a kernel says before it has seen data: the prior at X (T, p), the same for all outputs."""
    prior = start.prior()
    noise = {None: start.level if start.white else 0.0, "latent": 0.0}.get(of, prior.noise_variance)

    def for_all(values: np.ndarray) -> np.ndarray:
        return squeezed(np.repeat(values[..., None], outputs, axis=-1))

    mean = for_all(prior_mean(prior, X))
    if return_cov:
        return mean, for_all(prior.kernel(X) + np.eye(len(X)) * noise)
    if return_std:
        points = torch.from_numpy(X)
        variance = prior.kernel.diagonal(prior.kernel.embed(points, points.mean(dim=0))).numpy()
        return mean, for_all(np.sqrt(variance + noise))
    return mean


def squeezed(array: np.ndarray) -> np.ndarray:
    """Without the last axis where there is one output."""
    return array[..., 0] if array.shape[-1] == 1 else array

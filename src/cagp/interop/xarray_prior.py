"""The prior for a gridded field: the given one, or a default, fitted where that was asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import reduce
from operator import mul
from typing import Any

import numpy as np

from ..errors import InputError, InputTypeError
from ..kernels import Geographic, Kernel, Matern32
from ..means import Constant
from ..prior import Prior
from .xarray_coordinates import Axis

_SUBSET = 500


def prepared_prior(
    prior: Prior | None,
    X: np.ndarray,
    y: np.ndarray,
    axes: tuple[Axis, ...],
    noise: Any,
    fit: bool | Mapping[str, Any] | None,
) -> Prior:
    """The prior to condition on y (n,) at X (n, p), with this noise; ``fit`` is that of ``condition``."""
    options: dict[str, Any] = {}
    if prior is None:
        if fit is False:
            raise InputError("without a prior there is nothing to condition; give one, or leave fit=False out")
        prior, fixed = _default_prior(X, y, axes)
        options = {"subset": min(_SUBSET, len(y)), "fix": fixed}
        fit = True if fit is None else fit
    elif not isinstance(prior, Prior):
        raise InputTypeError(f"prior must be a cagp.Prior, got {prior!r}")
    if noise is not None:
        prior = dataclasses.replace(prior, noise_variance=noise)
        options["fix_noise"] = True
    if fit is None or fit is False:
        return prior
    return prior.fit(X, y, **{**options, **(fit if isinstance(fit, Mapping) else {})})


def _default_prior(X: np.ndarray, y: np.ndarray, axes: tuple[Axis, ...]) -> tuple[Prior, list[str]]:
    """Where a fit starts without a prior, and the hyperparameters it must hold: one variance is enough.

    One kernel on the globe, one on all coordinates that are just numbers, with a lengthscale each, one for each time.
    """
    variance = float(np.var(y))
    if not variance > 0:
        raise InputError("the field is constant, which no hyperparameters can be fitted to; give a prior")
    flat = [axis.name for axis, spread in zip(axes, np.std(X, axis=0), strict=True) if not spread > 0]
    if flat:
        raise InputError(
            f"all observations have the same {flat}, so no lengthscale can be fitted; leave it out of coords"
        )
    roles = [axis.role for axis in axes]
    globe = tuple(roles.index(role) for role in ("latitude", "longitude") if role in roles)
    parts: list[Kernel] = []
    if len(globe) == 2:
        parts.append(Geographic(Matern32(0.1)).on(*globe))
    times = [column for column, role in enumerate(roles) if role == "time"]
    numbers = [c for c in range(len(axes)) if c not in times and not (len(globe) == 2 and c in globe)]
    for columns in ([numbers] if numbers else []) + [[column] for column in times]:
        lengthscales = tuple(float(np.std(X[:, column])) / 2 for column in columns)
        parts.append(Matern32(lengthscales if len(columns) > 1 else lengthscales[0]).on(*columns))
    kernel = reduce(mul, [parts[0].scaled(variance), *parts[1:]])
    fixed = [f"kernel.kernels[{i}].kernel.variance" for i in range(1, len(parts))]
    return Prior(kernel, mean=Constant(), noise_variance=0.01 * variance), fixed

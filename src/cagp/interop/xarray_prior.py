"""The prior for a gridded field: the given one, or a default, fitted where that was asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import InputError, InputTypeError
from ..hyperparameters.starting_prior import Group, starting_kernel, starting_lengthscale
from ..means import Constant
from ..prior import Prior
from .xarray_coordinates import Axis

_SUBSET = 500

_GLOBE_LENGTHSCALE = 0.1
"""In Earth radii: about 640 km."""

_SPREAD_SHARE = 0.5
"""Of each coordinate by itself: a field has few, so that distances do not grow with their number."""

_NOISE_SHARE = 0.01
"""Fields are smooth and mostly exact: a hundredth of their variance is noise at first."""


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
        prior, held = _default_prior(X, y, axes)
        options = {"subset": min(_SUBSET, len(y)), "fix": held}
        fit = True if fit is None else fit
    elif not isinstance(prior, Prior):
        raise InputTypeError(f"prior must be a cagp.Prior, got {prior!r}")
    if noise is not None:
        prior = dataclasses.replace(prior, noise_variance=noise)
        options["fix_noise"] = True
    if fit is None or fit is False:
        return prior
    return prior.fit(X, y, **{**options, **(fit if isinstance(fit, Mapping) else {})})


def _default_prior(X: np.ndarray, y: np.ndarray, axes: tuple[Axis, ...]) -> tuple[Prior, tuple[str, ...]]:
    """Where a fit starts without a prior, and the hyperparameters it must hold: one variance is enough."""
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
    groups = [Group(globe, _GLOBE_LENGTHSCALE, radius=1.0)] if len(globe) == 2 else []
    times = [column for column, role in enumerate(roles) if role == "time"]
    numbers = [c for c in range(len(axes)) if c not in times and not (groups and c in globe)]
    alike = ([numbers] if numbers else []) + [[column] for column in times]
    for columns in alike:
        share = _SPREAD_SHARE / len(columns) ** 0.5
        groups += [Group(tuple(columns), starting_lengthscale(X[:, columns], share))]
    kernel, held = starting_kernel(groups, variance)
    return Prior(kernel, mean=Constant(), noise_variance=_NOISE_SHARE * variance), held

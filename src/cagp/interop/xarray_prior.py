"""The prior that was given for a gridded field, with the noise of the field, fitted where that was asked for."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ..errors import InputTypeError
from ..prior import Prior
from .xarray_observations import Observed


def prepared_prior(prior: Prior, seen: Observed, fit: bool | Mapping[str, Any] | None) -> Prior:
    """The prior to condition on the observations; ``fit`` is that of ``condition``."""
    if not isinstance(prior, Prior):
        raise InputTypeError(f"prior must be a cagp.Prior, got {prior!r}")
    options: dict[str, Any] = {}
    if seen.noise is not None:
        prior = dataclasses.replace(prior, noise_variance=seen.noise)
        options["fix_noise"] = True
    if fit is None or fit is False:
        return prior
    return prior.fit(seen.X, seen.y, **{**options, **(fit if isinstance(fit, Mapping) else {})})

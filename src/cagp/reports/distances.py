"""Distances in a unit that a reader knows, where all lengthscales have that unit: on the globe, or the same ones."""

from __future__ import annotations

import numpy as np
import torch

from ..kernels import EARTH_RADIUS, geographic_columns
from ..kernels.geographic import unit_sphere
from ..predicting.conditioned import Conditioned
from ..support.convert import array
from .names import Names

_PAIRS, _ALIKE = 500, 1e-3  # so many pairs of points show whether distances are proportional, up to rounding


def readable(distance: np.ndarray, component: Conditioned, names: Names) -> tuple[np.ndarray, str]:
    """Distances (n,) in lengthscales in kilometres, or in the unit of the columns, and that unit in words.

    They stay as they are where the lengthscales of a component differ, and no number says how far that is.
    """
    X = component.X[:, : len(names.features or ()) or None]  # without the number of a quantity
    columns = range(X.shape[1])
    globe = geographic_columns(component.prior.kernel, columns)
    if globe and set(globe[0]) == set(columns):
        known, unit = EARTH_RADIUS * unit_sphere(X[:, list(globe[0])]), "km"
    else:
        known, unit = X, names.common_unit(columns)
        if not unit and any(map(names.unit, columns)):
            return distance, "lengthscales"
    lengthscale = _proportion(component, known)
    if lengthscale is None:
        return distance, "lengthscales"
    found = distance * lengthscale
    if unit == "km":  # along the surface, not through it
        found = 2 * EARTH_RADIUS * np.arcsin(np.minimum(found / (2 * EARTH_RADIUS), 1.0))
    return found, unit or "unit of the columns"


def _proportion(component: Conditioned, known: torch.Tensor) -> float | None:
    """How long one lengthscale is in the coordinates ``known`` (d, q); None where that depends on the direction."""
    scaled = component.gram.search_coordinates()
    if scaled is None:
        return None
    first, second = np.random.default_rng(0).integers(len(known), size=(2, _PAIRS))
    between, told = (array((each[first] - each[second]).double().norm(dim=1)) for each in (known, scaled))
    apart = (between > 0) & (told > 0)
    proportions = between[apart] / told[apart]
    if not len(proportions) or np.ptp(proportions) > _ALIKE * proportions.mean():
        return None
    return float(np.median(proportions))

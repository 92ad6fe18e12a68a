"""A gridded field as observations: points, values and noise, without what is missing or a copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError, InputTypeError
from .xarray_coordinates import Axis, copies, find_axes
from .xarray_metadata import Source


@dataclass(frozen=True, eq=False)
class Observed:
    """Values y (n,) at X (n, p), whose columns are the ``axes``; ``noise`` is one variance, one each (n,), or None."""

    axes: tuple[Axis, ...]
    X: np.ndarray
    y: np.ndarray
    noise: Any
    source: Source

    @property
    def longitudes(self) -> tuple[float, float] | None:
        """Between which longitudes they lie, as they are written; None without any."""
        roles = [axis.role for axis in self.axes]
        if "longitude" not in roles:
            return None
        column = self.X[:, roles.index("longitude")]
        return float(column.min()), float(column.max())

    def require_variation(self) -> None:
        """Refuse what no hyperparameters can be fitted to."""
        if not float(np.var(self.y)) > 0:
            raise InputError("the field is constant, which no hyperparameters can be fitted to; give a prior")
        flat = [axis.name for axis, spread in zip(self.axes, np.std(self.X, axis=0), strict=True) if not spread > 0]
        if flat:
            raise InputError(
                f"all observations have the same {flat}, so no lengthscale can be fitted; leave it out of coords"
            )


def observed(field: Any, coords: Sequence[str] | None, time_unit: str, noise_variance: Any) -> Observed:
    """The observations in a field; the arguments are those of ``condition``."""
    if not isinstance(field, xr.DataArray):
        remedy = 'choose a variable: dataset["t2m"]' if isinstance(field, xr.Dataset) else "pass a DataArray"
        raise InputTypeError(f"field must be an xarray DataArray, got {type(field).__name__}; {remedy}")
    if field.dtype.kind not in "fiu":
        raise InputTypeError(f"field has type {field.dtype}, which is not a real number; convert it with astype(float)")
    axes = find_axes(field, coords, time_unit)
    flat = _flattened(field, axes)
    noise = None if noise_variance is None else _noise_like(noise_variance, flat)
    X, y = _observations(flat, axes)
    present = ~np.isnan(y)
    if not present.any():
        raise InputError(f"all {y.size} values of the field are NaN; there is nothing to condition on")
    kept = present.copy()
    kept[present] = ~copies(X[present], y[present], axes)
    source = Source(
        name=str(field.name if field.name is not None else "field"),
        attributes=dict(field.attrs),
        missing=int((~present).sum()),
        copies=int((present & ~kept).sum()),
    )
    noise = noise if noise is None or np.ndim(noise) == 0 else noise[kept]
    return Observed(axes, X[kept], y[kept], noise, source)


def _flattened(field: xr.DataArray, axes: tuple[Axis, ...]) -> xr.DataArray:
    """The field without dimensions of size one that no coordinate belongs to."""
    covered = {dim for axis in axes for dim in field.coords[axis.name].dims}
    spare = [dim for dim in field.dims if dim not in covered]
    long = [str(dim) for dim in spare if field.sizes[dim] != 1]
    if long:
        names = tuple(axis.name for axis in axes)
        raise InputError(
            f"the field also varies along {long}, which coords={names} leaves out; add a coordinate along it to "
            f"coords, or choose one: field.isel({long[0]}=0)"
        )
    return field.squeeze(spare, drop=True)


def _observations(flat: xr.DataArray, axes: tuple[Axis, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, p) and values (n,), NaN included, in the order of the array."""
    template = flat.variable
    columns = []
    for axis in axes:
        coordinate = flat.coords[axis.name].variable
        numbers = xr.Variable(coordinate.dims, axis.numbers(coordinate.values))
        columns.append(numbers.set_dims(dict(template.sizes)).values.ravel())
    return np.column_stack(columns), np.asarray(template.values, dtype=np.float64).ravel()


def _noise_like(noise: Any, flat: xr.DataArray) -> Any:
    """One number, or one per value of the field, shape (n,)."""
    if isinstance(noise, xr.DataArray):
        try:
            same, _ = xr.align(noise, flat, join="exact")
            values = same.variable.set_dims(dict(flat.sizes)).transpose(*flat.dims).values
        except ValueError as error:
            raise InputError(f"noise_variance does not have the coordinates of the field: {error}") from error
        return values.ravel()
    if np.ndim(noise) == 0:
        return noise
    if np.shape(noise) != flat.shape:
        raise InputError(f"noise_variance has shape {np.shape(noise)}, the field has {flat.shape}; give one value each")
    return np.asarray(noise).ravel()

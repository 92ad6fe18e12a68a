"""Means over regions of a grid: which cells belong to which, what a cell counts, and the result with its metadata."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from ..errors import InputError
from .xarray_coordinates import Gridded
from .xarray_metadata import Source, provenance, variable_attributes
from .xarray_prediction import Request

REGION = "region"


def average_on(
    request: Request,
    source: Source,
    grid: Gridded,
    by: xr.DataArray | str | Mapping[str, Any] | None,
    weights: xr.DataArray | str,
    covariance: bool,
    progress: bool | None,
) -> xr.Dataset:
    """The data set with the means over regions of ``grid``."""
    if isinstance(by, Mapping):
        try:
            grid, by = grid.sel(dict(by)), None
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise InputError(f"by={by!r} chooses nothing that the grid has: {error}") from error
    columns, coordinates, dims = request.columns.within(grid)
    points, shape = columns.points(coordinate.values for coordinate in coordinates)
    sizes = dict(zip(dims, shape, strict=True))
    labels, name = _labels(grid, by, sizes)
    each = _cell_weights(request, weights, grid, points, sizes)
    single = labels is None or labels.dtype.kind == "b"
    inside = (True if labels is None else labels if single else pd.notna(labels)) & (each != 0)
    if not inside.any():
        raise InputError("no cell of the grid lies in a region and has a weight; choose another by, or other weights")
    groups = np.zeros(int(inside.sum()), dtype=np.int64) if single or labels is None else labels[inside]
    found = request.model.average(points[inside], each[inside], by=groups, progress=progress)
    if found.status.reason == "interrupted":
        raise KeyboardInterrupt
    if request.observed:
        found = found.observed(request.noise)  # type: ignore[assignment]
    along: tuple[Hashable, ...] = () if single else (name,)
    values = dict(zip(request.names, request.statistics(found, (-1,)).T, strict=True))
    counts = np.unique(groups, return_counts=True)[1]
    dataset = xr.Dataset(coords={} if single else {name: found.groups})
    for what, numbers in values.items():
        attributes = variable_attributes(source, what, request.level, request.observed)
        said = {**attributes, "cell_methods": "area: mean"} if what != "std" else attributes
        dataset[what] = xr.Variable(along, numbers[0] if single else numbers, said)
    dataset["cells"] = xr.Variable(
        along, counts[0] if single else counts, {"long_name": "cells of the grid", "units": "1"}
    )
    if covariance and not single:
        dataset["covariance"] = xr.Variable((name, f"other_{name}"), np.asarray(found.covariance()))
        dataset.coords[f"other_{name}"] = (f"other_{name}", found.groups)
    dataset.attrs = provenance(source, request.model, request.observed, str(found.status))
    dataset.attrs["cagp_guarantee"] = f"{found.guarantee.kind}: {found.guarantee}"
    dataset.attrs["cagp_weights"] = weights if isinstance(weights, str) else "given"
    return dataset


def _labels(
    grid: Gridded, by: xr.DataArray | str | None, sizes: Mapping[Hashable, int]
) -> tuple[np.ndarray | None, str]:
    """The label of every cell, flat, None where there are none, and what the labels are called."""
    if by is None:
        return None, REGION
    if isinstance(by, str):
        known = set(grid.coords) | (set(grid.data_vars) if isinstance(grid, xr.Dataset) else set())
        if by not in known:
            raise InputError(f"by: the grid has no variable or coordinate {by!r}, it has {sorted(map(str, known))}")
        by = grid[by]
    if not isinstance(by, xr.DataArray):
        raise InputError(f"by must be a DataArray of labels, the name of one, or a mapping, got {type(by).__name__}")
    name = REGION if by.name is None or by.name in sizes else str(by.name)
    return _flat(by, grid, sizes, "by"), name


def _flat(array: xr.DataArray, grid: Gridded, sizes: Mapping[Hashable, int], name: str) -> np.ndarray:
    """The values of an array at all cells, in the order of the points."""
    spare = [dim for dim in array.dims if dim not in sizes]
    if any(array.sizes[dim] != 1 for dim in spare):
        raise InputError(f"{name} also varies along {[str(dim) for dim in spare]}, which the grid's points do not")
    squeezed = array.squeeze(spare, drop=True)
    template = xr.Dataset(coords={dim: grid.coords[dim] for dim in sizes if dim in grid.coords})
    try:
        aligned, _ = xr.align(squeezed, template, join="exact", copy=False)
        variable = aligned.variable.set_dims(dict(sizes)).transpose(*sizes)
    except ValueError as error:
        raise InputError(f"{name} does not have the coordinates of the grid: {error}") from error
    return np.asarray(variable.values).ravel()


def _cell_weights(
    request: Request, weights: xr.DataArray | str, grid: Gridded, points: np.ndarray, sizes: Mapping[Hashable, int]
) -> np.ndarray:
    """What every cell counts, flat."""
    if isinstance(weights, xr.DataArray):
        values = _flat(weights, grid, sizes, "weights").astype(np.float64)
        if not np.isfinite(values).all() or (values < 0).any():
            raise InputError("weights must be finite and not negative; fill missing ones with 0")
        return values
    if weights not in ("area", "equal"):
        raise InputError(f'weights must be "area", "equal" or a DataArray, got {weights!r}')
    roles = [axis.role for axis in request.columns.axes]
    if weights == "equal" or "latitude" not in roles:
        return np.ones(len(points))
    # a pole is a point of no area, but for what rounding leaves
    return np.cos(np.deg2rad(points[:, roles.index("latitude")])).clip(min=0.0)

"""A gridded field: its observations, and, once a prior is conditioned on them, predictions and averages on grids."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import xarray as xr

from ..averages import require_probabilities
from ..errors import InputError, InputTypeError
from ..model import Model
from ..saving import About
from ..stopping import Rule
from ..support.validation import fraction, real
from .xarray_conventions import (
    Axis,
    Gridded,
    Source,
    copies,
    exceedances,
    find_axes,
    provenance,
    variable_attributes,
)
from .xarray_prediction import Columns, Request, points_on, predict_on, require_grid, simulate_on

REGION = "region"


@dataclass(frozen=True, repr=False)
class ConditionedField:
    """A field that a prior was conditioned on; made by ``condition``.

    ``model`` is the cagp model, ``axes`` say which coordinate each of its columns is, ``source`` describes the field.
    Printed it tells the ``story`` of the model.
    """

    instead: ClassVar[str] = "its model is one: pass conditioned.model"

    model: Model
    axes: tuple[Axis, ...]
    source: Source = field(default_factory=Source)
    longitudes: tuple[float, float] | None = None

    def __repr__(self) -> str:
        return f"ConditionedField({self.source.name} on {', '.join(axis.name for axis in self.axes)}, {self.model!r})"

    def __str__(self) -> str:
        return self.story or repr(self)

    @property
    def story(self) -> str:
        """How the model came about; empty where the prior was given."""
        return self.model.story

    def map(self, path: str | Path, **options: Any) -> Path:
        """Write a page with a map of the field; see ``Model.map``."""
        return self.model.map(path, **options)

    def recalibrated(
        self, like: Gridded | None = None, n: int | None = None, seed: int = 0, *, progress: bool | None = None
    ) -> ConditionedField:
        """The same with error bars that hold on the data of the field; see ``Model.recalibrated``.

        Observations stand in for the points of the grid ``like``, without it for points in gaps of all widths.
        """
        places = None if like is None else self.points_of(like)
        return replace(self, model=self.model.recalibrated(places, n, seed, progress=progress))

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Save the model with names, units and description of the field as a folder, for ``cagp predict`` too."""
        return self.model.save(folder, about=about_field(self.axes, self.source), overwrite=overwrite)

    def points_of(self, like: Gridded) -> np.ndarray:
        """The points (T, p) of a whole grid, as the model takes them."""
        return points_on(self.axes, self.longitudes, like)

    def predict(
        self,
        grid: Gridded,
        *,
        observed: bool = False,
        noise_variance: float | None = None,
        level: float | None = None,
        exceed: float | Sequence[float] = (),
        chunks: Mapping[str, int] | None = None,
        stop: Rule | None = None,
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> xr.Dataset:
        """The prediction at the coordinates of ``grid``: a Dataset with ``mean`` and ``std``, each in the grid's shape.

        Only the coordinates of ``grid`` matter; latitude and longitude may have other names than in the observed field,
        and Geographic takes any convention for longitudes. Cells where a covariate is missing are NaN. ``observed``
        predicts new observations, with the noise of the field or ``noise_variance``. ``level`` adds the ends of central
        intervals, ``lower`` and ``upper``; ``exceed``, a threshold or several, the probability of more:
        ``exceeds_300`` for 300. The others are those of ``Model.predict``.

        Where the grid is backed by dask, or ``chunks`` cuts it (``{"lat": 100}``), each block is predicted when it is
        asked for, one at a time, by the stopping rule for itself. The numbers are the same.
        """
        request = self.request(grid, observed, noise_variance, level, exceed)
        return predict_on(replace(request, stop=stop, batch_size=batch_size), grid, chunks, progress)

    def average(
        self,
        grid: Gridded,
        by: xr.DataArray | str | Mapping[str, Any] | None = None,
        *,
        weights: xr.DataArray | str = "area",
        observed: bool = False,
        noise_variance: float | None = None,
        level: float | None = None,
        exceed: float | Sequence[float] = (),
        covariance: bool = False,
        progress: bool | None = None,
    ) -> xr.Dataset:
        """The mean of the field over regions of ``grid``, each with the error bar of the mean: ``mean`` and ``std``.

        ``by`` says which: a DataArray of booleans is one region; of other labels, one for each, along a dimension of
        the array's name, where NaN is outside; or the name of such a variable of the grid. A mapping, as for
        ``grid.sel``, is a box. Without it, the whole grid. ``weights`` of cells are a DataArray, "equal", or "area",
        the cosine of the latitude where there is one. ``covariance`` adds that between regions. ``observed`` is about
        means of new observations, one in each cell. For the rest see ``predict`` and ``Model.average``.
        """
        request = self.request(grid, observed, noise_variance, level, exceed)
        if request.thresholds:
            require_probabilities(self.model.of_fields.margins is not None)
        if isinstance(by, Mapping):
            grid, by = _box(grid, by), None
        _, spread, dims = request.columns.within(grid)
        points, shape = request.columns.points(each.values for each in spread)
        sizes = dict(zip(dims, shape, strict=True))
        labels, name = _labels(grid, by, sizes)
        each = _cell_weights(request, weights, grid, points, sizes)
        single = labels.dtype.kind == "b"
        inside = (labels if single else pd.notna(labels)) & (each != 0)
        if not inside.any():
            raise InputError("no cell of the grid is in a region and has a weight; choose another by, or other weights")
        gaps = np.isnan(points[inside]).any(axis=0)
        if gaps.any():
            missing = request.columns.axes[int(gaps.argmax())].name
            raise InputError(
                f"cells in the regions have no {missing!r}; leave them out, such as with by=grid[{missing!r}].notnull()"
            )
        groups = np.zeros(int(inside.sum()), dtype=np.int64) if single else labels[inside]
        found = request.model.average(points[inside], each[inside], by=groups, progress=progress)
        if found.status.reason == "interrupted":
            raise KeyboardInterrupt
        if request.observed:
            found = found.observed(request.noise)  # type: ignore[assignment]
        along: tuple[Hashable, ...] = () if single else (name,)
        dataset = xr.Dataset(coords={} if single else {name: found.groups})
        for what, numbers in zip(request.names, request.statistics(found, (-1,)).T, strict=True):
            attributes = variable_attributes(request.source, what, request.level, request.observed)
            attributes |= {"cell_methods": "area: mean"} if what in ("mean", "lower", "upper") else {}
            dataset[what] = xr.Variable(along, numbers[0] if single else numbers, attributes)
        counts = np.unique(groups, return_counts=True)[1]
        about = {"long_name": "cells of the grid", "units": "1"}
        dataset["cells"] = xr.Variable(along, counts[0] if single else counts, about)
        if covariance and not single:
            dataset["covariance"] = xr.Variable((name, f"other_{name}"), np.asarray(found.covariance()))
            dataset.coords[f"other_{name}"] = (f"other_{name}", found.groups)
        dataset.attrs = provenance(request.source, request.model, request.observed, str(found.status))
        dataset.attrs["cagp_guarantee"] = f"{found.guarantee.kind}: {found.guarantee}"
        dataset.attrs["cagp_weights"] = weights if isinstance(weights, str) else "given"
        return dataset

    def simulate(
        self,
        grid: Gridded,
        n: int = 1,
        seed: int = 0,
        *,
        observed: bool = False,
        noise_variance: float | None = None,
        chunks: Mapping[str, int] | None = None,
        progress: bool | None = None,
    ) -> xr.DataArray:
        """``n`` fields at the coordinates of ``grid``, drawn jointly: an array with a first dimension "realisation".

        Where the grid is backed by dask, or ``chunks`` cuts the realisations (``{"realisation": 10}``), nothing is
        drawn yet; the fields are the same. Cells where a covariate is missing are NaN. For the rest see
        ``Model.simulate`` and ``predict``.
        """
        return simulate_on(self.request(grid, observed, noise_variance), grid, n, seed, chunks, progress)

    def request(
        self, grid: Gridded, observed: bool, given: float | None, level: float | None = None, exceed: Any = ()
    ) -> Request:
        """What is asked of the model, with the noise variance that was ``given``; refuses what says nothing."""
        noise = None if given is None else real(given, "noise_variance")
        if noise is None and observed and np.ndim(self.model.prior.noise_variance):
            says = "the noise of the observed field, one variance each, says nothing about new observations"
            raise InputError(f"{says}; give noise_variance=..., one number")
        if noise is not None and not observed:
            raise InputError("noise_variance is for new observations; say observed=True, or leave it out")
        if noise is not None and noise < 0:
            raise InputError(f"noise_variance must not be negative, got {noise:g}")
        require_grid(grid, "grid")
        share, columns = None if level is None else fraction(level, "level"), Columns(self.axes, self.longitudes)
        return Request(self.model, self.source, columns, bool(observed), noise, share, exceedances(exceed, "exceed"))


@dataclass(frozen=True, eq=False)
class Observed:
    """Values y (n,) at X (n, p), whose columns are the ``axes``; ``noise`` is one variance, one each (n,), or None.

    ``longitudes`` are those between which they lie, as they are written; None without any.
    """

    axes: tuple[Axis, ...]
    X: np.ndarray
    y: np.ndarray
    noise: Any
    source: Source
    longitudes: tuple[float, float] | None


def about_field(axes: tuple[Axis, ...], source: Source) -> About:
    """Names and units of the coordinates and of the field, and what else a folder keeps of it."""
    units = {axis.name: axis.units for axis in axes} | {source.name: str(source.attributes.get("units", ""))}
    known = {name: unit for name, unit in units.items() if unit}
    return About(tuple(axis.name for axis in axes), source.name, known, source.notes)


def described(model: Model, seen: Observed) -> Model:
    """The model with the names and units of the field that it has seen."""
    return model.replace(target_name=seen.source.name, about=about_field(seen.axes, seen.source))


def laid_out(field: Any, coords: Sequence[str] | None, time_unit: str) -> tuple[xr.DataArray, tuple[Axis, ...]]:
    """The field along the dimensions of its points alone, and what their columns are; no value of it is read."""
    if not isinstance(field, xr.DataArray):
        remedy = 'choose a variable: dataset["t2m"]' if isinstance(field, xr.Dataset) else "pass a DataArray"
        raise InputTypeError(f"field must be an xarray DataArray, got {type(field).__name__}; {remedy}")
    if field.dtype.kind not in "fiu":
        raise InputTypeError(f"field has type {field.dtype}, which is not a real number; convert it with astype(float)")
    axes = find_axes(field, coords, time_unit)
    covered = {dim for axis in axes for dim in field.coords[axis.name].dims}
    spare = [dim for dim in field.dims if dim not in covered]
    if long := [str(dim) for dim in spare if field.sizes[dim] != 1]:
        raise InputError(
            f"the field also varies along {long}, which coords={tuple(axis.name for axis in axes)} leaves out; add a "
            f"coordinate along it to coords, or choose one: field.isel({long[0]}=0)"
        )
    return field.squeeze(spare, drop=True), axes


def cells_of(flat: xr.DataArray, axes: tuple[Axis, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The points (n, p) and the values (n,) of all cells of what ``laid_out`` gives, or of a part of it."""
    places = [xr.Variable(flat.coords[axis.name].dims, axis.numbers(flat.coords[axis.name].values)) for axis in axes]
    X = np.column_stack([each.set_dims(dict(flat.sizes)).values.ravel() for each in places])
    return X, np.asarray(flat.values, dtype=np.float64).ravel()


def observed(field: Any, coords: Sequence[str] | None, time_unit: str, noise_variance: Any) -> Observed:
    """The observations in a field; the arguments are those of ``condition``."""
    flat, axes = laid_out(field, coords, time_unit)
    noise, sizes = noise_variance, dict(flat.sizes)
    if isinstance(noise, xr.DataArray):
        noise = _flat(noise, flat, sizes, "noise_variance", "field")
    elif noise is not None and np.ndim(noise):
        if np.shape(noise) != flat.shape:
            given = np.shape(noise)
            raise InputError(f"noise_variance has shape {given}, the field has {flat.shape}; give one value each")
        noise = np.asarray(noise).ravel()
    X, y = cells_of(flat, axes)
    present = ~np.isnan(y)
    if not present.any():
        raise InputError(f"all {y.size} values of the field are NaN; there is nothing to condition on")
    kept = present.copy()
    kept[present] = ~copies(X[present], y[present], axes)
    name = str(field.name if field.name is not None else "field")
    source = Source(name, dict(field.attrs), missing=int((~present).sum()), copies=int((present & ~kept).sum()))
    noise = noise if noise is None or np.ndim(noise) == 0 else noise[kept]
    east = [X[kept, i] for i, axis in enumerate(axes) if axis.role == "longitude"]
    longitudes = (float(east[0].min()), float(east[0].max())) if east else None
    return Observed(axes, X[kept], y[kept], noise, source, longitudes)


def _box(grid: Gridded, by: Mapping[str, Any]) -> Gridded:
    """The part of the grid that ``grid.sel`` chooses; slices against the order of a coordinate are refused."""
    try:
        chosen = grid.sel(dict(by))
        for name, part in by.items():
            if isinstance(part, slice) and name in grid.dims and not chosen.sizes[name]:
                meant = slice(part.stop, part.start, part.step)
                if grid.sel({name: meant}).sizes[name]:
                    first, last = grid.coords[name].values[[0, -1]]
                    ends = f"{name} runs from {first} to {last}, so that {meant.start!r} comes before {meant.stop!r}"
                    raise InputError(f"by={by!r} chooses nothing: {ends}; write slice({meant.start!r}, {meant.stop!r})")
    except (KeyError, ValueError, TypeError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"by={by!r} chooses nothing that the grid has: {error}") from error
    return chosen


def _labels(grid: Gridded, by: xr.DataArray | str | None, sizes: Mapping[Hashable, int]) -> tuple[np.ndarray, str]:
    """The label of every cell, flat, or whether it is in the only region, and what the labels are called."""
    if by is None:
        return np.ones(tuple(sizes.values()), dtype=bool).ravel(), REGION
    if isinstance(by, str):
        known = set(grid.coords) | (set(grid.data_vars) if isinstance(grid, xr.Dataset) else set())
        if by not in known:
            raise InputError(f"by: the grid has no variable or coordinate {by!r}, it has {sorted(map(str, known))}")
        by = grid[by]
    if not isinstance(by, xr.DataArray):
        raise InputError(f"by must be a DataArray of labels, the name of one, or a mapping, got {type(by).__name__}")
    name = REGION if by.name is None or by.name in sizes else str(by.name)
    return _flat(by, grid, sizes, "by"), name


def _flat(array: xr.DataArray, grid: Gridded, sizes: Mapping[Hashable, int], name: str, of: str = "grid") -> np.ndarray:
    """The values of an array at all cells, in the order of the points."""
    spare = [dim for dim in array.dims if dim not in sizes]
    if any(array.sizes[dim] != 1 for dim in spare):
        raise InputError(f"{name} also varies along {[str(dim) for dim in spare]}, which the {of}'s points do not")
    squeezed = array.squeeze(spare, drop=True)
    template = xr.Dataset(coords={dim: grid.coords[dim] for dim in sizes if dim in grid.coords})
    try:
        aligned, _ = xr.align(squeezed, template, join="exact", copy=False)
        return np.asarray(aligned.variable.set_dims(dict(sizes)).transpose(*sizes).values).ravel()
    except ValueError as error:
        raise InputError(f"{name} does not have the coordinates of the {of}: {error}") from error


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

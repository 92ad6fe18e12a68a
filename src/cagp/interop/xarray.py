"""Gridded data in, gridded predictions out: xarray objects with their coordinates, units and provenance.

Importing this module (or calling ``cagp.interop.register_xarray()``) gives every DataArray and Dataset the accessor
``.cagp``: ``field.cagp.fit()``, ``field.cagp.condition(prior)``, ``grid.cagp.predict(conditioned)`` and so on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from ..choosing.front_door import fit_named
from ..choosing.judging import judged
from ..errors import InputError, InputTypeError
from ..model import Model
from ..prior import Prior
from ..solvers import Solver
from ..support.coordinate_systems import require_same_system
from ..support.memory import available_bytes

try:
    import xarray as xr
except ImportError as error:
    raise ImportError("predictions on grids need xarray: pip install 'cagp[xarray]'") from error

from .xarray_conventions import (
    Gridded,
    Source,
    check_geographic,
    coordinates_of,
    find_axes,
    fit_options,
    system_of_grid,
)
from .xarray_field import ConditionedField, described, laid_out, observed
from .xarray_prediction import points_on, require_grid

_BYTES_EACH = 600  # that a model in memory takes for each observation, as ten million of them were measured


def condition(
    field: xr.DataArray,
    prior: Prior | None = None,
    *,
    coords: Sequence[str] | None = None,
    solver: Solver | str = "auto",
    noise_variance: Any = None,
    fit: bool | Mapping[str, Any] | None = None,
    recalibrate: bool | str | None = None,
    like: Gridded | None = None,
    time_unit: str = "D",
    **condition_options: Any,
) -> ConditionedField:
    """Condition a prior on a gridded field: every value that is not NaN is one observation.

    ``coords`` names the coordinates, one for each column of the points the kernel sees: dimensions, or coordinates
    along them, such as latitudes of stations. By default latitude and longitude, known by their CF attributes or names
    (lat, latitude, lon, long, longitude). Times are numbers of ``time_unit`` ("D", "h", "m" or "s") since 1970. Other
    dimensions must have size one, and are dropped.

    Without a prior everything is chosen, as ``fit`` does; a mapping given as ``fit`` is then its ``fit_options``.
    ``fit=True`` fits a prior that you give; a mapping gives the options of ``Prior.fit``, and ``fit=False`` never fits.
    ``noise_variance`` replaces the prior's: a number, or a DataArray or array in the shape of the field. ``solver`` and
    ``condition_options`` are those of ``Prior.condition``. ``recalibrate``, with ``like``, is
    ``ConditionedField.recalibrated``; "auto", the default without a prior, where left-out values reject the error bars.

    NaN are left out and counted in ``source.missing``, and so are copies of one value under several longitudes, at the
    poles and where a grid repeats its first meridian, in ``source.copies``.
    """
    if prior is None:
        if fit is False:
            raise InputError("without a prior there is nothing to condition; give one, or leave fit=False out")
        known = {"coords": coords, "like": like, "noise_variance": noise_variance, "time_unit": time_unit}
        options: Any = {"solver": solver, "recalibrate": "auto" if recalibrate is None else recalibrate}
        options |= {"fit_options": fit if isinstance(fit, Mapping) else None, "condition_options": condition_options}
        return FieldAccessor(field).fit(**known, **options)
    if like is not None:
        require_grid(like, "like")
        if not recalibrate:
            raise InputError("like says where recalibrated error bars are to hold; say recalibrate=True, too")
    seen = observed(field, coords, time_unit, noise_variance)
    if not isinstance(prior, Prior):
        raise InputTypeError(f"prior must be a cagp.Prior, got {prior!r}")
    if seen.noise is not None:
        prior = replace(prior, noise_variance=seen.noise)
    if fit is not None and fit is not False:
        given = {"fix_noise": True} if seen.noise is not None else {}
        prior = prior.fit(seen.X, seen.y, **given | dict(fit if isinstance(fit, Mapping) else {}))
    geographic = check_geographic(prior.kernel, seen.axes)
    model = described(prior.condition(seen.X, seen.y, solver, **condition_options), seen)
    conditioned = ConditionedField(model, seen.axes, seen.source, None if geographic else seen.longitudes)
    if recalibrate == "auto":
        where = None if like is None else conditioned.points_of(like)
        return replace(conditioned, model=judged(model, where)[0])
    return conditioned.recalibrated(like) if recalibrate else conditioned


def fit(
    field: xr.DataArray,
    *,
    coords: Sequence[str] | None = None,
    like: Gridded | None = None,
    noise_variance: Any = None,
    time_unit: str = "D",
    store: str | Path | None = None,
    **options: Any,
) -> ConditionedField:
    """A model of a gridded field with everything chosen that is not said: ``cagp.fit`` on the field's coordinates.

    ``coords``, ``time_unit`` and the shapes of ``noise_variance``, which is known noise, are as in ``condition``.
    Latitude and longitude are taken together, on the globe; every time has a factor of its own in the kernel. What is
    chosen, and the error bars, are right for points like those of the grid ``like``. The other ``options`` are those of
    ``cagp.fit``; ``model.story`` of the result tells what was done.

    A lazy field, backed by dask, of which a model in memory would take more than half of what is free, at 600 bytes a
    cell, is never held as a whole: its observations go into shards on disk, in the folder ``store``, and the model is a
    ``cagp.shards.ShardedModel``, whose story says so. With a ``store`` every lazy field does.
    """
    if isinstance(noise_variance, (int, float, np.number)):
        options["fit_options"] = {"fix_noise": True, **(options.get("fit_options") or {})}
    if _in_shards(field, store):
        from ..shards import LazyField
        from ..shards import fit as fit_shards

        lazy = LazyField(*laid_out(field, coords, time_unit))
        own: Any = {"like": like, "noise_variance": noise_variance, "store": store}
        return conditioned_for(cast(Model, fit_shards(lazy, lazy.columns[-1], **own, **options)), field, None)
    seen = observed(field, coords, time_unit, noise_variance)
    if not float(np.var(seen.y)) > 0:
        raise InputError("the field is constant, which no hyperparameters can be fitted to; give a prior")
    if flat := [axis.name for axis, column in zip(seen.axes, seen.X.T, strict=True) if not np.std(column) > 0]:
        raise InputError(f"all observations have the same {flat}: no lengthscale can be fitted; leave it out of coords")
    on_globe = {"latitude", "longitude"} <= {axis.role for axis in seen.axes}
    longitudes = None if on_globe else seen.longitudes
    places = None if like is None else points_on(seen.axes, longitudes, like)
    known, units = fit_options(seen.axes, options.get("kernel"))
    names = [str(axis.name) for axis in seen.axes]
    model = fit_named(seen.X, seen.y, names, units, like=places, noise_variance=seen.noise, **known | options)
    if like is None and seen.source.missing and model.record is not None:
        cells = "cell of the field has" if seen.source.missing == 1 else "cells of the field have"
        said = (
            f"{seen.source.missing:,} {cells} no value. To fill them in, give the part of the grid that has them as "
            "like=: kernels and error bars are judged there then, and are mostly better there."
        )
        model = model.replace(story=model.record.telling("Gaps", said))
    return ConditionedField(described(model, seen), seen.axes, seen.source, longitudes)


def _in_shards(field: Any, store: Any) -> bool:
    """Whether a field is read piece by piece: where that was asked for, or memory has no room for a model of all."""
    lazy = isinstance(field, xr.DataArray) and field.chunks is not None
    if store is not None and not lazy:
        raise InputError("store is for lazy fields, which are read in pieces; open this one with chunks={}")
    return lazy and (store is not None or _BYTES_EACH * field.size > available_bytes(torch.device("cpu")) / 2)


def average(
    model: ConditionedField | Model,
    grid: Gridded,
    by: xr.DataArray | str | Mapping[str, Any] | None = None,
    *,
    coords: Sequence[str] | None = None,
    **options: Any,
) -> xr.Dataset:
    """``ConditionedField.average`` over regions of ``grid``, also from any cagp model; ``coords`` as in ``predict``."""
    return conditioned_for(model, grid, coords).average(grid, by, **options)


def predict(
    model: ConditionedField | Model, grid: Gridded, *, coords: Sequence[str] | None = None, **options: Any
) -> xr.Dataset:
    """``ConditionedField.predict`` at the coordinates of ``grid``, also from any cagp model.

    For such a model ``coords`` names the coordinates that are its columns, by default those called as its columns are,
    and the latitude and longitude, whatever they are called.
    """
    return conditioned_for(model, grid, coords).predict(grid, **options)


def simulate(
    model: ConditionedField | Model, grid: Gridded, n: int = 1, *, coords: Sequence[str] | None = None, **options: Any
) -> xr.DataArray:
    """``ConditionedField.simulate`` on ``grid``, also from any cagp model; ``coords`` is as in ``predict``."""
    return conditioned_for(model, grid, coords).simulate(grid, n, **options)


def conditioned_for(model: ConditionedField | Model, grid: Gridded, coords: Sequence[str] | None) -> ConditionedField:
    """The model with what the coordinates of the grid are."""
    if isinstance(model, ConditionedField):
        if coords is not None:
            raise InputError(f"coords were chosen with the field: {[axis.name for axis in model.axes]}; leave them out")
        return model
    from ..shards import ShardedModel

    if not isinstance(model, (Model, ShardedModel)):
        raise InputTypeError(f"model must be a conditioned field or a cagp.Model, got {type(model).__name__}")
    require_grid(grid, "grid")
    if isinstance(model, ShardedModel) and (own := model.store.field) is not None and coords is None:
        return ConditionedField(cast(Model, model), own.axes, own.source, own.longitudes)
    if model.crs is not None:
        require_same_system(system_of_grid(grid), model.crs, "the grid")
    if coords is None:
        names = model.column_names or [""] * model.X.shape[1]
        coords = coordinates_of(grid, names, model.prior.kernel)
    axes = find_axes(grid, coords, "D")
    if any(axis.role == "time" for axis in axes):
        raise InputError("a model made without xarray does not know its unit of time; give the grid numbers instead")
    check_geographic(model.prior.kernel, axes)
    name = model.target_name or Source.name
    return ConditionedField(model, axes, Source(name) if model.about is None else Source.of(model.about, name))


def register_xarray() -> None:
    """Give DataArrays and Datasets the accessor ``.cagp``; importing this module has done it already."""


class _GridAccessor:
    """What both accessors can do with the coordinates of their object."""

    def __init__(self, grid: Any) -> None:
        self._grid = grid

    def average(
        self,
        by: xr.DataArray | str | Mapping[str, Any] | None = None,
        model: ConditionedField | Model | None = None,
        **options: Any,
    ) -> xr.Dataset:
        """The mean over regions of this object's coordinates; see ``cagp.interop.xarray.average``.

        Without a ``model``, given the values that an array has: what is missing is filled in, and its error counted.
        """
        return average(self._or_own(model), self._grid, by, **options)

    def predict(self, model: ConditionedField | Model, **options: Any) -> xr.Dataset:
        """The prediction at the coordinates of this object; see ``cagp.interop.xarray.predict``."""
        return predict(model, self._grid, **options)

    def simulate(self, n: int = 1, model: ConditionedField | Model | None = None, **options: Any) -> xr.DataArray:
        """``n`` fields at the coordinates of this object; see ``cagp.interop.xarray.simulate``.

        Without a ``model``, given the values that an array has: what is missing is filled in, differently each time.
        """
        return simulate(self._or_own(model), self._grid, n, **options)

    def _or_own(self, model: ConditionedField | Model | None) -> ConditionedField | Model:
        """The model, or one of the values that an array has."""
        if model is None and isinstance(self._grid, xr.Dataset):
            raise InputError('a Dataset has no values of its own; give model=..., or choose a variable: dataset["t2m"]')
        return fit(self._grid) if model is None else model


@xr.register_dataarray_accessor("cagp")
class FieldAccessor(_GridAccessor):
    """``field.cagp``: Gaussian process regression on the coordinates of a DataArray."""

    def condition(self, prior: Prior | None = None, **options: Any) -> ConditionedField:
        """Condition a prior on this field; see ``cagp.interop.xarray.condition``."""
        return condition(self._grid, prior, **options)

    def fit(self, **options: Any) -> ConditionedField:
        """A model of this field, with everything chosen that is not said; see ``cagp.interop.xarray.fit``."""
        return fit(self._grid, **options)


@xr.register_dataset_accessor("cagp")
class DatasetAccessor(_GridAccessor):
    """``dataset.cagp``: Gaussian process regression on the coordinates of a Dataset."""

    def condition(self, variable: str | None = None, prior: Prior | None = None, **options: Any) -> ConditionedField:
        """Condition a prior on one variable; see ``cagp.interop.xarray.condition``."""
        return condition(self._variable(variable), prior, **options)

    def fit(self, variable: str | None = None, **options: Any) -> ConditionedField:
        """A model of one variable, with everything chosen that is not said; see ``cagp.interop.xarray.fit``."""
        return fit(self._variable(variable), **options)

    def _variable(self, name: str | None) -> xr.DataArray:
        known = sorted(map(str, self._grid.data_vars))
        if name is None:
            raise InputError(f"variable says which one of the Dataset is observed; it has {known}")
        if name not in self._grid.data_vars:
            raise InputError(f"there is no variable {name!r}, there are {known}")
        return self._grid[name]

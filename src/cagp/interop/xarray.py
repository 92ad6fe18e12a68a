"""Gridded data in, gridded predictions out: xarray objects with their coordinates, units and provenance.

Importing this module (or calling ``cagp.interop.register_xarray()``) gives every DataArray and Dataset the accessor
``.cagp``: ``field.cagp.condition(prior)`` and ``grid.cagp.predict(conditioned)``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import InputError, InputTypeError
from ..model import Model
from ..prior import Prior
from ..recalibration import LayeredModel
from ..solvers import Solver
from ..stopping import Rule
from ..support.validation import real

try:
    import xarray as xr
except ImportError as error:
    raise ImportError("predictions on grids need xarray: pip install 'cagp[xarray]'") from error

from .xarray_coordinates import Axis, Gridded, check_geographic, copies, find_axes
from .xarray_metadata import Source
from .xarray_prediction import Request, points_on, predict_on
from .xarray_prior import prepared_prior


@dataclass(frozen=True)
class ConditionedField:
    """A field that a prior was conditioned on; made by ``condition``.

    ``model`` is the cagp model, plain or recalibrated, ``axes`` say which coordinate each of its columns is, ``source``
    describes the field.
    """

    model: Model | LayeredModel
    axes: tuple[Axis, ...]
    source: Source = field(default_factory=Source)
    longitudes: tuple[float, float] | None = None

    def recalibrated(
        self,
        like: Gridded | None = None,
        n: int | None = None,
        seed: int = 0,
        *,
        progress: bool | None = None,
    ) -> ConditionedField:
        """The same with error bars that hold on the data of the field, not only under the prior.

        ``like`` is the grid where it is going to predict: gaps as wide as those that its points lie in are left out.
        Without it, gaps of all widths are. For the rest see ``Model.recalibrated``.
        """
        places = None
        if like is not None:
            _require_grid(like, "like")
            places = points_on(Request(self.model, self.axes, self.longitudes, None, None, None, None), like)
        model = self.model.plain.recalibrated(places, n, seed, progress=progress)
        return replace(self, model=model)

    def predict(
        self,
        grid: Gridded,
        *,
        observed: bool = False,
        noise_variance: float | None = None,
        level: float | None = None,
        chunks: Mapping[str, int] | None = None,
        stop: Rule | None = None,
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> xr.Dataset:
        """The prediction at the coordinates of ``grid``: a Dataset with ``mean`` and ``std``, each in the grid's shape.

        ``grid`` is any DataArray or Dataset; only its coordinates matter. Latitude and longitude may have other names
        than in the observed field, and Geographic takes any convention for longitudes. ``observed`` predicts new
        observations (the noise, or ``noise_variance``, is added) and not the field without noise. ``level`` adds the
        ends of central intervals, ``lower`` and ``upper``. ``stop``, ``batch_size`` and ``progress`` are those of
        ``Model.predict``.

        Where the grid is backed by dask, or ``chunks`` cuts it (``{"lat": 100}``), nothing is computed yet: each block
        is predicted when it is asked for, one at a time, so that the memory stays bounded; a stopping rule then
        applies to each block by itself, and Ctrl-C interrupts as usual. The numbers are the same.
        """
        noise = self._noise(observed, noise_variance)
        if level is not None and not 0 < real(level, "level") < 1:
            raise InputError(f"level must be between 0 and 1, got {level!r}; for 95% write 0.95")
        _require_grid(grid, "grid")
        request = Request(
            self.model, self.axes, self.longitudes, noise, None if level is None else float(level), stop, batch_size
        )
        return predict_on(request, self.source, grid, chunks, progress)

    def _noise(self, observed: bool, noise_variance: float | None) -> float | None:
        """The noise variance to add to predictions; None for the field itself."""
        if not observed:
            if noise_variance is not None:
                raise InputError("noise_variance is for new observations; say observed=True, or leave it out")
            return None
        if noise_variance is None:
            noise_variance = self.model.plain.prior.noise_variance
            if np.ndim(noise_variance):
                raise InputError(
                    "the noise of the observed field, one variance each, says nothing about new observations; give "
                    "noise_variance=..., one number"
                )
        noise = real(noise_variance, "noise_variance")
        if noise < 0:
            raise InputError(f"noise_variance must not be negative, got {noise:g}")
        return noise


def condition(
    field: xr.DataArray,
    prior: Prior | None = None,
    *,
    coords: Sequence[str] | None = None,
    solver: Solver | str = "auto",
    noise_variance: Any = None,
    fit: bool | Mapping[str, Any] | None = None,
    recalibrate: bool = False,
    like: Gridded | None = None,
    time_unit: str = "D",
    **condition_options: Any,
) -> ConditionedField:
    """Condition a prior on a gridded field: every value that is not NaN is one observation.

    ``coords`` names the coordinates, one for each column of the points the kernel sees; by default latitude and
    longitude, recognised by their CF attributes (units degrees_north and degrees_east, or standard_name) or their
    names (lat, latitude, lon, longitude). They may be dimensions or coordinates along them, such as latitudes on a
    curvilinear grid or of stations. Times are numbers of ``time_unit`` ("D", "h", "m" or "s") since 1970. Dimensions
    of size one that no coordinate belongs to are dropped; longer ones are refused.

    Without a prior, a Matérn-3/2 kernel on the globe (times one for each further coordinate), a constant mean and
    noise are fitted by maximum likelihood to 500 values drawn at random. ``fit=True`` fits a prior that you give, too;
    a mapping gives the options of ``Prior.fit``, and ``fit=False`` never fits. ``noise_variance`` replaces the prior's:
    a number, or a DataArray or array in the shape of the field. ``solver`` and ``condition_options`` are those of
    ``Prior.condition``.

    ``recalibrate`` scales and shapes the error bars by predictions of left-out values, in gaps as wide as those that
    the points of the grid ``like`` lie in, where it is given; see ``ConditionedField.recalibrated``. The attribute
    ``cagp_guarantee`` of every prediction says when its error bars hold.

    NaN are missing observations: they are left out and counted in ``source.missing``. So are copies of one value
    under several longitudes, at the poles and where a grid repeats its first meridian (``source.copies``). Both
    numbers become attributes of every prediction.
    """
    if not isinstance(field, xr.DataArray):
        remedy = 'choose a variable: dataset["t2m"]' if isinstance(field, xr.Dataset) else "pass a DataArray"
        raise InputTypeError(f"field must be an xarray DataArray, got {type(field).__name__}; {remedy}")
    if field.dtype.kind not in "fiu":
        raise InputTypeError(f"field has type {field.dtype}, which is not a real number; convert it with astype(float)")
    if like is not None:
        _require_grid(like, "like")
        if not recalibrate:
            raise InputError("like says where recalibrated error bars are to hold; say recalibrate=True, too")
    axes = find_axes(field, coords, time_unit)
    flat = _flattened(field, axes)
    noise = None if noise_variance is None else _noise_like(noise_variance, flat)
    X, y = _observations(flat, axes)
    present = ~np.isnan(y)
    if not present.any():
        raise InputError(f"all {y.size} values of the field are NaN; there is nothing to condition on")
    kept = present.copy()
    kept[present] = ~copies(X[present], y[present], axes)
    X, y = X[kept], y[kept]
    noise = noise if noise is None or np.ndim(noise) == 0 else noise[kept]
    prior = prepared_prior(prior, X, y, axes, noise, fit)
    geographic = check_geographic(prior.kernel, axes)
    roles = [axis.role for axis in axes]
    longitudes = None
    if "longitude" in roles and not geographic:
        column = X[:, roles.index("longitude")]
        longitudes = (float(column.min()), float(column.max()))
    source = Source(
        name=str(field.name if field.name is not None else "field"),
        attributes=dict(field.attrs),
        missing=int((~present).sum()),
        copies=int((present & ~kept).sum()),
    )
    conditioned = ConditionedField(prior.condition(X, y, solver, **condition_options), axes, source, longitudes)
    return conditioned.recalibrated(like) if recalibrate else conditioned


def predict(
    model: ConditionedField | Model | LayeredModel,
    grid: Gridded,
    *,
    coords: Sequence[str] | None = None,
    **options: Any,
) -> xr.Dataset:
    """The prediction at the coordinates of ``grid``, from a conditioned field or from any cagp model,
    recalibrated or not.

    For a cagp model, ``coords`` names the coordinates of the grid that are its columns, by default latitude and
    longitude. The options are those of ``ConditionedField.predict``.
    """
    if isinstance(model, ConditionedField):
        if coords is not None:
            raise InputError(f"coords were chosen with the field: {[axis.name for axis in model.axes]}; leave them out")
        return model.predict(grid, **options)
    if not isinstance(model, (Model, LayeredModel)):
        raise InputTypeError(f"model must be a conditioned field or a cagp.Model, got {type(model).__name__}")
    _require_grid(grid, "grid")
    axes = find_axes(grid, coords, "D")
    if any(axis.role == "time" for axis in axes):
        raise InputError("a model made without xarray does not know its unit of time; give the grid numbers instead")
    check_geographic(model.plain.prior.kernel, axes)
    return ConditionedField(model, axes).predict(grid, **options)


def _require_grid(grid: Any, name: str) -> None:
    if not isinstance(grid, (xr.DataArray, xr.Dataset)):
        raise InputTypeError(f"{name} must be an xarray DataArray or Dataset, got {type(grid).__name__}")


def register_xarray() -> None:
    """Give DataArrays and Datasets the accessor ``.cagp``; importing this module has done it already."""


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


@xr.register_dataarray_accessor("cagp")
class FieldAccessor:
    """``field.cagp``: Gaussian process regression on the coordinates of a DataArray."""

    def __init__(self, array: xr.DataArray) -> None:
        self._array = array

    def condition(self, prior: Prior | None = None, **options: Any) -> ConditionedField:
        """Condition a prior on this field; see ``cagp.interop.xarray.condition``."""
        return condition(self._array, prior, **options)

    def predict(self, model: ConditionedField | Model | LayeredModel, **options: Any) -> xr.Dataset:
        """The prediction at the coordinates of this array; see ``cagp.interop.xarray.predict``."""
        return predict(model, self._array, **options)


@xr.register_dataset_accessor("cagp")
class DatasetAccessor:
    """``dataset.cagp``: Gaussian process regression on the coordinates of a Dataset."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def condition(self, variable: str, prior: Prior | None = None, **options: Any) -> ConditionedField:
        """Condition a prior on one variable; see ``cagp.interop.xarray.condition``."""
        if variable not in self._dataset.data_vars:
            names = sorted(map(str, self._dataset.data_vars))
            raise InputError(f"there is no variable {variable!r}, there are {names}")
        return condition(self._dataset[variable], prior, **options)

    def predict(self, model: ConditionedField | Model | LayeredModel, **options: Any) -> xr.Dataset:
        """The prediction at the coordinates of this data set; see ``cagp.interop.xarray.predict``."""
        return predict(model, self._dataset, **options)

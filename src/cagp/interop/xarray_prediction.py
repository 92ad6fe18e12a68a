"""Predictions in the shape of a grid: all at once, or lazily, block by block, through dask."""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError
from ..model import Model
from ..prediction import Prediction
from ..recalibration import LayeredModel
from ..stopping import Rule
from .xarray_coordinates import Axis, Gridded, coordinates_along, matching
from .xarray_metadata import (
    Source,
    coordinate_attributes,
    grid_mapping,
    kept_cell_methods,
    provenance,
    variable_attributes,
)

Chunks = dict[Hashable, tuple[int, ...]]


@dataclass(frozen=True)
class Request:
    """What is asked of a model on every block of a grid.

    ``observed`` asks for new observations, with the ``noise`` that was given or the model's own.
    """

    model: Model | LayeredModel
    axes: tuple[Axis, ...]
    longitudes: tuple[float, float] | None
    observed: bool
    noise: float | None
    level: float | None
    stop: Rule | None
    batch_size: int | None
    positions: tuple[tuple[int, ...], ...] = ()
    dimensions: int = 0
    lock: AbstractContextManager[Any] = field(default_factory=nullcontext)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of the result."""
        return ("mean", "std") if self.level is None else ("mean", "std", "lower", "upper")

    def posterior(self, coordinates: tuple[Any, ...], progress: bool | None) -> tuple[Prediction, tuple[int, ...]]:
        """The prediction on a block given by its coordinates, and the shape of the block."""
        points, shape = self.points(coordinates)
        post = self.model.predict(points, stop=self.stop, batch_size=self.batch_size, progress=progress)
        return (post.observed(self.noise) if self.observed else post), shape

    def points(self, coordinates: tuple[Any, ...]) -> tuple[np.ndarray, tuple[int, ...]]:
        """The points (T, p) of a block given by its coordinates, and the shape of the block."""
        return _points(self.axes, self.longitudes, coordinates, self.positions, self.dimensions)

    def statistics(self, post: Prediction, shape: tuple[int, ...]) -> np.ndarray:
        """The variables of the result along a last axis, in float64."""
        values = [post.mean, post.std]
        if self.level is not None:
            values += post.interval(self.level)
        return np.stack([np.asarray(v, dtype=np.float64).reshape(shape) for v in values], axis=-1)

    def __call__(self, *coordinates: Any) -> np.ndarray:
        """The variables of the result on one block. One block at a time: a prediction may use the whole budget."""
        with self.lock:
            post, shape = self.posterior(coordinates, progress=False)
        if post.status.reason == "interrupted":  # a block has no status to say so in
            raise KeyboardInterrupt
        return self.statistics(post, shape)


def predict_on(
    request: Request, source: Source, grid: Gridded, chunks: Mapping[str, int] | None, progress: bool | None
) -> xr.Dataset:
    """The data set with the prediction at the coordinates of ``grid``."""
    request, coordinates, dims = located(request, grid)
    taken = [str(name) for name in grid.coords if name in request.names]
    if taken:
        raise InputError(f"the grid has coordinates called {taken}, as the prediction's variables are; rename them")
    blocks = _chunks(grid, dims, coordinates, chunks)
    if blocks is None:
        post, shape = request.posterior(tuple(c.values for c in coordinates), progress)
        values, status = request.statistics(post, shape), str(post.status)
    else:
        values = _lazy(request, coordinates, dims, blocks)
        status = "Predicted block by block when the values were needed."
    observed = request.observed
    dataset = coordinates_along(grid, dims).copy()
    for axis, coordinate in zip(request.axes, coordinates, strict=True):
        dataset[coordinate.name].attrs = coordinate_attributes(axis.role, coordinate.attrs)
    dataset.attrs = provenance(source, request.model, observed, status)
    mapping = grid_mapping(grid, dataset)
    for i, what in enumerate(request.names):
        attributes = variable_attributes(source, what, request.level, observed)
        dataset[what] = xr.Variable(dims, values[..., i], attributes | ({"grid_mapping": mapping} if mapping else {}))
    methods = kept_cell_methods(source, dataset)
    if methods:
        dataset["mean"].attrs["cell_methods"] = methods
    return dataset


def points_on(axes: tuple[Axis, ...], longitudes: tuple[float, float] | None, grid: Gridded) -> np.ndarray:
    """The points (T, p) of a whole grid, whose longitudes are written like those seen, where that matters."""
    positions, coordinates, dims = _places(axes, grid)
    return _points(axes, longitudes, tuple(each.values for each in coordinates), positions, len(dims))[0]


def _points(
    axes: tuple[Axis, ...],
    longitudes: tuple[float, float] | None,
    coordinates: tuple[Any, ...],
    positions: tuple[tuple[int, ...], ...],
    dimensions: int,
) -> tuple[np.ndarray, tuple[int, ...]]:
    """The points (T, p) of a block given by its coordinates, and the shape of the block."""
    columns = []
    for axis, values, where in zip(axes, coordinates, positions, strict=True):
        numbers = axis.numbers(values)
        if axis.role == "longitude":
            _check_convention(longitudes, numbers)
        shape = [1] * dimensions
        for position, size in zip(where, numbers.shape, strict=True):
            shape[position] = size
        columns.append(numbers.reshape(shape))
    full = np.broadcast_arrays(*columns)
    return np.column_stack([column.ravel() for column in full]), full[0].shape


def _check_convention(seen: tuple[float, float] | None, longitudes: np.ndarray) -> None:
    """Refuse longitudes of a grid that are written in another way than those ``seen``."""
    if seen is None or not longitudes.size:
        return
    low, high = seen
    if (high > 180 and longitudes.min() < 0) or (low < 0 and longitudes.max() > 180):
        raise InputError(
            f"the observed longitudes run from {low:g} to {high:g}, those of the grid from {longitudes.min():g} to "
            f"{longitudes.max():g}: two conventions, which this kernel takes for different places; use "
            "Geographic(kernel), or convert one of them"
        )


def located(request: Request, grid: Gridded) -> tuple[Request, list[xr.DataArray], tuple[Hashable, ...]]:
    """The request with the places of its axes in the grid, the grid's coordinates for them, and its dimensions."""
    positions, coordinates, dims = _places(request.axes, grid)
    return replace(request, positions=positions, dimensions=len(dims)), coordinates, dims


def _places(
    axes: tuple[Axis, ...], grid: Gridded
) -> tuple[tuple[tuple[int, ...], ...], list[xr.DataArray], tuple[Hashable, ...]]:
    """Where the axes are in the grid, the grid's coordinates for them, and its dimensions."""
    coordinates = [matching(grid, axis) for axis in axes]
    dims = _dimensions(grid, {dim for coordinate in coordinates for dim in coordinate.dims})
    empty = [str(dim) for dim in dims if grid.sizes[dim] == 0]
    if empty:
        raise InputError(f"the grid has no points along {empty}; choose a larger part of it")
    return tuple(tuple(dims.index(dim) for dim in each.dims) for each in coordinates), coordinates, dims


def _dimensions(grid: Gridded, needed: set[Hashable]) -> tuple[Hashable, ...]:
    """The needed dimensions in the order of the grid: that of its first variable that has them all."""
    orders: list[Any] = [grid.sizes] if isinstance(grid, xr.DataArray) else [v.dims for v in grid.data_vars.values()]
    order = next((order for order in orders if needed <= set(order)), grid.sizes)
    return tuple(dim for dim in order if dim in needed)


def _chunks(
    grid: Gridded, dims: tuple[Hashable, ...], coordinates: list[xr.DataArray], asked: Mapping[str, int] | None
) -> Chunks | None:
    """How the grid is cut, from ``asked`` or from its own dask arrays; None where it is not."""
    if asked is not None:
        from dask.array.core import normalize_chunks

        unknown = [name for name in asked if name not in dims]
        if unknown:
            raise InputError(f"chunks name {unknown}, the prediction has the dimensions {list(map(str, dims))}")
        sizes = tuple(grid.sizes[dim] for dim in dims)
        cut = normalize_chunks(tuple(asked.get(str(dim), -1) for dim in dims), shape=sizes)
        return dict(zip(dims, cut, strict=True))
    try:
        own = dict(grid.chunksizes)
        for coordinate in coordinates:
            own = {**coordinate.chunksizes, **own}
    except ValueError as error:
        raise InputError(f"the variables of the grid are cut differently: {error}; call unify_chunks first") from error
    if not any(dim in own for dim in dims):
        return None
    return {dim: own.get(dim, (grid.sizes[dim],)) for dim in dims}


def _lazy(request: Request, coordinates: list[xr.DataArray], dims: tuple[Hashable, ...], blocks: Chunks) -> Any:
    """A dask array of the variables of the result along a last axis; nothing is computed."""
    import dask.array as da
    from dask.utils import SerializableLock

    request = replace(request, lock=SerializableLock())
    name = f"cagp-predict-{uuid.uuid4().hex}"  # given, so that dask does not read the whole model to name it
    arguments: list[Any] = []
    for i, (coordinate, positions) in enumerate(zip(coordinates, request.positions, strict=True)):
        if not coordinate.dims:
            arguments += [coordinate.values, None]
            continue
        cut = tuple(blocks[dim] for dim in coordinate.dims)
        if isinstance(coordinate.data, da.Array):
            array = coordinate.data.rechunk(cut)
        else:
            array = da.from_array(coordinate.values, chunks=cut, name=f"{name}-{i}")
        arguments += [array, positions]
    last = len(dims)
    return da.blockwise(
        request,
        tuple(range(last + 1)),
        *arguments,
        new_axes={last: len(request.names)},
        dtype=np.float64,
        meta=np.empty((0,) * (last + 1)),
        name=name,
        align_arrays=False,
    )

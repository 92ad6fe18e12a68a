"""Predictions and simulated fields in the shape of a grid: all at once, or lazily, block by block, through dask."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from ..errors import DataWarning, InputError, InputTypeError
from ..model import Model
from ..predicting.beyond import told_beyond
from ..stopping import Rule
from ..support.advice import warn_caller
from ..support.validation import count
from . import xarray_conventions as cf
from .xarray_conventions import Axis, Gridded, Source

REALISATION = "realisation"

_BLOCK_BYTES = 2**27  # of fields that are drawn together, where nothing else is said

Chunks = dict[Hashable, tuple[int, ...]]


@dataclass(frozen=True)
class Columns:
    """What the columns of a model's points are; between which ``longitudes`` it was observed, where that matters."""

    axes: tuple[Axis, ...]
    longitudes: tuple[float, float] | None

    def within(self, grid: Gridded) -> tuple[list[xr.DataArray], list[xr.Variable], tuple[Hashable, ...]]:
        """The grid's coordinates for them, the same with all of its dimensions (size one is any), and these."""
        coordinates = [cf.matching(grid, axis) for axis in self.axes]
        needed = {dim for coordinate in coordinates for dim in coordinate.dims}
        orders: list[Any] = [] if isinstance(grid, xr.DataArray) else [v.dims for v in grid.data_vars.values()]
        order = next((each for each in orders if needed <= set(each)), grid.sizes)  # the first that has them all
        dims = tuple(dim for dim in order if dim in needed)
        if empty := [str(dim) for dim in dims if grid.sizes[dim] == 0]:
            raise InputError(f"the grid has no points along {empty}; choose a larger part of it")
        return coordinates, [each.variable.to_base_variable().set_dims(dims) for each in coordinates], dims

    def points(self, coordinates: Iterable[Any]) -> tuple[np.ndarray, tuple[int, ...]]:
        """The points (T, p) of a block given by its coordinates, which go together, and the shape of the block.

        They are NaN where a covariate is missing.
        """
        columns = [axis.numbers(values, gaps=True) for axis, values in zip(self.axes, coordinates, strict=True)]
        for axis, column in zip(self.axes, columns, strict=True):
            numbers = column[~np.isnan(column)]
            if axis.role == "longitude" and numbers.size and self.longitudes is not None:
                (low, high), first, last = self.longitudes, numbers.min(), numbers.max()
                ocean = high > 360 and first < low <= first + 360 <= high
                ocean |= last > 360 and low <= last - 360 <= high < last
                if (high > 180 and first < 0) or (low < 0 and last > 180) or ocean:
                    raise InputError(
                        f"the observed longitudes run from {low:g} to {high:g}, those of the grid from {first:g} to "
                        f"{last:g}: two conventions, which this kernel takes for different places; use "
                        "Geographic(kernel), or convert one of them, with % 360 for example"
                    )
        full = np.broadcast_arrays(*columns)
        return np.column_stack([column.ravel() for column in full]), full[0].shape


def require_grid(grid: Any, name: str) -> None:
    """Refuse what is no grid."""
    if not isinstance(grid, (xr.DataArray, xr.Dataset)):
        raise InputTypeError(f"{name} must be an xarray DataArray or Dataset, got {type(grid).__name__}")


def points_on(axes: tuple[Axis, ...], longitudes: tuple[float, float] | None, like: Gridded) -> np.ndarray:
    """The points (T, p) of a whole grid, whose longitudes are written like those seen, where that matters."""
    require_grid(like, "like")
    columns = Columns(axes, longitudes)
    points = columns.points(each.values for each in columns.within(like)[1])[0]
    return points[complete(points)]


def complete(points: np.ndarray, every: bool = True) -> np.ndarray:
    """Which points (T, p) of a grid have all coordinates, (T,); refused where none of ``every`` one has them."""
    there = np.asarray(~np.isnan(points).any(axis=1))
    if every and not there.any():
        raise InputError("no cell of the grid has all coordinates; choose another part of it")
    return there


@dataclass(frozen=True)
class Request:
    """What is asked of a model on every block of a grid; ``observed`` asks for observations, with ``noise`` or its own.

    One block at a time, behind the ``lock``: a prediction may use the whole memory budget.
    """

    model: Model
    source: Source
    columns: Columns
    observed: bool
    noise: float | None
    level: float | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    stop: Rule | None = None
    batch_size: int | None = None
    lock: AbstractContextManager[Any] = field(default_factory=nullcontext)

    @property
    def names(self) -> tuple[str, ...]:
        """The variables of the result."""
        return ("mean", "std", *(() if self.level is None else ("lower", "upper")), *self.thresholds)

    def predicted(self, coordinates: Iterable[Any], every: bool, progress: bool | None) -> tuple[np.ndarray, Any]:
        """The variables of the result along a last axis, NaN where a covariate is missing, and the status.

        They are on a block given by its coordinates, or on ``every`` one.
        """
        points, shape = self.columns.points(coordinates)
        there, status = complete(points, every), None
        values = np.full((len(points), len(self.names)), np.nan)
        if there.any():
            post = self.model.predict(points[there], stop=self.stop, batch_size=self.batch_size, progress=progress)
            values[there] = self.statistics(post.observed(self.noise) if self.observed else post, (-1,))
            status = post.status
        return values.reshape(*shape, -1), status

    def statistics(self, found: Any, shape: tuple[int, ...]) -> np.ndarray:
        """The variables of the result along a last axis, in float64."""
        values = [found.mean, found.std]
        if self.level is not None:
            values += found.interval(self.level)
        values += [found.exceedance(threshold) for threshold in self.thresholds.values()]
        return np.stack([np.asarray(each, dtype=np.float64).reshape(shape) for each in values], axis=-1)

    def __call__(self, *coordinates: Any) -> np.ndarray:
        """The variables of the result on one block."""
        with self.lock:
            values, status = self.predicted(coordinates, every=False, progress=False)
        if status is not None and status.reason == "interrupted":  # a block has no status to say so in
            raise KeyboardInterrupt
        return values


def predict_on(request: Request, grid: Gridded, chunks: Mapping[str, int] | None, progress: bool | None) -> xr.Dataset:
    """The data set with the prediction at the coordinates of ``grid``."""
    coordinates, spread, dims = request.columns.within(grid)
    if taken := [str(name) for name in grid.coords if name in request.names]:
        raise InputError(f"the grid has coordinates called {taken}, as the prediction's variables are; rename them")
    blocks = _chunks(grid, dims, coordinates, chunks)
    if blocks is None:
        at = [each.values for each in spread]
        if isinstance(request.model, Model):  # one of data in shards has no observations at hand
            points = request.columns.points(at)[0]
            warn_caller(told_beyond([request.model], points[complete(points)]), DataWarning)
        values, found = request.predicted(at, every=True, progress=progress)
        status = str(found)
    else:
        values = _lazy_blocks(request, spread, blocks)
        status = "Predicted block by block."
    dataset = _frame(request, grid, coordinates, dims)
    dataset.attrs = cf.provenance(request.source, request.model, request.observed, status)
    mapping = cf.grid_mapping(grid, dataset)
    for i, what in enumerate(request.names):
        attributes = cf.variable_attributes(request.source, what, request.level, request.observed)
        dataset[what] = xr.Variable(dims, values[..., i], attributes | ({"grid_mapping": mapping} if mapping else {}))
    if methods := cf.kept_cell_methods(request.source, dataset):
        dataset["mean"].attrs["cell_methods"] = methods
    return dataset


def _frame(request: Request, grid: Gridded, coordinates: list[xr.DataArray], dims: tuple[Hashable, ...]) -> xr.Dataset:
    """A data set with the coordinates of the result and their attributes, and nothing on them yet."""
    dataset = cf.coordinates_along(grid, dims).copy()
    for axis, coordinate in zip(request.columns.axes, coordinates, strict=True):
        dataset[coordinate.name].attrs = cf.coordinate_attributes(axis.role, coordinate.attrs)
    return dataset


def _chunks(
    grid: Gridded, dims: tuple[Hashable, ...], coordinates: list[xr.DataArray], asked: Mapping[str, int] | None
) -> Chunks | None:
    """How the grid is cut, from ``asked`` or from its own dask arrays; None where it is not."""
    if asked is not None:
        from dask.array.core import normalize_chunks

        if unknown := [name for name in asked if name not in dims]:
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


def _lazy_blocks(request: Request, spread: list[xr.Variable], blocks: Chunks) -> Any:
    """A dask array of the variables of the result along a last axis; nothing is computed."""
    import dask.array as da
    from dask.utils import SerializableLock

    cut = [each.chunk({dim: blocks[dim] for dim, size in each.sizes.items() if size != 1}) for each in spread]
    return da.map_blocks(
        replace(request, lock=SerializableLock()),
        *(each.data for each in cut),
        new_axis=len(blocks),
        chunks=(*blocks.values(), (len(request.names),)),
        dtype=np.float64,
        meta=np.empty((0,) * (len(blocks) + 1)),
        name=f"cagp-predict-{uuid.uuid4().hex}",  # given, so that dask does not read the whole model to name it
    )


def simulate_on(
    request: Request, grid: Gridded, n: int, seed: int, chunks: Mapping[str, int] | None, progress: bool | None
) -> xr.DataArray:
    """``n`` fields at the coordinates of ``grid``, along a first dimension "realisation"."""
    count(n, "n", minimum=1)
    count(seed, "seed")
    coordinates, spread, dims = request.columns.within(grid)
    if REALISATION in (*dims, *grid.coords):
        raise InputError(f"the grid has a dimension or coordinate called {REALISATION!r} already; rename it")
    if unknown := [name for name in chunks or {} if name != REALISATION]:
        raise InputError(f"chunks name {unknown}; fields are cut along {REALISATION!r} alone, because each is whole")
    points, shape = request.columns.points(each.values for each in spread)
    there = complete(points)
    simulator = request.model.simulator(points[there])
    draw = partial(simulator.draw, seed=seed, observed=request.observed, noise_variance=request.noise)
    if chunks is None and not grid.chunksizes:
        values, how = _drawn(draw, there, shape, nullcontext(), 0, n, progress)
    else:
        step = count((chunks or {}).get(REALISATION) or max(1, _BLOCK_BYTES // (8 * len(points))), "chunks", minimum=1)
        values, how = _lazy_fields(draw, there, shape, n, step), "when the values were needed"
    source = request.source
    attributes, notes = cf.simulated(source.name, source.attributes, request.model, request.observed, how, seed)
    dataset = _frame(request, grid, coordinates, dims)
    about = {"standard_name": "realization", "units": "1"}
    dataset = dataset.assign_coords({REALISATION: (REALISATION, np.arange(n), about)})
    name = source.name if source.name not in dataset.coords else f"simulated_{source.name}"
    dataset[name] = xr.Variable((REALISATION, *dims), values, {**notes, **attributes})
    return dataset[name]


def _drawn(
    draw: Callable[..., Any],
    there: np.ndarray,
    shape: tuple[int, ...],
    lock: Any,
    first: int,
    n: int,
    progress: bool | None = False,
) -> tuple[np.ndarray, str]:
    """``n`` fields in the shape of a grid, NaN but ``there`` (T,), and how they were drawn.

    One block at a time, as one may use all memory.
    """
    with lock:
        found = draw(n, first=first, progress=progress)
    values = np.full((n, len(there)), np.nan)
    values[:, there] = found.fields
    return values.reshape(n, *shape), found.how


def _lazy_fields(draw: Callable[..., Any], there: np.ndarray, shape: tuple[int, ...], n: int, step: int) -> Any:
    """A dask array (n, …) in blocks of ``step`` fields; nothing is drawn yet."""
    import dask.array as da
    from dask.delayed import delayed
    from dask.utils import SerializableLock

    drawn = delayed(partial(_drawn, draw, there, shape, SerializableLock()), pure=False, traverse=False, nout=2)
    blocks = [(first, min(step, n - first)) for first in range(0, n, step)]
    parts = [da.from_delayed(drawn(first, m)[0], (m, *shape), dtype=np.float64) for first, m in blocks]
    return da.concatenate(parts, axis=0)

"""Simulated fields in the shape of a grid, along a dimension "realisation": all at once, or lazily through dask."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr

from ..errors import InputError
from ..fields import Simulator
from ..support.validation import count
from .xarray_coordinates import Gridded, coordinates_along
from .xarray_metadata import Source, coordinate_attributes, simulated
from .xarray_prediction import Request, located

REALISATION = "realisation"

_BLOCK_BYTES = 2**27
"""Of fields that are drawn together, where nothing else is said."""


@dataclass(frozen=True)
class _Fields:
    """Fields of one simulator in the shape of a grid. One block at a time: a simulation may use the whole budget."""

    simulator: Simulator
    shape: tuple[int, ...]
    seed: int
    observed: bool
    noise: float | None
    lock: AbstractContextManager[Any] = field(default_factory=nullcontext)

    def __call__(self, first: int, n: int, progress: bool | None = False) -> tuple[np.ndarray, str]:
        with self.lock:
            found = self.simulator.draw(
                n, self.seed, first=first, observed=self.observed, noise_variance=self.noise, progress=progress
            )
        return np.asarray(found.fields, dtype=np.float64).reshape(n, *self.shape), found.how

    def block(self, first: int, n: int) -> np.ndarray:
        """Some of the fields without what is said about them."""
        return self(first, n)[0]


def simulate_on(
    request: Request,
    source: Source,
    grid: Gridded,
    n: int,
    seed: int,
    chunks: Mapping[str, int] | None,
    progress: bool | None,
) -> xr.DataArray:
    """``n`` fields at the coordinates of ``grid``, along a first dimension "realisation"."""
    count(n, "n", minimum=1)
    count(seed, "seed")
    request, coordinates, dims = located(request, grid)
    if REALISATION in (*dims, *grid.coords):
        raise InputError(f"the grid has a dimension or coordinate called {REALISATION!r} already; rename it")
    if unknown := [name for name in chunks or {} if name != REALISATION]:
        raise InputError(f"chunks name {unknown}; fields are cut along {REALISATION!r} alone, because each is whole")
    points, shape = request.points(tuple(coordinate.values for coordinate in coordinates))
    fields = _Fields(request.model.simulator(points), shape, seed, request.observed, request.noise)
    if chunks is None and not grid.chunksizes:
        values, how = fields(0, n, progress)
    else:
        step = (chunks or {}).get(REALISATION) or max(1, _BLOCK_BYTES // (8 * len(points)))
        values, how = _lazy(fields, n, count(step, "chunks", minimum=1)), "when the values were needed"
    attributes, notes = simulated(source.name, source.attributes, request.model, request.observed, how, seed)
    dataset = coordinates_along(grid, dims).copy()
    for axis, coordinate in zip(request.axes, coordinates, strict=True):
        dataset[coordinate.name].attrs = coordinate_attributes(axis.role, coordinate.attrs)
    about = {"standard_name": "realization", "units": "1"}
    dataset = dataset.assign_coords({REALISATION: (REALISATION, np.arange(n), about)})
    name = source.name if source.name not in dataset.coords else f"simulated_{source.name}"
    dataset[name] = xr.Variable((REALISATION, *dims), values, {**notes, **attributes})
    return dataset[name]


def _lazy(fields: _Fields, n: int, step: int) -> Any:
    """A dask array (n, …) in blocks of ``step`` fields; nothing is drawn yet."""
    import dask.array as da
    from dask.delayed import delayed
    from dask.utils import SerializableLock

    locked = replace(fields, lock=SerializableLock())
    draw = delayed(locked.block, pure=False, traverse=False)
    blocks = [(first, min(step, n - first)) for first in range(0, n, step)]
    return da.concatenate(
        [da.from_delayed(draw(first, m), (m, *fields.shape), dtype=np.float64) for first, m in blocks], axis=0
    )

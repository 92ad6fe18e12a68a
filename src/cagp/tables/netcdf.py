"""NetCDF files: points of a grid as rows, with its coordinates and variables as columns, and rows back on that grid."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import TableError
from ..interop.xarray_conventions import coordinate_attributes, coordinates_along, role_of
from ..support.atomic_files import require_disk, whole_file
from ..support.frames import DAYS, days_since_1970
from .table import Grid, RawColumns, Taken, check_names, exact, require_room, unreadable

# what damaged files make the libraries raise
_FAILURES = (OSError, ValueError, KeyError, TypeError, RuntimeError, IndexError, AttributeError, OverflowError)


def require_xarray() -> None:
    """Say what to install where NetCDF files can be neither read nor written."""
    try:
        import h5netcdf  # noqa: F401
        import xarray  # noqa: F401
    except ImportError as error:
        raise ImportError('NetCDF files need xarray and h5netcdf: pip install "cagp[xarray]"') from error


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The file as an xarray dataset, its values not read yet; the engine goes by the first bytes."""
    import h5py  # type: ignore[import-untyped]
    import xarray

    with open(path, "rb") as file:
        engine = "scipy" if file.read(3) == b"CDF" else "h5netcdf"
    try:
        if engine == "h5netcdf":  # which does not clean up after itself where the file cannot be opened
            with h5py.File(path, "r") as file:  # xarray reads coordinates as soon as it opens a file
                scales = (each for each in file.values() if isinstance(each, h5py.Dataset) and each.is_scale)
                require_room(path, sum(float(each.size) * each.dtype.itemsize for each in scales))
        with xarray.open_dataset(path, engine=engine, decode_timedelta=False) as dataset:
            yield dataset
    except TableError:
        raise
    except _FAILURES as error:
        raise unreadable(path, "NetCDF", error, "another kind") from error


def read(path: Path) -> RawColumns:
    """The columns of a NetCDF file: the coordinates along dimensions, then the variables."""
    with _opened(path) as dataset:
        coordinates = [str(name) for name in dataset.dims if name in dataset.coords]
        variables = [str(name) for name in dataset.data_vars if dataset[name].ndim]
        names = check_names(path, [*coordinates, *variables])
        attributes = {
            name: {str(key): value for key, value in dataset[name].attrs.items() if isinstance(value, str)}
            for name in names
        }
        units = {name: said["units"] for name, said in attributes.items() if "units" in said}
        units |= {name: DAYS for name in names if dataset[name].dtype.kind == "M"}
        dims = {name: tuple(map(str, dataset[name].dims)) for name in names}
        roles = {name: role_of(name, dataset[name], strict=False) for name in coordinates}
    found = [name for role in ("latitude", "longitude") for name in coordinates if roles[name] == role]
    globe = (found[0], found[1]) if len(found) == 2 and roles[found[0]] != roles[found[1]] else None
    return RawColumns(path, names, partial(_take, path), units, dims, globe, partial(_grid, path), attributes)


def _dims(dataset: Any, names: Sequence[str]) -> tuple[str, ...]:
    """All dimensions that these columns have, in the order of the variable with the most of them."""
    widest = max((dataset[name].dims for name in names), key=len)
    others = [dim for name in names for dim in dataset[name].dims if dim not in widest]
    return (*widest, *dict.fromkeys(others))


def _grid(path: Path, names: Sequence[str]) -> Grid:
    with _opened(path) as dataset:
        dims = _dims(dataset, names)
        kept = coordinates_along(dataset, dims).load()
        for name, coordinate in kept.coords.items():
            coordinate.attrs = coordinate_attributes(role_of(name, coordinate, strict=False), coordinate.attrs)
        return Grid(dims, tuple(dataset.sizes[dim] for dim in dims), kept)


def _take(path: Path, names: Sequence[str]) -> Taken:
    columns: dict[str, Any] = {}
    with _opened(path) as dataset:
        dims = _dims(dataset, names)
        sizes = {dim: dataset.sizes[dim] for dim in dims}
        require_room(path, 8.0 * len(names) * math.prod(sizes.values()))
        for name in names:
            values = np.asarray(dataset[name].variable.set_dims(sizes).transpose(*dims).values).ravel()
            kind = values.dtype
            if kind.kind != "M" and (kind.kind not in "fiub" or kind.itemsize > 8):
                remedy = "turn it into numbers, or leave it out (--exclude)"
                raise TableError(f"{path}: variable {name!r} has the type {kind}, which is not numeric; {remedy}")
            columns[name] = days_since_1970(values) if kind.kind == "M" else exact(values, path, name)
    return columns, ()


def write(
    path: Path,
    columns: Mapping[str, np.ndarray],
    attributes: Mapping[str, Mapping[str, Any]],
    notes: Mapping[str, Any],
    grid: Grid | None,
    rows: np.ndarray | None,
    fields: tuple[str, int, Iterable[np.ndarray]] | None = None,
) -> None:
    """Variables on the grid, NaN where it has no row; without a grid, variables along a dimension "row".

    ``fields`` are the name and number of fields along "realisation" as well, and some of them (n, T) at a time.
    """
    import h5netcdf  # type: ignore[import-untyped]
    import xarray

    dims, there = (("row",), ()) if grid is None else (grid.dims, grid.coordinates.variables)
    variables = {
        name: (dims, _on_grid(values, grid, rows), dict(attributes.get(name, {})))
        for name, values in columns.items()
        if name not in there
    }
    dataset = xarray.Dataset(variables, None if grid is None else grid.coordinates.coords, dict(notes))
    if fields is not None:
        about = {"standard_name": "realization", "units": "1"}
        dataset = dataset.assign_coords(realisation=("realisation", np.arange(fields[1]), about))
    shape = grid.shape if grid is not None else (len(next(iter(columns.values()))),)
    drawn = 0 if fields is None else 8 * fields[1] * math.prod(shape)
    with whole_file(path) as temporary:
        require_disk(path, dataset.nbytes + drawn)
        dataset.to_netcdf(temporary, engine="h5netcdf")
        if fields is None:
            return
        name, _, parts = fields
        with h5netcdf.File(temporary, "a") as file:
            for dim, size in zip(dims, shape, strict=True):
                if dim not in file.dimensions:  # a dimension without coordinates
                    file.dimensions[dim] = size
            variable = file.create_variable(
                name, ("realisation", *dims), "f8", chunks=(1, *shape), fillvalue=np.nan, compression="gzip"
            )
            for key, value in attributes.get(name, {}).items():
                variable.attrs[key] = value
            first = 0
            for some in parts:
                variable[first : first + len(some)] = np.stack([_on_grid(field, grid, rows) for field in some])
                first += len(some)


def _on_grid(values: np.ndarray, grid: Grid | None, rows: np.ndarray | None) -> np.ndarray:
    if grid is None:
        return values
    size = math.prod(grid.shape)
    if rows is None or len(rows) == size:
        return values.reshape(grid.shape)
    full = np.full(size, np.nan)
    full[rows] = values
    return full.reshape(grid.shape)

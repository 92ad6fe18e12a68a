"""Gridded fields as rows: Zarr stores, NetCDF files and lazy DataArrays, of which one piece is read at a time.

Coordinates become columns, missing cells are left out, and latitude and longitude are on the globe, all as in memory.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..interop.xarray_conventions import Axis, Source, copies, maybe_copies
from ..support.advice import optional
from ..support.atomic_files import whole_file
from .work import Workers

_CELLS = 2_000_000  # of a piece, at most, unless a chunk has more: these are read as a whole
_ENDINGS = (".zarr", ".nc", ".nc4", ".cdf")
_PIECE, _TWINS = "piece-{:06d}.parquet", "_twins-{:06d}.parquet"

Region = dict[Hashable, slice]


@dataclass(frozen=True)
class FieldAxes:
    """What the columns of rows that were cells are; what the field is called, and between which ``longitudes`` it is,
    where the kernel does not know that these go round.
    """

    axes: tuple[Axis, ...]
    source: Source
    longitudes: tuple[float, float] | None

    def to_json(self) -> dict[str, Any]:
        """As ``from_json`` reads it."""
        source = asdict(self.source)
        source["attributes"] = {name: said for name, said in source["attributes"].items() if isinstance(said, str)}
        return {"axes": [asdict(axis) for axis in self.axes], "source": source, "longitudes": self.longitudes}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> FieldAxes:
        """What ``to_json`` gave."""
        ends = content["longitudes"]
        axes = tuple(Axis(**axis) for axis in content["axes"])
        return cls(axes, Source(**content["source"]), None if ends is None else (ends[0], ends[1]))


@dataclass(frozen=True, eq=False)
class LazyField:
    """A field ``flat`` along the dimensions of its points, whose columns are the ``axes``, as ``laid_out`` gives it.

    ``files`` are those that it is read from, where it is not a Dask array.
    """

    flat: Any
    axes: tuple[Axis, ...]
    files: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        *places, name = self.columns
        if name in places:
            raise InputError(f"the field is called {name!r} like its coordinate; rename it: field.rename('values')")

    @classmethod
    def opened(cls, source: Any, target: str, coords: Sequence[str] | None = None) -> LazyField:
        """The variable ``target`` of a Zarr store or of NetCDF files, at these coordinates: by default those along the
        dimensions on which it depends, or latitude and longitude.
        """
        from ..interop.xarray_field import laid_out

        dataset = opened(source)
        if target not in dataset.data_vars:
            raise InputError(f"{source} has no variable {target!r}; it has {sorted(map(str, dataset.data_vars))}")
        field = dataset[target]
        along = [str(dim) for dim in field.dims if field.sizes[dim] > 1]
        found = laid_out(field, coords or (along if set(along) <= set(field.coords) else None), "D")
        return cls(*found, () if field.chunks else tuple(_paths(source)))

    @property
    def columns(self) -> list[str]:
        """The columns: the coordinates, then the values."""
        return [*(axis.name for axis in self.axes), str(self.flat.name or "field")]

    @property
    def token(self) -> str:
        """What tells it from other fields, and from itself after a change."""
        from dask.base import tokenize

        places = [self.flat.coords[axis.name].values for axis in self.axes]
        every = [path for file in self.files for path in (file, *sorted(file.rglob("*")))]
        seen = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in every]
        return str(tokenize(self.columns, places, seen, None if self.files else self.flat.data))

    @property
    def _meridians(self) -> np.ndarray:
        """The longitudes that there are."""
        east = [axis.numbers(self.flat.coords[axis.name].values) for axis in self.axes if axis.role == "longitude"]
        return np.unique(east[0]) if east else np.empty(0)

    @property
    def longitudes(self) -> tuple[float, float] | None:
        """Between which they lie, where the kernel does not know that these go round."""
        every, roles = self._meridians, {axis.role for axis in self.axes}
        return None if "latitude" in roles or not len(every) else (float(every[0]), float(every[-1]))

    def some(self, most: int) -> np.ndarray:
        """Some of its rows (n, p + 1): those of the beginning, perhaps none."""
        first = cut(self.flat, _CELLS)[0]
        for dim in reversed(self.flat.dims):
            size = max(1, most // math.prod(each.stop for name, each in first.items() if name != dim))
            first[dim] = slice(0, min(first[dim].stop, size))
        rows = _rows_of(self.flat.isel(first), self.axes)
        return rows[np.isfinite(rows[:, -1])]

    def write(self, folder: Path, by: Workers) -> FieldAxes:
        """A Parquet file for each piece in a ``folder``; what repeats others is looked for among all that may."""
        from dask.base import optimize
        from pyarrow import parquet

        every, pieces = self._meridians, cut(self.flat, _CELLS)
        parts = (replace(self, flat=optimize(self.flat.isel(piece))[0]) for piece in pieces)  # no other's tasks
        calls = [(part, every, folder, number) for number, part in enumerate(parts)]
        by.all_of(_write_piece, calls, "reading the field")
        found = [parquet.read_table(folder / _TWINS.format(i)) for i in range(len(pieces))]
        twins = np.concatenate([np.column_stack([column.to_numpy() for column in each.columns]) for each in found])
        kept = ~copies(twins[:, :-1], twins[:, -1], self.axes)
        _write_rows(folder / _PIECE.format(len(pieces)), self.columns, twins[kept])
        rows = sum(parquet.read_metadata(folder / _PIECE.format(i)).num_rows for i in range(len(pieces) + 1))
        if not rows:
            raise InputError(f"all {self.flat.size:,} values of the field are NaN; there is nothing to fit to")
        again = int((~kept).sum())
        source = Source(self.columns[-1], dict(self.flat.attrs), self.flat.size - rows - again, again)
        return FieldAxes(self.axes, source, self.longitudes)


def is_grid(source: Any) -> bool:
    """Whether it is a Zarr store, NetCDF files, or an xarray object."""
    if isinstance(source, (list, tuple)):
        return bool(source) and all(isinstance(each, (str, Path)) and is_grid(each) for each in source)
    if isinstance(source, (str, Path)):
        path = Path(source)
        return path.suffix in _ENDINGS or any((path / name).is_file() for name in ("zarr.json", ".zgroup"))
    return type(source).__module__.partition(".")[0] == "xarray"


def opened(source: Any) -> Any:
    """An xarray object: itself, or the one in a Zarr store or in NetCDF files, whose values are not read."""
    xr = optional("xarray", "Zarr stores and NetCDF files", "xarray")
    if not isinstance(source, (str, Path, list, tuple)):
        return source
    paths = _paths(source)
    if gone := [path for path in paths if not path.exists()]:
        raise InputError(f"{gone[0]} does not exist")
    try:
        if len(paths) > 1:
            return xr.open_mfdataset(paths, combine="by_coords")
        return xr.open_dataset(paths[0], engine="zarr" if paths[0].is_dir() else None, cache=False)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{source} cannot be read as a grid ({error})") from error


def _paths(source: Any) -> list[Path]:
    return [Path(each) for each in ([source] if isinstance(source, (str, Path)) else source)]


def cut(array: Any, most: int) -> list[Region]:
    """The regions of an array of xarray, each of whole chunks with at most so many cells, unless one has more."""
    from dask.array.core import normalize_chunks

    preferred = array.encoding.get("preferred_chunks")
    own = array.chunks or (preferred and normalize_chunks(tuple(preferred[dim] for dim in array.dims), array.shape))
    chunks = own
    if not own or math.prod(max(sizes) for sizes in own) < most:
        how: Any = {"limit": 8 * most, "dtype": np.float64, "previous_chunks": own or None}
        chunks = normalize_chunks("auto", shape=array.shape, **how)
    ends = [np.cumsum([0, *sizes]).tolist() for sizes in chunks]
    along = [[slice(*each) for each in pairwise(own)] for own in ends]
    return [dict(zip(array.dims, each, strict=True)) for each in product(*along)]


def some_points(axes: tuple[Axis, ...], longitudes: tuple[float, float] | None, grid: Any, most: int) -> np.ndarray:
    """The points (T, p) of a grid; of more than so many as many, drawn at random, and no others are read."""
    import xarray as xr

    from ..interop.xarray_prediction import Columns, complete, require_grid

    require_grid(grid, "like")
    columns = Columns(axes, longitudes)
    spread, dims = columns.within(grid)[1:]
    shape = tuple(grid.sizes[dim] for dim in dims)
    if math.prod(shape) > most:
        chosen = np.sort(np.random.default_rng(0).choice(math.prod(shape), most, replace=False))
        at = {dim: xr.Variable("point", i) for dim, i in zip(dims, np.unravel_index(chosen, shape), strict=True)}
        every = {dim: 0 * index for dim, index in at.items()}
        spread = [each.isel({dim: (at if each.sizes[dim] > 1 else every)[dim] for dim in dims}) for each in spread]
    points = columns.points(each.values for each in spread)[0]
    return points[complete(points)]


def _rows_of(flat: Any, axes: tuple[Axis, ...]) -> np.ndarray:
    """The rows (n, p + 1) of all cells of a part of a field."""
    import dask

    from ..interop.xarray_field import cells_of

    with dask.config.set(scheduler="synchronous"):  # a worker has one thread
        return np.column_stack(cells_of(flat, axes))


def _write_piece(field: LazyField, longitudes: np.ndarray, folder: Path, number: int) -> None:
    """The rows of a part of a field, and beside them those that may repeat rows of others."""
    path = folder / _PIECE.format(number)
    if path.exists():
        return
    rows = _rows_of(field.flat, field.axes)
    y = rows[:, -1]
    if np.isinf(y).any():
        raise InputError(f"the field {field.columns[-1]!r} has infinite values; make them NaN, which are left out")
    there = ~np.isnan(y)
    twins = there & maybe_copies(rows[:, :-1], field.axes, longitudes)
    _write_rows(folder / _TWINS.format(number), field.columns, rows[twins])
    _write_rows(path, field.columns, rows[there & ~twins])


def _write_rows(path: Path, names: Sequence[str], rows: np.ndarray) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table(dict(zip(names, np.ascontiguousarray(rows.T), strict=True)))
    with whole_file(path) as temporary:
        parquet.write_table(table, temporary, compression="none", use_dictionary=False, row_group_size=250_000)

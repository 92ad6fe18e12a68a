"""The cells of a map: a regular grid over an area, or those of a raster, in tiles that are worked on one by one."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, TableError
from ..support.advice import optional
from ..support.coordinate_systems import is_globe, parsed, same_system, worded
from ..support.validation import positive

TILE = 256
"""Cells along the side of a tile: of the work, and of the files."""

_MOST = 10**9
_SIZE = re.compile(r"\s*([-+.0-9eE]+)\s*(m|km|deg|°)?\s*")
_METRES = {"m": 1.0, "km": 1000.0}

Bounds = tuple[float, float, float, float]


@dataclass(frozen=True)
class Tile:
    """Cells of the rows ``top`` … ``bottom`` − 1 and the columns ``left`` … ``right`` − 1; the ``number``-th tile."""

    number: int
    top: int
    bottom: int
    left: int
    right: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.bottom - self.top, self.right - self.left

    @property
    def slices(self) -> tuple[slice, slice]:
        """Rows and columns, to index an array of the whole map by."""
        return slice(self.top, self.bottom), slice(self.left, self.right)


@dataclass(frozen=True)
class Cells:
    """``rows`` × ``columns`` cells of the sides ``dx`` and ``dy``, from the corner (``x0``, ``y0``) of the first one.

    North is up: ``dy`` is negative. ``crs`` is their coordinate system, ``raster`` the file whose cells they are.
    """

    x0: float
    y0: float
    dx: float
    dy: float
    rows: int
    columns: int
    crs: str | None
    raster: Path | None = None

    def __len__(self) -> int:
        return self.rows * self.columns

    @classmethod
    def over(cls, bounds: Bounds, side: float, crs: str | None, globe: bool) -> Cells:
        """Square cells of this ``side`` that cover the ``bounds`` (west, south, east, north), at multiples of it."""
        rounding = 1e-9  # bounds that are multiples of the side themselves begin or end a cell
        first, last = (math.floor(low / side + rounding) for low in bounds[:2]), bounds[2:]
        west, south = first
        east, north = (math.ceil(high / side - rounding) for high in last)
        east, north = max(east, west + 1), max(north, south + 1)
        if globe:
            east = min(east, west + math.floor(360 / side + rounding))
            south, north = max(south, math.ceil(-90 / side - rounding)), min(north, math.floor(90 / side + rounding))
        if east <= west or north <= south:
            raise InputError(f"cells of {side:g} degrees are larger than the globe; choose smaller ones")
        if (count := (east - west) * (north - south)) > _MOST:
            raise InputError(
                f"cells of the side {side:g} would be {count:.3g}, a map has at most {_MOST:,}; the area is "
                f"{bounds[2] - bounds[0]:g} × {bounds[3] - bounds[1]:g}: choose larger cells"
            )
        return cls(west * side, north * side, side, -side, north - south, east - west, crs)

    @classmethod
    def of_raster(cls, path: Path) -> Cells:
        """The cells of a raster file."""
        with opened(path) as source:
            t = source.transform
            if t.b or t.d or t.a <= 0 or t.e >= 0:
                raise InputError(f"the rows of {path} do not run from west to east and north to south; gdalwarp can")
            crs = None if source.crs is None else str(parsed(source.crs.to_wkt()).to_string())
            return cls(t.c, t.f, t.a, t.e, source.height, source.width, crs, path)

    def xs(self, first: int, last: int) -> np.ndarray:
        """The centres of the columns ``first`` … ``last`` − 1."""
        return self.x0 + self.dx * (np.arange(first, last) + 0.5)

    def ys(self, first: int, last: int) -> np.ndarray:
        """The centres of the rows ``first`` … ``last`` − 1."""
        return self.y0 + self.dy * (np.arange(first, last) + 0.5)

    def transform(self, tile: Tile | None = None) -> Any:
        """Rows and columns as coordinates, as rasterio wants it: of the whole map or of a tile."""
        affine = optional("rasterio", "a map", "geo").Affine
        top, left = (0, 0) if tile is None else (tile.top, tile.left)
        return affine(self.dx, 0.0, self.x0 + self.dx * left, 0.0, self.dy, self.y0 + self.dy * top)

    def tiles(self) -> Iterator[Tile]:
        """All tiles, row by row."""
        number = 0
        for top in range(0, self.rows, TILE):
            for left in range(0, self.columns, TILE):
                yield Tile(number, top, min(top + TILE, self.rows), left, min(left + TILE, self.columns))
                number += 1


def opened(path: Path) -> Any:
    """A raster file, opened by rasterio."""
    rasterio = optional("rasterio", "a raster", "geo")
    if not path.is_file():
        raise InputError(f"{path} is neither a raster that is there nor the side of cells, such as 0.01 or 500m")
    try:
        return rasterio.open(path)
    except rasterio.errors.RasterioIOError as error:
        raise TableError(f"{path} cannot be read as a raster: {error}") from error


def side_of(grid: Any, crs: str | None) -> float | None:
    """The side of cells in the unit of the coordinates, from a number or such as "500m"; None for anything else.

    Refuses a length for coordinates in degrees, degrees in a plane, and both where the unit is not known.
    """
    if not isinstance(grid, str):
        return None if isinstance(grid, Path) else positive(grid, "grid")
    found = _SIZE.fullmatch(grid)
    if found is None:
        return None
    try:
        side, unit = float(found[1]), found[2]
    except ValueError:  # such as 1e-
        return None
    positive(side, "grid")
    if unit is None:
        return side
    if crs is None:
        raise InputError(
            f"the model does not say the unit of its coordinates, so {grid!r} has no meaning; give {side:g}"
        )
    on_globe = is_globe(crs)
    if on_globe != (unit not in _METRES):
        has = "degrees: 0.01 is about a kilometre" if on_globe else "a length, such as 500m"
        raise InputError(f"cells of {grid} do not go with {worded(crs)}; give {has}")
    if on_globe:
        return side
    return side * _METRES[unit] / float(parsed(crs).axis_info[0].unit_conversion_factor)


def require_cells_of(cells: Cells, known: str | None, globe: bool) -> None:
    """Refuse the cells of a raster in another system than the one that is ``known`` of a model, or its kernel means."""
    if known is not None and (cells.crs is None or not same_system(cells.crs, known)):
        here = "is not said" if cells.crs is None else f"is {worded(cells.crs)}"
        raise InputError(
            f"the coordinate system of {cells.raster} {here}, that of the model is {worded(known)}; convert the "
            f"raster: gdalwarp -t_srs {known} {cells.raster} new.tif"
        )
    if known is None and globe != (cells.crs is not None and is_globe(cells.crs)):
        has, wanted = "none" if cells.crs is None else worded(cells.crs), "degrees" if globe else "a plane"
        raise InputError(f"the coordinate system of {cells.raster} is {has}, the model is in {wanted}")

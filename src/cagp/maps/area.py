"""Polygons that say which cells of a map are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..support.advice import optional
from ..support.coordinate_systems import has_geometry, same_system, system_of, worded
from ..tables.vector import read_frame
from .cells import Bounds, Cells, Tile


@dataclass(frozen=True)
class Area:
    """Polygons: cells whose centre lies in one of them are wanted. ``told`` says if they were in another system."""

    polygons: tuple[Any, ...]
    told: str = ""

    @classmethod
    def of(cls, mask: Any, crs: str | None) -> Area:
        """From a GeoDataFrame, a GeoSeries or a file, brought into the system ``crs`` of the model."""
        name = str(mask) if isinstance(mask, (str, Path)) else "mask"
        if isinstance(mask, (str, Path)) and not Path(mask).is_file():
            raise InputError(f"the mask {name} is not a file")
        frame = read_frame(Path(mask)) if isinstance(mask, (str, Path)) else mask
        if not has_geometry(frame):
            raise InputError(f"mask must be a file or a GeoDataFrame of polygons, got {type(mask).__name__}")
        system, shapes, told = system_of(frame, name), frame.geometry.dropna(), ""
        if system is not None and crs is not None and not same_system(system, crs):
            shapes = shapes.to_crs(crs)
            told = f"The polygons of {name} are converted from {worded(system)} to {worded(crs)}."
            if not np.isfinite(shapes.total_bounds).all():
                raise InputError(f"{name} reaches beyond {worded(crs)}, that of the model, to which it is converted")
        if not len(shapes) or set(shapes.geom_type) - {"Polygon", "MultiPolygon"}:
            raise InputError(f"{name} must hold polygons, got {sorted(set(shapes.geom_type)) or 'nothing'}")
        return cls(tuple(shapes), told)

    @property
    def bounds(self) -> Bounds:
        """West, south, east, north."""
        each = np.array([shape.bounds for shape in self.polygons])
        west, south = each[:, :2].min(axis=0)
        east, north = each[:, 2:].max(axis=0)
        return float(west), float(south), float(east), float(north)

    def holds(self, x: np.ndarray, y: np.ndarray, globe: bool) -> np.ndarray:
        """Which points (n,) lie in one of the polygons; longitudes in any turn on the ``globe``."""
        shapely = optional("shapely", "a mask", "geo")
        turns = (0, 360, -360) if globe else (0,)
        whole = shapely.union_all(self.polygons)
        return np.asarray(np.any([shapely.contains_xy(whole, x + turn, y) for turn in turns], axis=0))

    def inside(self, cells: Cells, tile: Tile) -> np.ndarray:
        """Which cells of a tile have their centre inside, (rows, columns)."""
        features = optional("rasterio.features", "a mask", "geo")
        return np.asarray(features.geometry_mask(self.polygons, tile.shape, cells.transform(tile), invert=True))

    @property
    def content(self) -> bytes:
        """All that the polygons are."""
        return b"".join(shape.wkb for shape in self.polygons)

"""Polygons that say which cells of a map are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..support.advice import optional
from ..support.coordinate_systems import DEGREES, has_geometry, in_the_system, is_globe, same_system, worded
from ..support.progress import LOGGER
from ..tables.vector import read_frame
from .cells import Bounds, Cells, Tile

_EDGES = 100  # pieces of an edge as long as the mask is wide, each straight in the system of the model
_TURNS = (0, 360, -360)  # in which longitudes may be written


@dataclass(frozen=True)
class Area:
    """Polygons: cells whose centre lies in one of them are wanted."""

    polygons: tuple[Any, ...]

    @classmethod
    def of(cls, mask: Any, known: str | None, globe: bool) -> Area:
        """From a GeoDataFrame, a GeoSeries or a file, brought into the system that is ``known`` of the model.

        A model that does not say its system is on the ``globe``, in degrees of GPS, or in some plane, where polygons
        are taken as they are, and the log says so. An area is itself.
        """
        if isinstance(mask, Area):
            return mask
        file = isinstance(mask, (str, Path))
        name, kind = (str(mask),) * 2 if file else ("mask", type(mask).__name__)
        if file and not Path(mask).is_file():
            raise InputError(f"the mask {name} is not a file")
        frame = read_frame(Path(mask)) if file else mask
        if not has_geometry(frame):
            raise InputError(f"mask must be a file or a GeoDataFrame of polygons, got {kind}")
        shapes = frame.geometry.dropna()
        shapes = shapes[~shapes.is_empty]
        if not len(shapes) or set(shapes.geom_type) - {"Polygon", "MultiPolygon"}:
            raise InputError(f"{name} must hold polygons, got {sorted(set(shapes.geom_type)) or 'nothing'}")
        system = None if frame.crs is None else str(frame.crs.to_string())
        crs = known or (DEGREES if globe else None)
        if system is None and known is not None:
            remedy = f"if the mask is, too, {in_the_system(known, name, file)} says so"
            raise InputError(f"{name} does not say its coordinate system, the model is in {worded(known)}; {remedy}")
        if system is not None and crs is None:
            LOGGER.warning(
                f"{name} is in {worded(system)}, and the model does not say its coordinate system (--crs at the fit, "
                "about= in Python): the polygons are taken as they are."
            )
        elif system is not None and crs is not None and not same_system(system, crs):
            shapes = _converted(shapes, crs, f"{name} cannot be converted from {worded(system)} to {worded(crs)}")
            LOGGER.info(f"The polygons of {name} are converted from {worded(system)} to {worded(crs)}.")
        return cls(tuple(shapes))

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
        tree, found = shapely.STRtree(self.polygons), np.zeros(len(x), dtype=bool)  # no union: polygons may be invalid
        for turn in _TURNS if globe else (0,):
            found[tree.query(shapely.points(x + turn, y), predicate="within")[0]] = True
        return found

    def inside(self, cells: Cells, tile: Tile) -> np.ndarray:
        """Which cells of a tile have their centre inside, (rows, columns); longitudes in any turn on the globe."""
        features = optional("rasterio.features", "a mask", "geo")
        polygons = self._turned if cells.crs is not None and is_globe(cells.crs) else self.polygons
        return np.asarray(features.geometry_mask(polygons, tile.shape, cells.transform(tile), invert=True))

    @cached_property
    def _turned(self) -> tuple[Any, ...]:
        """Polygons in degrees, and the same a turn further east and west."""
        translate = optional("shapely.affinity", "a mask", "geo").translate
        return tuple(translate(each, turn) for turn in _TURNS for each in self.polygons)

    @property
    def content(self) -> bytes:
        """All that the polygons are."""
        return b"".join(shape.wkb for shape in self.polygons)


def _converted(shapes: Any, crs: str, failure: str) -> Any:
    """Polygons in the system ``crs``, where straight edges bend; refuses with ``failure`` what is none there."""
    shapely = optional("shapely", "a mask", "geo")
    errors = optional("pyproj.exceptions", "a coordinate system", "geo")
    west, south, east, north = shapes.total_bounds
    if not shapes.is_valid.all():  # of which segmentize would leave out parts
        raise InputError(f"{failure}: its polygons cross themselves; make_valid of GeoPandas mends them")
    try:
        found = shapes.segmentize(max(east - west, north - south) / _EDGES).to_crs(crs)
    except errors.ProjError as error:
        raise InputError(f"{failure}, since nothing says how; give the mask in that system") from error
    values = np.asarray(found.array)
    if not np.isfinite(shapely.get_coordinates(values)).all():
        raise InputError(f"{failure}: it reaches beyond that system; cut it to where the model is")
    along, ring = shapely.get_coordinates(shapely.get_rings(values), return_index=True)
    if is_globe(crs) and ((np.abs(np.diff(along[:, 0])) > 180) & (np.diff(ring) == 0)).any():
        raise InputError(f"{failure}: it crosses the 180th meridian, or has a pole in it; cut it there in two")
    if not (shapely.is_valid(values).all() and shapely.area(values).sum() > 0):
        raise InputError(
            f"{failure}: there its polygons cross themselves, or have no area; cut it to where the model is"
        )
    return found

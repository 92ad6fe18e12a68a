"""Coastlines for maps, where they are on this machine: nothing is downloaded, and a map without them is a map too.

Looked for, in this order: Natural Earth's ``ne_110m_coastline.geojson`` in the folder CAGP_DATA or in the cache of
cagp, and the same lines in the data folders of cartopy, where that is installed and has fetched them before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..datasets.files import cache_folder, data_folder

FILE_NAME = "ne_110m_coastline"
_CARTOPY_FOLDER = Path("shapefiles", "natural_earth", "physical")


def coastlines() -> list[np.ndarray]:
    """Lines of (longitude, latitude) in degrees, each (n, 2), longitudes in −180…180; an empty list without any."""
    for read in (_from_geojson, _from_cartopy):
        try:
            lines = list(read())
        except Exception:  # a damaged file or another version of a package must not cost anyone a map
            continue
        if lines:
            return lines
    return []


def wrapped(lines: list[np.ndarray]) -> list[np.ndarray]:
    """The same lines with longitudes in 0…360, cut where they cross the meridian 0."""
    pieces = []
    for line in lines:
        east = np.column_stack([line[:, 0] % 360, line[:, 1]])
        jumps = np.flatnonzero(np.abs(np.diff(east[:, 0])) > 180) + 1
        pieces += [piece for piece in np.split(east, jumps) if len(piece) > 1]
    return pieces


def _from_geojson() -> Iterator[np.ndarray]:
    for folder in (data_folder(), cache_folder()):
        path = folder / f"{FILE_NAME}.geojson" if folder else None
        if path is not None and path.is_file():
            for feature in json.loads(path.read_text(encoding="utf-8"))["features"]:
                lines = feature["geometry"]["coordinates"]
                for line in [lines] if feature["geometry"]["type"] == "LineString" else lines:
                    yield np.asarray(line, dtype=np.float64)[:, :2]
            return


def _from_cartopy() -> Iterator[np.ndarray]:
    import cartopy  # type: ignore[import-not-found]
    from cartopy.io import shapereader  # type: ignore[import-not-found]

    for key in ("pre_existing_data_dir", "data_dir"):
        path = Path(cartopy.config[key]) / _CARTOPY_FOLDER / f"{FILE_NAME}.shp"
        if cartopy.config[key] and path.is_file():
            for geometry in shapereader.Reader(str(path)).geometries():
                for part in getattr(geometry, "geoms", [geometry]):
                    yield np.asarray(part.coords, dtype=np.float64)[:, :2]
            return

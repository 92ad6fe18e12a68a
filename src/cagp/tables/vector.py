"""Points in files of geographic information systems: GeoPackage, GeoJSON and GeoParquet, with their system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, TableError
from ..support.advice import optional
from ..support.atomic_files import whole_file
from ..support.coordinate_systems import coordinate_names, coordinate_units, is_globe, system_of, without_geometry
from . import parquet
from .table import RawColumns, Taken, check_names, unreadable

DRIVERS = {".gpkg": "GPKG", ".geojson": "GeoJSON"}
"""The ending of a file → what GDAL calls its format."""


def require_geopandas() -> Any:
    """The library that reads and writes geometries, or what to install."""
    return optional("geopandas", "a file with a geometry", "geo")


def read_frame(path: Path) -> Any:
    """The GeoDataFrame in a file, of its only layer."""
    geopandas = require_geopandas()
    try:
        if path.suffix.lower() == ".parquet":
            return geopandas.read_parquet(path)
        layers = optional("pyogrio", "a file with a geometry", "geo").list_layers(path)
        if len(layers) != 1:
            names = ", ".join(repr(str(name)) for name in layers[:, 0])
            remedy = f"take one out: ogr2ogr one.gpkg {path} LAYER"
            raise TableError(f"{path} has {len(layers)} layers, {names}; {remedy}")
        return geopandas.read_file(path)
    except TableError:
        raise
    except Exception as error:  # GDAL, Arrow and JSON each have errors of their own
        raise unreadable(path, "a file with a geometry", error, "another kind") from error


def read(path: Path) -> RawColumns:
    """The columns of a file of points: the coordinates first."""
    frame = read_frame(path)
    if not hasattr(frame, "geometry") or frame.geometry.isna().all():
        raise TableError(f"{path} has no geometry")
    try:
        system = system_of(frame, str(path), file=True)
        assert system is not None
        plain = without_geometry(frame, str(path))
    except InputError as error:
        raise TableError(str(error)) from error
    places = coordinate_names(system)
    names = check_names(path, [*places, *(name for name in plain.columns if name not in places)])

    def take(asked: Sequence[str]) -> Taken:
        import pyarrow as pa

        table = pa.Table.from_pandas(plain[list(asked)], preserve_index=False)
        return {name: parquet.column_values(path, name, table.column(name)) for name in asked}, ()

    globe = places if is_globe(system) else None
    return RawColumns(path, names, take, coordinate_units(system), globe=globe, crs=system)


def write(path: Path, columns: Mapping[str, Any], crs: str) -> None:
    """Write columns as points with the other columns; two of them are called as the coordinates of ``crs`` are."""
    geopandas = require_geopandas()
    first, second = (np.asarray(columns[name]) for name in coordinate_names(crs))
    x, y = (second, first) if is_globe(crs) else (first, second)
    rest = {name: np.asarray(values) for name, values in columns.items() if name not in coordinate_names(crs)}
    frame = geopandas.GeoDataFrame(rest, geometry=geopandas.points_from_xy(x, y), crs=crs)
    with whole_file(path) as temporary:
        if path.suffix.lower() == ".parquet":
            frame.to_parquet(temporary)
        else:
            frame.to_file(temporary, driver=DRIVERS[path.suffix.lower()], layer=path.stem)

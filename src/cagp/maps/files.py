"""Files of maps: GeoTIFF, NetCDF and Zarr, written tile by tile, whole or not at all."""

from __future__ import annotations

import errno
import shutil
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ..errors import InputError
from ..support.advice import optional
from ..support.atomic_files import named_as, require_disk, whole_file
from ..support.coordinate_systems import coordinate_units, is_globe, parsed
from .cells import TILE, Cells, Tile

_MAPPING = "spatial_ref"  # the variable with the coordinate system, called as GDAL and rioxarray call it

Parts = Iterable[tuple[Tile, Mapping[str, np.ndarray]]]
"""Tiles and what each band has there, (rows, columns)."""


@dataclass(frozen=True)
class Layout:
    """What a file holds beside numbers: its ``cells``, the attributes of each of its ``bands``, notes on the whole."""

    cells: Cells
    bands: Mapping[str, Mapping[str, Any]]
    notes: Mapping[str, Any]


def writer_for(out: Path) -> Callable[[Path, Layout, Parts], None]:
    """What writes a map by the ending of its name, if the libraries for it are there."""
    found = _WRITERS.get(out.suffix.lower())
    if found is None:
        raise InputError(f"{out} has no ending of a map; maps are {', '.join(_WRITERS)}")
    for module in _LIBRARIES[found]:
        optional(module, f"a map in a {out.suffix} file", "geo" if module in _GEO else "xarray")
    if out.exists() and (out.is_dir() if found is not _zarr else not _is_store(out)):
        kind = "Zarr store" if found is _zarr else "file"
        raise InputError(f"{out} is there, and no {kind}, so that it is not replaced; choose another name")
    return found


def _is_store(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (".zgroup", ".zmetadata", "zarr.json"))


def _geotiff(path: Path, layout: Layout, parts: Parts) -> None:
    """Bands with names, units and descriptions; NaN where there is nothing."""
    import rasterio

    cells = layout.cells
    profile = {"driver": "GTiff", "dtype": "float64", "count": len(layout.bands), "nodata": np.nan}
    profile |= {"height": cells.rows, "width": cells.columns, "transform": cells.transform(), "crs": cells.crs}
    profile |= {"tiled": True, "blockxsize": TILE, "blockysize": TILE, "BIGTIFF": "IF_SAFER"}
    written = list[tuple[Any, int]]()
    with rasterio.Env(), whole_file(path) as temporary:
        with rasterio.open(temporary, "w", compress="deflate", predictor=3, interleave="band", **profile) as file:
            file.update_tags(**{name: str(note) for name, note in layout.notes.items()})
            for band, (name, attributes) in enumerate(layout.bands.items(), start=1):
                file.set_band_description(band, name)
                file.set_band_unit(band, str(attributes.get("units", "")))
                file.update_tags(band, **{key: str(value) for key, value in attributes.items()})
            for tile, values in parts:
                stacked = np.stack([values[name] for name in layout.bands])
                written.append((rasterio.windows.Window.from_slices(*tile.slices), zlib.crc32(stacked.data)))
                file.write(stacked, window=written[-1][0])
        _require_whole(temporary, written)
        temporary.with_name(f"{temporary.name}.aux.xml").unlink(missing_ok=True)


def _require_whole(path: Path, written: Sequence[tuple[Any, int]]) -> None:
    """Read back what was written, windows and their checksums: GDAL says nothing of a disk that is full."""
    import rasterio

    try:
        with rasterio.open(path) as file:
            whole = all(zlib.crc32(file.read(window=window)) == wanted for window, wanted in written)
    except (rasterio.errors.RasterioError, OSError):
        whole = False
    if not whole:
        require_disk(path, 2**20)
        raise OSError(errno.EIO, "what is read back is not what was written")


def _frame(layout: Layout) -> Any:
    """The coordinates of a map and what the CF conventions say of its system, as an xarray Dataset without bands."""
    import xarray

    cells = layout.cells
    along = {"y": cells.ys(0, cells.rows), "x": cells.xs(0, cells.columns)}
    if cells.crs is None:
        return xarray.Dataset(coords=along, attrs=dict(layout.notes))
    units, globe = coordinate_units(cells.crs), is_globe(cells.crs)
    coordinates: dict[str, Any] = {}
    for each, on_globe in (("y", "latitude"), ("x", "longitude")):
        name = on_globe if globe else each
        about = {"standard_name": on_globe if globe else f"projection_{each}_coordinate", "axis": each.upper()}
        coordinates[name] = (name, along[each], about | {"units": units.get(name, "1")})
    mapping = parsed(cells.crs).to_cf() | {"GeoTransform": " ".join(map(repr, cells.transform().to_gdal()))}
    mapping["spatial_ref"] = mapping["crs_wkt"]
    coordinates[_MAPPING] = ((), 0, mapping)
    return xarray.Dataset(coords=coordinates, attrs=dict(layout.notes))


def _attributes(layout: Layout, name: str) -> dict[str, Any]:
    """Those of a band, with where its coordinate system is described."""
    return dict(layout.bands[name]) | ({} if layout.cells.crs is None else {"grid_mapping": _MAPPING})


def _dims(frame: Any) -> tuple[str, str]:
    first, second = (name for name in frame.coords if name != _MAPPING)
    return str(first), str(second)


def _netcdf(path: Path, layout: Layout, parts: Parts) -> None:
    """Variables after the CF conventions, in compressed tiles."""
    import h5netcdf  # type: ignore[import-untyped]

    frame, cells = _frame(layout), layout.cells
    chunks = (min(TILE, cells.rows), min(TILE, cells.columns))
    numbers = cells.rows * cells.columns * len(layout.bands) + cells.rows + cells.columns
    with whole_file(path) as temporary:
        require_disk(path, 9 * numbers)  # and what is said of them; few can be packed
        frame.to_netcdf(temporary, engine="h5netcdf")
        with h5netcdf.File(temporary, "a") as file:
            for name in layout.bands:
                how: Any = {"chunks": chunks, "fillvalue": np.nan, "compression": "gzip", "shuffle": True}
                variable = file.create_variable(name, _dims(frame), "f8", **how)
                for key, value in _attributes(layout, name).items():
                    variable.attrs[key] = value
            for tile, values in parts:
                for name in layout.bands:
                    file.variables[name][tile.slices] = values[name]


def _zarr(path: Path, layout: Layout, parts: Parts) -> None:
    """Arrays after the CF conventions, whose regions are the tiles."""
    import dask.array
    import numcodecs
    import zarr

    frame = _frame(layout)
    nothing = dask.array.full((layout.cells.rows, layout.cells.columns), np.nan, chunks=TILE)
    for name in layout.bands:
        frame[name] = (_dims(frame), nothing, _attributes(layout, name))
    temporary = path.with_name(f".partial-{uuid4().hex}-{path.name}")
    with named_as(path):
        try:
            zlib = {"compressors": numcodecs.Zlib(4)}  # this format and compression are what every GDAL reads
            packed = {name: zlib for name in layout.bands}
            frame.to_zarr(temporary, compute=False, zarr_format=2, encoding=packed)
            group: Any = zarr.open_group(temporary, mode="r+")
            for tile, values in parts:
                for name in layout.bands:
                    group[name][tile.slices] = values[name]
            aside = path.with_name(f".replaced-{uuid4().hex}-{path.name}")
            if path.exists():
                path.rename(aside)
            try:
                temporary.rename(path)
            except BaseException:  # what was there stays
                if aside.exists():
                    aside.rename(path)
                raise
            shutil.rmtree(aside, ignore_errors=True)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


_WRITERS = {".tif": _geotiff, ".tiff": _geotiff, ".nc": _netcdf, ".zarr": _zarr}
_GEO = ("rasterio", "pyproj")
_LIBRARIES = {
    _geotiff: _GEO,
    _netcdf: (*_GEO, "xarray", "h5netcdf"),
    _zarr: (*_GEO, "xarray", "dask", "zarr", "numcodecs"),
}

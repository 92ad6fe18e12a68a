"""Tables on disk, by the ending of the file: .csv, .csv.gz, .parquet, .nc.

What comes out is named columns of float64, complete: anything missing, infinite, not a number or not exactly
representable is refused with the file, the place and the remedy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, TableError
from . import comma_separated, netcdf, parquet
from .labels import read_labelled
from .table import Grid, RawColumns, Table, cleaned, select

_READERS = {
    ".csv": comma_separated.read,
    ".csv.gz": comma_separated.read,
    ".parquet": parquet.read,
    ".nc": netcdf.read,
}
ENDINGS = tuple(_READERS)


def ending_of(path: str | Path) -> str:
    """The ending that says what kind of table a file is, one that can be read and written here."""
    name = Path(path).name.lower()
    for ending in sorted(ENDINGS, key=len, reverse=True):
        if name.endswith(ending) and len(name) > len(ending):
            if ending == ".nc":
                netcdf.require_xarray()  # now, not after a long computation
            return ending
    raise InputError(f"{path} has no ending that cagp knows; tables are {', '.join(ENDINGS)} files")


def read_columns(path: str | Path) -> RawColumns:
    """What columns a file has, without their values."""
    place = Path(path)
    ending = ending_of(place)
    if not place.exists():
        raise TableError(f"{place} does not exist")
    if not place.is_file():
        raise TableError(f"{place} is not a file")
    if not place.stat().st_size:
        raise TableError(f"{place} is empty")
    return _READERS[ending](place)


def read_table(path: str | Path, columns: Sequence[str] | None = None, *, drop_missing: bool = False) -> Table:
    """The columns of that name (all, by default) of a table file, float64.

    Rows with missing values are refused, or left out with ``drop_missing``: ``Table.dropped`` says how many.
    """
    raw = read_columns(path)
    return cleaned(raw, select(raw, columns), drop_missing)


def write_table(
    path: str | Path,
    columns: Mapping[str, np.ndarray],
    *,
    units: Mapping[str, str] | None = None,
    notes: Mapping[str, Any] | None = None,
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
    grid: Grid | None = None,
    rows: np.ndarray | None = None,
) -> None:
    """Write columns of equal length, whole or not at all.

    Parquet and NetCDF also keep ``units`` and ``notes`` (texts about the whole), NetCDF more ``attributes`` of each
    column. A ``grid`` that the columns were read from comes back in NetCDF, with the same coordinates; ``rows`` are
    then the places of the columns' values in it.
    """
    place, ending = Path(path), ending_of(path)
    if ending == ".nc":
        about = {name: {"units": unit} for name, unit in (units or {}).items()}
        for name, more in (attributes or {}).items():
            about[name] = {**about.get(name, {}), **more}
        netcdf.write(place, columns, about, notes or {}, grid, rows)
    elif ending == ".parquet":
        parquet.write(place, columns, units or {}, notes or {})
    else:
        comma_separated.write(place, columns)


def write_fields(
    path: str | Path,
    name: str,
    parts: Iterable[np.ndarray],
    count: int,
    table: Table,
    *,
    attributes: Mapping[str, Mapping[str, Any]],
    notes: Mapping[str, Any],
) -> None:
    """Write ``count`` fields (T,) at the rows of ``table``, whole or not at all; ``parts`` are some of them, (n, T).

    NetCDF is written one part at a time, on the grid that the rows came from; other tables have a column for each
    field, ``name_0``, ``name_1``, … after those of ``table``.
    """
    place, ending = Path(path), ending_of(path)
    if ending == ".nc":
        about = {key: {"units": unit} for key, unit in table.units.items()} | dict(attributes)
        netcdf.write_fields(place, name, parts, count, table.columns, about, notes, table.grid, table.rows)
        return
    fields = (field for part in parts for field in part)
    columns = dict(table.columns) | {f"{name}_{i}": field for i, field in enumerate(fields)}
    unit = attributes.get(name, {}).get("units")
    units = {**table.units, **({} if unit is None else {key: unit for key in columns if key not in table.columns})}
    write_table(place, columns, units=units, notes=notes)


__all__ = [
    "ENDINGS",
    "Grid",
    "RawColumns",
    "Table",
    "ending_of",
    "read_columns",
    "read_labelled",
    "read_table",
    "write_fields",
    "write_table",
]

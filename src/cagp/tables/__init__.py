"""Tables on disk as complete columns of float64: what is missing, infinite or inexact is refused, with the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, TableError
from ..support.encodings import Encoding, sources_of
from . import comma_separated, netcdf, parquet, vector
from .columns import ColumnsAsked, encoded_table, learned
from .table import Grid, RawColumns, Table, missing_in, one_is_enough, select, taken_at, without

_READERS = {".csv": comma_separated.read, ".csv.gz": comma_separated.read, ".parquet": parquet.read, ".nc": netcdf.read}
_READERS |= dict.fromkeys(vector.DRIVERS, vector.read)
ENDINGS = tuple(_READERS)
WITH_POINTS = tuple(vector.DRIVERS)  # files that are points with their coordinate system, and nothing else


def ending_of(path: str | Path) -> str:
    """The ending that says what kind of table a file is, one that can be read and written here."""
    name = Path(path).name.lower()
    for ending in sorted(ENDINGS, key=len, reverse=True):
        if name.endswith(ending) and len(name) > len(ending):
            if ending == ".nc":
                netcdf.require_xarray()  # now, not after a long computation
            if ending in WITH_POINTS:
                vector.require_geopandas()
            return ending
    raise InputError(f"{path} has no ending that cagp knows; tables are {', '.join(ENDINGS)} files")


def read_columns(path: str | Path) -> RawColumns:
    """What columns a file has, without their values."""
    place, read = Path(path), _READERS[ending_of(path)]
    if not place.is_file():
        raise TableError(f"{place} {'is not a file' if place.exists() else 'does not exist'}")
    if not place.stat().st_size:
        raise TableError(f"{place} is empty")
    return vector.read(place) if read is parquet.read and parquet.has_geometry(place) else read(place)


def read_table(
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    drop_missing: bool = False,
    encodings: Sequence[Encoding] = (),
) -> Table:
    """The columns of that name (all, by default) of a table file, float64; or features that ``encodings`` make of them.

    Rows with missing values are refused, or left out with ``drop_missing``: ``Table.dropped`` says how many.
    """
    raw = read_columns(path)
    names = select(raw, None if columns is None else sources_of(columns, encodings))
    return encoded_table(raw, raw.take(names), encodings, drop_missing)


def read_training_table(
    path: str | Path,
    features: Sequence[str],
    others: Sequence[str],
    asked: ColumnsAsked,
    *,
    drop_missing: bool = False,
    keep: bool = False,
    quantities: Sequence[str] = (),
) -> tuple[Table, list[str]]:
    """A table to fit to, and its features, those that columns which are not numbers become among them.

    ``others`` are the target and the like; of several ``quantities`` among them one is enough for a row.
    Features with no value or one category only are left out unless ``keep``.
    """
    raw = read_columns(path)
    columns, notes = raw.take(select(raw, [*features, *others]))
    for name in () if keep else features:
        values, gaps = columns[name], missing_in(columns[name])
        single = not isinstance(values, np.ndarray) and len(values.drop_null().unique()) == 1
        if len(values) and (gaps.all() or single):
            only = "no value at all" if gaps.all() else "one value only"
            notes = (*notes, f"Left out, because it has {only}: {name!r}.")
            del columns[name]
    used = [name for name in features if name in columns]
    if not used:
        raise TableError(f"{raw.path}: no feature varies, so there is nothing to predict from")
    if drop_missing:  # a category that only rows which are left out have is none
        needed = others if asked.impute else columns
        empty = one_is_enough({name: missing_in(columns[name]) for name in needed}, quantities)
        gone = np.logical_or.reduce(list(empty.values()))
        columns = {name: without(values, gone) for name, values in columns.items()}
    found = [learned(raw, name, columns[name], asked) for name in used]
    made = [feature for each in found for feature in each.features]
    found += [learned(raw, name, columns[name], ColumnsAsked(), target=True) for name in others]
    told = [each for each in found if each.kind != "number" or each.fill is not None]
    remedy = "fill them in" if asked.impute else "fill them in, those of features with --impute median"
    return encoded_table(raw, (columns, notes), told, drop_missing, quantities, remedy=remedy), made


def read_labelled(
    raw: RawColumns, columns: Sequence[str], by: str, *, drop_missing: bool = False, encodings: Sequence[Encoding] = ()
) -> tuple[Table, np.ndarray, int]:
    """The rows of a file that have a label in the column ``by``: their columns, their labels (n,), how many have none.

    Labels are numbers where all of them are. What else is missing matters, as in ``read_table``, in these rows alone.
    """
    names = select(raw, sources_of(list(dict.fromkeys(columns)), encodings))
    taken, notes = raw.take(select(raw, [*names, by]))
    outside = missing_in(taken[by])
    inside = np.flatnonzero(~outside)
    if not len(inside):
        raise TableError(f"{raw.path}: no row has a label in column {by!r}")
    some = {name: taken_at(taken[name], inside) for name in names}
    there = replace(raw, grid_of=lambda names: None, place_of=lambda row: raw.place_of(int(inside[row])))
    table = encoded_table(there, (some, notes), encodings, drop_missing)
    rows = inside[table.rows]
    return replace(table, rows=rows), _as_labels(taken_at(taken[by], rows)), int(outside.sum())


def _as_labels(labels: Any) -> np.ndarray:
    """Labels (n,) as whole numbers, numbers or texts: the first of these that all of them are."""
    values = labels if isinstance(labels, np.ndarray) else labels.to_pylist()
    try:
        numbers = np.array([float(label) for label in values])
    except (TypeError, ValueError):
        numbers = np.array([np.nan])
    if not np.isfinite(numbers).all():
        return np.array([str(label) for label in values])
    whole = numbers.astype(np.int64)
    return whole if (whole == numbers).all() else numbers


def write_table(
    path: str | Path,
    columns: Mapping[str, np.ndarray],
    *,
    units: Mapping[str, str] | None = None,
    notes: Mapping[str, Any] | None = None,
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
    grid: Grid | None = None,
    rows: np.ndarray | None = None,
    crs: str | None = None,
) -> None:
    """Write columns of equal length, whole or not at all.

    Parquet and NetCDF also keep ``units`` and ``notes`` on the whole, NetCDF more ``attributes`` of each column and the
    ``grid`` that the columns were read from: ``rows`` are then the places of their values in it. With a coordinate
    system ``crs`` GeoPackage, GeoJSON and Parquet have points, by the columns that are called as its coordinates.
    """
    place, ending = Path(path), ending_of(path)
    if ending in WITH_POINTS and crs is None:
        raise InputError(f"{place} needs the coordinate system of its points; give crs, or choose another ending")
    if crs is not None and ending in (*WITH_POINTS, ".parquet"):
        vector.write(place, columns, crs)
    elif ending == ".nc":
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

    NetCDF is written part by part, on the grid of the rows; others have columns ``name_0``, … after those of ``table``.
    """
    place, ending = Path(path), ending_of(path)
    if ending == ".nc":
        about = {key: {"units": unit} for key, unit in table.units.items()} | dict(attributes)
        columns = {} if table.grid is not None else table.columns
        netcdf.write(place, columns, about, notes, table.grid, table.rows, (name, count, parts))
        return
    fields = (field for part in parts for field in part)
    columns = dict(table.columns) | {f"{name}_{i}": field for i, field in enumerate(fields)}
    unit = attributes.get(name, {}).get("units")
    units = {**table.units, **({} if unit is None else {key: unit for key in columns if key not in table.columns})}
    write_table(place, columns, units=units, notes=notes)

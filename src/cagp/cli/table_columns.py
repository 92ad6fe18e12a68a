"""Which columns of a table are meant: by name, as features to fit to, as those of a model, as places on the globe."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..support.advice import suggestion
from ..support.coordinate_systems import (
    coordinate_units,
    east_and_north,
    is_globe,
    maybe_degrees,
    parsed,
    require_same_system,
    same_system,
    worded,
)
from ..support.numbers import listed
from .flags import Listed
from .shared import Printer, warned

if TYPE_CHECKING:
    from ..kernels import Kernel
    from ..saving import Saved
    from ..solvers import Solver
    from ..tables.table import RawColumns, Table


def names_in(texts: Listed) -> list[str]:
    """Names separated by commas, in any number of texts; a name with a comma in it stands in double quotes."""
    names = [name.strip() for line in csv.reader(texts or (), skipinitialspace=True) for name in line]
    return [name for name in names if name]


def find_column(raw: RawColumns, name: str, option: str) -> str:
    """The column called ``name``, or the only one that begins so, whatever the case."""
    if name in raw.names:
        return name
    wanted = name.strip().lower()
    begin = [each for each in raw.names if wanted and each.strip().lower().startswith(wanted)]
    close = [each for each in begin if each.strip().lower() == wanted] or begin
    if len(close) == 1:
        return close[0]
    if close:
        raise InputError(f"{option} {name!r} may be {' or '.join(map(repr, close))}; write more of the name")
    has = f"it has {', '.join(map(repr, raw.names))}{suggestion(name, raw.names)}"
    raise InputError(f"{option}: {raw.path} has no column {name!r}; {has}")


def in_system(raw: RawColumns, crs: str, columns: Sequence[str]) -> RawColumns:
    """A table two of whose ``columns`` are in the system that --crs says; refuses another one than the file's own."""
    system = str(parsed(crs).to_string())
    if raw.crs is not None:
        if not same_system(raw.crs, system):
            raise InputError(f"--crs is {worded(system)}, and {raw.path} is in {worded(raw.crs)}; leave --crs out")
        return raw
    found = east_and_north(columns, system)
    if found is None and (len(columns) != 2 or is_globe(system)):
        raise InputError(
            f"--crs {crs} is about two of the features, and their names do not say which; call them x and y, easting "
            f"and northing, or longitude and latitude. The features are {', '.join(map(repr, columns))}"
        )
    east, north = (columns[i] for i in found or (0, 1))
    units = dict(zip((north, east), coordinate_units(system).values(), strict=False))  # of the latitude first
    globe = (north, east) if is_globe(system) else None
    placed = dataclasses.replace(raw, crs=system, coordinates=(east, north), globe=globe)
    return dataclasses.replace(placed, units={**raw.units, **units})


def opened(
    folder: Path, data: Path, out: Path, solver: str | None, observed: bool, printer: Printer, points: bool = False
) -> tuple[Saved, RawColumns, tuple[str, ...], str, Solver]:
    """A model and a table to predict at: its columns, those that are features, the target, and what solver predicts.

    ``points`` says that what is written has a row for each of the table's.
    """
    from .. import tables
    from ..saving import read
    from .expressions import as_solver

    ending = tables.ending_of(out)
    asked = None if solver is None else as_solver(solver)
    if out.exists() and data.exists() and out.samefile(data):
        raise InputError(f"--out {out} is the input itself; choose another name")
    saved, raw = read(folder), tables.read_columns(data)
    features, target = matched(saved, folder, raw, printer)
    require_system(raw, ending, out, data, points)
    if observed and np.ndim(saved.prior.noise_variance):
        raise InputError("--observed: this model has one noise variance per training row, none for new ones")
    return saved, raw, features, target, asked or saved.picked or saved.solver


def require_system(raw: RawColumns, ending: str, out: Path, data: Path, points: bool = True) -> None:
    """Refuse a file of points for what has no coordinate system, or is no ``points``."""
    from .. import tables

    if ending in tables.WITH_POINTS and (raw.crs is None or not points):
        why = f"which {data} does not say" if points else "and what is written here are no points"
        raise InputError(f"{out} is a file of points with a coordinate system, {why}; choose another ending")


def matched(saved: Saved, folder: Path, raw: RawColumns, printer: Printer) -> tuple[tuple[str, ...], str]:
    """The table's columns that are the model's features, in their order, and the name of the target.

    The latitude and longitude of a NetCDF file are known by their attributes, features without names are x0, x1, ….
    """
    if saved.about.features is None:
        numbered = tuple(f"x{i}" for i in range(saved.places.shape[1]))
        if set(numbered) <= set(raw.names):
            return numbered, saved.about.target or "y"
        about_of(saved, folder)  # refuses
    features = saved.about.features or ()
    target = saved.about.target or ("target" if "y" in features else "y")
    require_same_system(raw.crs, saved.about.crs, str(raw.path))
    encoded = {feature for each in saved.about.encodings for feature in each.features}
    names = list(features)
    for i, name in enumerate(features):  # with spaces around it or without
        close = [each for each in raw.names if each.strip() == name.strip()]
        if name not in encoded and name not in raw.names and len(close) == 1:
            names[i] = close[0]
    if not set(features) <= set(raw.names):
        pairs = list(zip(globe_of(saved.prior.kernel, names) or (), raw.globe or (), strict=False))
        if raw.crs is not None and saved.about.crs is not None:
            own, theirs = east_and_north(names, saved.about.crs), east_and_north(raw.names, raw.crs)
            pairs += [(names[i], raw.names[j]) for i, j in zip(own or (), theirs or (), strict=False)]
        for name, here in pairs:
            if name not in raw.names and here not in names:
                printer(f"{name!r} of the model is {here!r} in {raw.path}.")
                names[names.index(name)] = here
    return tuple(names), target


def read_for(saved: Saved, path: Path, columns: Sequence[str], drop_missing: bool, printer: Printer) -> Table:
    """The columns of a table as a model takes them; says what was assumed and what was left out."""
    from .. import tables

    table = tables.read_table(path, list(columns), drop_missing=drop_missing, encodings=saved.about.encodings)
    tell_reading(table, printer)
    return table


def unused(raw: RawColumns, table: Table, out: Path, targets: Collection[str], new: Collection[str]) -> dict[str, Any]:
    """The columns of a file that nobody takes, such as names of rows, at the rows of its table, for a file that keeps
    them; but for the ``targets``, and for those that are called like a ``new`` one, which is told.
    """
    kept = [name for name in raw.names if name not in table.given and name not in targets]
    clash, kept = [name for name in kept if name in new], [name for name in kept if name not in new]
    if clash:
        warned(f"The column {clash[0]!r} of {raw.path} is called like a new one, which takes its place; try --prefix.")
    if raw.as_is is None or not out.name.lower().endswith((".csv", ".csv.gz", ".parquet")) or not kept:
        return {}
    return {name: values[table.rows] for name, values in raw.as_is(kept).items()}


def tell_reading(table: Table, printer: Printer) -> None:
    """Say what was assumed about a table, and how many rows were left out."""
    for note in table.notes:
        printer(note)
    if table.dropped:
        printer(f"{table.dropped} rows of {table.path} have missing values and are left out.")


def places(like: Path, saved: Saved, folder: Path, drop_missing: bool, printer: Printer) -> np.ndarray:
    """The points (T, p) in the table that --like names."""
    from .. import tables

    features, _ = matched(saved, folder, tables.read_columns(like), printer)
    return read_for(saved, like, features, drop_missing, printer).matrix(features)


def about_of(saved: Saved, folder: Path) -> tuple[tuple[str, ...], str]:
    """The names of features and target that tables are matched by."""
    about = saved.about
    if about.features is None or about.target is None:
        p = saved.places.shape[1]
        names = listed([f"x{i}" for i in range(p)]) if p < 5 else f"x0 … x{p - 1}"
        numbered = f", or, to predict, call the columns of the table {names}, in the order of X"
        raise InputError(
            f"{folder} does not say what its {'columns are' if about.features is None else 'target is'} called, so no "
            'table can be matched to it. Save it in Python with about=cagp.saving.About(features=[...], target="...")'
            + numbered
            * (about.features is None)
        )
    return about.features, about.target


def varying(table: Table, columns: list[str], printer: Printer) -> list[str]:
    """Those of the columns that have more than one value; says which were left out."""
    constant = [name for name in columns if np.ptp(table.columns[name]) == 0]
    if len(constant) == len(columns):
        raise InputError(f"{table.path}: no feature varies, so there is nothing to predict from")
    if constant:
        printer(f"Left out, because they have one value only: {', '.join(map(repr, constant))}.")
    return [name for name in columns if name not in constant]


def distinct(table: Table, columns: list[str], keep: bool, printer: Printer) -> list[str]:
    """The columns without those that repeat another one, value by value; says which, and only says it with ``keep``."""
    parts = {feature for each in table.encodings if len(each.features) > 1 for feature in each.features}
    first: dict[bytes, str] = {}
    twins = {}
    for name in columns:
        earlier = first.setdefault(table.columns[name].tobytes(), name)
        if earlier != name and name not in parts:
            twins[name] = earlier
    if twins:
        said = ", ".join(f"{name!r} is {earlier!r} again" for name, earlier in twins.items())
        printer(f"{'Note' if keep else 'Left out, because they repeat another column'}: {said}.")
    return columns if keep else [name for name in columns if name not in twins]


def globe_of(kernel: Kernel, columns: Sequence[str]) -> tuple[str, str] | None:
    """The columns that a kernel takes for latitude and longitude."""
    from ..kernels import geographic_columns

    pairs = [each for each in geographic_columns(kernel, range(len(columns))) if len(each) == 2]
    return (columns[pairs[0][0]], columns[pairs[0][1]]) if pairs else None


def globe_among(geo: str | None, raw: RawColumns, columns: list[str], printer: Printer) -> tuple[str, str] | None:
    """The columns with latitude and longitude: as asked for, or as the file says."""
    if geo is not None and geo.strip().lower() == "none":
        return None
    if geo is not None:
        pair = [find_column(raw, each, "--globe") for each in names_in([geo])]
        if len(pair) != 2 or not set(pair) <= set(columns):
            raise InputError(f"--globe must name two of the features, latitude then longitude, got {geo!r}")
        return pair[0], pair[1]
    if raw.globe is not None and set(raw.globe) <= set(columns):
        printer(f"{raw.globe[0]!r} and {raw.globe[1]!r} are degrees: distance is measured on the globe, in kilometres.")
        return raw.globe
    if note := maybe_degrees(columns, "--globe '{lat},{lon}'"):
        printer(note)
    return None

"""Which columns of a table are features, and which of them are latitude and longitude."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from .shared import Voice, find_column, names_in

if TYPE_CHECKING:
    from ..tables import RawColumns, Table

_LATITUDES, _LONGITUDES = ("lat", "latitude"), ("lon", "long", "longitude")


def features_of(raw: RawColumns, target: str, left_out: set[str]) -> list[str]:
    """All other columns; of a grid, the coordinates of the target."""
    if raw.dims:
        return [dim for dim in raw.dims[target] if dim in raw.names and dim not in left_out]
    return [name for name in raw.names if name not in left_out]


def varying(table: Table, columns: list[str], voice: Voice) -> list[str]:
    """Those of the columns that have more than one value; says which were left out."""
    constant = [name for name in columns if np.ptp(table.columns[name]) == 0]
    if len(constant) == len(columns):
        raise InputError(f"{table.path}: no feature varies, so there is nothing to predict from")
    if constant:
        voice(f"Left out, because they have one value only: {', '.join(map(repr, constant))}.")
    return [name for name in columns if name not in constant]


def globe_among(geo: str | None, raw: RawColumns, columns: list[str], voice: Voice) -> tuple[str, str] | None:
    """The columns with latitude and longitude: as asked for, or as the file says."""
    if geo is not None and geo.strip().lower() == "none":
        return None
    if geo is not None:
        pair = [find_column(raw, each, "--geo") for each in names_in(geo)]
        if len(pair) != 2 or not set(pair) <= set(columns):
            raise InputError(f"--geo must name two of the features, latitude then longitude, got {geo!r}")
        return pair[0], pair[1]
    if raw.globe is not None and set(raw.globe) <= set(columns):
        voice(f"{raw.globe[0]!r} and {raw.globe[1]!r} are degrees: distance is measured on the globe, in kilometres.")
        return raw.globe
    north, east = ([c for c in columns if c.strip().lower() in kind] for kind in (_LATITUDES, _LONGITUDES))
    if north and east:
        voice(f"Note: if {north[0]!r} and {east[0]!r} are degrees, --geo '{north[0]},{east[0]}' measures on the globe.")
    return None

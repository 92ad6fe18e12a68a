"""Files with predictions: attributes after the CF conventions, provenance, and the key of batches that are finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.version import __version__

if TYPE_CHECKING:
    from ..model import Model
    from ..saving import About, Saved
    from ..tables.table import Grid, RawColumns

_COLUMNS = ("mean", "std", "lower", "upper")


def beside(data: Path) -> Path:
    """Where predictions of a table are written if nobody says: data-predicted.csv for data.csv."""
    from .. import tables

    ending = tables.ending_of(data)
    return data.with_name(f"{data.name[: -len(ending)]}-predicted{data.name[-len(ending) :]}")


def notes_on(raw: RawColumns, target: str | None, missing: int, copied: int) -> dict[str, str]:
    """What ``cagp fit`` notes about its data, for people and for the attributes of predictions."""
    from ..interop.xarray_conventions import Source

    attributes = {} if target is None else raw.attributes.get(target, {})
    return {"data file": str(raw.path)} | Source(target or Source.name, attributes, missing, copied).notes


def columns_of(out: Path, level: float | None, thresholds: Mapping[str, float], prefix: str = "") -> dict[str, str]:
    """What mean, std, lower, upper and exceedances are called in a file; without a ``level`` the mean alone.

    In a table of columns the name of a limit says its level, lower_95; in a NetCDF file its attributes do.
    """
    if level is None:
        return {"mean": f"{prefix}mean"}
    of = "" if out.suffix == ".nc" else f"_{100 * level:g}"
    return {name: prefix + name + (of if name in ("lower", "upper") else "") for name in (*_COLUMNS, *thresholds)}


def shown(
    prediction: Any, observed: bool, level: float | None, names: Mapping[str, str], thresholds: Mapping[str, float]
) -> dict[str, Any]:
    """The columns of a prediction or an average, by their ``names``; without a ``level`` the mean alone."""
    if level is None:
        return {names["mean"]: prediction.mean}
    seen = prediction.observed() if observed else prediction
    values = dict(zip(_COLUMNS, (seen.mean, seen.std, *seen.interval(level)), strict=True))
    values |= {name: seen.exceedance(threshold) for name, threshold in thresholds.items()}
    return {names[name]: value for name, value in values.items()}


def described(
    about: About,
    target: str,
    model: Model,
    grid: Grid | None,
    *,
    level: float | None,
    observed: bool,
    message: str,
    names: Mapping[str, str],
    prefix: str = "",
) -> dict[str, Any]:
    """Units and attributes of each new column, and notes on the whole; ``level`` is None without error bars."""
    from ..interop.xarray_conventions import Source, kept_cell_methods, provenance, variable_attributes

    source = Source.of(about, target)
    each = {name: variable_attributes(source, name, level, observed) for name in names}
    del each["mean"]["ancillary_variables"]
    if level is not None:
        each["mean"]["ancillary_variables"] = " ".join(names[name] for name in _COLUMNS[1:])
    methods = None if grid is None else kept_cell_methods(source, grid.coordinates)
    if methods:
        each["mean"]["cell_methods"] = methods
    each["iterations"] = {"long_name": "iterations of the solver", "units": "1"}
    notes = provenance(source, model, observed, message)
    if level is not None:
        notes["cagp_interval"] = f"lower and upper hold {100 * level:g}%"
    units = {column: about.units[target] for column in names.values() if target in about.units}
    told = {names.get(name, prefix + name): said for name, said in each.items()}
    return {"units": units, "attributes": told, "notes": notes}


def key_of(saved: Saved, X: np.ndarray, *settings: Any) -> str:
    """The hash of all that decides the numbers at X (T, p); ``settings`` by how they are written."""
    points = hashlib.sha256(X.tobytes()).hexdigest()
    decisive = [__version__, saved.fingerprint, points, list(X.shape), *map(repr, settings)]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()

"""Attributes of predictions, after the CF conventions: what the numbers are and where they come from.

The command line writes them into Parquet files too, where xarray need not be installed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..model import Model
from ..support.version import __version__

if TYPE_CHECKING:
    import xarray as xr

CONVENTIONS = "CF-1.11"

_TEMPERATURE = re.compile(r"(K|kelvin|degrees?_?[CFKR]|deg_?[CF]|celsius|fahrenheit|°[CF])", re.IGNORECASE)
_COORDINATES = {
    "latitude": {"units": "degrees_north", "standard_name": "latitude"},
    "longitude": {"units": "degrees_east", "standard_name": "longitude"},
}


@dataclass(frozen=True)
class Source:
    """The observed field: its name, its attributes, and how many of its values were left out."""

    name: str = "field"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    missing: int = 0
    copies: int = 0

    @property
    def label(self) -> str:
        """The field in words."""
        given = self.attributes.get("long_name") or (self.standard_name or "").replace("_", " ")
        return str(given or self.name)

    @property
    def standard_name(self) -> str | None:
        """The CF standard name without modifiers; None where it has the wrong form or says nothing."""
        name = str(self.attributes.get("standard_name", ""))
        return name if re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) and name != "unknown" else None


def variable_attributes(source: Source, what: str, level: float | None, observed: bool) -> dict[str, Any]:
    """The attributes of the variable ``what``: mean, std, lower or upper."""
    of = f"new observations of {source.label}" if observed else source.label
    words = {"mean": "posterior mean", "std": "posterior standard deviation"}
    said = words.get(what) or f"{what} end of the central {level:.10g} interval"
    units, name = source.attributes.get("units"), source.standard_name
    attributes: dict[str, Any] = {"long_name": f"{said} of {of}", "units": units}
    if what == "std":
        difference = units is not None and _TEMPERATURE.fullmatch(str(units))
        attributes["standard_name"] = f"{name} standard_error" if name else None
        attributes["units_metadata"] = "temperature: difference" if difference else None
    else:
        attributes["units_metadata"] = source.attributes.get("units_metadata")
        if what == "mean":
            attributes["standard_name"] = name
            attributes["ancillary_variables"] = "std" if level is None else "std lower upper"
        else:
            attributes["probability"] = level
    return {key: value for key, value in attributes.items() if value is not None}


def kept_cell_methods(source: Source, dataset: xr.Dataset) -> str | None:
    """The field's cell_methods, where every dimension they name is still there."""
    methods = str(source.attributes.get("cell_methods", ""))
    outside_brackets = re.sub(r"\([^)]*\)", "", methods)
    named = re.findall(r"(\S+):", outside_brackets)
    present = {"area", *map(str, dataset.coords), *map(str, dataset.dims)}
    return methods if named and set(named) <= present else None


def grid_mapping(grid: xr.DataArray | xr.Dataset, dataset: xr.Dataset) -> str | None:
    """The name of the grid's map projection variable, where all its variables agree and the prediction has it."""
    import xarray

    variables = [grid] if isinstance(grid, xarray.DataArray) else list(grid.data_vars.values())
    named = {v.encoding.get("grid_mapping", v.attrs.get("grid_mapping")) for v in variables} - {None}
    name = named.pop() if len(named) == 1 else None
    return name if name in dataset.coords else None


def provenance(source: Source, model: Model, observed: bool, status: str) -> dict[str, Any]:
    """The attributes of the whole data set."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    picked = model.prepared.picked
    solver = repr(model.solver) + (f", which picked {picked!r}" if picked else "")
    return {
        "Conventions": CONVENTIONS,
        "title": f"Gaussian process prediction of {source.label}",
        "source": f"Gaussian process regression with cagp {__version__}",
        "history": f"{now} cagp {__version__}: predicted from {len(model.recipe.y)} observations",
        "cagp_version": __version__,
        "cagp_prior": repr(model.prior),
        "cagp_solver": solver,
        "cagp_calibrated": str(bool((picked or model.solver).calibrated)).lower(),
        "cagp_guarantee": f"{model.guarantee.kind}: {model.guarantee}",
        "cagp_status": status,
        "cagp_predicted": "new observations, with noise" if observed else "the field without noise",
        "cagp_observations": len(model.recipe.y),
        "cagp_observations_missing": source.missing,
        "cagp_observations_copies": source.copies,
    }


def simulated(
    name: str, given: Mapping[str, Any], model: Model, observed: bool, how: str, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The attributes of simulated fields of what has these ``given`` ones, and of the data set that they are in."""
    source = Source(name, given)
    attributes = {key: given[key] for key in ("units", "units_metadata") if key in given}
    attributes["long_name"] = f"simulated {'observations of ' if observed else ''}{source.label}"
    if source.standard_name:
        attributes["standard_name"] = source.standard_name
    notes = provenance(source, model, observed, f"Fields drawn {how}." if how else "Fields drawn before.")
    notes["title"] = f"Gaussian process simulation of {source.label}"
    notes["cagp_seed"] = seed
    return attributes, notes


def coordinate_attributes(role: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A coordinate's attributes, with what the CF conventions ask of a latitude or longitude where it is missing."""
    return {**_COORDINATES.get(role, {}), **given}

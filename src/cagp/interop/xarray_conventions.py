"""The CF conventions: what the coordinates of an xarray object are, and the attributes of what is made of it."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..errors import InputError, InputTypeError
from ..kernels import Kernel, geographic_columns
from ..model import Model
from ..predicting.distributions import MEANS_REACH, MEDIANS_DO_NOT
from ..support.coordinate_systems import LATITUDES, LONGITUDES, parsed
from ..support.validation import choice, real
from ..support.version import __version__

if TYPE_CHECKING:  # alone: the command line asks for these where xarray need not be installed
    import xarray as xr

    from ..saving import About

Gridded: TypeAlias = "xr.DataArray | xr.Dataset"

TIME_UNITS = {unit: np.timedelta64(1, unit) for unit in ("D", "h", "m", "s")}
_EPOCH = np.datetime64("1970-01-01T00:00:00", "s")
_NAMES = dict.fromkeys(LATITUDES, "latitude") | dict.fromkeys(LONGITUDES, "longitude")
_UNITS = {
    f"{degree}{mark}": role
    for role, marks in {"latitude": ("_north", "_N", "N"), "longitude": ("_east", "_E", "E")}.items()
    for mark in marks
    for degree in ("degree", "degrees")
}
"""The spellings of degrees north and east that the CF conventions allow."""
_DEGREES = ("degree", "degrees", "deg", "°")
_TEMPERATURE = re.compile(r"(K|kelvin|degrees?_?[CFKR]|deg_?[CF]|celsius|fahrenheit|°[CF])", re.IGNORECASE)
_EXCEEDS = "exceeds_"
MISSING, COPIES = "rows left out, missing", "rows left out, copies"
DESCRIBING = ("long_name", "standard_name", "units_metadata", "cell_methods")
"""Notes on the data of a model, and the attributes of the target that are among them as "target long_name"."""
_UNITS_OF = {"latitude": "degrees_north", "longitude": "degrees_east"}


@dataclass(frozen=True)
class Axis:
    """One column of the points: a coordinate that is a "latitude", "longitude", "time" (since 1970) or "other".

    ``said`` are the units that its attributes say.
    """

    name: str
    role: str
    time_unit: str = "D"
    said: str = ""

    @property
    def units(self) -> str:
        """The units of its numbers; nothing where they are not known."""
        words = {"D": "days", "h": "hours", "m": "minutes", "s": "seconds"}
        return (
            f"{words[self.time_unit]} since 1970-01-01" if self.role == "time" else _UNITS_OF.get(self.role, self.said)
        )

    def numbers(self, values: Any, gaps: bool = False) -> np.ndarray:
        """The coordinate's values as float64 numbers in the shape they have, finite but for ``gaps`` of covariates."""
        array = np.asarray(values)
        if array.dtype.kind == "M":
            array = (array - _EPOCH) / TIME_UNITS[self.time_unit]
        elif array.dtype.kind == "m":
            array = array / TIME_UNITS[self.time_unit]
        elif array.dtype.kind not in "fiu":
            remedy = 'for other calendars use convert_calendar("standard"), for labels give numbers with assign_coords'
            raise InputTypeError(f"the coordinate {self.name!r} is no number or time, but {array.dtype}; {remedy}")
        array = array.astype(np.float64)
        if bad := int((np.isinf(array) if gaps and self.role == "other" else ~np.isfinite(array)).sum()):
            remedy = "drop those points first, for example with stack and dropna"
            raise InputError(f"the coordinate {self.name!r} has {bad} values that are missing or infinite; {remedy}")
        return array


def role_of(name: Hashable, coordinate: Any, *, strict: bool = True) -> str:
    """What a coordinate is, by its CF attributes and its name; refuses contradictions, or says "other"."""
    units, attributes = coordinate.attrs.get("units"), coordinate.attrs
    by_name = _NAMES.get(str(name).lower())
    said = {_UNITS.get(str(units)), attributes.get("standard_name")} & {"latitude", "longitude"}
    roles = said | ({by_name} if by_name else set())
    if len(roles) > 1 or (roles and units is not None and str(units) not in (*_UNITS, *_DEGREES)):
        if not strict:
            return "other"
        raise InputError(
            f"the coordinate {str(name)!r} has units {units!r} and standard_name "
            f"{attributes.get('standard_name')!r}: is it a latitude or a longitude in degrees? Correct its attributes"
        )
    if roles:
        return str(roles.pop())
    return "time" if coordinate.dtype.kind in "mM" else "other"


def find_axes(grid: Gridded, names: Sequence[str] | None, time_unit: str) -> tuple[Axis, ...]:
    """The named coordinates, or latitude and longitude where no names are given."""
    choice(time_unit, "time_unit", tuple(TIME_UNITS))
    if names is None:
        return tuple(Axis(_only(grid, role, hint=True), role) for role in ("latitude", "longitude"))
    if isinstance(names, str) or not len(names) or len(set(names)) != len(names):
        raise InputError(f'coords must be distinct names such as ("lat", "lon"), got {names!r}')
    for name in names:
        if name not in grid.coords:
            remedy = "give it values with assign_coords" if name in grid.sizes else "choose from these"
            raise InputError(f"there is no coordinate {name!r}, there are {sorted(map(str, grid.coords))}; {remedy}")
    return tuple(
        Axis(name, role_of(name, grid.coords[name]), time_unit, str(grid.coords[name].attrs.get("units", "")))
        for name in names
    )


def coordinates_of(grid: Gridded, columns: Sequence[str], kernel: Kernel) -> list[str] | None:
    """The coordinates of ``grid`` that are the ``columns`` of a model: of the same name, or the only latitude or
    longitude, which the ``kernel`` and the names of the columns tell. None for columns without names.
    """
    roles = [_NAMES.get(name.lower(), "") for name in columns]
    for pair in geographic_columns(kernel, range(len(columns))):
        for column, role in zip(pair, _UNITS_OF, strict=False):
            roles[column] = role
    if missing := [name for name, role in zip(columns, roles, strict=True) if not role and name not in grid.coords]:
        if not missing[0]:
            return None
        raise InputError(
            f"the grid has no coordinate {missing[0]!r}, as a column of the model is called, there are "
            f"{sorted(map(str, grid.coords))}; "
            + (_made_one(grid, missing[0]) or f"rename one, or give coords=(...) for the columns {tuple(columns)}")
        )
    return [
        name if name in grid.coords else _only(grid, role, hint=True) for name, role in zip(columns, roles, strict=True)
    ]


def matching(grid: Gridded, axis: Axis) -> xr.DataArray:
    """The coordinate of ``grid`` that goes with ``axis``: of the same name, or the only one of the same role."""
    named = grid.coords.get(axis.name)
    if named is not None and role_of(axis.name, named) == axis.role:
        return named
    if axis.role in ("latitude", "longitude"):
        return grid.coords[_only(grid, axis.role, hint=False)]
    if named is not None:
        raise InputError(f"the coordinate {axis.name!r} is a {axis.role} coordinate in the observed field, not here")
    remedy = _made_one(grid, axis.name) or f"rename one, or add it with assign_coords({axis.name}=...)"
    raise InputError(f"the grid has no coordinate {axis.name!r}, there are {sorted(map(str, grid.coords))}; {remedy}")


def _made_one(grid: Gridded, name: str) -> str:
    """How a variable of the grid becomes a coordinate; "" where there is no variable of that name."""
    if name in getattr(grid, "data_vars", ()):
        return f"it is a variable of the grid, which grid.set_coords({name!r}) makes a coordinate"
    of_its_own = getattr(grid, "name", None) == name
    return f"the array has that name: grid.assign_coords({name}=grid) makes it a coordinate" if of_its_own else ""


def _only(grid: Gridded, role: str, hint: bool) -> str:
    found = [str(name) for name, coordinate in grid.coords.items() if role_of(name, coordinate) == role]
    if len(found) == 1:
        return found[0]
    have = f"{found} all look like one" if found else f"there are {sorted(map(str, grid.coords))}"
    remedy = 'name the coordinates: coords=("y", "x")' if hint else "rename the one you mean to that of the field"
    if not found:
        remedy += f", or give one the attribute units={_UNITS_OF[role]}"
    raise InputError(f"no single {role} was found: {have}; {remedy}")


def coordinates_along(grid: Gridded, dims: Sequence[Hashable]) -> xr.Dataset:
    """The coordinates of ``grid`` along ``dims`` alone; those along another dimension of size one become scalars."""
    single = [dim for dim, size in grid.sizes.items() if dim not in dims and size == 1]
    dataset = grid.coords.to_dataset()
    dataset = dataset.squeeze([dim for dim in single if dim in dataset.sizes])
    return dataset.drop_vars([name for name, c in dataset.coords.items() if not set(c.dims) <= set(dims)])


def fit_options(axes: tuple[Axis, ...], kernel: Any = None) -> tuple[dict[str, Any], list[str]]:
    """What ``cagp.fit`` is to know of points with these columns, and their units: latitude and longitude are on the
    globe together, and every time has a factor of its own, unless a whole ``kernel`` was given, which says that itself.
    """
    roles = [axis.role for axis in axes]
    units = [axis.units.split(" since")[0] if axis.role == "time" else "" for axis in axes]
    if isinstance(kernel, Kernel):
        return {}, units
    globe = (roles.index("latitude"), roles.index("longitude")) if {"latitude", "longitude"} <= set(roles) else None
    return {"globe": globe, "times": [column for column, role in enumerate(roles) if role == "time"]}, units


def check_geographic(kernel: Kernel, axes: tuple[Axis, ...]) -> bool:
    """Whether longitudes go through Geographic; refuses a Geographic on columns other than (latitude, longitude)."""
    found = geographic_columns(kernel, range(len(axes)))
    for columns in found:
        roles = [axes[c].role for c in columns]
        if roles != ["latitude", "longitude"]:
            names = tuple(axes[c].name for c in columns)
            raise InputError(
                f"Geographic needs (latitude, longitude) in the columns {columns}, those of the grid are {names}, "
                f"which are {roles}; name coords in the order of the columns, use Geographic(kernel).on(columns), or "
                "set their units"
            )
    return bool(found)


def maybe_copies(X: np.ndarray, axes: tuple[Axis, ...], longitudes: np.ndarray | None = None) -> np.ndarray:
    """Which of these observations may repeat others under another longitude, (n,): those at a pole, and those on a
    meridian that has two names among ``longitudes``, by default their own.
    """
    roles = [axis.role for axis in axes]
    if not {"latitude", "longitude"} <= set(roles):
        return np.zeros(len(X), dtype=bool)
    longitude = X[:, roles.index("longitude")]
    labels = np.unique(longitude if longitudes is None else longitudes)
    _, meridian, sharing = np.unique(np.mod(labels, 360), return_inverse=True, return_counts=True)
    pole = np.abs(X[:, roles.index("latitude")]) == 90
    return np.asarray(pole | np.isin(longitude, labels[sharing[meridian] > 1]))


def copies(X: np.ndarray, y: np.ndarray, axes: tuple[Axis, ...]) -> np.ndarray:
    """Which observations repeat another one under a different longitude, at a pole or a meridian given twice, (n,).

    Taken as independent observations, such copies would make the error bars too small.
    """
    copied, suspects = np.zeros(len(y), dtype=bool), np.flatnonzero(maybe_copies(X, axes))
    if not len(suspects):
        return copied
    roles = [axis.role for axis in axes]
    column = roles.index("longitude")
    key, longitude = X[suspects].copy(), X[:, column]
    pole = np.abs(key[:, roles.index("latitude")]) == 90
    key[:, column] = np.where(pole, 0.0, np.mod(longitude[suspects], 360))
    _, first, group = np.unique(np.column_stack([key, y[suspects]]), axis=0, return_index=True, return_inverse=True)
    copied[suspects] = longitude[suspects] != longitude[suspects[first[group.reshape(-1)]]]
    return copied


@dataclass(frozen=True)
class Source:
    """The observed field: its name, its attributes, and how many values were left out, None if unknown."""

    name: str = "field"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    missing: int | None = None
    copies: int | None = None

    @classmethod
    def of(cls, about: About, target: str) -> Source:
        """What a model remembers ``about`` the column that was its target."""
        attributes = {name: about.notes[f"target {name}"] for name in DESCRIBING if f"target {name}" in about.notes}
        attributes |= {"units": about.units[target]} if target in about.units else {}
        left_out = (about.notes.get(name, "") for name in (MISSING, COPIES))
        return cls(target, attributes, *(int(text) if text.isdecimal() else None for text in left_out))

    @property
    def notes(self) -> dict[str, str]:
        """What ``of`` reads of it, beside the units."""
        notes = {f"target {name}": str(self.attributes[name]) for name in DESCRIBING if name in self.attributes}
        left_out = ((MISSING, self.missing), (COPIES, self.copies))
        return notes | {name: str(count) for name, count in left_out if count is not None}

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


def exceedances(thresholds: Any, name: str) -> dict[str, float]:
    """Thresholds by what the columns and variables with the probability of more are called: ``exceeds_50``."""
    try:
        each = [real(float(threshold), name) for threshold in np.atleast_1d(thresholds).tolist()]
    except (TypeError, ValueError):
        raise InputError(f"{name} must be one threshold, a finite number, or several, got {thresholds!r}") from None
    return {f"{_EXCEEDS}{repr(threshold).removesuffix('.0')}": threshold for threshold in each}


def variable_attributes(source: Source, what: str, level: float | None, observed: bool) -> dict[str, Any]:
    """The attributes of the variable ``what``: mean, std, lower, upper, or one of ``exceedances``."""
    of = f"new observations of {source.label}" if observed else source.label
    if what.startswith(_EXCEEDS):
        threshold = f"{what.removeprefix(_EXCEEDS)} {source.attributes.get('units', '')}".strip()
        return {"long_name": f"probability of more than {threshold}: {of}", "units": "1"}
    words = {"mean": "posterior mean", "std": "posterior standard deviation"}
    said = words.get(what) or f"{what} end of the central {level:.10g} interval"
    units, name = source.attributes.get("units"), source.standard_name
    attributes: dict[str, Any] = {"long_name": f"{said} of {of}", "units": units}
    if what == "std":
        attributes["standard_name"] = f"{name} standard_error" if name else None
        attributes["units_metadata"] = "temperature: difference" if _TEMPERATURE.fullmatch(str(units)) else None
    else:
        attributes["units_metadata"] = source.attributes.get("units_metadata")
    if what == "mean":
        others = "std" if level is None else "std lower upper"
        attributes |= {"standard_name": name, "ancillary_variables": others}
    elif what != "std":
        attributes["probability"] = level
    return {key: value for key, value in attributes.items() if value is not None}


def kept_cell_methods(source: Source, dataset: xr.Dataset) -> str | None:
    """The field's cell_methods, where every dimension they name is still there."""
    methods = str(source.attributes.get("cell_methods", ""))
    named = re.findall(r"(\S+):", re.sub(r"\([^)]*\)", "", methods))  # outside of brackets
    present = {"area", *map(str, dataset.coords), *map(str, dataset.dims)}
    return methods if named and set(named) <= present else None


def grid_mapping(grid: xr.DataArray | xr.Dataset, dataset: xr.Dataset) -> str | None:
    """The name of the grid's map projection variable, where all its variables agree and the prediction has it."""
    import xarray

    variables = [grid] if isinstance(grid, xarray.DataArray) else list(grid.data_vars.values())
    named = {v.encoding.get("grid_mapping", v.attrs.get("grid_mapping")) for v in variables} - {None}
    named = named or {name for name, coordinate in grid.coords.items() if "crs_wkt" in coordinate.attrs}
    name = named.pop() if len(named) == 1 else None
    return name if name in dataset.coords else None


def system_of_grid(grid: Gridded) -> str | None:
    """The coordinate system that a map projection variable among the coordinates describes; None without one."""
    found = {coordinate.attrs["crs_wkt"] for coordinate in grid.coords.values() if "crs_wkt" in coordinate.attrs}
    return str(parsed(found.pop()).to_string()) if len(found) == 1 else None


def provenance(source: Source, model: Model, observed: bool, status: str) -> dict[str, Any]:
    """The attributes of the whole data set."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    picked = model.prepared.picked
    solver = repr(model.solver) + (f", which picked {picked!r}" if picked else "")
    left_out = {"cagp_observations_missing": source.missing, "cagp_observations_copies": source.copies}
    return {
        "Conventions": "CF-1.11",
        "title": f"Gaussian process prediction of {source.label}",
        "source": f"Gaussian process regression with cagp {__version__}",
        "history": f"{now} cagp {__version__}: predicted from {model.size} observations",
        "cagp_version": __version__,
        "cagp_prior": repr(model.prior),
        "cagp_solver": solver,
        "cagp_calibrated": str(bool((picked or model.solver).calibrated)).lower(),
        "cagp_guarantee": f"{model.guarantee.kind}: {model.guarantee}",
        "cagp_status": status,
        "cagp_predicted": "new observations, with noise" if observed else "the field without noise",
        **({} if model.reach is None else {"comment": f"{MEANS_REACH} {MEDIANS_DO_NOT}"}),
        "cagp_observations": model.size,
        **{name: count for name, count in left_out.items() if count is not None},
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
    notes.pop("comment", None)  # about means
    notes["title"] = f"Gaussian process simulation of {source.label}"
    notes["cagp_seed"] = seed
    return attributes, notes


def coordinate_attributes(role: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A coordinate's attributes, with what the CF conventions ask of a latitude or longitude where it is missing."""
    return ({"units": _UNITS_OF[role], "standard_name": role} if role in _UNITS_OF else {}) | dict(given)

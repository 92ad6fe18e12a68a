"""Coordinate systems of points: data frames and files with a geometry, and which systems are the same.

A system is written as pyproj writes it, "EPSG:28992" or in full. Degrees are a place on the globe, (latitude,
longitude); other systems are a plane, (x, y).
"""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Any

from ..errors import InputError
from .advice import optional

DEGREES = "EPSG:4326"
"""Those of GPS, of coordinates that are degrees and do not say which."""

GLOBE, PLANE = ("latitude", "longitude"), ("x", "y")
"""What the coordinates of a geometry are called."""

LATITUDES, LONGITUDES = ("lat", "latitude"), ("lon", "long", "longitude")
"""The usual names of degrees, in small letters."""
_EAST = ("x", "east", "easting", "rechtswert", "ostwert", *LONGITUDES)
_NORTH = ("y", "north", "northing", "hochwert", "nordwert", *LATITUDES)
_EAST_IN_SHORT, _NORTH_IN_SHORT = ("e", "rw"), ("n", "hw")  # where no others are there: they may mean something else


def parsed(system: str) -> Any:
    """The system as a ``pyproj.CRS``."""
    pyproj = optional("pyproj", "a coordinate system", "geo")
    try:
        return pyproj.CRS(system)
    except pyproj.exceptions.CRSError as error:
        raise InputError(f"crs {system!r} is no coordinate system that pyproj knows; write it as EPSG:28992") from error


def worded(system: str) -> str:
    """A system with its name, where pyproj is there to know it: EPSG:28992 (Amersfoort / RD New)."""
    try:
        name = parsed(system).name
    except ImportError:
        return system
    return f"{system} ({name})" if len(system) <= len("EPSG:0000000") else str(name)


def same_system(one: str, other: str) -> bool:
    """Whether two systems are the same; coordinates here are never in another order than the names say."""
    return bool(one == other or parsed(one).equals(parsed(other), ignore_axis_order=True))


def is_globe(system: str) -> bool:
    """Whether points have a latitude and a longitude in degrees; refuses angles of another unit, and what is no map."""
    found = parsed(system)
    if found.is_geocentric:
        raise InputError(f"{worded(system)} has its origin in the middle of the earth; convert with to_crs(4326)")
    unit = found.axis_info[0].unit_name if found.axis_info else ""
    if found.is_geographic and unit != "degree":
        raise InputError(f"the coordinates of {worded(system)} are in {unit}, not degrees; convert with to_crs(4326)")
    return bool(found.is_geographic)


def coordinate_names(system: str) -> tuple[str, str]:
    """What the two coordinates of a system are called here, in the order in which they are columns."""
    return GLOBE if is_globe(system) else PLANE


def coordinate_units(system: str) -> dict[str, str]:
    """The units of the coordinates, by their names."""
    if is_globe(system):
        return {"latitude": "degrees_north", "longitude": "degrees_east"}
    axes = parsed(system).axis_info
    unit = {"metre": "m", "kilometre": "km"}.get(axes[0].unit_name, axes[0].unit_name) if axes else ""
    return dict.fromkeys(PLANE, unit) if unit else {}


def east_and_north(names: Sequence[str], system: str | None = None) -> tuple[int, int] | None:
    """Which of the columns lead east and north, by what a geometry in the ``system`` calls them, or by usual names.

    None where the names do not say; refuses names of degrees for a system that is a plane.
    """
    called = None if system is None else coordinate_names(system)
    if called is not None and set(called) <= {*names}:
        first, second = map(list(names).index, called)
        return (second, first) if called == GLOBE else (first, second)
    for kinds in ((_EAST, _NORTH), (_EAST_IN_SHORT, _NORTH_IN_SHORT)):
        known = [[i for i, name in enumerate(names) if name.strip().lower() in kind] for kind in kinds]
        if any(known):
            break
    if any(len(each) != 1 for each in known):
        return None
    east, north = known[0][0], known[1][0]
    if system is not None and called == PLANE and names[east].strip().lower() in LONGITUDES:
        raise InputError(f"{names[north]!r} and {names[east]!r} are names of degrees, and {worded(system)} has none")
    return east, north


def maybe_degrees(names: Sequence[str], option: str) -> str:
    """What to say of columns with the usual names of degrees that are taken for a plane: the ``option`` with both names
    for {lat} and {lon} takes them for the globe. Nothing where there are none.
    """
    north, east = ([name for name in names if name.strip().lower() in kind] for kind in (LATITUDES, LONGITUDES))
    if not north or not east:
        return ""
    asked = option.format(lat=north[0], lon=east[0])
    return f"Note: if {north[0]!r} and {east[0]!r} are degrees, {asked} measures on the globe."


def in_the_system(system: str, name: str, file: bool) -> str:
    """How to say in Python, or of a file in a shell, that ``name`` is in this system."""
    if not file:
        return f"{name}.set_crs({system!r})"
    return f"ogr2ogr -a_srs {quote(system)} new.gpkg {quote(name)}"


def system_of(X: Any, name: str, file: bool = False) -> str | None:
    """The system of a data frame or series with a geometry, or of a ``file``; None where there is no geometry."""
    if not has_geometry(X):
        return None
    if X.crs is None:
        raise InputError(
            f"{name} does not say its coordinate system; say which it is; for degrees of GPS: "
            + in_the_system(DEGREES, name, file)
        )
    return str(X.crs.to_string())


def has_geometry(X: Any) -> bool:
    """Whether X is a GeoDataFrame or a GeoSeries, of whatever library."""
    return hasattr(X, "geometry") and hasattr(X, "crs") and hasattr(X, "to_crs")


def without_geometry(X: Any, name: str) -> Any:
    """X itself, or in place of a geometry of points its two coordinates: a data frame of pandas.

    A column that repeats a coordinate under its name is that coordinate; another one of that name is refused.
    """
    system = system_of(X, name)
    if system is None:
        return X
    frame = X if hasattr(X, "columns") else X.to_frame("geometry")
    points = frame.geometry
    if wrong := sorted(set(points.geom_type.dropna()) - {"Point"}):
        raise InputError(
            f"{name} has a {wrong[0]} in its geometry; points are needed: for averages the cells of a grid that lie in "
            "each polygon, with the polygon's name as by (geopandas finds them: cells.sjoin(polygons)), for one value "
            f"each {name}.centroid"
        )
    if points.has_z.any():
        raise InputError(
            f"{name} has points with heights; keep them as a column ({name}['height'] = {name}.geometry.z) or not at "
            f"all, and leave them out of the geometry: {name}.geometry.force_2d()"
        )
    coordinates = {"x": points.x, "y": points.y, "longitude": points.x, "latitude": points.y}
    parts: dict[str, Any] = {}
    for column in frame.columns:
        if column == points.name:
            parts |= {each: coordinates[each] for each in coordinate_names(system)}
        elif column not in coordinate_names(system):
            parts[str(column)] = frame[column]
        elif not (frame[column] == coordinates[column]).all():
            raise InputError(
                f"{name} has a column {column!r} beside the {column} of its geometry, with other values; rename it"
            )
    import pandas as pd

    return pd.DataFrame(parts)


def require_same_system(system: str | None, known: str | None, name: str, what: str = "the model") -> None:
    """Refuse points in another ``system`` than the ``known`` one of ``what``; points that do not say theirs pass."""
    if system is None or known is None or same_system(system, known):
        return
    raise InputError(
        f"the coordinate system of {name} is {worded(system)}, that of {what} {worded(known)}; convert the former with "
        f"geopandas: to_crs({known!r})"
    )


def require_known_system(X: Any, name: str, known: str | None, names: list[str] | None) -> None:
    """Refuse a geometry in another system than the ``known`` one of training points, or where there was none."""
    system = system_of(X, name)
    require_same_system(system, known, name, "the training points")
    if system is not None and known is None and names is None:
        raise InputError(
            f"{name} has a geometry, and the training points were numbers whose coordinate system is not known; give "
            "the same columns of numbers, or train with a GeoDataFrame"
        )

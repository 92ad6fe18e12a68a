"""What goes into a file with predictions beside the numbers: attributes after the CF conventions, and provenance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..model import Model
    from ..saving import About
    from ..tables import Grid, RawColumns

MISSING, COPIES = "rows left out, missing", "rows left out, copies"
_COLUMNS = ("mean", "std", "lower", "upper")
_KEPT = ("long_name", "standard_name", "units_metadata", "cell_methods")


def notes_on(raw: RawColumns, target: str, missing: int, copied: int) -> dict[str, str]:
    """What ``cagp fit`` notes about its data, for people and for the attributes of predictions."""
    attributes = raw.attributes.get(target, {})
    notes = {"data file": str(raw.path)}
    notes |= {f"target {name}": attributes[name] for name in _KEPT if name in attributes}
    return notes | {name: str(count) for name, count in ((MISSING, missing), (COPIES, copied)) if count}


def shown(prediction: Any, observed: bool, level: float | None, prefix: str = "") -> dict[str, Any]:
    """The columns mean, std, lower and upper of a prediction or an average; without a ``level`` the mean alone."""
    if level is None:
        return {f"{prefix}mean": prediction.mean}
    seen = prediction.observed() if observed else prediction
    values = (seen.mean, seen.std, *seen.interval(level))
    return {prefix + name: value for name, value in zip(_COLUMNS, values, strict=True)}


def described(
    about: About,
    target: str,
    model: Model,
    grid: Grid | None,
    *,
    level: float | None,
    observed: bool,
    message: str,
    prefix: str = "",
) -> dict[str, Any]:
    """Units and attributes of each new column, and notes on the whole; ``level`` is None without error bars."""
    from ..interop.xarray_conventions import Source, kept_cell_methods, provenance, variable_attributes

    attributes = {name: about.notes[f"target {name}"] for name in _KEPT if f"target {name}" in about.notes}
    if target in about.units:
        attributes["units"] = about.units[target]
    left_out = [int(text) if (text := about.notes.get(name, "0")).isdecimal() else 0 for name in (MISSING, COPIES)]
    source = Source(target, attributes, *left_out)
    names = _COLUMNS[:1] if level is None else _COLUMNS
    each = {name: variable_attributes(source, name, level, observed) for name in names}
    del each["mean"]["ancillary_variables"]
    if level is not None:
        each["mean"]["ancillary_variables"] = " ".join(prefix + name for name in names[1:])
    methods = None if grid is None else kept_cell_methods(source, grid.coordinates)
    if methods:
        each["mean"]["cell_methods"] = methods
    each["iterations"] = {"long_name": "iterations of the solver", "units": "1"}
    notes = provenance(source, model, observed, message)
    if level is not None:  # a Parquet file has no attribute of lower and upper that could say it
        notes["cagp_interval"] = f"lower and upper hold {100 * level:g}%"
    units = {prefix + name: about.units[target] for name in names if target in about.units}
    return {"units": units, "attributes": {prefix + name: said for name, said in each.items()}, "notes": notes}

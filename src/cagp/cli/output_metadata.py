"""What goes into a file with predictions beside the numbers: attributes after the CF conventions, and provenance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..model import Model
    from ..recalibration import LayeredModel
    from ..saving import About
    from ..tables import Grid, RawColumns

MISSING, COPIES = "rows left out, missing", "rows left out, copies"
_KEPT = ("long_name", "standard_name", "units_metadata", "cell_methods")


def notes_on(raw: RawColumns, target: str, missing: int, copied: int) -> dict[str, str]:
    """What ``cagp fit`` notes about its data, for people and for the attributes of predictions."""
    attributes = raw.attributes.get(target, {})
    notes = {"data file": str(raw.path)}
    notes |= {f"target {name}": attributes[name] for name in _KEPT if name in attributes}
    return notes | {name: str(count) for name, count in ((MISSING, missing), (COPIES, copied)) if count}


def described(
    about: About,
    target: str,
    model: Model | LayeredModel,
    grid: Grid | None,
    *,
    level: float | None,
    observed: bool,
    message: str,
    prefix: str,
) -> tuple[dict[str, Mapping[str, Any]], dict[str, Any]]:
    """Attributes of each new column, and of the whole; ``level`` is None where there are no error bars."""
    from ..interop.xarray_metadata import Source, kept_cell_methods, provenance, variable_attributes

    attributes = {name: about.notes[f"target {name}"] for name in _KEPT if f"target {name}" in about.notes}
    if target in about.units:
        attributes["units"] = about.units[target]
    left_out = [int(text) if (text := about.notes.get(name, "0")).isdecimal() else 0 for name in (MISSING, COPIES)]
    source = Source(target, attributes, *left_out)
    names = ("mean",) if level is None else ("mean", "std", "lower", "upper")
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
    return {prefix + name: said for name, said in each.items()}, notes

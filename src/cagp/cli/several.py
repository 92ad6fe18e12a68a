"""Predictions of several quantities: the columns of each have its name in front."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import InputError
from ..support.coordinate_systems import coordinate_names
from ..support.numbers import listed
from .outputs import beside, columns_of, shown
from .shared import Printer, asked_beside, require_new, share_in, tell_unjudged, warned
from .table_columns import matched, read_for, require_system, unused

_KNOWN = ("interval", "observed", "prefix", "overwrite", "drop_missing")


def predict_quantities(command: Callable[..., Any], given: Mapping[str, Any], printer: Printer) -> None:
    """Write the table with mean, std and limits of every quantity at its rows: Cd_mean, Cd_std, ….

    By the arguments that were ``given`` to ``cagp predict``. Columns with observations stay as they are.
    """
    from .. import tables
    from ..predicting.beyond import told_beyond
    from ..saving import read_quantities

    folder, data, prefix, observed = (given[name] for name in ("folder", "data", "prefix", "observed"))
    remedy = f"leave it out, or take {folder}/NAME, the model of the quantity NAME"
    asked_beside(command, given, _KNOWN, "a model of several quantities", remedy)
    if data is None:
        raise InputError(f"{folder} is a model of several quantities, and DATA must be a table with the places")
    out, level = given["out"] or beside(data), share_in(given["interval"])
    ending = tables.ending_of(out)
    require_new(out, given["overwrite"])
    if out.exists() and data.exists() and out.samefile(data):
        raise InputError(f"--out {out} is the input itself; choose another name")
    model, first = read_quantities(folder)
    raw = tables.read_columns(data)
    require_system(raw, ending, out, data)
    features, _ = matched(first, folder, raw, printer)
    places = () if raw.crs is None else coordinate_names(raw.crs)  # of the geometry that is written
    table = read_for(first, data, list(dict.fromkeys([*features, *places])), given["drop_missing"], printer)
    if measured := [name for name in model.names if name in raw.names and name not in features]:
        printer(
            f"Not used: {listed(measured)} in {data}. What is known of the quantities goes to the fit, in the same "
            "table with empty cells for what is wanted, or to model.with_more in Python."
        )
    if not observed:
        printer("Means and intervals are about the functions; --observed is for new observations, with their noise.")
    tell_unjudged(model.models)
    warned(told_beyond(model.models, table.matrix(features)))
    prediction = model.predict(table.matrix(features), progress=printer.progress)
    new: dict[str, Any] = {}
    for name in model.names:
        names = columns_of(out, level, {}, f"{prefix}{name}_")
        new |= shown(prediction[name], observed, level, names, {})
    if clash := set(new) & set(features):
        raise InputError(f"the feature {min(clash)!r} is called like a new column; try --prefix predicted_")
    columns = unused(raw, table, out, model.names, new)
    columns |= {name: table.given[name] for name in raw.names if name in table.given}
    notes = {"cagp_interval": f"lower and upper hold {100 * level:g}%", "cagp_guarantee": str(model.guarantee)}
    written: dict[str, Any] = {"grid": table.grid, "rows": table.rows, "crs": raw.crs}
    tables.write_table(out, columns | new, units=table.units, notes=notes, **written)
    printer(f"{len(table):,} rows of {', '.join(model.names)}. Written: {out}")

"""Predictions of several quantities: the columns of each have its name in front."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from .outputs import columns_of, shown
from .shared import Printer
from .table_columns import tell_reading


def predict_quantities(
    folder: Path,
    data: Path,
    out: Path,
    level: float,
    observed: bool,
    prefix: str,
    drop_missing: bool,
    printer: Printer,
) -> None:
    """Write the table with mean, std and limits of every quantity at its rows: Cd_mean, Cd_std, ….

    Columns with observations of the quantities stay as they are.
    """
    from .. import tables
    from ..saving import read_quantities

    tables.ending_of(out)
    if out.exists() and data.exists() and out.samefile(data):
        raise InputError(f"--out {out} is the input itself; choose another name")
    model, about = read_quantities(folder)
    raw = tables.read_columns(data)
    features = about.features or tuple(f"x{i}" for i in range(model.places.shape[1]))
    table = tables.read_table(data, list(features), drop_missing=drop_missing, encodings=about.encodings)
    tell_reading(table, printer)
    if not observed:
        printer("Intervals are about the functions; --observed makes them about new observations, noise included.")
    prediction = model.predict(table.matrix(features), progress=printer.progress)
    columns = {name: table.given[name] for name in raw.names if name in table.given}
    new: dict[str, Any] = {}
    for name in model.names:
        names = columns_of(out, level, {}, f"{prefix}{name}_")
        new |= shown(prediction[name], observed, level, names, {})
    if clash := set(new) & set(features):
        raise InputError(f"the feature {min(clash)!r} is called like a new column; try --prefix predicted_")
    notes = {"cagp_interval": f"lower and upper hold {100 * level:g}%", "cagp_guarantee": str(model.guarantee)}
    tables.write_table(out, columns | new, units=table.units, notes=notes, grid=table.grid, rows=table.rows)
    printer(f"{len(table):,} rows of {', '.join(model.names)}. Written: {out}")

"""``cagp average``: from a model and a table of points in regions to the mean of each region, with its error bar."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from typer import Argument, Option

from ..errors import InputError
from . import flags
from .outputs import columns_of, described, shown
from .shared import IN_OPTIONS, Printer, errors_reported, require_new, share_in, with_iterations
from .table_columns import find_column, names_in, opened, read_for, tell_reading

if TYPE_CHECKING:
    from ..saving import Saved
    from ..tables.table import RawColumns, Table


def average(
    folder: flags.Folder,
    data: Annotated[Path, Argument(metavar="DATA", help="Table of points with the features; NetCDF grids as well.")],
    out: Annotated[Path, Option(dir_okay=False, help="Table to write: .csv, .csv.gz, .parquet or .nc.")],
    by: flags.By = None,
    weights: flags.Weights = None,
    interval: flags.Interval = 95.0,
    exceed: flags.Exceed = None,
    observed: Annotated[
        bool, Option("--observed", help="About means of new observations, one at each point, noise included.")
    ] = False,
    solver: flags.OtherSolver = None,
    iterations: flags.Iterations = None,
    overwrite: flags.OverwriteTable = False,
    drop_missing: flags.DropMissing = False,
    quiet: flags.Quiet = False,
    debug: flags.Debug = False,
) -> None:
    """Average what a model predicts over regions, with the error bar of each average.

    The output has a row for each region: its label, the number of its points, mean, std, lower_95 and upper_95 (in a
    NetCDF file lower and upper). Errors at points go together, and that is taken into account: the error bar of a mean
    is not the mean of error bars. Rows without a label belong to no region.
    """
    with errors_reported(debug):
        from .. import tables
        from ..averages import require_probabilities
        from ..interop.xarray_conventions import exceedances

        printer, level, thresholds = Printer(quiet), share_in(interval), exceedances(names_in(exceed), "--exceed")
        saved, raw, features, target, own = opened(folder, data, out, solver, observed, printer)
        require_new(out, overwrite)
        region = None if by is None else find_column(raw, by, "--by")
        kind, column = _weights(weights, raw, features, printer)
        wanted = list(dict.fromkeys([*features, *([] if column is None else [column])]))
        table, labels = _rows(saved, raw, wanted, region, drop_missing, printer)
        counted = None if column is None else table.columns[column]
        if counted is not None and kind == "area":
            counted = np.cos(np.deg2rad(counted)).clip(min=0.0)
        X = table.matrix(features)
        chosen = with_iterations(own.for_test_points(len(X)), iterations)
        groups, counts = np.unique(labels, return_counts=True)
        many = "One average" if len(groups) == 1 else f"{len(groups):,} averages"
        printer(f"{many} of {len(X):,} points with {chosen!r}.")
        model = saved.condition(chosen)
        if thresholds:
            require_probabilities(model.of_fields.margins is not None)
        found = model.average(X, counted, by=labels, progress=printer.progress)
        if found.status.reason == "interrupted":
            raise KeyboardInterrupt
        names = columns_of(out, level, thresholds)
        columns = ({} if region is None else {region: groups}) | {"points": counts}
        columns |= shown(found, observed, level, names, thresholds)
        message = found.status.worded(IN_OPTIONS)
        how: dict[str, Any] = {"level": level, "observed": observed, "message": message, "names": names}
        about = described(saved.about, target, model, None, **how)
        about["notes"]["cagp_guarantee"] = f"{found.guarantee.kind}: {found.guarantee}"
        about["notes"]["cagp_weights"] = column if kind == "column" else kind
        tables.write_table(out, columns, **about)
        printer(message)
        printer(f"Written: {out}")


def _weights(asked: str | None, raw: RawColumns, features: tuple[str, ...], printer: Printer) -> tuple[str, str | None]:
    """What points count, "equal", "area" or "column", and by which column."""
    if asked is not None and (asked not in ("area", "equal") or asked in raw.names):
        return "column", find_column(raw, asked, "--weights")
    on_grid = raw.globe is not None and raw.globe[0] in features
    if asked == "equal" or (asked is None and not on_grid):
        return "equal", None
    named = (name for name in features if name.lower() in ("lat", "latitude"))
    latitude = raw.globe[0] if raw.globe is not None else next(named, None)
    if latitude is None or latitude not in features:
        raise InputError(f"--weights area needs a latitude among the features, which are {', '.join(features)}")
    said = f"Points count by the cosine of {latitude!r}, as the areas of cells do"
    printer(f"{said}; --weights equal counts all the same.")
    return "area", latitude


def _rows(
    saved: Saved, raw: RawColumns, columns: list[str], region: str | None, drop_missing: bool, printer: Printer
) -> tuple[Table, np.ndarray]:
    """The points that belong to a region, and the label of each."""
    from .. import tables

    if region is None:
        table = read_for(saved, raw.path, columns, drop_missing, printer)
        return table, np.zeros(len(table), dtype=np.int64)
    if region in columns:
        raise InputError(f"--by {region!r} is a feature or the weights; give the regions in a column of their own")
    encodings = saved.about.encodings
    table, labels, outside = tables.read_labelled(raw, columns, region, drop_missing=drop_missing, encodings=encodings)
    if outside:
        printer(f"{outside:,} rows of {raw.path} have no {region!r} and belong to no region.")
    tell_reading(table, printer)
    return table, labels

"""``cagp predict``: from a model and a table to predictions with error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from typer import Option

from ..errors import InputError
from ..support.coordinate_systems import coordinate_names
from ..support.pieces import Pieces
from . import flags
from .map_options import MapAsked
from .outputs import beside, columns_of, described, key_of, shown
from .several import predict_quantities
from .shards import predict as predict_shards
from .shared import (
    IN_OPTIONS,
    INTERRUPTED,
    KEPT,
    Printer,
    errors_reported,
    labels,
    require_new,
    share_in,
    with_iterations,
)
from .table_columns import names_in, opened, read_for

if TYPE_CHECKING:
    from pathlib import Path

    from ..model import Model
    from ..prediction import Prediction
    from ..saving import Saved
    from ..stopping import Rule

_SMALLEST_BATCH, _PIECES = 4000, 100


def predict(
    folder: flags.Folder,
    data: flags.MorePoints = None,
    out: flags.PredictedOrMap = None,
    grid: flags.Grid = None,
    mask: flags.Mask = None,
    share: flags.Share = False,
    std: Annotated[bool, Option(help="Error bars, or the mean alone (often much faster).")] = True,
    interval: flags.Interval = 95.0,
    exceed: flags.Exceed = None,
    map_page: flags.MapPage = None,
    observed: flags.Observed = False,
    solver: flags.OtherSolver = None,
    iterations: flags.Iterations = None,
    stop_share: Annotated[
        float | None, Option(help="Stop each row when at most so much of its variance is computational: 0.05.")
    ] = None,
    batch: Annotated[int | None, Option(min=1, help="Rows in a piece of work; a kill loses at most one.")] = None,
    prefix: Annotated[str, Option(help="Put before the names of the new columns.")] = "",
    overwrite: flags.OverwriteTable = False,
    drop_missing: flags.DropMissing = False,
    quiet: flags.Quiet = False,
    debug: flags.Debug = False,
) -> None:
    """Predict with a model at the rows of a table, or make a map of it.

    The output has the features and the columns mean, std, lower_95, upper_95; a NetCDF file calls these lower and
    upper, and its attributes say the level. Ctrl-C stops at the iteration in hand and writes what there is, with error
    bars that are right for it, a column with the iterations of each row, and exit code 130. Finished batches are kept
    beside OUT until all is done: after Ctrl-C or a crash the same command continues. --map also writes a page to look
    at, for models of two columns or on the globe. With --grid OUT is a map for a GIS with the bands mean, std, lower
    and upper, in the coordinate system of the model. With a model of data in shards, DATA is a folder of Parquet files,
    or one, and OUT a folder; or a Zarr store or NetCDF file with a grid, and OUT a Zarr store.
    """
    given = dict(locals())
    with errors_reported(debug, KEPT):
        from .. import tables
        from ..interop.xarray_conventions import exceedances
        from ..saving import holds_quantities
        from ..shards import is_sharded
        from ..stopping import ComputationalShare

        printer = Printer(quiet)
        if is_sharded(folder):
            predict_shards(predict, given, printer)
            return
        if holds_quantities(folder):
            predict_quantities(predict, given, printer)
            return
        if grid is not None or data is None:
            unknown = {"DATA": data, "--no-std": not std, "--batch": batch, "--prefix": prefix, "--map": map_page}
            unknown |= {"--drop-missing": drop_missing}
            asked = MapAsked(folder, grid, out, mask, share_in(interval), exceed, observed, share)
            asked.write(solver, iterations, stop_share, overwrite, unknown, printer)
            return
        if mask is not None or share:
            raise InputError("--mask and --share are for maps, which --grid asks for")
        level, thresholds = share_in(interval) if std else None, exceedances(names_in(exceed), "--exceed")
        if thresholds and not std:
            raise InputError("--exceed asks for probabilities, which the mean alone does not have; leave out --no-std")
        out = out or beside(data)
        rule = None if stop_share is None else ComputationalShare(stop_share)
        saved, raw, features, target, own = opened(folder, data, out, solver, observed, printer, points=True)
        _require_map(map_page, saved, std, overwrite)
        names = columns_of(out, level, thresholds, prefix)
        if clash := {*names.values(), f"{prefix}iterations"} & set(features):
            raise InputError(f"the feature {min(clash)!r} is called like a new column; try --prefix predicted_")
        places = () if raw.crs is None else coordinate_names(raw.crs)  # of the geometry that is written
        table = read_for(saved, data, list(dict.fromkeys([*features, *places])), drop_missing, printer)
        X = table.matrix(features)
        chosen = with_iterations(own.for_test_points(len(X)), iterations)
        size = batch or max(_SMALLEST_BATCH, -(-len(X) // _PIECES))
        pieces = Pieces(out, key_of(saved, X, "predict", chosen, rule, size))
        require_new(out, overwrite or pieces.started)
        printer(f"{len(X):,} rows with {chosen!r}.")
        if not observed and std:
            printer("Intervals are about the function; --observed makes them about new observations, noise included.")
        model = saved.condition(chosen)
        if not std and stop_share is None and model.means_are_cheap:
            new_columns, message, stopped = {names["mean"]: model.predict_mean(X)}, "", False
        else:
            found, message, stopped = _in_batches(model, X, rule, size, pieces, printer)
            predicted = model.prediction_of(X, found["means"], found["variances"])
            new_columns = shown(predicted, observed, level, names, thresholds)
            if stopped or rule is not None:
                new_columns[f"{prefix}iterations"] = found["iterations"]
        columns = {name: table.given[name] for name in raw.names if name in table.given}  # as the table has them
        how: dict[str, Any] = {"level": level, "observed": observed, "message": message, "names": names}
        about = described(saved.about, target, model, table.grid, **how, prefix=prefix)
        about["units"] = table.units | about["units"]
        tables.write_table(out, columns | new_columns, grid=table.grid, rows=table.rows, crs=raw.crs, **about)
        if stopped:
            pieces.keep()
            typer.echo(message, err=True)
            typer.echo(f"Written: {out}. The finished batches are kept: the same command continues.", err=True)
            raise typer.Exit(INTERRUPTED)
        pieces.remove()
        printer(f"{message}\nWritten: {out}".strip())
        if map_page is not None:
            shows: dict[str, Any] = {"level": level, "threshold": min(thresholds.values(), default=None)}
            shows |= {"observed": observed, "names": labels(saved.about), "progress": printer.progress}
            model.map(map_page, like=X, **shows)
            printer(f"Written: {map_page}")


def _require_map(page: Path | None, saved: Saved, std: bool, overwrite: bool) -> None:
    """Refuse a --map that cannot be made, before any work is done."""
    if page is None:
        return
    from ..reports.map_page import require_map

    if not std:
        raise InputError("--map shows error bars, which the mean alone does not have; leave out --no-std")
    require_map(page, saved.prior.kernel, saved.X.shape[1])
    require_new(page, overwrite)


def _in_batches(
    model: Model, X: np.ndarray, rule: Rule | None, size: int, pieces: Pieces, printer: Printer
) -> tuple[dict[str, np.ndarray], str, bool]:
    """All rows, those finished before from disk, as ``_numbers`` has them; what the solver said; whether it stopped."""
    from ..support.interrupt import Interrupt
    from ..support.progress import progress

    bounds = [(start, min(start + size, len(X))) for start in range(0, len(X), size)]
    done = {start: kept for start, stop in bounds if (kept := pieces.load(start, stop)) is not None}
    if done:
        printer(f"Continuing: {len(done)} of {len(bounds)} batches were finished before.")
    message, stopped = "", False
    with Interrupt() as interrupt, progress("predict", len(X), printer.progress) as advance:
        for start, stop in bounds:
            if start in done or stopped:
                advance(stop - start)
                continue
            if not interrupt.requested:
                prediction = model.predict(X[start:stop], stop=rule, progress=False)
                done[start] = _numbers(prediction)
                message = prediction.status.worded(IN_OPTIONS)
            stopped = interrupt.requested or prediction.status.reason == "interrupted"
            if not stopped:
                pieces.save(start, stop, **done[start])
            advance(stop - start)
    # rows that were not reached are what is known before any iteration
    parts = [done.get(start) or _numbers(model.prior_at(X[start:stop])) for start, stop in bounds]
    found = {name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]}
    if stopped:
        values, counts = np.unique(found["iterations"], return_counts=True)
        each = ", ".join(f"{n:,} rows after iteration {i}" for i, n in zip(values[::-1], counts[::-1], strict=True))
        prior = " Iteration 0 is the prior." if values[0] == 0 else ""
        message = f"Interrupted: {each}.{prior} The error bars are right for what was computed."
    elif rule is not None and len(bounds) > 1:
        message = f"Stopped after {found['iterations'].min()} to {found['iterations'].max()} iterations, by {rule!r}."
    return found, message, stopped


def _numbers(prediction: Prediction) -> dict[str, np.ndarray]:
    """What is kept of n rows: means and variances of f by each component, (m, n), and the iterations (n,)."""
    return {
        "means": np.stack([np.asarray(each.mean, dtype=np.float64) for each in prediction.components]),
        "variances": np.stack([np.asarray(each.variance, dtype=np.float64) for each in prediction.components]),
        "iterations": np.asarray(prediction.iterations, dtype=np.int64),
    }

"""``cagp predict``: from a model and a table to predictions with error bars."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from typer import Option

from ..errors import InputError
from ..support.coordinate_systems import coordinate_names
from ..support.pieces import Pieces
from . import flags
from .map_options import MapAsked, require_page, write_page
from .outputs import beside, columns_of, described, key_of, shown
from .several import predict_quantities
from .shards import predict as predict_shards
from .shared import (
    IN_OPTIONS,
    INTERRUPTED,
    KEPT,
    Printer,
    errors_reported,
    require_new,
    share_in,
    tell_unjudged,
    warned,
    with_iterations,
)
from .table_columns import names_in, opened, read_for, unused

if TYPE_CHECKING:
    from pathlib import Path

    from ..maps.area import Area
    from ..model import Model
    from ..prediction import Prediction
    from ..saving import Saved
    from ..solvers import Solver
    from ..stopping import Rule
    from ..tables.table import RawColumns, Table

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
    batch: Annotated[int | None, Option(min=1, help="Rows in a piece of work; a kill loses those under way.")] = None,
    prefix: Annotated[str, Option(help="Put before the names of the new columns.")] = "",
    overwrite: flags.OverwriteTable = False,
    drop_missing: flags.DropMissing = False,
    quiet: flags.Quiet = False,
    debug: flags.Debug = False,
) -> None:
    """Predict with a model at the rows of a table, or make a map of it.

    The output has the columns of the table but for the target, those that the model does not use first, and the columns
    mean, std, lower_95, upper_95; a NetCDF file calls these lower and upper, and its attributes say the level. Ctrl-C
    stops at the iteration in hand and writes what there is, with error bars that are right for it, a column with the
    iterations of each row, and exit code 130. Finished batches are kept beside OUT until all is done: after Ctrl-C or a
    crash the same command continues. --map also writes a page to look at, for models of two columns or on the globe.
    With --grid OUT is a map for a GIS with the bands mean, std, lower and upper, in the coordinate system of the model.
    With a model of data in shards, DATA is a folder of Parquet files, or one, and OUT a folder; or a Zarr store or
    NetCDF file with a grid, and OUT a Zarr store.
    """
    given = dict(locals())
    with errors_reported(debug, KEPT):
        from ..saving import holds_quantities
        from ..shards import is_sharded

        printer = Printer(quiet)
        if is_sharded(folder):
            predict_shards(predict, given, printer)
        elif holds_quantities(folder):
            predict_quantities(predict, given, printer)
        elif grid is not None or data is None:
            _raster(given, printer)
        else:
            _Rows.of(given, data, printer).write(printer)


def _raster(given: dict[str, Any], printer: Printer) -> None:
    """--grid: a map in a file; the options of tables are refused."""
    unknown = {"DATA": given["data"], "--no-std": not given["std"]}
    unknown |= {f"--{name.replace('_', '-')}": given[name] for name in ("batch", "prefix", "drop_missing")}
    what = ("folder", "grid", "out", "mask", "exceed", "observed", "share", "map_page")
    asked = MapAsked(level=share_in(given["interval"]), **{name: given[name] for name in what})
    how: dict[str, Any] = {name: given[name] for name in ("solver", "iterations", "stop_share", "overwrite")}
    asked.write(**how, unknown=unknown, printer=printer)


@dataclass(frozen=True)
class _Rows:
    """The rows X (T, p) of a table that are to be predicted by ``model``, and all that was asked about them.

    ``names`` are those of the new columns, ``features`` and ``target`` the table's; without a ``level`` it is the mean.
    ``area`` is the mask of the page.
    """

    given: dict[str, Any]
    out: Path
    saved: Saved
    raw: RawColumns
    table: Table
    target: str
    X: np.ndarray
    solver: Solver
    rule: Rule | None
    level: float | None
    thresholds: Mapping[str, float]
    names: Mapping[str, str]
    area: Area | None = None

    @classmethod
    def of(cls, given: dict[str, Any], data: Path, printer: Printer) -> _Rows:
        """From the arguments of ``predict``, all checked, and nothing computed."""
        from ..interop.xarray_conventions import exceedances
        from ..stopping import ComputationalShare

        std, prefix = given["std"], given["prefix"]
        if given["share"] or (given["mask"] is not None and given["map_page"] is None):
            raise InputError("--mask and --share are for maps, which --grid asks for; --map takes a --mask, too")
        level, thresholds = (
            share_in(given["interval"]) if std else None,
            exceedances(names_in(given["exceed"]), "--exceed"),
        )
        if thresholds and not std:
            raise InputError("--exceed asks for probabilities, which the mean alone does not have; leave out --no-std")
        out = given["out"] or beside(data)
        rule = None if given["stop_share"] is None else ComputationalShare(given["stop_share"])
        observed = given["observed"]
        saved, raw, features, target, own = opened(
            given["folder"], data, out, given["solver"], observed, printer, points=True
        )
        if given["map_page"] is not None and not std:
            raise InputError("--map shows error bars, which the mean alone does not have; leave out --no-std")
        area = require_page(given["map_page"], given["mask"], saved, given["overwrite"])
        names = columns_of(out, level, thresholds, prefix)
        if clash := {*names.values(), f"{prefix}iterations"} & set(features):
            raise InputError(f"the feature {min(clash)!r} is called like a new column; try --prefix predicted_")
        places = () if raw.crs is None else coordinate_names(raw.crs)  # of the geometry that is written
        table = read_for(saved, data, list(dict.fromkeys([*features, *places])), given["drop_missing"], printer)
        X = table.matrix(features)
        solver = with_iterations(own.for_test_points(len(X)), given["iterations"])
        return cls(given, out, saved, raw, table, target, X, solver, rule, level, thresholds, names, area)

    def write(self, printer: Printer) -> None:
        """Predict, write the table and, where it is asked for, the page; ends the command where Ctrl-C came."""
        from .. import tables
        from ..predicting.beyond import told_beyond

        given, out, level, observed = self.given, self.out, self.level, self.given["observed"]
        size = given["batch"] or max(_SMALLEST_BATCH, -(-len(self.X) // _PIECES))
        pieces = Pieces(out, key_of(self.saved, self.X, "predict", self.solver, self.rule, size))
        require_new(out, given["overwrite"] or pieces.started)
        printer(f"{len(self.X):,} rows with {self.solver!r}.")
        if not observed and level is not None:
            printer("Means and intervals are about the function; --observed is for new observations, with their noise.")
        model = self.saved.condition(self.solver)
        tell_unjudged([model])
        warned(told_beyond([model], self.X))
        new_columns, message, stopped = self._columns(model, size, pieces, printer)
        columns = unused(self.raw, self.table, out, {self.target}, new_columns)
        columns |= {name: self.table.given[name] for name in self.raw.names if name in self.table.given}  # as they are
        how: dict[str, Any] = {"level": level, "observed": observed, "message": message, "names": self.names}
        about = described(self.saved.about, self.target, model, self.table.grid, **how, prefix=given["prefix"])
        about["units"] = self.table.units | about["units"]
        written: dict[str, Any] = {"grid": self.table.grid, "rows": self.table.rows, "crs": self.raw.crs}
        tables.write_table(out, columns | new_columns, **written, **about)
        if stopped:
            pieces.keep()
            typer.echo(message, err=True)
            typer.echo(f"Written: {out}. The finished batches are kept: the same command continues.", err=True)
            raise typer.Exit(INTERRUPTED)
        pieces.remove()
        printer(f"{message}\nWritten: {out}".strip())
        if (page := given["map_page"]) is not None:
            shows: dict[str, Any] = {"level": level, "thresholds": self.thresholds, "observed": observed}
            like = self.X if self.area is None else None
            write_page(model, page, self.saved.about, printer, like=like, mask=self.area, **shows)

    def _columns(self, model: Model, size: int, pieces: Pieces, printer: Printer) -> tuple[dict[str, Any], str, bool]:
        """The new columns, ``size`` rows at a time; what the solver said; whether it was stopped."""
        if self.level is None and self.rule is None and model.means_are_cheap:
            return {self.names["mean"]: model.predict_mean(self.X)}, "", False
        found, message, stopped = _in_batches(model, self.X, self.rule, size, pieces, printer)
        predicted = model.prediction_of(self.X, found["means"], found["variances"])
        new = shown(predicted, self.given["observed"], self.level, self.names, self.thresholds)
        if stopped or self.rule is not None:
            new[f"{self.given['prefix']}iterations"] = found["iterations"]
        return new, message, stopped


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

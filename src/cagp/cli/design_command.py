"""``cagp design``: from a model and a table of candidates to those where one should measure next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from typer import Argument, Option

from ..errors import InputError
from . import flags
from .shared import IN_OPTIONS, Printer, errors_reported, require_new, with_iterations
from .table_columns import find_column, matched, opened, read_for

if TYPE_CHECKING:
    from ..saving import Saved

_CANDIDATES = "Table with a row for each place where one can measure, with the features."
_REGION = "Table with places that stand for the region, with the features; by default the candidates."
_WEIGHTS = "Column of the region's table with what its places count; without it, all the same."
_COSTS = "Column of DATA with what an observation there costs: the gain per cost decides."


def design(
    folder: flags.Folder,
    data: Annotated[Path, Argument(metavar="DATA", help=_CANDIDATES)],
    n: Annotated[int, Option("--n", min=1, help="How many places to choose.")],
    out: Annotated[Path, Option(dir_okay=False, help="Table to write: .csv, .csv.gz, .parquet or .nc.")],
    region: Annotated[Path | None, Option(help=_REGION)] = None,
    weights: Annotated[str | None, Option(metavar="COLUMN", help=_WEIGHTS)] = None,
    costs: Annotated[str | None, Option(metavar="COLUMN", help=_COSTS)] = None,
    noise_column: Annotated[str | None, Option(help="Column of DATA with the noise variance of each.")] = None,
    solver: flags.OtherSolver = None,
    iterations: flags.Iterations = None,
    overwrite: flags.OverwriteTable = False,
    drop_missing: flags.DropMissing = False,
    quiet: flags.Quiet = False,
    debug: flags.Debug = False,
) -> None:
    """Choose where to measure next: the rows of a table that lower the average variance over a region most.

    The output has the chosen rows, the best first, with their rank, their number in DATA, and the average variance of
    the function over the region once it is measured there as well, whatever the measurements are. A place that may be
    measured several times stands in several rows.
    """
    with errors_reported(debug):
        from .. import tables
        from ..tables.table import taken_at

        printer = Printer(quiet)
        saved, raw, features, _, own = opened(folder, data, out, solver, False, printer)
        require_new(out, overwrite)
        cost = None if costs is None else find_column(raw, costs, "--costs")
        noise = None if noise_column is None else find_column(raw, noise_column, "--noise-column")
        wanted = list(dict.fromkeys([*features, *filter(None, [cost, noise])]))
        new = ("rank", "row", "average_variance")
        table = read_for(saved, data, wanted, drop_missing, printer)
        if clash := [name for name in new if name in table.given]:
            raise InputError(f"the column {clash[0]!r} of {data} is called like a new one; rename it")
        X = table.matrix(features)
        where, counted = X, None
        if region is not None or weights is not None:
            where, counted = _region(saved, folder, region or data, weights, drop_missing, printer)
        chosen = with_iterations(own.for_test_points(len(X) + len(where)), iterations)
        printer(f"{n:,} of {len(X):,} candidates for a region of {len(where):,} places with {chosen!r}.")
        paid, noisy = (None if name is None else table.columns[name] for name in (cost, noise))
        options = {"weights": counted, "costs": paid, "noise_variance": noisy}
        model = saved.condition(chosen)
        found = model.where_next(X, n, region=None if region is None else where, **options)
        kept = {name: taken_at(table.given[name], found.chosen) for name in raw.names if name in table.given}
        values = (np.arange(1, n + 1), table.rows[found.chosen] + 1, found.average_variance[1:])
        columns = dict(zip(new, values, strict=True))
        message = found.status.worded(IN_OPTIONS)
        tables.write_table(out, kept | columns, units=table.units, notes={"cagp_status": message})
        before, after = found.average_variance[[0, -1]]
        scale = "" if model.transform is None else ", on the transformed scale"
        printer(
            f"{message}\nAverage variance over the region{scale}: {before:.4g} now, {after:.4g} then.\nWritten: {out}"
        )


def _region(
    saved: Saved, folder: Path, region: Path, weights: str | None, drop_missing: bool, printer: Printer
) -> tuple[np.ndarray, np.ndarray | None]:
    """The places (T, p) of the region, and what each of them counts."""
    from .. import tables

    raw = tables.read_columns(region)
    features, _ = matched(saved, folder, raw, printer)
    column = None if weights is None else find_column(raw, weights, "--weights")
    table = read_for(saved, region, [*features, *filter(None, [column])], drop_missing, printer)
    return table.matrix(features), None if column is None else table.columns[column]

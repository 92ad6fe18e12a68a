"""``cagp check``: are the error bars right?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from typer import Argument, Option

from ..errors import InputError
from . import flags
from .shared import NOT_CALIBRATED, Printer, errors_reported, labels
from .table_columns import about_of, find_column, places, read_for


def check(
    folder: flags.Folder,
    holdout: Annotated[
        Path | None, Argument(metavar="[HOLDOUT]", help="Table with features and target that was not fitted to.")
    ] = None,
    like: flags.LeftOutLike = None,
    out: Annotated[Path | None, Option(help="Folder for the report; by default MODEL-check.")] = None,
    noise_column: Annotated[str | None, Option(help="Column of HOLDOUT with the noise variance of each row.")] = None,
    solver: Annotated[str | None, Option(help="Check with another solver; see `cagp solvers`.")] = None,
    seed: flags.Seed = 0,
    drop_missing: flags.DropMissing = False,
    quiet: flags.Quiet = False,
    debug: flags.Debug = False,
) -> None:
    """Check the error bars of a model, and write a report.

    Simulates from the fitted prior to see whether the method is calibrated, and predicts held-out data to see whether
    the model is: the rows of HOLDOUT, or training data that are left out, single ones or, with --like, such as stand in
    for its points. Where the error bars are wrong, a recalibration is tried. Exit code 0: no test rejects the error
    bars, which the verdict may still call suspicious; 3: they are not calibrated; 2: wrong use; 1: failure.
    """
    with errors_reported(debug):
        from ..fit_report import write_check_report
        from ..saving import read
        from ..saving.folder import several_above
        from ..tables import read_columns
        from .expressions import as_solver

        printer = Printer(quiet)
        saved = read(folder)
        if holdout is not None and like is not None:
            raise InputError("--like is for a check without HOLDOUT, which leaves training data out; give one of them")
        where = None if like is None else places(like, saved, folder, drop_missing, printer)
        given = None
        if holdout is not None:
            features, target = about_of(saved, folder)
            noisy = [] if noise_column is None else [find_column(read_columns(holdout), noise_column, "--noise-column")]
            table = read_for(saved, holdout, [*features, target, *noisy], drop_missing, printer)
            if np.ndim(saved.prior.noise_variance) and not noisy:
                printer("Without --noise-column the rows have the average noise variance of the training data.")
            given = (table.matrix(features), table.columns[target], table.columns[noisy[0]] if noisy else None)
        elif noise_column is not None:
            raise InputError("--noise-column is that of a HOLDOUT table, and none is given")
        model = saved.condition(None if solver is None else as_solver(solver))
        here, whole = folder.resolve(), several_above(folder.resolve())
        here = here if whole is None else whole.with_name(f"{whole.name}-{here.name}")  # beside it, not in it
        place = out or here.with_name(here.name + "-check")
        report = write_check_report(
            model, place, holdout=given, like=where, names=labels(saved.about), seed=seed, progress=printer.progress
        )
        printer(report.summary())
        if not report.calibrated:
            raise typer.Exit(NOT_CALIBRATED)

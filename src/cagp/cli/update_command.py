"""``cagp update``: further observations for a model that is there."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Argument, Option

from ..errors import InputError
from . import flags
from .shared import Printer, errors_reported, require_place, warned
from .table_columns import about_of, find_column, globe_of, matched, read_for

_ADDED = "observations added"


def update(
    folder: flags.Folder,
    data: Annotated[Path, Argument(metavar="DATA", help="Table with features and target of further observations.")],
    out: Annotated[Path, Option(file_okay=False, help="Folder for the new model; MODEL itself with --overwrite.")],
    noise_column: Annotated[str | None, Option(help="Column with the noise variance of each new row.")] = None,
    overwrite: flags.Overwrite = False,
    drop_missing: flags.DropMissing = False,
    quiet: flags.Quiet = False,
    debug: flags.Debug = False,
) -> None:
    """Add the rows of a table to the observations of a model, and keep it as a new model.

    Nothing is fitted: hyperparameters, the choice among kernels and a transform stay as they are. A recalibration is
    learned anew where that takes seconds; `cagp info` tells from how many observations. The table has the columns of
    the model. To fit anew, give `cagp fit` all rows.
    """
    with errors_reported(debug):
        from .. import saving, tables
        from ..predicting.unexplained import told_of_unexplained
        from ..recalibration import Recalibration
        from ..solvers import NearestNeighbours
        from .starting import no_copies

        printer = Printer(quiet)
        require_place(out, overwrite)
        saved = saving.read(folder)
        raw = tables.read_columns(data)
        features, target = matched(saved, folder, raw, printer)
        if saved.about.features is not None:
            about_of(saved, folder)  # refuses where it is not known which column the target is
        noisy = [] if noise_column is None else [find_column(raw, noise_column, "--noise-column")]
        if noisy and saved.parts.transform is not None:
            scale = "on the scale of the target, and this model is of a transform of it"
            raise InputError(f"--noise-column is {scale}; leave it out")
        if not noisy and np.ndim(saved.prior.noise_variance):
            raise InputError("this model has one noise variance per row: --noise-column names those of the new rows")
        if noisy and not np.ndim(saved.prior.noise_variance):
            printer("The new model has one noise variance per row; for others `cagp predict --observed` knows none.")
        # in a gridded field what is missing is what is to be predicted, as for `cagp fit`
        table = read_for(saved, data, [*features, target, *noisy], drop_missing or bool(raw.dims), printer)
        X, y = table.matrix(features), table.columns[target]
        both = np.concatenate([saved.places, X]), np.concatenate([saved.observations, y])
        new = no_copies(*both, globe_of(saved.prior.kernel, features), features, printer, first=len(saved.places))
        if not new.any():
            raise InputError(f"{data} has no further observation for {folder}")
        noise = table.columns[noisy[0]][new] if noisy else None
        whole = saved.with_more(X[new], y[new], noise_variance=noise)
        quick, place = saved.condition(NearestNeighbours(), solve_dtype=saved.dtype), table.rows[new]
        warned(told_of_unexplained(quick, X[new], y[new], noise, lambda i: raw.place_of(int(place[i]))))
        rows = [row.tobytes() for row in np.column_stack([whole.X, whole.y])]
        known = set(rows[: len(saved.y)])
        if again := sum(row in known for row in rows[len(saved.y) :]):
            printer(
                f"Note: {again:,} of the rows repeat an observation that the model has, place and value; each counts "
                "as a further one with its own noise. Was this table added before?"
            )
        added = "; ".join(filter(None, [whole.about.notes.get(_ADDED), f"{new.sum()} from {data}"]))
        about = dataclasses.replace(whole.about, notes={**whole.about.notes, _ADDED: added})
        saving.write(dataclasses.replace(whole, about=about), out, overwrite=overwrite)
        margins = whole.parts.margins
        anew = isinstance(margins, Recalibration) and not margins.added
        kept = "hyperparameters are" if anew else "hyperparameters and error bars are"
        printer(
            f"Observations of {target!r} added: {new.sum():,}, to {len(saved.places):,} that were there. Nothing is "
            f"fitted anew: {kept} what they were found to be before."
            + (" The recalibration was learned anew from all observations." if anew else "")
            + f"\nModel: {out}"
        )

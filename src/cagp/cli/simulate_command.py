"""``cagp simulate``: from a model and a table or a grid to whole fields."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Option

from ..support.pieces import Pieces
from . import flags
from .outputs import key_of
from .shared import KEPT, Printer, errors_reported, require_new
from .table_columns import opened, read_for

_PIECES, _PIECE_BYTES = 10, 2**28


def simulate(
    folder: flags.Folder,
    data: flags.Points,
    out: Annotated[Path, Option(dir_okay=False, help="File to write: .nc, .csv, .csv.gz or .parquet.")],
    n: Annotated[int, Option("--n", min=1, help="How many fields.")] = 100,
    seed: flags.Seed = 0,
    observed: flags.Drawn = False,
    solver: flags.OtherSolver = None,
    batch: Annotated[int | None, Option(min=1, help="Fields in a piece of work; a kill loses one.")] = None,
    overwrite: flags.OverwriteTable = False,
    drop_missing: flags.DropMissing = False,
    quiet: flags.Quiet = False,
    debug: flags.Debug = False,
) -> None:
    """Draw whole fields from a model at the rows of a table or on a grid.

    Each field is one way how things may be, given the data: its values go together as those of the posterior do. NetCDF
    has them along a dimension "realisation", other tables in a column each. Field i is the same for every --n. Finished
    batches are kept beside OUT until all is done: after Ctrl-C or a crash the same command continues.
    """
    with errors_reported(debug, KEPT):
        from .. import tables
        from ..interop.xarray_conventions import simulated
        from ..support.progress import progress

        printer = Printer(quiet)
        saved, _, features, target, own = opened(folder, data, out, solver, observed, printer)
        table = read_for(saved, data, features, drop_missing, printer)
        X = table.matrix(features)
        chosen = own.for_test_points(len(X))
        size = batch or max(1, min(-(-n // _PIECES), _PIECE_BYTES // (8 * len(X))))
        pieces = Pieces(out, key_of(saved, X, "simulate", chosen, seed, observed, size))
        require_new(out, overwrite or pieces.started)
        printer(f"{n:,} fields at {len(X):,} points with {chosen!r}.")
        model = saved.condition(chosen)
        simulator, how = model.simulator(X), ""

        def drawn(start: int, stop: int) -> np.ndarray:
            nonlocal how
            found = simulator.draw(stop - start, seed, first=start, observed=observed, progress=False)
            how = found.how
            return np.asarray(found.fields, dtype=np.float64)

        bounds = [(start, min(start + size, n)) for start in range(0, n, size)]
        done = [bound for bound in bounds if pieces.load(*bound) is not None]
        if done:
            printer(f"Continuing: {len(done)} of {len(bounds)} batches were finished before.")
        with progress("simulate", n, printer.progress) as advance:
            for start, stop in bounds:
                if (start, stop) not in done:
                    pieces.save(start, stop, fields=drawn(start, stop))
                advance(stop - start)
        # a piece that was damaged in the meantime is drawn again
        parts = (drawn(*each) if (kept := pieces.load(*each)) is None else kept["fields"] for each in bounds)
        name = target if target not in features else f"simulated_{target}"
        known = {"units": saved.about.units.get(target), "long_name": saved.about.notes.get("target long_name")}
        given = {key: value for key, value in known.items() if value is not None}
        attributes, notes = simulated(target, given, model, observed, how, seed)
        tables.write_fields(out, name, parts, n, table, attributes={name: attributes}, notes=notes)
        pieces.remove()
        printer(f"Drawn {how}." if how else "All fields were drawn before.")
        printer(f"Written: {out}")

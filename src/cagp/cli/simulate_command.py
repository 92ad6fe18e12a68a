"""``cagp simulate``: from a model and a table or a grid to whole fields."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from .finished_batches import Pieces, key_of
from .option_checks import require_new
from .shared import KEPT, Debug, DropMissing, Folder, Printer, Quiet, Seed, errors_reported
from .table_columns import opened, read_for

if TYPE_CHECKING:
    from ..fields import Simulator
    from ..model import Model
    from ..saving import Saved

_PIECES = 10
_PIECE_BYTES = 2**28


def simulate(
    folder: Folder,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Table with the features; NetCDF grids as well.")],
    out: Annotated[Path, typer.Option(dir_okay=False, help="File to write: .nc, .csv, .csv.gz or .parquet.")],
    n: Annotated[int, typer.Option("--n", min=1, help="How many fields.")] = 100,
    seed: Seed = 0,
    observed: Annotated[
        bool, typer.Option("--observed", help="Fields of new observations, noise included, not of the function.")
    ] = False,
    solver: Annotated[str | None, typer.Option(help="Another solver than the model's; see `cagp solvers`.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Fields in a piece of work; a kill loses one.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it is there.")] = False,
    drop_missing: DropMissing = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Draw whole fields from a model at the rows of a table or on a grid.

    Each field is one way how things may be, given the data: its values go together as those of the posterior do. NetCDF
    has them along a dimension "realisation", other tables in a column each. Field i is the same for every --n. Finished
    batches are kept beside OUT until all is done: after Ctrl-C or a crash the same command continues.
    """
    with errors_reported(debug, KEPT):
        from .. import tables

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
        drawing = _Drawing(model.simulator(X), seed, observed, pieces)
        bounds = [(start, min(start + size, n)) for start in range(0, n, size)]
        drawing.finish(bounds, printer)
        name = target if target not in features else f"simulated_{target}"
        attributes, notes = _described(saved, target, model, observed, drawing.how, seed)
        tables.write_fields(out, name, drawing.parts(bounds), n, table, attributes={name: attributes}, notes=notes)
        pieces.remove()
        printer(f"Drawn {drawing.how}." if drawing.how else "All fields were drawn before.")
        printer(f"Written: {out}")


class _Drawing:
    """The fields of one command, those finished before from disk."""

    def __init__(self, simulator: Simulator, seed: int, observed: bool, pieces: Pieces) -> None:
        self._simulator, self._seed, self._observed, self._pieces = simulator, seed, observed, pieces
        self.how = ""

    def finish(self, bounds: list[tuple[int, int]], printer: Printer) -> None:
        """Draw what is not finished, piece by piece."""
        from ..support.progress import progress

        done = [bound for bound in bounds if self._pieces.load(*bound) is not None]
        if done:
            printer(f"Continuing: {len(done)} of {len(bounds)} batches were finished before.")
        with progress("simulate", bounds[-1][1], printer.progress) as advance:
            for start, stop in bounds:
                if (start, stop) not in done:
                    self._pieces.save(start, stop, fields=self._drawn(start, stop))
                advance(stop - start)

    def parts(self, bounds: list[tuple[int, int]]) -> Iterator[np.ndarray]:
        """All fields, piece by piece; one that was damaged in the meantime is drawn again."""
        for start, stop in bounds:
            kept = self._pieces.load(start, stop)
            yield self._drawn(start, stop) if kept is None else kept["fields"]

    def _drawn(self, start: int, stop: int) -> np.ndarray:
        found = self._simulator.draw(stop - start, self._seed, first=start, observed=self._observed, progress=False)
        self.how = found.how
        return np.asarray(found.fields, dtype=np.float64)


def _described(
    saved: Saved, target: str, model: Model, observed: bool, how: str, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes of the fields, and of the whole file."""
    from ..interop.xarray_conventions import simulated

    attributes = {"units": saved.about.units.get(target), "long_name": saved.about.notes.get("target long_name")}
    known = {name: value for name, value in attributes.items() if value is not None}
    return simulated(target, known, model, observed, how, seed)

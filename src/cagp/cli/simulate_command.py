"""``cagp simulate``: from a model and a table or a grid to whole fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..errors import InputError
from .finished_batches import FinishedFields
from .option_checks import require_noise, require_other
from .shared import KEPT, Debug, DropMissing, Folder, Quiet, Seed, Voice, told
from .table_columns import matched, read_for

if TYPE_CHECKING:
    from ..fields import Simulator
    from ..model import Model
    from ..recalibration import LayeredModel
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
    with told(debug, KEPT):
        from .. import tables
        from ..saving import read
        from .expressions import as_solver

        voice = Voice(quiet)
        tables.ending_of(out)
        asked = None if solver is None else as_solver(solver)
        require_other(out, data)
        saved = read(folder)
        raw = tables.read_columns(data)
        features, target = matched(saved, folder, raw, voice)
        require_noise(saved, observed)
        table = read_for(saved, data, features, drop_missing, voice)
        X = table.matrix(features)
        chosen = (asked or saved.picked or saved.solver).for_test_points(len(X))
        size = batch or max(1, min(-(-n // _PIECES), _PIECE_BYTES // (8 * len(X))))
        pieces = FinishedFields(out, _key(saved, X, chosen, seed, observed, size), len(X))
        if out.exists() and not overwrite and not pieces.started:
            raise InputError(f"{out} is there already; --overwrite replaces it")
        voice(f"{n:,} fields at {len(X):,} points with {chosen!r}.")
        model = saved.condition(chosen)
        drawing = _Drawing(model.simulator(X), seed, observed, pieces)
        bounds = [(start, min(start + size, n)) for start in range(0, n, size)]
        drawing.finish(bounds, voice)
        name = target if target not in features else f"simulated_{target}"
        attributes, notes = _described(saved, target, model, observed, drawing.how, seed)
        tables.write_fields(out, name, drawing.parts(bounds), n, table, attributes={name: attributes}, notes=notes)
        pieces.remove()
        voice(f"Drawn {drawing.how}." if drawing.how else "All fields were drawn before.")
        voice(f"Written: {out}")


class _Drawing:
    """The fields of one command, those finished before from disk."""

    def __init__(self, simulator: Simulator, seed: int, observed: bool, pieces: FinishedFields) -> None:
        self._simulator, self._seed, self._observed, self._pieces = simulator, seed, observed, pieces
        self.how = ""

    def finish(self, bounds: list[tuple[int, int]], voice: Voice) -> None:
        """Draw what is not finished, piece by piece."""
        from ..support.progress import progress

        done = [bound for bound in bounds if self._pieces.load_fields(*bound) is not None]
        if done:
            voice(f"Continuing: {len(done)} of {len(bounds)} batches were finished before.")
        with progress("simulate", bounds[-1][1], voice.progress) as advance:
            for start, stop in bounds:
                if (start, stop) not in done:
                    self._pieces.save_fields(start, self._drawn(start, stop))
                advance(stop - start)

    def parts(self, bounds: list[tuple[int, int]]) -> Iterator[np.ndarray]:
        """All fields, piece by piece; one that was damaged in the meantime is drawn again."""
        for start, stop in bounds:
            kept = self._pieces.load_fields(start, stop)
            yield self._drawn(start, stop) if kept is None else kept

    def _drawn(self, start: int, stop: int) -> np.ndarray:
        found = self._simulator.draw(stop - start, self._seed, first=start, observed=self._observed, progress=False)
        self.how = found.how
        return np.asarray(found.fields, dtype=np.float64)


def _key(saved: Saved, X: np.ndarray, solver: Any, seed: int, observed: bool, size: int) -> str:
    """The hash of all that decides the numbers."""
    from ..support.version import __version__

    points = hashlib.sha256(X.tobytes()).hexdigest()
    decisive = ["simulate", __version__, saved.fingerprint, points, list(X.shape), repr(solver), seed, observed, size]
    return hashlib.sha256(json.dumps(decisive).encode()).hexdigest()


def _described(
    saved: Saved, target: str, model: Model | LayeredModel, observed: bool, how: str, seed: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes of the fields, and of the whole file."""
    from ..interop.xarray_metadata import simulated

    attributes: dict[str, Any] = {}
    if target in saved.about.units:
        attributes["units"] = saved.about.units[target]
    label = saved.about.notes.get("target long_name")
    return simulated(target, attributes | ({} if label is None else {"long_name": label}), model, observed, how, seed)

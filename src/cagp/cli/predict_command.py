"""``cagp predict``: from a model and a table to predictions with error bars."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..errors import InputError
from .finished_batches import Piece, Pieces
from .option_checks import require_noise, require_other, with_iterations
from .output_metadata import described
from .shared import IN_OPTIONS, INTERRUPTED, KEPT, Debug, DropMissing, Folder, Quiet, Voice, told
from .table_columns import matched, read_for

if TYPE_CHECKING:
    from ..model import Model
    from ..recalibration import LayeredModel
    from ..saving import Saved
    from ..stopping import Rule

_SMALLEST_BATCH = 4000
_PIECES = 100


def predict(
    folder: Folder,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Table with the features; NetCDF grids as well.")],
    out: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            help="Table to write: .csv, .csv.gz, .parquet, .nc; by default DATA-predicted, beside DATA.",
        ),
    ] = None,
    std: Annotated[
        bool, typer.Option("--std/--no-std", help="Error bars, or the mean alone (often much faster).")
    ] = True,
    interval: Annotated[float, typer.Option(help="Per cent that lower and upper hold.")] = 95.0,
    observed: Annotated[
        bool, typer.Option("--observed", help="About new observations, noise included, not about the function.")
    ] = False,
    solver: Annotated[str | None, typer.Option(help="Another solver than the model's; see `cagp solvers`.")] = None,
    iterations: Annotated[int | None, typer.Option(min=0, help="Iterations of the solver.")] = None,
    stop_share: Annotated[
        float | None,
        typer.Option(help="Stop each row when so much of its variance, at most, is computational: 0.05."),
    ] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Rows in a piece of work; a kill loses at most one.")] = None,
    prefix: Annotated[str, typer.Option(help="Put before the names of the new columns.")] = "",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT if it is there.")] = False,
    drop_missing: DropMissing = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict with a model at the rows of a table.

    The output has the features and the columns mean, std, lower, upper. Ctrl-C stops at the iteration in hand and
    writes what there is, with error bars that are right for it, a column with the iterations of each row, and exit code
    130. Finished batches are kept beside OUT until all is done: after Ctrl-C or a crash the same command continues.
    """
    with told(debug, KEPT):
        from .. import tables
        from ..saving import read
        from ..stopping import ComputationalShare
        from ..transforms import untransformed
        from .expressions import as_solver

        voice = Voice(quiet)
        if not 1 < interval < 100:
            raise InputError(f"--interval is in per cent, between 1 and 100, got {interval:g}; for 95% write 95")
        if out is None:
            ending = tables.ending_of(data)
            out = data.with_name(f"{data.name[: -len(ending)]}-predicted{data.name[-len(ending) :]}")
        tables.ending_of(out)
        rule = None if stop_share is None else ComputationalShare(stop_share)
        asked = None if solver is None else as_solver(solver)
        require_other(out, data)
        saved = read(folder)
        raw = tables.read_columns(data)
        features, target = matched(saved, folder, raw, voice)
        new = [prefix + name for name in ("mean", "std", "lower", "upper", "iterations")]
        if clash := set(new) & set(features):
            raise InputError(f"the feature {min(clash)!r} is called like a new column; try --prefix predicted_")
        require_noise(saved, observed)
        table = read_for(saved, data, features, drop_missing, voice)
        X = table.matrix(features)
        own = asked or saved.picked or saved.solver
        chosen = with_iterations(own.for_test_points(len(X)), iterations)
        size = batch or max(_SMALLEST_BATCH, -(-len(X) // _PIECES))
        pieces = Pieces(out, _key(saved, X, chosen, rule, size))
        if out.exists() and not overwrite and not pieces.started:
            raise InputError(f"{out} is there already; --overwrite replaces it")
        voice(f"{len(X):,} rows with {chosen!r}.")
        if not observed and std:
            voice("Intervals are about the function; --observed makes them about new observations, noise included.")
        whole = saved.condition(chosen)
        model = whole.plain
        whole_mean = untransformed(whole)[1] is None  # after a transform it takes the variance, too
        if not std and stop_share is None and model.means_are_cheap and whole_mean:
            result, message, stopped = Piece(model.predict_mean(X), np.ones(len(X)), np.ones(len(X))), "", False
        else:
            result, message, stopped = _in_batches(model, X, rule, size, pieces, voice)
        columns = {name: table.given[name] for name in raw.names if name in table.given}  # as the table has them
        columns |= _predicted(whole, X, result, observed, interval / 100 if std else None, prefix)
        if stopped or rule is not None:
            columns[f"{prefix}iterations"] = result.iterations
        unit = saved.about.units.get(target)
        units = {**table.units, **({} if unit is None else dict.fromkeys(new[:4], unit))}
        level = interval / 100 if std else None
        attributes, notes = described(
            saved.about, target, whole, table.grid, level=level, observed=observed, message=message, prefix=prefix
        )
        tables.write_table(
            out, columns, units=units, notes=notes, attributes=attributes, grid=table.grid, rows=table.rows
        )
        if stopped:
            pieces.keep()
            typer.echo(message, err=True)
            typer.echo(f"Written: {out}. The finished batches are kept: the same command continues.", err=True)
            raise typer.Exit(INTERRUPTED)
        pieces.remove()
        if message:
            voice(message)
        voice(f"Written: {out}")


def _key(saved: Saved, X: np.ndarray, solver: Any, rule: Rule | None, size: int) -> str:
    """The hash of all that decides the numbers."""
    from ..support.version import __version__

    decisive = [saved.fingerprint, hashlib.sha256(X.tobytes()).hexdigest(), list(X.shape), repr(solver), repr(rule)]
    return hashlib.sha256(json.dumps([__version__, size, *decisive]).encode()).hexdigest()


def _in_batches(
    model: Model, X: np.ndarray, rule: Rule | None, size: int, pieces: Pieces, voice: Voice
) -> tuple[Piece, str, bool]:
    """All rows, those finished before from disk; what the solver said; and whether Ctrl-C stopped it."""
    from ..support.interrupt import Interrupt
    from ..support.progress import progress

    bounds = [(start, min(start + size, len(X))) for start in range(0, len(X), size)]
    done = {start: piece for start, stop in bounds if (piece := pieces.load(start, stop)) is not None}
    if done:
        voice(f"Continuing: {len(done)} of {len(bounds)} batches were finished before.")
    message, stopped = "", False
    with Interrupt() as interrupt, progress("predict", len(X), voice.progress) as advance:
        for start, stop in bounds:
            if start in done or stopped:
                advance(stop - start)
                continue
            if not interrupt.requested:
                posterior = model.predict(X[start:stop], stop=rule, progress=False)
                mean, variance = (np.asarray(each, dtype=np.float64) for each in (posterior.mean, posterior.variance))
                done[start] = Piece(mean, variance, np.asarray(posterior.iterations, dtype=np.int64))
                message = posterior.status.worded(IN_OPTIONS)
            stopped = interrupt.requested or posterior.status.reason == "interrupted"
            if not stopped:
                pieces.save(start, stop, done[start])
            advance(stop - start)
    parts = [done.get(start) or _prior(model, X[start:stop]) for start, stop in bounds]
    result = Piece(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in dataclasses.fields(Piece)))
    if stopped:
        message = _interrupted(result.iterations)
    elif rule is not None and len(bounds) > 1:
        message = f"Stopped after {result.iterations.min()} to {result.iterations.max()} iterations, by {rule!r}."
    return result, message, stopped


def _prior(model: Model, X: np.ndarray) -> Piece:
    """Rows that were not reached: what is known before any iteration."""
    known = model.prior_at(X)
    return Piece(known.mean, known.variance, np.zeros(len(X), dtype=np.int64))


def _interrupted(iterations: np.ndarray) -> str:
    values, counts = np.unique(iterations, return_counts=True)
    each = ", ".join(f"{n:,} rows after iteration {i}" for i, n in zip(values[::-1], counts[::-1], strict=True))
    prior = " Iteration 0 is the prior." if values[0] == 0 else ""
    return f"Interrupted: {each}.{prior} The error bars are right for what was computed."


def _predicted(
    model: Model | LayeredModel, X: np.ndarray, result: Piece, observed: bool, level: float | None, prefix: str
) -> dict[str, np.ndarray]:
    """The columns mean, std, lower and upper, from what batches keep: mean and variance of f by the plain model.

    Without a ``level`` the mean alone.
    """
    from ..posterior import kept

    meant = model.over(kept(model.plain, X, result.mean, result.variance), X)
    if level is None:
        return {f"{prefix}mean": meant.mean}
    shown = meant.observed() if observed else meant
    lower, upper = shown.interval(level)
    values = {"mean": shown.mean, "std": shown.std, "lower": lower, "upper": upper}
    return {prefix + name: value for name, value in values.items()}

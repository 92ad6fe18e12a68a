"""``cagp fit``: from a table to a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from .option_checks import require_place, require_values, with_iterations
from .output_metadata import notes_on
from .shared import IN_OPTIONS, INTERRUPTED, Debug, DropMissing, Quiet, Seed, Voice, labels, told
from .table_columns import names_in

if TYPE_CHECKING:
    from ..hyperparameters import FitResult
    from ..model import Model
    from ..prior import Prior
    from ..recalibration import LayeredModel
    from ..saving import About, Saved
    from ..solvers import Solver
    from .starting import Training


def fit(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Table: .csv, .csv.gz, .parquet or .nc.")],
    target: Annotated[str, typer.Option(help="Column to predict; the beginning of its name is enough.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for the model.")],
    features: Annotated[
        str | None, typer.Option(help="Columns to predict from: 'a,b,c'; by default all others that vary.")
    ] = None,
    exclude: Annotated[str, typer.Option(help="Columns to leave out of the features: 'id,date'.")] = "",
    kernel: Annotated[
        str, typer.Option(help="matern12, matern32, matern52, rbf, rationalquadratic, periodic; or an expression.")
    ] = "matern32",
    geo: Annotated[
        str | None,
        typer.Option(help="Latitude and longitude in degrees: 'lat,lon'. In NetCDF found by itself, unless 'none'."),
    ] = None,
    ard: Annotated[
        bool, typer.Option("--ard/--no-ard", help="One lengthscale for each feature, or one for all.")
    ] = True,
    mean: Annotated[str, typer.Option(help="Prior mean: zero, constant, linear, quadratic.")] = "constant",
    lengthscale: Annotated[
        str | None, typer.Option(help="Start (with --no-fit: value): one number, or 'a,b,c'.")
    ] = None,
    variance: Annotated[
        float | None, typer.Option(help="Start (with --no-fit: value) of the kernel's variance.")
    ] = None,
    noise: Annotated[float | None, typer.Option(help="Start (with --no-fit: value) of the noise variance.")] = None,
    noise_column: Annotated[
        str | None, typer.Option(help="Column with the noise variance of each row; it is held as it is.")
    ] = None,
    fix: Annotated[str, typer.Option(help="Hyperparameters to hold at their start: 'noise_variance,variance'.")] = "",
    no_fit: Annotated[
        bool, typer.Option("--no-fit", help="Take --lengthscale, --variance and --noise as they are.")
    ] = False,
    likelihood: Annotated[
        str, typer.Option(help="exact, nearest-neighbours, or auto: exact, on a sample where there are many rows.")
    ] = "auto",
    subset: Annotated[int | None, typer.Option(min=2, help="Fit to so many rows; the model has all of them.")] = None,
    restarts: Annotated[
        int | None, typer.Option(min=0, help="Further starts of the optimiser; by default 2 up to 500 rows, then 0.")
    ] = None,
    solver: Annotated[str, typer.Option(help="How the model predicts; see `cagp solvers`.")] = "auto",
    iterations: Annotated[int | None, typer.Option(min=0, help="Iterations of that solver.")] = None,
    recalibrate: Annotated[
        bool | None,
        typer.Option(
            "--recalibrate/--no-recalibrate",
            help="Error bars from left-out predictions, or the prior's; by default the former where they differ.",
        ),
    ] = None,
    like: Annotated[
        Path | None, typer.Option(help="Table with the features where you are going to predict: gaps like there count.")
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Folder for the report; by default OUT-report.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    seed: Seed = 0,
    drop_missing: DropMissing = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a Gaussian process to a table by maximum likelihood, and keep it as a model folder.

    Prints the hyperparameters with their standard errors, and what needs a look. Then observations are left out and
    predicted from the others: where their errors are not as promised, the error bars of the model are recalibrated, and
    the command says so. Ctrl-C during the fit writes the model with the best hyperparameters so far, no report, and
    exit code 130.
    """
    with told(debug):
        from .. import saving
        from ..saving.layers import with_layers
        from .expressions import as_solver
        from .fit_steps import Search, printed
        from .recalibrating import ErrorBars
        from .starting import PriorAsked
        from .training_data import read_training

        voice = Voice(quiet)
        search = Search(likelihood, subset, restarts, names_in(fix), seed)
        bars = ErrorBars(recalibrate, like)
        chosen_solver = with_iterations(as_solver(solver), iterations)
        wished = PriorAsked(kernel, mean, geo, ard, lengthscale, variance, noise)
        if no_fit:
            require_values(wished.written, lengthscale, variance, 0.0 if noise_column else noise)
        require_place(out, overwrite)
        training = read_training(data, target, features, exclude, noise_column, drop_missing, wished, voice)
        prior, fixed = wished.prior_for(training)
        places = bars.places(_saved(prior, training, chosen_solver, None), out, drop_missing, voice)
        result, stopped = None, False
        if no_fit:
            wished.require_whole(training)
        else:
            result, stopped = search.run(prior, training, fixed, voice)
            prior = result.prior
            printed(result, training.columns, stopped, voice)
        saved = _saved(prior, training, chosen_solver, result)
        saving.write(saved, out, overwrite=overwrite)
        if stopped:
            typer.echo(
                f"Interrupted: {out} has the best hyperparameters so far and the error bars of the prior, and no "
                "report is written. To go on from them, start a fit there (--lengthscale, --variance, --noise).",
                err=True,
            )
            raise typer.Exit(INTERRUPTED)
        if recalibrate is False and no_report:
            voice(f"Model: {out}")
            return
        model = saved.condition().plain
        if recalibrate is not False:
            with told(debug, f"Interrupted: {out} has the error bars of the prior, and no report is written."):
                saved = bars.settled(saved, model, places, seed, voice)
                saving.write(saved, out, overwrite=True)
        voice(f"Model: {out}")
        if not no_report:
            place = report or out.resolve().with_name(out.resolve().name + "-report")
            with told(debug, f"Interrupted: the model is written to {out}, the report is not."):
                _report(with_layers(model, saved.layers), saved.about, place, result, places, seed, voice)


def _saved(prior: Prior, training: Training, solver: Solver, result: FitResult | None) -> Saved:
    """The model for its folder, with what is known about it."""
    from ..saving import About, FitSummary, Saved

    columns, target, table = training.columns, training.target, training.table
    units = {name: table.units[name] for name in (*columns, target) if name in table.units}
    notes = notes_on(training.raw, target, table.dropped, training.copied)
    summary = None if result is None else FitSummary.of(result, IN_OPTIONS)
    about = About(tuple(columns), target, units, notes, summary)
    return Saved(prior, training.X, training.y, solver, about=about)


def _report(
    model: Model | LayeredModel,
    about: About,
    place: Path,
    result: FitResult | None,
    like: np.ndarray | None,
    seed: int,
    voice: Voice,
) -> None:
    from ..fit_report import write_fit_report

    written = write_fit_report(
        model, place, fit=result, like=like, names=labels(about), seed=seed, progress=voice.progress
    )
    voice(f"Report: {written}\n{written.finding}")

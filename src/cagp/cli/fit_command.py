"""``cagp fit``: from a table to a model."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from .option_checks import require_place, require_values, with_iterations
from .output_metadata import notes_on
from .shared import IN_OPTIONS, INTERRUPTED, Debug, DropMissing, Quiet, Seed, Voice, labels, told
from .table_columns import names_in, places

if TYPE_CHECKING:
    from ..hyperparameters import FitResult
    from ..model import Model
    from ..recalibration import LayeredModel
    from ..saving import About
    from .starting import Training


def fit(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Table: .csv, .csv.gz, .parquet or .nc.")],
    target: Annotated[str, typer.Option(help="Column to predict; the beginning of its name is enough.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder for the model.")],
    features: Annotated[
        str | None, typer.Option(help="Columns to predict from: 'a,b,c'; by default all others that vary.")
    ] = None,
    exclude: Annotated[str, typer.Option(help="Columns to leave out of the features: 'id,date'.")] = "",
    categories: Annotated[str, typer.Option(help="Numbers that are names of categories: 'zone,type'.")] = "",
    dates: Annotated[str | None, typer.Option(help="How 03/04/2024 is read: day-first or month-first.")] = None,
    impute: Annotated[str | None, typer.Option(help="'median' fills missing features in, and says so.")] = None,
    kernel: Annotated[
        str,
        typer.Option(
            help="auto, matern12, matern32, matern52, rbf, rationalquadratic, periodic, 'short and long', several with "
            "commas, or an expression."
        ),
    ] = "auto",
    geo: Annotated[
        str | None,
        typer.Option(help="Latitude and longitude in degrees: 'lat,lon'. In NetCDF found by itself, unless 'none'."),
    ] = None,
    ard: Annotated[
        bool | None,
        typer.Option(
            "--ard/--no-ard",
            help="One lengthscale for each feature, or one for all; by default the former from ten rows for each.",
        ),
    ] = None,
    rotate: Annotated[
        bool | None,
        typer.Option(
            "--rotate/--no-rotate",
            help="Lengthscales along turned axes of two or three features; by default where left-out errors say so.",
        ),
    ] = None,
    mean: Annotated[str, typer.Option(help="Prior mean: auto, zero, constant, linear, quadratic.")] = "auto",
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
        str, typer.Option(help="exact, nearest-neighbours, or auto: exact up to 2,000 rows.")
    ] = "auto",
    subset: Annotated[
        int | None, typer.Option(min=2, help="Fit to so many rows, drawn at random; the model has all.")
    ] = None,
    restarts: Annotated[
        int | None, typer.Option(min=0, help="Further starts of the optimiser for each candidate; by default 0.")
    ] = None,
    solver: Annotated[str, typer.Option(help="How the model predicts; see `cagp solvers`.")] = "auto",
    iterations: Annotated[int | None, typer.Option(min=0, help="Iterations of that solver.")] = None,
    mixture: Annotated[
        bool, typer.Option("--mixture/--no-mixture", help="Where candidates are as good, mix them, or take the best.")
    ] = True,
    uncertainty: Annotated[
        bool | None,
        typer.Option(
            "--uncertainty/--no-uncertainty",
            help="Integrate over the hyperparameters, or take them as known; by default the former up to 2,000 rows.",
        ),
    ] = None,
    recalibrate: Annotated[
        bool | None,
        typer.Option(
            "--recalibrate/--no-recalibrate",
            help="Error bars from left-out predictions, or the prior's; by default the former where they differ.",
        ),
    ] = None,
    transform: Annotated[
        str,
        typer.Option(
            help="Of the target: auto, none, log, box-cox, yeo-johnson, sinh-arcsinh, or logit for shares between 0 "
            "and 1."
        ),
    ] = "auto",
    varying: Annotated[
        bool | None,
        typer.Option(
            "--varying/--no-varying",
            help="Try an amplitude and a noise level that vary with the features; by default where nothing is given.",
        ),
    ] = None,
    like: Annotated[
        Path | None,
        typer.Option(help="Table with the features where you are going to predict: the model is chosen there."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Folder for the report; by default OUT-report.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    seed: Seed = 0,
    drop_missing: DropMissing = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a Gaussian process to a table, and keep it as a model folder.

    What is not said is chosen, as `cagp.fit` does in Python: kernels and trends are fitted by maximum likelihood and
    judged by observations that are left out and predicted from the others, in gaps like those of --like. Where errors
    are not as promised, the error bars are recalibrated. The command tells all of this, and prints the hyperparameters
    with their standard errors, and what needs a look. Ctrl-C during the fit writes the best model so far, no report,
    and exit code 130.
    """
    with told(debug):
        from .. import saving
        from .expressions import as_solver
        from .fit_steps import Search, printed
        from .starting import PriorAsked
        from .training_data import columns_asked, read_training

        voice = Voice(quiet)
        search = Search(
            likelihood, subset, restarts, names_in(fix), mixture, uncertainty, recalibrate, transform, varying, seed
        )
        chosen_solver = with_iterations(as_solver(solver), iterations)
        wished = PriorAsked(kernel, mean, geo, ard, lengthscale, variance, noise, rotate)
        if no_fit:
            require_values(wished.written, lengthscale, variance, 0.0 if noise_column else noise)
            search.require_no_transform()
        require_place(out, overwrite)
        asked = columns_asked(categories, dates, impute)
        training = read_training(data, target, features, exclude, noise_column, drop_missing, wished, voice, asked)
        search.check(len(training.y))
        about = _about(training)
        at_first = saving.Saved(wished.some_prior(training), training.X, training.y, chosen_solver, about=about)
        where = None if like is None else places(like, at_first, out, drop_missing, voice)
        result: FitResult | None = None
        if no_fit:
            wished.require_whole(training)
            plain = wished.prior_for(training).condition(training.X, training.y, chosen_solver)
            saving.write(saving.Saved.of(plain, about), out, overwrite=overwrite)
            model: Model | LayeredModel = plain
            if recalibrate is not False:
                with told(debug, f"Interrupted: {out} has the error bars of the prior, and no report is written."):
                    model, found = search.judge(plain, where, voice)
                    about = dataclasses.replace(about, notes={**about.notes, "left-out observations": found})
                    saving.write(saving.Saved.of(model, about), out, overwrite=True)
        else:
            fitted = search.run(wished, training, solver if iterations is None else chosen_solver, where, voice)
            model, result = fitted, fitted.result
            assert result is not None
            voice(fitted.story)
            printed(result, training.columns, fitted.interrupted, voice)
            about = dataclasses.replace(about, fit=saving.FitSummary.of(result, IN_OPTIONS))
            saving.write(saving.Saved.of(model, about), out, overwrite=overwrite)
            if fitted.interrupted:
                typer.echo(
                    f"Interrupted: {out} has the best model so far with the error bars of its prior, and no report is "
                    "written. To go on from it, start a fit there (--kernel, --lengthscale, --variance, --noise).",
                    err=True,
                )
                raise typer.Exit(INTERRUPTED)
        voice(f"Model: {out}")
        if not no_report:
            place = report or out.resolve().with_name(out.resolve().name + "-report")
            with told(debug, f"Interrupted: the model is written to {out}, the report is not."):
                _report(model, about, place, result, where, seed, voice)


def _about(training: Training) -> About:
    """What is known about the data."""
    from ..saving import About

    columns, target, table = training.columns, training.target, training.table
    units = {name: table.units[name] for name in (*columns, target) if name in table.units}
    notes = notes_on(training.raw, target, table.dropped, training.copied)
    return About(tuple(columns), target, units, notes, encodings=table.encodings)


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

"""The flags of ``cagp fit``, one each. Those of the search are called what ``cagp.fit`` calls its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Data = Annotated[Path, typer.Argument(metavar="DATA", help="Table: .csv, .csv.gz, .parquet or .nc.")]
Target = Annotated[str, typer.Option(help="Column to predict; the beginning of its name is enough.")]
Out = Annotated[Path, typer.Option(file_okay=False, help="Folder for the model.")]
Features = Annotated[
    str | None, typer.Option(help="Columns to predict from: 'a,b,c'; by default all others that vary.")
]
Exclude = Annotated[str, typer.Option(help="Columns to leave out of the features: 'id,date'.")]
Categories = Annotated[str, typer.Option(help="Numbers that are names of categories: 'zone,type'.")]
Dates = Annotated[str | None, typer.Option(help="How 03/04/2024 is read: day-first or month-first.")]
Impute = Annotated[str | None, typer.Option(help="'median' fills missing features in, and says so.")]
Kernel = Annotated[
    str,
    typer.Option(
        help="auto, matern12, matern32, matern52, rbf, rationalquadratic, periodic, 'short and long', several with "
        "commas, or an expression."
    ),
]
Globe = Annotated[
    str | None,
    typer.Option(help="Latitude and longitude in degrees: 'lat,lon'. In NetCDF found by itself, unless 'none'."),
]
Ard = Annotated[
    bool | None,
    typer.Option(
        "--ard/--no-ard",
        help="One lengthscale for each feature, or one for all; by default the former from ten rows for each.",
    ),
]
Rotate = Annotated[
    bool | None,
    typer.Option(
        "--rotate/--no-rotate",
        help="Lengthscales along turned axes of two or three features; by default where left-out errors say so.",
    ),
]
Mean = Annotated[str, typer.Option(help="Prior mean: auto, zero, constant, linear, quadratic.")]
Lengthscale = Annotated[str | None, typer.Option(help="Start (with --no-fit: value): one number, or 'a,b,c'.")]
Variance = Annotated[float | None, typer.Option(help="Start (with --no-fit: value) of the kernel's variance.")]
NoiseVariance = Annotated[float | None, typer.Option(help="Start (with --no-fit: value) of the noise variance.")]
NoiseColumn = Annotated[
    str | None, typer.Option(help="Column with the noise variance of each row; it is held as it is.")
]
Fix = Annotated[str, typer.Option(help="Hyperparameters to hold at their start: 'noise_variance,variance'.")]
NoFit = Annotated[
    bool, typer.Option("--no-fit", help="Take --lengthscale, --variance and --noise-variance as they are.")
]
Likelihood = Annotated[str, typer.Option(help="exact, nearest-neighbours, or auto: exact up to 2,000 rows.")]
Subset = Annotated[int | None, typer.Option(min=2, help="Fit to so many rows, drawn at random; the model has all.")]
Restarts = Annotated[
    int | None, typer.Option(min=0, help="Further starts of the optimiser for each candidate; by default 0.")
]
Solver = Annotated[str, typer.Option(help="How the model predicts; see `cagp solvers`.")]
Iterations = Annotated[int | None, typer.Option(min=0, help="Iterations of that solver.")]
Mixture = Annotated[
    bool, typer.Option("--mixture/--no-mixture", help="Where candidates are as good, mix them, or take the best.")
]
Uncertainty = Annotated[
    bool | None,
    typer.Option(
        "--uncertainty/--no-uncertainty",
        help="Integrate over the hyperparameters, or take them as known; by default the former up to 2,000 rows.",
    ),
]
Recalibrate = Annotated[
    bool | None,
    typer.Option(
        "--recalibrate/--no-recalibrate",
        help="Error bars from left-out predictions, or the prior's; by default the former where they differ.",
    ),
]
Transform = Annotated[
    str,
    typer.Option(
        help="Of the target: auto, none, log, box-cox, yeo-johnson, sinh-arcsinh, or logit for shares between 0 and 1."
    ),
]
Varying = Annotated[
    bool | None,
    typer.Option(
        "--varying/--no-varying",
        help="Try an amplitude and a noise level that vary with the features; by default where nothing is given.",
    ),
]
Like = Annotated[
    Path | None,
    typer.Option(help="Table with the features where you are going to predict: the model is chosen there."),
]
Report = Annotated[Path | None, typer.Option(help="Folder for the report; by default OUT-report.")]
NoReport = Annotated[bool, typer.Option("--no-report", help="Write no report.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")]
Geo = Annotated[str | None, typer.Option("--geo", hidden=True)]
Noise = Annotated[float | None, typer.Option("--noise", hidden=True)]

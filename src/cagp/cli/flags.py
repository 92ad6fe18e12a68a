"""Flags, one each: those of other commands, and those of ``cagp fit``, called what ``cagp.fit`` calls its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing but errors.")]
Debug = Annotated[bool, Option("--debug", help="Show the whole traceback of an error.")]
Folder = Annotated[Path, Argument(metavar="MODEL", help="Model folder that `cagp fit` wrote.")]
Seed = Annotated[int, Option(min=0, help="Seed of all random numbers.")]
DropMissing = Annotated[bool, Option("--drop-missing", help="Leave out rows with missing values, and say how many.")]
Points = Annotated[Path, Argument(metavar="DATA", help="Table with the features; NetCDF grids as well.")]
MorePoints = Annotated[Path | None, Argument(metavar="[DATA]", help="Table with the features; NetCDF grids as well.")]
_GRID = (
    "A map over the data in place of DATA: cells of 0.01 or 500m, or those of a raster.tif. OUT is .tif, .nc, .zarr."
)
Grid = Annotated[str | None, Option(help=_GRID)]
Mask = Annotated[
    Path | None, Option(help="With --grid or --map: polygons, .gpkg or .geojson; cells outside are empty.")
]
Share = Annotated[
    bool, Option("--share", help="With --grid: a band with the share that more computation could remove.")
]
Interval = Annotated[float, Option(help="Per cent that lower and upper hold.")]
OtherSolver = Annotated[str | None, Option(help="Another solver than the model's; see `cagp solvers`.")]
Iterations = Annotated[int | None, Option(min=0, help="Iterations of the solver.")]
OverwriteTable = Annotated[bool, Option("--overwrite", help="Replace OUT if it is there.")]
Overwrite = Annotated[bool, Option("--overwrite", help="Replace a model that is there.")]
Observed = Annotated[bool, Option("--observed", help="About new observations, noise included, not about the function.")]
Drawn = Annotated[bool, Option("--observed", help="Fields of new observations, noise included, not of the function.")]
By = Annotated[str | None, Option(metavar="COLUMN", help="Column with the region of each point; without it, one mean.")]
_WEIGHTS = "Column with what points count, or equal, or area: the cosine of the latitude, the default on NetCDF grids."
Weights = Annotated[str | None, Option(metavar="COLUMN", help=_WEIGHTS)]
_PREDICTED = "Table: .csv, .csv.gz, .parquet, .nc, .gpkg; by default DATA-predicted, beside DATA."
PredictedOrMap = Annotated[Path | None, Option(help=f"{_PREDICTED} With --grid a map: .tif, .nc or .zarr.")]
Predicted = Annotated[Path | None, Option(dir_okay=False, help=_PREDICTED)]
_LEFT_OUT = "Table with features: left-out data lie as far from the others as its rows from the data."
LeftOutLike = Annotated[Path | None, Option(help=_LEFT_OUT)]

Listed = list[str] | None  # names, where the flag may come more than once
_EXCEED = "Thresholds, '50,100': the probability of more than each, in columns exceeds_50, exceeds_100."
Exceed = Annotated[Listed, Option(help=_EXCEED)]

_MAP = "Page with a map of the rows' extent, with --grid the data's: mean, std, exceedance; map.html."
MapPage = Annotated[Path | None, Option("--map", dir_okay=False, help=_MAP)]

_FILES = "Table: .csv, .csv.gz, .parquet, .nc, .gpkg or .geojson; or a folder of .parquet files, a .zarr, several."
Data = Annotated[list[Path], Argument(metavar="DATA", help=_FILES)]
_TARGET = "Column to predict; the beginning of its name is enough. Or several: 'Cd,Ni,Zn'."
Target = Annotated[str, Option(help=_TARGET)]
Out = Annotated[Path, Option(file_okay=False, help="Folder for the model.")]
Features = Annotated[Listed, Option(help="Columns to predict from: 'a,b,c'; by default all others that vary.")]
Exclude = Annotated[Listed, Option(help="Columns to leave out of the features: 'id,date'.")]
Categories = Annotated[Listed, Option(help="Numbers that are names of categories: 'zone,type'.")]
Dates = Annotated[str | None, Option(help="How 03/04/2024 is read: day-first or month-first.")]
Impute = Annotated[str | None, Option(help="'median' fills missing features in, and says so.")]
_KINDS = "auto, matern12, matern32, matern52, rbf, rationalquadratic, spherical, periodic, 'short and long'"
Kernel = Annotated[str, Option(help=f"{_KINDS}, several with commas, or an expression.")]
_GLOBE = "Latitude and longitude in degrees: 'lat,lon'. Found by itself where a file or --crs says it, unless 'none'."
Globe = Annotated[str | None, Option(help=_GLOBE)]
_TIMES = "Columns of times, 'day': each has a factor of its own in the kernel."
Times = Annotated[Listed, Option(help=_TIMES)]
_CRS = "Coordinate system of the columns of places in a table without one: EPSG:28992, EPSG:4326."
Crs = Annotated[str | None, Option(metavar="EPSG:CODE", help=_CRS)]
_ARD = "One lengthscale for each feature, or one for all; by default the former from ten rows for each."
Ard = Annotated[bool | None, Option(help=_ARD)]
_ROTATE = "Lengthscales along turned axes of two or three features; by default where left-out errors say so."
Rotate = Annotated[bool | None, Option(help=_ROTATE)]
Mean = Annotated[str, Option(help="Prior mean: auto, zero, constant, linear, quadratic, trees.")]
Lengthscale = Annotated[str | None, Option(help="Start (with --no-fit: value): one number, or 'a,b,c'.")]
Variance = Annotated[float | None, Option(help="Start (with --no-fit: value) of the kernel's variance.")]
NoiseVariance = Annotated[float | None, Option(help="Start (with --no-fit: value) of the noise variance.")]
NoiseColumn = Annotated[str | None, Option(help="Column with the noise variance of each row; it is held as it is.")]
Fix = Annotated[Listed, Option(help="Hyperparameters to hold at their start: 'noise_variance,variance'.")]
NoFit = Annotated[bool, Option("--no-fit", help="Take --lengthscale, --variance and --noise-variance as they are.")]
Likelihood = Annotated[str, Option(help="exact, nearest-neighbours, or auto: exact up to 2,000 rows.")]
Subset = Annotated[int | None, Option(min=2, help="Fit to so many rows, drawn at random; the model has all.")]
Restarts = Annotated[int | None, Option(min=0, help="Further starts of the optimiser of each candidate; by default 0.")]
Solver = Annotated[str, Option(help="How the model predicts; see `cagp solvers`.")]
Mixture = Annotated[bool, Option(help="Mix the best candidates where that predicts better, or take the best alone.")]
_UNCERTAINTY = "Integrate over the hyperparameters, or take them as known; by default the former for few rows."
Uncertainty = Annotated[bool | None, Option(help=_UNCERTAINTY)]
_RECALIBRATE = "Error bars from left-out predictions, or the prior's; by default the former where they differ."
Recalibrate = Annotated[bool | None, Option(help=_RECALIBRATE)]
_TRANSFORM = (
    "Of the target: auto, none, log, box-cox, yeo-johnson, sinh-arcsinh, or logit for shares between 0 and 1. With "
    "--no-fit log or logit, of which the values are then."
)
Transform = Annotated[str, Option(help=_TRANSFORM)]
_VARYING = "Try an amplitude and a noise level that vary with the features; by default where nothing is given."
Varying = Annotated[bool | None, Option(help=_VARYING)]
_TOGETHER = "Several targets in one model, or each by itself; by default the former where left-out errors say so."
Together = Annotated[bool | None, Option(help=_TOGETHER)]
_SECONDS = "How long the search may take; one candidate is always fitted. The report comes on top."
Seconds = Annotated[float | None, Option(help=_SECONDS)]
_LIKE = "Table with the features where you are going to predict: the model is chosen there."
Like = Annotated[Path | None, Option(help=_LIKE)]
Report = Annotated[Path | None, Option(help="Folder for the report; by default OUT-report.")]
NoReport = Annotated[bool, Option("--no-report", help="Write no report.")]
Geo = Annotated[str | None, Option("--geo", hidden=True)]
Noise = Annotated[float | None, Option("--noise", hidden=True)]

"""``cagp fit``: from a table to a model."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..errors import InputError
from .shared import Debug, DropMissing, Quiet, Seed, Voice, find_column, labels, names_in, told

if TYPE_CHECKING:
    from ..hyperparameters import FitResult
    from ..prior import Prior
    from ..saving import Saved
    from ..tables import Table

_LIKELIHOODS = ("auto", "exact", "nearest-neighbours")
_LATITUDES, _LONGITUDES = ("lat", "latitude"), ("lon", "long", "longitude")


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
    report: Annotated[Path | None, typer.Option(help="Folder for the report; by default OUT-report.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a model that is there.")] = False,
    seed: Seed = 0,
    drop_missing: DropMissing = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Fit a Gaussian process to a table by maximum likelihood, and keep it as a model folder.

    Prints the hyperparameters with their standard errors, and what needs a look. Ctrl-C during the fit keeps the best
    hyperparameters so far.
    """
    with told(debug):
        from .. import saving, tables
        from ..validation import choice
        from .expressions import as_solver
        from .starting import Wishes, copies_on_globe, mean_called, near_by, sample, starting_kernel

        voice = Voice(quiet)
        choice(likelihood, "--likelihood", _LIKELIHOODS)
        chosen_solver = with_iterations(as_solver(solver), iterations)
        prior_mean = mean_called(mean)
        saving.require_writable(out, overwrite)
        raw = tables.read_columns(data)
        wanted = find_column(raw, target, "--target")
        noisy = None if noise_column is None else find_column(raw, noise_column, "--noise-column")
        if noisy is not None and noise is not None:
            raise InputError(f"--noise-column gives each row its noise variance, so --noise {noise:g} would be ignored")
        given = [find_column(raw, each, "--features") for each in names_in(features or "")]
        left_out = {wanted, *(find_column(raw, each, "--exclude") for each in names_in(exclude))}
        left_out |= set() if noisy is None else {noisy}
        if given and left_out & set(given):
            raise InputError(f"{sorted(left_out & set(given))[0]!r} cannot be a feature: it is the target or excluded")
        columns = given or _features_of(raw, wanted, left_out)
        if not columns:
            raise InputError(f"{data} has no column left to predict {wanted!r} from")
        needed = [*columns, wanted] if noisy is None else [*columns, wanted, noisy]
        table = tables.read_table(data, needed, drop_missing=drop_missing)
        if table.dropped:
            voice(f"{table.dropped} rows of {data} have missing values and are left out.")
        if not given:
            columns = _varying(table, columns, voice)
        X, y = table.matrix(columns), table.columns[wanted]
        if len(y) < 2:
            raise InputError(f"{data} has {len(y)} row; at least two are needed")
        globe = None if geo is None and "(" in kernel else _globe(geo, raw, columns, voice)
        kept = ~copies_on_globe(X, y, raw.globe, columns)
        if not kept.all():
            voice(f"{(~kept).sum():,} values repeat another one, at a pole or on the same meridian, and are left out.")
            X, y = X[kept], y[kept]
        voice(f"{len(y):,} observations of {wanted!r} at {', '.join(map(repr, columns))}.")
        wishes = Wishes(kernel, globe, ard, _numbers(lengthscale), variance)
        start, fixed = starting_kernel(wishes, X, y, columns)
        variances = noise if noise is not None else 0.1 * float(np.var(y)) or 1e-6
        from ..prior import Prior

        prior = Prior(start, mean=prior_mean, noise_variance=variances if noisy is None else table.columns[noisy][kept])
        result = None
        if no_fit:
            _require_values(kernel, lengthscale, variance, noise if noisy is None else 0.0)
            if wishes.geo is not None and len(columns) > 2:
                raise InputError(
                    "--no-fit takes the hyperparameters as given, and --lengthscale is that on the globe alone; write "
                    "all of them as a kernel: "
                    "--kernel 'Geographic(Matern32(300.0, 1.0), radius=6371.0).on(0, 1) * Matern32(2.0).on(2)'"
                )
        else:
            rows = (
                None
                if likelihood == "nearest-neighbours" and subset is None
                else sample(near_by(start, X), subset, seed)
            )
            result = _fitted(prior, X, y, rows, likelihood, [*fixed, *names_in(fix)], restarts, seed, voice)
            prior = result.prior
            _print_result(result, columns, voice)
        saved = _saved(prior, X, y, chosen_solver, table, columns, wanted, result)
        saving.write(saved, out, overwrite=overwrite)
        voice(f"Model: {out}")
        if not no_report:
            place = report or out.resolve().with_name(out.resolve().name + "-report")
            _report(saved, place, result, seed, voice)


def with_iterations(solver: Any, iterations: int | None) -> Any:
    """The solver with other iterations, where it has any."""
    if iterations is None:
        return solver
    if not hasattr(solver, "iterations"):
        size = {"nearest-neighbours": "k=300", "subset": "size=1000"}.get(solver.name)
        remedy = f"write --solver '{type(solver).__name__}({size})'" if size else "name a solver that has them"
        raise InputError(f"--iterations has no meaning for {solver!r}; {remedy}")
    return dataclasses.replace(solver, iterations=iterations)


def _features_of(raw: Any, target: str, left_out: set[str]) -> list[str]:
    """All other columns; of a grid, the coordinates of the target."""
    if raw.dims:
        return [dim for dim in raw.dims[target] if dim in raw.names and dim not in left_out]
    return [name for name in raw.names if name not in left_out]


def _varying(table: Table, columns: list[str], voice: Voice) -> list[str]:
    constant = [name for name in columns if np.ptp(table.columns[name]) == 0]
    if len(constant) == len(columns):
        raise InputError(f"{table.path}: no feature varies, so there is nothing to predict from")
    if constant:
        voice(f"Left out, because they have one value only: {', '.join(map(repr, constant))}.")
    return [name for name in columns if name not in constant]


def _globe(geo: str | None, raw: Any, columns: list[str], voice: Voice) -> tuple[str, str] | None:
    """The columns with latitude and longitude: as asked for, or as the file says."""
    if geo is not None and geo.strip().lower() == "none":
        return None
    if geo is not None:
        pair = [find_column(raw, each, "--geo") for each in names_in(geo)]
        if len(pair) != 2 or not set(pair) <= set(columns):
            raise InputError(f"--geo must name two of the features, latitude then longitude, got {geo!r}")
        return pair[0], pair[1]
    if raw.globe is not None and set(raw.globe) <= set(columns):
        voice(f"{raw.globe[0]!r} and {raw.globe[1]!r} are degrees: distance is measured on the globe, in kilometres.")
        return raw.globe
    north, east = ([c for c in columns if c.strip().lower() in kind] for kind in (_LATITUDES, _LONGITUDES))
    if north and east:
        voice(f"Note: if {north[0]!r} and {east[0]!r} are degrees, --geo '{north[0]},{east[0]}' measures on the globe.")
    return None


def _numbers(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        values = tuple(float(each) for each in text.split(","))
    except ValueError:
        raise InputError(f"--lengthscale must be a number, or numbers separated by commas, got {text!r}") from None
    return values


def _require_values(kernel: str, lengthscale: str | None, variance: float | None, noise: float | None) -> None:
    needed = {"--noise": noise}
    if "(" not in kernel:  # an expression has its values in it
        needed |= {"--lengthscale": lengthscale, "--variance": variance}  # type: ignore[dict-item]
    missing = [name for name, value in needed.items() if value is None]
    if missing:
        raise InputError(f"--no-fit takes the hyperparameters as given, so it needs {' and '.join(missing)} as well")


def _fitted(
    prior: Prior,
    X: np.ndarray,
    y: np.ndarray,
    rows: np.ndarray | None,
    likelihood: str,
    fix: list[str],
    restarts: int | None,
    seed: int,
    voice: Voice,
) -> FitResult:
    from .. import hyperparameters
    from ..means import Zero

    size = len(y) if rows is None else len(rows)
    kind = "exact" if likelihood == "auto" else likelihood
    if rows is None:
        voice(f"Fitting the hyperparameters by the {kind} likelihood of all {size:,} observations.")
    else:
        voice(
            f"Fitting the hyperparameters by the {kind} likelihood of {size:,} of the {len(y):,} observations, half at "
            "random, half in patches; --subset takes more, --likelihood nearest-neighbours takes all."
        )
    return hyperparameters.fit(
        prior,
        X,
        y,
        likelihood=kind,
        subset=rows,
        fix=fix,
        refit_mean=not isinstance(prior.mean, Zero),
        n_restarts=(2 if size <= 500 else 0) if restarts is None else restarts,
        seed=seed,
        progress=voice.progress,
    )


def _print_result(result: FitResult, columns: list[str], voice: Voice) -> None:
    errors = result.standard_errors or {}
    rows = []
    for name, value in result.values.items():
        which = re.fullmatch(r"kernel\.lengthscale\[(\d+)\]", name)
        of = columns[int(which.group(1))] if which else ""
        error = errors.get(name)
        rows.append((name, of, f"{value:.6g}", "" if error is None else f"± {error:.2g}"))
    voice.table(("hyperparameter", "of", "value", "standard error"), rows)
    sentences = result.message
    for warning in result.warnings:
        sentences = sentences.replace(warning, "").strip()
    voice(f"log p = {result.log_likelihood:.6g}. {sentences}")
    for warning in result.warnings:
        voice(f"Warning: {warning}")


def _saved(
    prior: Prior,
    X: np.ndarray,
    y: np.ndarray,
    solver: Any,
    table: Table,
    columns: list[str],
    target: str,
    result: FitResult | None,
) -> Saved:
    from ..saving import About, FitSummary, Saved
    from ..validation import points, targets

    units = {name: table.units[name] for name in (*columns, target) if name in table.units}
    about = About(
        tuple(columns), target, units, {"data file": str(table.path)}, None if result is None else FitSummary.of(result)
    )
    train = points(X, "X")
    mean = prior.mean.fit(train, targets(y, len(train)))
    return Saved(dataclasses.replace(prior, mean=mean), X, y, solver, about=about)


def _report(saved: Saved, place: Path, result: FitResult | None, seed: int, voice: Voice) -> None:
    from ..fit_report import write_fit_report

    path = write_fit_report(
        saved.condition(), place, fit=result, names=labels(saved.about), seed=seed, progress=voice.progress
    )
    voice(f"Report: {path}")

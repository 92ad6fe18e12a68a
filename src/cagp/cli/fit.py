"""``cagp fit``: from a table to a model."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..errors import InputError
from .columns import features_of, globe_among, varying
from .demands import numbers_in, require_place, require_positive, require_values
from .described import notes_on
from .shared import INTERRUPTED, Debug, DropMissing, Quiet, Seed, Voice, find_column, labels, names_in, told
from .wording import in_options

if TYPE_CHECKING:
    from ..hyperparameters import FitResult
    from ..prior import Prior
    from ..saving import About, Saved
    from ..tables import RawColumns, Table

_LIKELIHOODS = ("auto", "exact", "nearest-neighbours")


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

    Prints the hyperparameters with their standard errors, and what needs a look. Ctrl-C during the fit writes the model
    with the best hyperparameters so far, no report, and exit code 130.
    """
    with told(debug):
        from .. import saving, tables
        from ..kernels import Kernel
        from ..support.interrupt import Interrupt
        from ..support.validation import choice, points, targets
        from .expressions import as_solver
        from .starting import (
            Wishes,
            copies_on_globe,
            globe_of,
            kernel_called,
            kernel_to_start,
            mean_called,
            near_by,
            sample,
        )

        voice = Voice(quiet)
        choice(likelihood, "--likelihood", _LIKELIHOODS)
        chosen_solver = with_iterations(as_solver(solver), iterations)
        prior_mean, asked_kernel = mean_called(mean), kernel_called(kernel)
        written = isinstance(asked_kernel, Kernel)
        scales = numbers_in(lengthscale)
        require_positive({"--noise": noise, "--variance": variance}, scales or ())
        if written and (scales is not None or variance is not None or (geo or "none").lower() != "none"):
            raise InputError(f"--kernel {kernel!r} has its values in it; leave out --geo, --lengthscale and --variance")
        if no_fit:
            require_values(written, lengthscale, variance, 0.0 if noise_column else noise)
        require_place(out, overwrite)
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
        columns = given or features_of(raw, wanted, left_out)
        if not columns:
            raise InputError(f"{data} has no column left to predict {wanted!r} from")
        needed = [*columns, wanted] if noisy is None else [*columns, wanted, noisy]
        table = tables.read_table(data, needed, drop_missing=drop_missing)
        if table.dropped:
            voice(f"{table.dropped} rows of {data} have missing values and are left out.")
        if not given:
            columns = varying(table, columns, voice)
        X, y = table.matrix(columns), table.columns[wanted]
        globe = None if written else globe_among(geo, raw, columns, voice)
        on_globe = (
            globe
            or (globe_of(asked_kernel, columns) if isinstance(asked_kernel, Kernel) else None)
            or (raw.globe if geo is None else None)
        )
        kept = ~copies_on_globe(X, y, on_globe, columns)
        if not kept.all():
            voice(
                f"{(~kept).sum():,} of {len(y):,} rows are left out: they repeat the value of another one at the same "
                "place on the globe (a pole, or a meridian given twice), and copies are no further observations."
            )
            X, y = X[kept], y[kept]
        if len(y) < 2:
            raise InputError(f"{data} has {len(y)} row; at least two are needed")
        voice(f"{len(y):,} observations of {wanted!r} at {', '.join(map(repr, columns))}.")
        wishes = Wishes(asked_kernel, globe, ard, scales, variance)
        start, fixed = kernel_to_start(wishes, X, y, columns)
        variances = noise if noise is not None else 0.1 * float(np.var(y)) or 1e-6
        from ..prior import Prior

        prior = Prior(start, mean=prior_mean, noise_variance=variances if noisy is None else table.columns[noisy][kept])
        result, stopped = None, False
        if no_fit:
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
            with Interrupt() as interrupt:
                result = _fitted(prior, X, y, rows, likelihood, [*fixed, *names_in(fix)], restarts, seed, voice)
            prior, stopped = result.prior, interrupt.requested
            _print_result(result, columns, stopped, voice)
        about = _about(raw, table, columns, wanted, int((~kept).sum()), result)
        train = points(X, "X")
        with_mean = dataclasses.replace(prior, mean=prior.mean.fit(train, targets(y, len(train))))
        saved = saving.Saved(with_mean, X, y, chosen_solver, about=about)
        saving.write(saved, out, overwrite=overwrite)
        if stopped:
            typer.echo(
                f"Interrupted: {out} has the best hyperparameters so far, and no report is written. To go on from "
                "them, start a fit there (--lengthscale, --variance, --noise).",
                err=True,
            )
            raise typer.Exit(INTERRUPTED)
        voice(f"Model: {out}")
        if not no_report:
            place = report or out.resolve().with_name(out.resolve().name + "-report")
            with told(debug, f"Interrupted: the model is written to {out}, the report is not."):
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


def _print_result(result: FitResult, columns: list[str], stopped: bool, voice: Voice) -> None:
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
        if not (stopped and "did not converge" in warning):  # that it was interrupted is said at the end
            voice(f"Warning: {in_options(warning)}")


def _about(
    raw: RawColumns, table: Table, columns: list[str], target: str, copied: int, result: FitResult | None
) -> About:
    from ..saving import About, FitSummary

    units = {name: table.units[name] for name in (*columns, target) if name in table.units}
    notes = notes_on(raw, target, table.dropped, copied)
    return About(tuple(columns), target, units, notes, None if result is None else FitSummary.of(result))


def _report(saved: Saved, place: Path, result: FitResult | None, seed: int, voice: Voice) -> None:
    from ..fit_report import write_fit_report

    written = write_fit_report(
        saved.condition(), place, fit=result, names=labels(saved.about), seed=seed, progress=voice.progress
    )
    voice(f"Report: {written}")
    finding: str = written.finding
    if finding:
        voice(finding)

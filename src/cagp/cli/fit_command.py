"""``cagp fit``: from a table to a model."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..support.advice import all_worded
from . import flags
from .shards import fit as fit_shards
from .shards import in_files
from .shared import (
    IN_OPTIONS,
    Printer,
    ended_early,
    errors_reported,
    hyperparameter_rows,
    labels,
    renamed,
    require_place,
    with_iterations,
)
from .table_columns import names_in, places

if TYPE_CHECKING:
    import numpy as np

    from ..hyperparameters import FitResult
    from ..model import Model
    from ..saving import About
    from ..solvers import Solver
    from .starting import PriorAsked, Training


def fit(
    data: flags.Data,
    target: flags.Target,
    out: flags.Out,
    features: flags.Features = None,
    exclude: flags.Exclude = None,
    categories: flags.Categories = None,
    dates: flags.Dates = None,
    impute: flags.Impute = None,
    kernel: flags.Kernel = "auto",
    globe: flags.Globe = None,
    times: flags.Times = None,
    crs: flags.Crs = None,
    ard: flags.Ard = None,
    rotate: flags.Rotate = None,
    mean: flags.Mean = "auto",
    lengthscale: flags.Lengthscale = None,
    variance: flags.Variance = None,
    noise_variance: flags.NoiseVariance = None,
    noise_column: flags.NoiseColumn = None,
    fix: flags.Fix = None,
    no_fit: flags.NoFit = False,
    likelihood: flags.Likelihood = "auto",
    subset: flags.Subset = None,
    restarts: flags.Restarts = None,
    solver: flags.Solver = "auto",
    iterations: flags.Iterations = None,
    mixture: flags.Mixture = True,
    uncertainty: flags.Uncertainty = None,
    recalibrate: flags.Recalibrate = None,
    transform: flags.Transform = "auto",
    varying: flags.Varying = None,
    together: flags.Together = None,
    seconds: flags.Seconds = None,
    like: flags.Like = None,
    report: flags.Report = None,
    no_report: flags.NoReport = False,
    overwrite: flags.Overwrite = False,
    seed: flags.Seed = 0,
    drop_missing: flags.DropMissing = False,
    quiet: flags.Quiet = False,
    debug: flags.Debug = False,
    geo: flags.Geo = None,
    noise: flags.Noise = None,
) -> None:
    """Fit a Gaussian process to a table, and keep it as a model folder.

    What is not said is chosen, as `cagp.fit` does in Python: kernels and trends are fitted by maximum likelihood and
    judged by observations that are left out, and stand in for those of --like. Where errors are not as promised, the
    error bars are recalibrated. The command tells all of this, and prints the hyperparameters with standard errors, and
    what needs a look. Ctrl-C during the fit writes the best model so far, and no report. Data in a folder of Parquet
    files, in several files or in a Zarr store may be larger than memory: a local Dask cluster cuts them into shards.
    """
    given = dict(locals())
    with errors_reported(debug):
        printer = Printer(quiet)
        if in_files(data):
            fit_shards(fit, given, printer)
            return
        wished, options, chosen_solver = _wishes(given)
        training = _observations(given, wished, chosen_solver, options, printer)
        about = training.about
        if no_fit:
            prior: Any = wished.whole_prior_for(training)
            if transform not in ("auto", "none"):
                prior = prior.transformed(transform)
            plain = prior.condition(training.X, training.y, chosen_solver)
            model, about = _as_given(plain, about, out, overwrite, options, printer, debug)
        else:
            from .starting import search

            model = search(wished, training, options, printer.progress)
            if training.quantities:
                printer(str(model))
                printer(f"Model: {model.save(out, about=about, overwrite=overwrite)}")
                ended_early(model, f"{out} has the best models so far, and its story says what was not tried.")
                return
            about = _written(model, about, out, overwrite, printer)
        printer(f"Model: {out}")
        if not no_report:
            _report(model, about, report, out, options, printer, debug)


_SEARCH = ("no_fit", "transform", "likelihood", "subset", "restarts", "fix")
_FLAGGED = ("uncertainty", "recalibrate", "varying", "mixture", "together", "seconds")  # as `cagp.fit` calls them


def _wishes(given: dict[str, Any]) -> tuple[PriorAsked, dict[str, Any], Solver]:
    """What the flags say of the prior, the options of the search, the solver; refuses what no table allows."""
    from .expressions import as_solver
    from .starting import PriorAsked, search_options

    options = search_options(**{name: given[name] for name in (*_SEARCH, *_FLAGGED)})
    solver = with_iterations(as_solver(given["solver"]), given["iterations"])
    # by its name, the default of `cagp.fit`
    options |= {} if given["no_fit"] else {"solver": "auto" if given["solver"] == "auto" else solver}
    where = renamed("--geo", given["geo"], "--globe", given["globe"])
    level = renamed("--noise", given["noise"], "--noise-variance", given["noise_variance"])
    kinds, scales = (given["kernel"], given["mean"], where, given["ard"]), (given["lengthscale"], given["variance"])
    wished = PriorAsked(*kinds, *scales, level, given["rotate"], tuple(names_in(given["times"])))
    if given["no_fit"]:
        wished.require_values(noisy=bool(given["noise_column"]))
    require_place(given["out"], given["overwrite"])
    return wished, options, solver


def _observations(
    given: dict[str, Any], wished: PriorAsked, solver: Solver, options: dict[str, Any], printer: Printer
) -> Training:
    """The observations of the table; with ``like`` and the seed, which need them, the ``options`` are complete."""
    from ..saving import Saved
    from .starting import check_rows, columns_asked, read_training

    how = columns_asked(given["categories"], given["dates"], given["impute"])
    names = ("target", "features", "exclude", "noise_column", "drop_missing", "crs")
    read: dict[str, Any] = {name: given[name] for name in names}
    training = read_training(given["data"][0], **read, wished=wished, printer=printer, asked=how)
    if training.quantities and given["report"]:
        raise InputError(
            "--report is of one quantity, and none is written for several; leave it out, and see "
            f"`cagp check {given['out']}/NAME` for the quantity NAME"
        )
    check_rows(options, len(training.y))
    at_first = Saved(wished.some_prior(training), training.X, training.y, solver, about=training.about)
    like, drop_missing = given["like"], given["drop_missing"]
    options |= {"seed": given["seed"], "like": like and places(like, at_first, given["out"], drop_missing, printer)}
    return training


def _as_given(
    plain: Model, about: About, out: Path, overwrite: bool, options: dict[str, Any], printer: Printer, debug: bool
) -> tuple[Model, About]:
    """The model of values that are taken as they are, written; with error bars that hold, unless these are to stay."""
    from .. import saving
    from ..choosing.judging import judged

    saving.write(saving.Saved.of(plain, about), out, overwrite=overwrite)
    if options["recalibrate"] is False:
        return plain, about
    with errors_reported(debug, f"Interrupted: {out} has the error bars of the prior, and no report is written."):
        model, found = judged(plain, options["like"], options["recalibrate"], options["seed"], printer.progress)
        printer(found)
        about = dataclasses.replace(about, notes={**about.notes, "left-out observations": found})
        saving.write(saving.Saved.of(model, about), out, overwrite=True)
    return model, about


def _written(fitted: Model, about: About, out: Path, overwrite: bool, printer: Printer) -> About:
    """What a search found is told and written; ends the command where Ctrl-C has ended the search."""
    from .. import saving

    assert fitted.result is not None
    printer(fitted.story)
    _printed(fitted.result, fitted.X.cpu().numpy(), about, fitted.interrupted, printer)
    told = tuple(each for each in fitted.result.advice if each.kind != "flat")  # what is flat, the story says
    rest = dataclasses.replace(fitted.result, advice=told)
    about = dataclasses.replace(about, fit=saving.FitSummary.of(rest, IN_OPTIONS))
    saving.write(saving.Saved.of(fitted, about), out, overwrite=overwrite)
    ended_early(
        fitted,
        f"{out} has the best model so far with the error bars of its prior, and no report is written. To go on from "
        "it, start a fit there (--kernel, --lengthscale, --variance, --noise-variance).",
    )
    return about


def _printed(result: FitResult, X: np.ndarray, about: About, stopped: bool, printer: Printer) -> None:
    """Print the hyperparameters that the search found, and what needs a look but for what the story has said."""
    rows = hyperparameter_rows(result.prior, X, about, result.values, result.standard_errors or {})
    printer.table(("hyperparameter", "of", "value"), rows, whole=1)
    told = ("flat", "not converged") if stopped else ("flat",)  # that it was stopped is said at the end
    for sentence in all_worded((each for each in result.advice if each.kind not in told), IN_OPTIONS):
        printer(f"Warning: {sentence}")


def _report(
    model: Any, about: About, folder: Path | None, out: Path, options: dict[str, Any], printer: Printer, debug: bool
) -> None:
    from ..fit_report import write_fit_report

    place = folder or out.resolve().with_name(out.resolve().name + "-report")
    asked = {"like": options["like"], "seed": options["seed"], "progress": printer.progress}
    with errors_reported(debug, f"Interrupted: the model is written to {out}, the report is not."):
        written = write_fit_report(model, place, fit=model.result, names=labels(about), **asked)
        printer(f"Report: {written}\n{written.finding}")

"""What was fitted: data, prior and solver in a table, and the hyperparameters with their uncertainty and advice."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence

import numpy as np
import torch

from ..hyperparameters import FitResult
from ..hyperparameters.named import Hyperparameter, naming
from ..kernels import EARTH_RADIUS
from ..means import Constant, Polynomial, Zero
from ..model import Model
from ..predicting.trend import SUBSET
from ..prior import Prior
from ..regression import CrossFitted
from ..support.advice import all_worded
from ..support.convert import array
from ..support.memory import human
from ..support.numbers import BESIDES, BEYOND, datum, number, percent, shortened, with_error, with_unit
from .inputs import working
from .names import Names, hyperparameters
from .page import PageTable

_COLUMNS_LISTED = 30
_VAGUE, _VAGUE_ANGLE = 0.5, 25.0  # standard errors, of the value or in degrees, that say little about it


def facts_table(model: Model, names: Names, prior: Prior | None = None) -> PageTable:
    """The model in a table: one line a fact, about a ``prior`` that was fitted, or the heaviest component."""
    from ..support.version import __version__

    gram, solver, described = model.prepared.gram, working(model), prior or model.prior
    (size, columns), unit, y = model.X.shape, names.target_unit, array(model.y)
    double = (each.dtype == torch.float64 for each in (model.gram, gram))
    full, solving = ("double precision" if each else "single precision" for each in double)
    low, high, average = (with_unit(datum(float(v)), unit) for v in (y.min(), y.max(), y.mean()))
    picked = " (picked by Auto)" if model.prepared.picked else ""
    calibrated = "calibrated" if solver.calibrated else "not calibrated: its error bars depend on y"
    memory = f"dense, {human(gram.dense_bytes)}" if gram.storage == "dense" else "recomputed in tiles, not stored"
    iterations = f", {model.prepared.limit} iterations" if model.prepared.limit > 1 else ""
    if solver.description(size).points_used is not None:
        memory, iterations = "not needed as a whole", ""
    made_of = [] if model.margins is None else [model.margins.in_words]
    if len(model.components) > 1:
        which = "the heaviest" if prior is None else "the one that was fitted"
        made_of.insert(0, f"a mixture of {len(model.components)} priors; {which} is described here")
    rows = [
        ("data", f"{size:,} observations, {columns} {'column' if columns == 1 else 'columns'}"),
        ("target", f"{names.target}: {low} to {high}, average {average}"),
        *([("scale", _scale(model, names))] if model.transform is not None else []),
        *([("model", "; ".join(made_of))] if made_of else []),
        ("kernel", described.kernel.in_words(names.features or ())),
        ("formula", f"k(x, x′) = {described.kernel.formula(number)}"),
        ("prior mean", _mean(model, names.modelled(model))),
        (
            "noise",
            _noise_in_words(described, names.modelled(model).target_unit) + _around_the_median(model, described, names),
        ),
        ("solver", f"{solver!r}{picked}{iterations}, {calibrated}"),
        ("Gram matrix", memory),
        ("memory budget", human(model.recipe.budget)),
        ("arithmetic", full if full == solving else f"solved in {solving}, certified in {full}"),
        ("cagp", __version__),
        ("date", datetime.date.today().isoformat()),
    ]
    return PageTable("", (), rows, "facts")


def columns_table(model: Model, names: Names) -> PageTable:
    """The columns of X: range and median."""
    X, rows = array(model.X), []
    for c, v in enumerate(X.T[:_COLUMNS_LISTED]):
        rows.append((names.name(c), names.unit(c), *(datum(float(f(v))) for f in (np.min, np.median, np.max))))
    some = f"The first {_COLUMNS_LISTED} of {X.shape[1]} columns."
    caption = some if X.shape[1] > _COLUMNS_LISTED else "The columns."
    return PageTable(caption, ("column", "unit", "smallest", "median", "largest"), rows, "columns")


def _scale(model: Model, names: Names) -> str:
    assert model.transform is not None
    return (
        f"{model.transform.in_words} of {names.target} is modelled: kernel, prior mean, noise and hyperparameters are "
        f"on that scale, all else on this page is about {names.target} itself"
    )


def _around_the_median(model: Model, prior: Prior, names: Names) -> str:
    """What the noise of a transformed model is in the unit of the observations."""
    if model.transform is None or np.ndim(prior.noise_variance) or prior.noise_pattern is not None:
        return ""
    median = torch.tensor(np.median(array(model.y)))
    if not math.isfinite(slope := math.exp(float(model.transform.log_slope(median[None])[0]))) or not slope:
        return ""
    scatter = with_unit(number(math.sqrt(float(prior.noise_variance)) / slope), names.target_unit)
    there = with_unit(datum(float(median)), names.target_unit)
    return f"; about {scatter} where {names.target} is {there}, its median"


def _mean(model: Model, names: Names) -> str:
    mean, trend, unit, given = model.prior.mean, model.trend, names.target_unit, model.recipe.offset.given or ()
    if isinstance(mean, Zero):
        return "zero"
    if isinstance(mean, Constant):
        if trend is None:
            return f"constant, {with_unit(number(given[0], 4), unit)}"
        error = float(trend.covariance[0, 0]) ** 0.5
        estimate = f"{number(float(trend.coefficients[0]), 4)} ± {with_unit(number(error, 2), unit)}"
        some = f" from {SUBSET:,} of the observations" * (model.prepared.unbiased and len(model.recipe.y) > SUBSET)
        return f"an unknown constant, estimated as {estimate}{some}; its error is in the error bars"
    if isinstance(mean, CrossFitted):
        return mean.in_words
    known = "" if trend is None else "unknown, so that their error is in the error bars"
    if isinstance(mean, Polynomial):
        of = "all columns" if mean.columns is None else ", ".join(names.name(c) for c in mean.columns)
        return f"polynomial of degree {mean.degree} in {of}, {len(given)} coefficients{known and ', ' + known}"
    own = f"{len(given)} functions of the user's own, with coefficients {known}"
    return own if known else "the user's own function"


def _noise_in_words(prior: Prior, unit: str) -> str:
    std, outliers = np.sqrt(prior.noise_variance), len(prior.outliers)
    if prior.noise_pattern is not None:
        low, high = (number(float(std) * end(prior.noise_pattern.values)) for end in (min, max))
        said = f"standard deviation that varies with the inputs, from {low} to {with_unit(high, unit)}"
    elif np.ndim(std) == 0:
        same = f"the same for all{' other' if outliers else ''} observations"
        said = f"standard deviation {with_unit(number(float(std)), unit)}, {same}"
    else:
        low, high = number(float(std.min())), with_unit(number(float(std.max())), unit)
        said = f"one per observation, standard deviations from {low} to {high}"
    return f"{said}; more for {outliers:,} outliers" if outliers else said


def hyperparameters_table(model: Model, fit: FitResult | None, names: Names) -> PageTable:
    """Every hyperparameter with its standard error, where it was fitted: those of the fit, all from one candidate."""
    errors = (fit.standard_errors or {}) if fit else {}
    rows = []
    prior = model.prior if fit is None else fit.prior
    for parameter in hyperparameters(prior, names, array(model.X)):
        how, error = "held fixed", errors.get(parameter.name)
        if fit is None:
            how = "given" if model.record is None else "as saved"
        if fit and parameter.name in fit.values:
            how = "fitted, at a bound" if parameter.name in fit.at_bounds else "fitted"
        rows.append((parameter.label, parameter.shown(error), how, _meaning(parameter, names)))
    for name, value in fit.values.items() if fit else ():
        shown = with_error(value, errors.get(name))
        if name == "mean.value":
            meaning = "predictions return to it far from the data"
            rows.append(("prior mean", with_unit(shown, names.target_unit), "fitted", meaning))
        elif name.startswith("mean."):
            rows.append((f"prior mean, {_coefficient(name, prior, names)}", shown, "fitted", ""))
    caption = "Value ± one standard error." if errors else "Values; no standard errors were computed."
    return PageTable(caption, ("hyperparameter", "value", "how", "meaning"), rows, "hyperparameters")


def _coefficient(name: str, prior: Prior, names: Names) -> str:
    """What a coefficient of the mean belongs to; their number, where it is no line along each column."""
    i = int(name.split("[")[-1].rstrip("]"))
    columns, mean = names.features or (), prior.mean
    if not isinstance(mean, Polynomial) or mean.degree != 1:
        return f"coefficient {i}"
    of = range(len(columns)) if mean.columns is None else mean.columns
    return f"slope along {shortened(columns, 30)[of[i - 1]]}" if i else "intercept"


def _meaning(parameter: Hyperparameter, names: Names) -> str:
    """What the value says, in a phrase; "" where the label says it all."""
    kind, value = parameter.kind, parameter.value
    if parameter.is_beyond:
        return BESIDES.removeprefix("where ")
    if kind == "lengthscale" and parameter.column is not None:
        of = parameter.of or shortened(names.features or (), 30)[parameter.column]
        return f"{number(value / parameter.span, 2)} times the range of {of}" if parameter.span else ""
    if kind == "lengthscale" and parameter.unit == "Earth radii":
        return f"the correlation falls to about a half over {number(value * EARTH_RADIUS, 2)} km"
    if kind == "angle":
        return "drawn below"
    if kind not in ("noise", "variance"):
        return ""
    std = with_unit(number(math.sqrt(value)), names.target_unit)
    return f"observations scatter by {std} around f" if kind == "noise" else f"f moves by about {std} around the mean"


def advice(model: Model, fit: FitResult | None, names: Names, mixed: bool = False) -> list[str]:
    """What a statistician would say about these values; ``mixed`` says that several models predict together."""
    prior = model.prior if fit is None else fit.prior
    said = _warnings(fit, names) if fit else []
    if fit is None and model.record is not None:
        said.append("Of a saved model the values of the prior with the most weight are known, not what the fit found.")
    elif fit is None:
        said.append("The hyperparameters were given, not fitted to these data, so their uncertainty is not known.")
    elif fit.standard_errors is None:
        said.append("Standard errors were not computed: fit with standard_errors=True to see what the data determine.")
    else:
        warned_of = {found.subject for found in fit.advice}
        errors = {name: error for name, error in fit.standard_errors.items() if name not in warned_of}
        limits = [(p, _VAGUE_ANGLE if p.kind == "angle" else _VAGUE * p.value) for p in hyperparameters(prior, names)]
        if vague := [p for p, limit in limits if errors.get(p.name, 0.0) > limit]:
            only = f"The data determine only the order of magnitude of {_all_of(vague)}."
            said.append(f"{only} Predictions are usually less sensitive than that suggests.")
    end = "The error bars of the predictions take the hyperparameters as known; their uncertainty is not included."
    if mixed:
        end = "A mixture predicts, which has other values beside these; how it was chosen is said above."
    return [*said, *_lengthscales(model, prior, names), *_noise(model), end]


def _warnings(fit: FitResult, names: Names) -> list[str]:
    """The warnings of a fit with the names that a reader knows."""
    return list(all_worded(fit.advice, called=naming(hyperparameters(fit.prior, names))))


def _lengthscales(model: Model, prior: Prior, names: Names) -> list[str]:
    X = array(model.X)
    long, short, said = list[Hyperparameter](), list[Hyperparameter](), []
    for parameter in hyperparameters(prior, names, X):
        if parameter.kind != "lengthscale" or parameter.column is None:
            continue
        values = np.unique(X[:, parameter.column])
        if parameter.is_beyond:
            long.append(parameter)
        elif len(values) > 1 and parameter.value < 0.5 * float(np.median(np.diff(values))):
            short.append(parameter)
    if long:
        said.append(f"{BEYOND.capitalize()}: {_all_of(long)}, {BESIDES}.")
    if short:
        said.append(
            f"Shorter than the steps between observations: {_all_of(short)}. The model treats neighbours as "
            "unrelated there; a lengthscale that short is often a poor optimum, so try more restarts."
        )
    return said


def _all_of(parameters: Sequence[Hyperparameter]) -> str:
    return naming(parameters)([each.name for each in parameters])


def _noise(model: Model) -> list[str]:
    component, own = model.components[0], model.recipe.judging
    usual = np.setdiff1d(own, model.prior.outliers)
    noise = float(array(model.prior.noise(component.X))[usual].mean())
    signal = float(array(model.gram.kernel_diagonal().double())[own].mean())
    said = f"Noise makes up {percent(noise / (noise + signal))} of the variance that the prior expects."
    if noise > signal:
        said = f"The noise variance is {number(noise / signal, 2)} times that of the function: most of what is "
        said += "observed is taken for noise."
    elif noise < 1e-6 * signal:
        said = f"The noise variance is {number(noise / signal, 1)} of the function's: the model interpolates, and "
        said += "small measurement errors will make its error bars too narrow."
    equal = "All observations are equal: nothing about the function can be learnt from them but its level."
    return [said] if np.ptp(array(model.y)) else [said, equal]

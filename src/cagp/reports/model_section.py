"""What was fitted: data, prior and solver in a table, and the hyperparameters with their uncertainty and advice."""

from __future__ import annotations

import datetime
import math
from typing import TYPE_CHECKING

import numpy as np

from ..hyperparameters import FitResult
from ..kernels import EARTH_RADIUS
from ..means import Constant, Polynomial, Zero
from ..prior import Prior
from ..support.advice import Advice
from ..support.memory import human
from ..support.numbers import datum, number, percent, with_error, with_unit
from .kernel_words import Hyperparameter, hyperparameters
from .names import Names
from .page import Table
from .refits import array, working

if TYPE_CHECKING:
    from ..model import Model

_COLUMNS_LISTED = 30
_VAGUE = 0.5
"""A standard error of half the value: the data say little more than the order of magnitude."""

_VAGUE_ANGLE = 25.0
"""A standard error of so many degrees: the data say little more than which quarter it is."""


def facts_table(model: Model, names: Names, scale: str = "") -> Table:
    """The model in a table: one line a fact; ``scale`` says what was done to the observations before."""
    from ..support.version import __version__

    gram, solver = model.prepared.gram, working(model)
    size, columns = model.X.shape
    unit = names.target_unit
    y = array(model.y)
    low, high, average = (with_unit(datum(float(v)), unit) for v in (y.min(), y.max(), y.mean()))
    picked = " (picked by Auto)" if model.prepared.picked else ""
    calibrated = "calibrated" if solver.calibrated else "not calibrated: its error bars depend on y"
    memory = f"dense, {human(gram.dense_bytes)}" if gram.storage == "dense" else "recomputed in tiles, not stored"
    iterations = f", {model.prepared.limit} iterations" if model.prepared.limit > 1 else ""
    if solver.points_used(size) is not None:
        memory, iterations = "not needed as a whole", ""
    rows = [
        ("data", f"{size:,} observations, {columns} {'column' if columns == 1 else 'columns'}"),
        ("target", f"{names.target}: {low} to {high}, average {average}"),
        *([("scale", scale)] if scale else []),
        ("kernel", model.prior.kernel.in_words(names.features or ())),
        ("formula", f"k(x, x′) = {model.prior.kernel.formula(number)}"),
        ("prior mean", _mean(model, names)),
        ("noise", _noise_in_words(model.prior, unit)),
        ("solver", f"{solver!r}{picked}{iterations}, {calibrated}"),
        ("Gram matrix", memory),
        ("memory budget", human(model.budget)),
        ("arithmetic", _arithmetic(model)),
        ("cagp", __version__),
        ("date", datetime.date.today().isoformat()),
    ]
    return Table("", (), rows, "facts")


def columns_table(model: Model, names: Names) -> Table:
    """The columns of X: range and median."""
    X = array(model.X)
    rows = [
        (names.name(c), names.unit(c), *(datum(float(f(X[:, c]))) for f in (np.min, np.median, np.max)))
        for c in range(min(X.shape[1], _COLUMNS_LISTED))
    ]
    caption = "The columns."
    if X.shape[1] > _COLUMNS_LISTED:
        caption = f"The first {_COLUMNS_LISTED} of {X.shape[1]} columns."
    return Table(caption, ("column", "unit", "smallest", "median", "largest"), rows, "columns")


def _mean(model: Model, names: Names) -> str:
    mean, trend, unit, given = model.prior.mean, model.trend, names.target_unit, model.recipe.offset.given or ()
    if isinstance(mean, Zero):
        return "zero"
    if isinstance(mean, Constant):
        if trend is None:
            return f"constant, {with_unit(number(given[0], 4), unit)}"
        error = float(trend.covariance[0, 0]) ** 0.5
        estimate = f"{number(float(trend.coefficients[0]), 4)} ± {with_unit(number(error, 2), unit)}"
        return f"an unknown constant, estimated as {estimate}; its error is in the error bars"
    known = "" if trend is None else "unknown, so that their error is in the error bars"
    if isinstance(mean, Polynomial):
        of = "all columns" if mean.columns is None else ", ".join(names.name(c) for c in mean.columns)
        return f"polynomial of degree {mean.degree} in {of}, {len(given)} coefficients{known and ', ' + known}"
    return (
        f"{len(given)} functions of the user's own, with coefficients {known}" if known else "the user's own function"
    )


def _noise_in_words(prior: Prior, unit: str) -> str:
    std = np.sqrt(prior.noise_variance)
    if prior.noise_pattern is not None:
        low, high = (number(float(std) * end(prior.noise_pattern.values)) for end in (min, max))
        return f"standard deviation that varies with the inputs, from {low} to {with_unit(high, unit)}"
    if np.ndim(std) == 0:
        return f"standard deviation {with_unit(number(float(std)), unit)}, the same for all observations"
    low, high = number(float(std.min())), with_unit(number(float(std.max())), unit)
    return f"one per observation, standard deviations from {low} to {high}"


def _arithmetic(model: Model) -> str:
    words = {"torch.float64": "double precision", "torch.float32": "single precision"}
    full, solving = words[str(model.gram.dtype)], words[str(model.prepared.gram.dtype)]
    return full if full == solving else f"solved in {solving}, certified in {full}"


# --- hyperparameters --------------------------------------------------------------------------------------------------


def hyperparameters_table(model: Model, fit: FitResult | None, names: Names) -> Table:
    """Every hyperparameter with its standard error, where it was fitted: those of the fit, all from one candidate."""
    errors = (fit.standard_errors or {}) if fit else {}
    rows = []
    for parameter in hyperparameters(model.prior if fit is None else fit.prior, names):
        fitted = fit is not None and parameter.name in fit.values
        error = errors.get(parameter.name)
        how = "fitted" if fitted else ("held fixed" if fit else "given")
        if fit and parameter.name in fit.at_bounds:
            how = "fitted, at a bound"
        shown = with_error(parameter.value, None if error is None or math.isnan(error) else error)
        rows.append((parameter.label, with_unit(shown, parameter.unit), how, _meaning(parameter, model, names)))
    for name, value in fit.values.items() if fit else ():
        shown = with_error(value, errors.get(name))
        if name == "mean.value":
            meaning = "predictions return to it far from the data"
            rows.append(("prior mean", with_unit(shown, names.target_unit), "fitted", meaning))
        elif name.startswith("mean."):
            label = f"prior mean, coefficient {name.split('[')[-1].rstrip(']')}"
            rows.append((label, shown, "fitted", "of the polynomial"))
    caption = "Value ± one standard error." if errors else "Values; no standard errors were computed."
    return Table(caption, ("hyperparameter", "value", "how", "meaning"), rows, "hyperparameters")


def _meaning(parameter: Hyperparameter, model: Model, names: Names) -> str:
    """What the value says, in a phrase; "" where the label says it all."""
    kind, value = parameter.kind, parameter.value
    if kind == "lengthscale" and parameter.column is not None:
        span = float(np.ptp(array(model.X)[:, parameter.column]))
        return f"{number(value / span, 2)} times the range of {names.name(parameter.column)}" if span else ""
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
    said = [_warning(each, prior, names) for each in fit.advice] if fit else []
    if fit is None:
        said.append("The hyperparameters were given, not fitted to these data, so their uncertainty is not known.")
    elif fit.standard_errors is None:
        said.append("Standard errors were not computed: fit with standard_errors=True to see what the data determine.")
    else:
        said += _vague(fit, names)
    said += _lengthscales(model, prior, names)
    said += _noise(model)
    if not said:
        said.append("Nothing unusual: every hyperparameter is determined by the data and of a plausible size.")
    said.append(
        "These are the values of the candidate with the most weight; a mixture predicts, as said above."
        if mixed
        else "The error bars of the predictions take the hyperparameters as known; their uncertainty is not included."
    )
    return said


def _warning(found: Advice, prior: Prior, names: Names) -> str:
    """A warning with the names that a reader knows."""
    labels = {parameter.name: f"the {parameter.label}" for parameter in hyperparameters(prior, names)}
    sentence = found.worded(subject=labels.get(found.subject))
    return sentence[:1].upper() + sentence[1:]


def _vague(fit: FitResult, names: Names) -> list[str]:
    errors, told = fit.standard_errors or {}, {found.subject for found in fit.advice}
    vague = [
        p.label
        for p in hyperparameters(fit.prior, names)
        if p.name in errors
        and errors[p.name] > (_VAGUE_ANGLE if p.kind == "angle" else _VAGUE * p.value)
        and p.name not in told
    ]
    if not vague:
        return []
    return [
        f"The data determine these only to the order of magnitude: {', '.join(vague)}. Predictions are usually less "
        "sensitive than that suggests."
    ]


def _lengthscales(model: Model, prior: Prior, names: Names) -> list[str]:
    X = array(model.X)
    long, short = [], []
    for parameter in hyperparameters(prior, names):
        if parameter.kind != "lengthscale" or parameter.column is None:
            continue
        values = np.unique(X[:, parameter.column])
        if len(values) < 2:
            continue
        span = float(values[-1] - values[0])
        if parameter.value > 10 * span:
            long.append(f"{names.name(parameter.column)} ({number(parameter.value / span, 2)} times its range)")
        elif parameter.value < 0.5 * float(np.median(np.diff(values))):
            short.append(names.name(parameter.column))
    said = []
    if long:
        said.append(f"Long lengthscales: {', '.join(long)}. The prediction hardly depends on these columns.")
    if short:
        said.append(
            f"Lengthscales shorter than the steps between observations: {', '.join(short)}. The model treats "
            "neighbours as unrelated there; a lengthscale that short is often a poor optimum, so try more restarts."
        )
    return said


def _noise(model: Model) -> list[str]:
    noise = float(model.prior.noise(model.X).mean())
    signal = float(model.gram.kernel_diagonal().double().mean())
    spread = float(np.var(array(model.y)))
    said = f"Noise makes up {percent(noise / (noise + signal))} of the variance that the prior expects."
    if noise > signal:
        said = (
            f"The noise variance is {number(noise / signal, 2)} times that of the function: most of what is observed "
            "is taken for noise."
        )
    elif noise < 1e-6 * signal:
        said = (
            f"The noise variance is {number(noise / signal, 1)} of the function's: the model interpolates, and small "
            "measurement errors will make its error bars too narrow."
        )
    equal = "All observations are equal: nothing about the function can be learnt from them but its level."
    return [said] if spread else [said, equal]

"""The section about hyperparameters: values, uncertainty, and advice."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

import numpy as np

from ..hyperparameters import FitResult
from .kernels import Hyperparameter, hyperparameters
from .kernels import meaning as meaning_of
from .names import Names
from .numbers import number, percent, squared, with_error, with_unit
from .refits import array
from .tables import Table

if TYPE_CHECKING:
    from ..model import Model

_VAGUE = 0.5
"""A standard error of half the value: the data say little more than the order of magnitude."""


def parameters(model: Model, names: Names) -> list[Hyperparameter]:
    """All hyperparameters of the model's prior: the kernel's, then the noise."""
    found = hyperparameters(model.prior.kernel, names)
    noise = model.prior.noise_variance
    if np.ndim(noise) == 0:
        unit = squared(names.target_unit)
        found.append(Hyperparameter("noise_variance", "noise variance", "noise", float(noise), unit))
    return found


def table(model: Model, fit: FitResult | None, names: Names) -> Table:
    """Every hyperparameter with its standard error, where it was fitted."""
    errors = (fit.standard_errors or {}) if fit else {}
    rows = []
    for parameter in parameters(model, names):
        fitted = fit is not None and parameter.name in fit.values
        error = errors.get(parameter.name)
        how = "fitted" if fitted else ("held fixed" if fit else "given")
        if fit and parameter.name in fit.at_bounds:
            how = "fitted, at a bound"
        shown = (
            with_error(parameter.value, error)
            if error is not None and not math.isnan(error)
            else number(parameter.value)
        )
        rows.append((parameter.label, with_unit(shown, parameter.unit), how, _meaning(parameter, model, names)))
    if fit:
        coefficients = [name for name in fit.values if name.startswith("mean.")]
        for name in coefficients:
            constant = name == "mean.value"
            shown = with_error(fit.values[name], errors.get(name))
            label = "prior mean" if constant else f"prior mean, coefficient {name.split('[')[-1].rstrip(']')}"
            meaning = "predictions return to it far from the data" if constant else "of the polynomial"
            rows.append((label, with_unit(shown, names.target_unit) if constant else shown, "fitted", meaning))
    caption = "Value ± one standard error." if errors else "Values; no standard errors were computed."
    return Table(caption, ("hyperparameter", "value", "how", "meaning"), rows, "hyperparameters")


def _meaning(parameter: Hyperparameter, model: Model, names: Names) -> str:
    if parameter.kind == "lengthscale" and parameter.column is not None:
        span = float(np.ptp(array(model.X)[:, parameter.column]))
        return f"{number(parameter.value / span, 2)} times the range of {names.name(parameter.column)}" if span else ""
    if parameter.kind == "noise":
        return f"observations scatter by {with_unit(number(math.sqrt(parameter.value)), names.target_unit)} around f"
    return meaning_of(parameter, names)


def advice(model: Model, fit: FitResult | None, names: Names) -> list[str]:
    """What a statistician would say about these values."""
    said = [_in_words(sentence, model, names) for sentence in fit.warnings] if fit else []
    if fit is None:
        said.append("The hyperparameters were given, not fitted to these data, so their uncertainty is not known.")
    elif fit.standard_errors is None:
        said.append("Standard errors were not computed: fit with standard_errors=True to see what the data determine.")
    else:
        said += _vague(model, fit, names)
    said += _lengthscales(model, names)
    said += _noise(model)
    if not said:
        said.append("Nothing unusual: every hyperparameter is determined by the data and of a plausible size.")
    said.append(
        "The error bars of the predictions take the hyperparameters as known; their uncertainty is not included."
    )
    return said


def story(fit: FitResult) -> str:
    """How the fit ended, without its warnings, which are among the advice."""
    message = fit.message
    for sentence in fit.warnings:
        message = message.replace(sentence, "")
    return " ".join(message.split())


def _in_words(sentence: str, model: Model, names: Names) -> str:
    """A warning with the names that a reader knows."""
    for parameter in parameters(model, names):
        sentence = re.sub(rf"(?<![\w.]){re.escape(parameter.name)}(?![\w.\[])", f"the {parameter.label}", sentence)
    return sentence[:1].upper() + sentence[1:]


def _vague(model: Model, fit: FitResult, names: Names) -> list[str]:
    errors = fit.standard_errors or {}
    vague = [
        p.label
        for p in parameters(model, names)
        if p.name in errors and errors[p.name] > _VAGUE * p.value and not any(p.name in w for w in fit.warnings)
    ]
    if not vague:
        return []
    return [
        f"The data determine these only to the order of magnitude: {', '.join(vague)}. Predictions are usually less "
        "sensitive than that suggests."
    ]


def _lengthscales(model: Model, names: Names) -> list[str]:
    X = array(model.X)
    long, short = [], []
    for parameter in parameters(model, names):
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
    noise = float(np.mean(model.prior.noise_variance))
    signal = float(model.gram.kernel_diagonal().double().mean())
    spread = float(np.var(array(model.y)))
    said = []
    if noise > signal:
        said.append(
            f"The noise variance is {number(noise / signal, 2)} times that of the function: most of what is observed "
            "is taken for noise."
        )
    elif noise < 1e-6 * signal:
        said.append(
            f"The noise variance is {number(noise / signal, 1)} of the function's: the model interpolates, and small "
            "measurement errors will make its error bars too narrow."
        )
    else:
        said.append(f"Noise makes up {percent(noise / (noise + signal))} of the variance that the prior expects.")
    if spread == 0:
        said.append("All observations are equal: nothing about the function can be learnt from them but its level.")
    return said

"""From an optimum to a result that says what it is worth."""

from __future__ import annotations

import dataclasses

import numpy as np

from ..means import Constant
from ..support.advice import Advice
from .likelihood import Likelihood
from .optimise import Optimum
from .parameters import Space
from .result import FitResult
from .trend import Trend

_FLAT_LOG_ERROR = 2.0
"""A hyperparameter is called flat where its standard error is more than a factor e² ≈ 7."""

_FLAT_GRADIENT = 1e-4
"""... or where log p never changed by more than this times the logarithm of the hyperparameter."""

_AGREEMENT = 1e-2
"""Starts whose log-likelihoods differ by less reached the same optimum."""


def summarise(
    likelihood: Likelihood, optimum: Optimum, log_errors: np.ndarray | None, name: str, refreshes: int
) -> FitResult:
    """The result of a fit; ``log_errors`` (q,) are the standard errors in log space, where they were asked for."""
    space, data, trend = likelihood.space, likelihood.data, optimum.evaluation.trend
    fitted = np.exp(optimum.log_values)
    values = dict(zip(space.names, fitted.tolist(), strict=True))
    errors = None
    if log_errors is not None:
        errors = dict(zip(space.names, (fitted * log_errors).tolist(), strict=True))
    prior = dataclasses.replace(
        space.prior, kernel=space.kernel(fitted.tolist()), noise_variance=space.noise(fitted.tolist())
    )
    if trend is not None:
        prior = dataclasses.replace(prior, mean=prior.mean.with_coefficients(trend.coefficients.tolist()))
        coefficients, trend_errors = _named(trend, isinstance(prior.mean, Constant))
        values |= coefficients
        errors = errors if errors is None else errors | trend_errors
    at_bounds = _at_bounds(space, optimum.log_values)
    return FitResult(
        prior=prior,
        values=values,
        standard_errors=errors,
        log_likelihood=optimum.evaluation.log_likelihood,
        size=data.size,
        likelihood=name,
        converged=optimum.converged,
        at_bounds=tuple(at_bounds),
        advice=tuple(_advice(space, optimum, at_bounds, log_errors)),
        story=_story(optimum, data.jitter, refreshes),
        jitter=data.jitter,
        refreshes=refreshes,
        trace=optimum.trace,
    )


def _named(trend: Trend, constant: bool) -> tuple[dict[str, float], dict[str, float]]:
    coefficients, errors = trend.coefficients.tolist(), trend.covariance.diagonal().sqrt().tolist()
    names = ["mean.value"] if constant else [f"mean.coefficients[{i}]" for i in range(len(coefficients))]
    return dict(zip(names, coefficients, strict=True)), dict(zip(names, errors, strict=True))


def _at_bounds(space: Space, log_values: np.ndarray) -> dict[str, str]:
    """Which hyperparameters are at a bound, and at which."""
    ends: dict[str, str] = {}
    for name, value, low, high in zip(space.names, log_values, space.lower, space.upper, strict=True):
        if value <= low or value >= high:
            side = "lower" if value <= low else "upper"
            ends[name] = f"its {side} bound {np.exp(value):.3g}"
    return ends


def _story(optimum: Optimum, jitter: float, refreshes: int) -> str:
    reached = sum(final >= max(optimum.finals) - _AGREEMENT for final in optimum.finals)
    failed = sum(step.log_likelihood == -np.inf for step in optimum.trace)
    story = "Converged" if optimum.converged else "Stopped"
    story += f" after {len(optimum.trace)} evaluations of the likelihood ({optimum.reason.lower()})."
    if len(optimum.finals) > 1:
        story += f" {reached} of {len(optimum.finals)} starts reached the best optimum."
    if refreshes:
        story += f" The neighbours were chosen anew {refreshes} times."
    if failed:
        story += f" At {failed} of them G was not positive definite; the search turned back there."
    if jitter:
        story += f" A jitter of {jitter:.3g} was added to the diagonal of G, as asked."
    return story


def _advice(space: Space, optimum: Optimum, at_bounds: dict[str, str], log_errors: np.ndarray | None) -> list[Advice]:
    found = [] if optimum.converged else [Advice("not converged", detail=optimum.reason.lower())]
    found += [Advice("at a bound", name, end) for name, end in at_bounds.items()]
    steps = np.array([step.gradient for step in optimum.trace if step.log_likelihood > -np.inf])
    for i, name in enumerate(space.names):
        unfelt = np.abs(steps[:, i]).max() < _FLAT_GRADIENT
        vague = log_errors is not None and log_errors[i] > _FLAT_LOG_ERROR
        if unfelt or vague:
            found.append(Advice("flat", name))
    return found

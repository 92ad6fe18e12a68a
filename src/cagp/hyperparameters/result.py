"""What a fit found, and what it has to say about it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from ..means import Constant
from ..prior import Prior
from ..support.advice import Advice
from .likelihood import Likelihood, Trend
from .optimise import Optimum, TraceStep
from .search_space import Space

_FLAT_LOG_ERROR = 2.0
"""A hyperparameter is called flat where its standard error is more than a factor e² ≈ 7."""

_FLAT_GRADIENT = 1e-4
"""... or where log p never changed by more than this times the logarithm of the hyperparameter."""

_ROUNDING = 1e-12
"""Observations that differ by less than this part of them are the same."""

_AGREEMENT = 1e-2
"""Starts whose log-likelihoods differ by less reached the same optimum."""


class FitWarning(UserWarning):
    """The fit ended, but its result needs a look: at a bound, flat, not converged."""


@dataclass(frozen=True, repr=False)
class FitResult:
    """Maximum-likelihood hyperparameters with everything that was found on the way.

    ``prior`` is the fitted prior. ``values`` holds the fitted hyperparameters by name, and estimates of the mean's
    coefficients where these were unknown or refitted. ``standard_errors`` (by name, None where not asked for) come from
    the inverse Hessian of −log p in log space and are brought back by the delta method, s.e.(θ) = θ · s.e.(log θ);
    those of the mean's coefficients are those of generalised least squares, given the hyperparameters. Angles and their
    errors are in degrees. NaN: at a bound, or not computable. Infinity: the likelihood is flat there. With the
    nearest-neighbour likelihood they are that likelihood's own. Where its terms were sampled they contain what the
    sampling adds, and ``sampling_errors`` (by name, None where nothing was sampled) is that part alone: s.e.² = s.e.²
    of all terms, estimated, + sampling error².

    ``log_likelihood`` is that of ``size`` observations, an unbiased estimate where fewer ``terms`` were computed.
    ``at_bounds`` names the hyperparameters that ended at a bound.
    ``story`` says how the fit ended, ``advice`` what needs a look and what to do about it; ``warnings`` are the same as
    sentences, and ``message`` is the story with them.
    ``jitter`` is what was added to the diagonal of G: zero unless it was asked for. ``refreshes`` is how often the
    neighbours were chosen anew. ``trace`` has every evaluation of the likelihood, in order: where terms were sampled,
    of the sum of those.
    """

    prior: Prior
    values: dict[str, float]
    standard_errors: dict[str, float] | None
    log_likelihood: float
    size: int
    likelihood: str
    converged: bool
    at_bounds: tuple[str, ...]
    advice: tuple[Advice, ...]
    story: str
    jitter: float
    refreshes: int
    trace: tuple[TraceStep, ...]
    terms: int
    sampling_errors: dict[str, float] | None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What needs a look, in sentences."""
        return tuple(map(str, self.advice))

    @property
    def message(self) -> str:
        """How the fit ended, and what needs a look."""
        return " ".join([self.story, *self.warnings])

    @property
    def negative_log_likelihood_per_point(self) -> float:
        """−log p / n."""
        return -self.log_likelihood / self.size

    def __str__(self) -> str:
        width = max(map(len, self.values))
        how = f", estimated from {self.terms} terms" if self.terms < self.size else ""
        lines = [f"{self.likelihood} likelihood of {self.size} observations{how}: log p = {self.log_likelihood:.6g}"]
        for name, value in self.values.items():
            error = "" if self.standard_errors is None else f" ± {self.standard_errors[name]:.2g}"
            lines.append(f"  {name:<{width}}  {value:.6g}{error}")
        return "\n".join([*lines, self.message])

    def __repr__(self) -> str:
        return f"FitResult({self.prior!r}, log_likelihood={self.log_likelihood:.6g}, converged={self.converged})"


def told_by_a_constant(y: np.ndarray, result: FitResult) -> str:
    """What is to be said of observations y (n,) or (n, outputs) that are all the same; nothing where they are not."""
    if len(y) > 1 and not (result.at_bounds and (np.ptp(y, axis=0) <= _ROUNDING * np.abs(y).max(axis=0)).all()):
        return ""
    where = f"at all {len(y)} training points" if len(y) > 1 else "at the only training point"
    bounds = f"the bounds of {', '.join(result.at_bounds)}"
    makes = f"{bounds} make" if result.at_bounds else "the kernel.variance that the fit began with makes"
    return (
        f"y has the same value {where}, which does not tell how far it varies elsewhere: the error bars are no wider "
        f"than {makes} them. Give a kernel and a noise level that you believe in, and do not fit them."
    )


@dataclass(frozen=True)
class Errors:
    """Standard errors (q,) of the logarithms of the hyperparameters, None where they were not asked for.

    ``share`` (q,) is the part of their squares that would be left if all terms were computed; None where all were.
    """

    own: np.ndarray | None
    share: np.ndarray | None

    @property
    def sampling(self) -> np.ndarray | None:
        """What the sampling adds (q,), as a standard error by itself."""
        return None if self.own is None or self.share is None else self.own * np.sqrt(1.0 - self.share)

    @property
    def factor(self) -> float:
        """By how much the sampling enlarges standard errors at the most."""
        known = np.ones(1) if self.share is None else self.share[np.isfinite(self.share)]
        return float(1.0 / np.sqrt(known.min(initial=1.0)))


def summarise(
    likelihood: Likelihood, optimum: Optimum, log_errors: Errors, value: float, name: str, refreshes: int
) -> FitResult:
    """The result of a fit; ``log_errors`` are in log space, ``value`` the log-likelihood of all observations."""
    space, data, trend = likelihood.space, likelihood.data, optimum.evaluation.trend
    fitted, slopes = space.values(optimum.log_values), space.slopes(optimum.log_values)
    kernel = space.kernel(fitted)
    taken: dict[str, float] = {}
    kernel.with_hyperparameters(taken.setdefault)  # as the kernel has them: angles in the half circle
    values = {name: taken.get(name, value) for name, value in zip(space.names, fitted, strict=True)}
    errors, sampling = None, None
    if log_errors.own is not None:
        errors = dict(zip(space.names, (slopes * log_errors.own).tolist(), strict=True))
    if log_errors.sampling is not None:
        sampling = dict(zip(space.names, (slopes * log_errors.sampling).tolist(), strict=True))
    prior = dataclasses.replace(space.prior, kernel=kernel, noise_variance=space.noise(fitted))
    if trend is not None:
        if not data.restricted:
            prior = dataclasses.replace(prior, mean=prior.mean.with_coefficients(trend.coefficients.tolist()))
        if trend.coefficients.ndim == 1:
            coefficients, trend_errors = _named(trend, isinstance(prior.mean, Constant))
            values |= coefficients
            errors = errors if errors is None else errors | trend_errors
    at_bounds = _at_bounds(space, optimum.log_values)
    return FitResult(
        prior=prior,
        values=values,
        standard_errors=errors,
        log_likelihood=value,
        size=data.size,
        likelihood=name,
        converged=optimum.converged,
        at_bounds=tuple(at_bounds),
        advice=tuple(_advice(space, optimum, at_bounds, log_errors.own)),
        story=" ".join([_story(optimum, data.jitter, refreshes), *_sampling(likelihood, log_errors)]),
        jitter=data.jitter,
        refreshes=refreshes,
        trace=optimum.trace,
        terms=likelihood.computed,
        sampling_errors=sampling,
    )


def _sampling(likelihood: Likelihood, log_errors: Errors) -> list[str]:
    """That terms were sampled, and what that adds to the standard errors."""
    n, computed = likelihood.data.size, likelihood.computed
    if computed >= n:
        return []
    told = f"{computed:,} of the {n:,} terms of the likelihood were computed, drawn at random"
    if log_errors.share is None:
        return [f"{told}."]
    return [f"{told}, which makes standard errors up to {log_errors.factor:.2g} times as large as all would."]


def _named(trend: Trend, constant: bool) -> tuple[dict[str, float], dict[str, float]]:
    coefficients, errors = trend.coefficients.tolist(), trend.covariance.diagonal().sqrt().tolist()
    names = ["mean.value"] if constant else [f"mean.coefficients[{i}]" for i in range(len(coefficients))]
    return dict(zip(names, coefficients, strict=True)), dict(zip(names, errors, strict=True))


def _at_bounds(space: Space, log_values: np.ndarray) -> dict[str, str]:
    """Which hyperparameters are at a bound, and at which."""
    ends: dict[str, str] = {}
    shown = space.values(log_values)
    for name, value, said, low, high in zip(space.names, log_values, shown, space.lower, space.upper, strict=True):
        if value <= low or value >= high:
            side = "lower" if value <= low else "upper"
            ends[name] = f"its {side} bound {said:.3g}"
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

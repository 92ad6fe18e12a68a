"""What a fit found, and what it has to say about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InputError
from ..means import Constant
from ..prior import Prior
from ..support.advice import Advice, all_worded, warn_caller
from ..support.interrupt import TIME_IS_UP
from .likelihood import Likelihood
from .optimise import Optimum, TraceStep
from .search_space import Space
from .standard_errors import Errors, log_standard_errors

_FLAT_LOG_ERROR = 2.0  # flat is what has a standard error of more than a factor e² ≈ 7,
_FLAT_GRADIENT = 1e-4  # or where log p never changed by more than this times the logarithm of the hyperparameter
_ROUNDING = 1e-12  # observations that differ by less than this part of them are the same
_AGREEMENT = 1e-2  # starts whose log-likelihoods differ by less reached the same optimum


class FitWarning(UserWarning):
    """The fit ended, but its result needs a look: at a bound, flat, not converged."""


@dataclass(frozen=True)
class Ending:
    """Where a search ended: the ``optimum`` of an ``objective``, which is the ``likelihood`` of that name."""

    likelihood: str
    objective: Likelihood
    whole: Likelihood  # of all observations, estimated where terms were sampled
    optimum: Optimum
    refreshes: int = 0
    neighbours_at: np.ndarray | None = None  # (q,), where neighbours were chosen the last time

    def errors(self, quick: bool = False) -> Errors:
        """The standard errors, in log space."""
        return log_standard_errors(self.objective, self.whole, self.optimum.log_values, quick)


Again = Callable[[], tuple[Likelihood, Likelihood]]  # makes objective and estimate of a fit once more


@dataclass(frozen=True, repr=False)
class FitResult:
    """Maximum-likelihood hyperparameters with everything that was found on the way.

    ``prior`` is the fitted prior; ``values`` holds its hyperparameters by name, and the mean's coefficients where these
    were estimated. ``standard_errors`` (by name, None where not asked for) come from the inverse Hessian of −log p in
    log space, s.e.(θ) = θ · s.e.(log θ); those of the mean's coefficients from generalised least squares, given the
    hyperparameters. Angles and their errors are in degrees. NaN: at a bound, or not computable. Infinity: the
    likelihood is flat there. With nearest neighbours they are that likelihood's own; where its terms were sampled,
    ``sampling_errors`` (by name, else None) is what that adds: s.e.² = s.e.² of all terms + sampling error².

    ``log_likelihood`` is that of ``size`` observations, an unbiased estimate where fewer ``terms`` were computed.
    ``at_bounds`` names the hyperparameters that ended at a bound. ``information`` (by name, where the search has seen
    it) is what the observations say of each logarithm, were all others known: its expected curvature. ``story`` says
    how the fit ended, ``advice`` what needs a look; ``warnings`` are the same as sentences, and ``message`` is the
    story with them. ``jitter`` was added to the diagonal of G, as asked. ``refreshes`` is how often the neighbours were
    chosen anew. ``trace`` has every evaluation of the likelihood, or of the sum of sampled terms, in order.
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
    information: dict[str, float] = field(default_factory=dict)
    _source: tuple[Optimum, Again] | None = field(default=None, repr=False, compare=False)

    def with_standard_errors(self, quick: bool = False) -> FitResult:
        """The same with standard errors, where it has none: two evaluations for each hyperparameter, no new search.

        ``quick`` takes the information that comes with one evaluation. X and y must be as they were.
        """
        if self.standard_errors is not None:
            return self
        if self._source is None:
            raise InputError(
                "this result was copied or loaded and left the observations behind; fit again from result.prior for "
                "its standard errors, with n_restarts=0"
            )
        optimum, again = self._source
        end = Ending(self.likelihood, *again(), optimum, self.refreshes)
        found = summarise(end, end.errors(quick))
        names = ("standard_errors", "sampling_errors", "advice", "story")
        return dataclasses.replace(self, **{name: getattr(found, name) for name in names})

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What needs a look, in sentences."""
        return all_worded(self.advice)

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


def warn(result: FitResult | None, *further: str, category: type[Warning] = FitWarning) -> None:
    """One warning with all that needs a look, and what is said ``further``, if any, at the line that called cagp."""
    sentences = [] if result is None else list(result.warnings)
    warn_caller(" ".join([*sentences, *filter(None, further)]), category)


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


def summarise(end: Ending, log_errors: Errors | None, again: Again | None = None) -> FitResult:
    """The result of a fit; ``log_errors`` are in log space, None where they were not asked for, and come ``again``."""
    likelihood, optimum = end.objective, end.optimum
    space, data, trend = likelihood.space, likelihood.data, optimum.evaluation.trend
    fitted, slopes = space.values(optimum.log_values), space.slopes(optimum.log_values)
    prior, taken = space.prior_at(fitted), dict[str, float]()
    prior.kernel.with_hyperparameters(taken.setdefault)  # as the kernel has them: angles in the half circle
    values = {name: taken.get(name, value) for name, value in zip(space.names, fitted, strict=True)}

    def named(errors: np.ndarray | None) -> dict[str, float] | None:
        return None if errors is None else dict(zip(space.names, (slopes * errors).tolist(), strict=True))

    errors = None if log_errors is None else named(log_errors.own)
    if trend is not None:
        if not data.restricted:
            prior = dataclasses.replace(prior, mean=prior.mean.with_coefficients(trend.coefficients.tolist()))
        if trend.coefficients.ndim == 1:
            several = [f"mean.coefficients[{i}]" for i in range(len(trend.coefficients))]
            names = ["mean.value"] if isinstance(prior.mean, Constant) else several
            values |= zip(names, trend.coefficients.tolist(), strict=True)
            if errors is not None:
                errors |= zip(names, trend.covariance.diagonal().sqrt().tolist(), strict=True)
    at_bounds = _at_bounds(space, optimum.log_values)
    told = optimum.evaluation.information
    whole = optimum.evaluation if end.whole is likelihood else end.whole(optimum.log_values)
    return FitResult(
        prior=prior,
        values=values,
        standard_errors=errors,
        log_likelihood=whole.log_likelihood,
        size=data.size,
        likelihood=end.likelihood,
        converged=optimum.converged,
        at_bounds=tuple(at_bounds),
        advice=tuple(_advice(space, optimum, at_bounds, log_errors)),
        story=_story(end, log_errors),
        jitter=data.jitter,
        refreshes=end.refreshes,
        trace=optimum.trace,
        terms=likelihood.computed,
        sampling_errors=None if log_errors is None else named(log_errors.sampling),
        information={} if told is None else dict(zip(space.names, told.diagonal().tolist(), strict=True)),
        _source=None if again is None else (optimum, again),
    )


def _at_bounds(space: Space, log_values: np.ndarray) -> dict[str, str]:
    """Which hyperparameters are at a bound, and at which."""
    lower, upper = log_values <= space.lower, log_values >= space.upper
    each = zip(space.names, space.values(log_values), lower, lower | upper, strict=True)
    return {name: f"its {'lower' if low else 'upper'} bound {value:.3g}" for name, value, low, at in each if at}


def _story(end: Ending, log_errors: Errors | None) -> str:
    optimum, n, computed = end.optimum, end.objective.data.size, end.objective.computed
    reached = sum(final >= max(optimum.finals) - _AGREEMENT for final in optimum.finals)
    failed = sum(step.log_likelihood == -np.inf for step in optimum.trace)
    story = "Converged" if optimum.converged else "Stopped"
    times = "one evaluation" if len(optimum.trace) == 1 else f"{len(optimum.trace)} evaluations"
    story += f" after {times} of the likelihood ({optimum.reason.lower()})."
    if len(optimum.finals) > 1:
        story += f" {reached} of {len(optimum.finals)} starts reached the best optimum."
    if end.refreshes:
        story += f" The neighbours were chosen anew {end.refreshes} times."
    if failed:
        story += f" At {failed} of them G was not positive definite; the search turned back there."
    if end.objective.data.jitter:
        story += f" A jitter of {end.objective.data.jitter:.3g} was added to the diagonal of G, as asked."
    if computed < n:
        story += f" {computed:,} of the {n:,} terms of the likelihood were computed, drawn at random"
        if log_errors is not None and log_errors.share is not None:
            story += f", which makes standard errors up to {log_errors.factor:.2g} times as large as all would"
        story += "."
    return story


def _advice(space: Space, optimum: Optimum, at_bounds: dict[str, str], log_errors: Errors | None) -> list[Advice]:
    settled = optimum.converged or optimum.reason == TIME_IS_UP  # who said when it is up needs no advice
    found = [] if settled else [Advice("not converged", detail=optimum.reason.lower())]
    found += [Advice("at a bound", name, end) for name, end in at_bounds.items()]
    steps = np.array([step.gradient for step in optimum.trace if step.log_likelihood > -np.inf])
    for i, name in enumerate(space.names):
        vague = log_errors is not None and log_errors.own[i] > _FLAT_LOG_ERROR
        if vague or np.abs(steps[:, i]).max() < _FLAT_GRADIENT:
            found.append(Advice("flat", name))
    return found

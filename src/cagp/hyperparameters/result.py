"""What a fit found, and what it has to say about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..support.advice import Advice
from .optimise import TraceStep

if TYPE_CHECKING:
    from ..prior import Prior


class FitWarning(UserWarning):
    """The fit ended, but its result needs a look: at a bound, flat, not converged."""


@dataclass(frozen=True, repr=False)
class FitResult:
    """Maximum-likelihood hyperparameters with everything that was found on the way.

    ``prior`` is the fitted prior. ``values`` holds the fitted hyperparameters by name, and the mean's coefficients
    where they were refitted. ``standard_errors`` (by name, None where not asked for) come from the inverse Hessian of
    −log p in log space and are brought back by the delta method, s.e.(θ) = θ · s.e.(log θ); those of the mean's
    coefficients are those of generalised least squares, given the hyperparameters. NaN: at a bound, or not computable.
    Infinity: the likelihood is flat there. With the nearest-neighbour likelihood they are that likelihood's own.

    ``log_likelihood`` is that of ``size`` observations. ``at_bounds`` names the hyperparameters that ended at a bound.
    ``story`` says how the fit ended, ``advice`` what needs a look and what to do about it; ``warnings`` are the same as
    sentences, and ``message`` is the story with them.
    ``jitter`` is what was added to the diagonal of G: zero unless it was asked for. ``refreshes`` is how often the
    neighbours were chosen anew. ``trace`` has every evaluation of the likelihood, in order.
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
        lines = [f"{self.likelihood} likelihood of {self.size} observations: log p = {self.log_likelihood:.6g}"]
        for name, value in self.values.items():
            error = "" if self.standard_errors is None else f" ± {self.standard_errors[name]:.2g}"
            lines.append(f"  {name:<{width}}  {value:.6g}{error}")
        return "\n".join([*lines, self.message])

    def __repr__(self) -> str:
        return f"FitResult({self.prior!r}, log_likelihood={self.log_likelihood:.6g}, converged={self.converged})"

"""Distributions at T test points, as numbers alone: a mixture of normal ones, and what a monotone map makes of one.

Another shape that left-out errors taught, and another scale, are maps of the normal score Φ⁻¹(F(value)), through which
quantiles, probabilities, densities and draws pass: (k, T) is k values at each of T points, in float64.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from ..errors import InputError
from ..kernels import Coregionalised
from ..transforms import Transform
from .conditioned import Conditioned

_STEP = 0.125  # means over normal scores are sums so far apart: what is smooth is exact to rounding
_NEWTON = 120
_WRITTEN = 1e-300  # probabilities below are told by their logarithms
_STEPS_FAR_OUT = 4
_CLOSE = 1e-10  # a quantile of a mixture is found where its normal score is right to so much
_BEYOND = 2.0  # so many standard deviations of the noise beyond all observations a mean still looks
_FURTHEST_OF_BOUNDED = 10.0  # what lies beyond this normal score counts for nothing in the mean of a bounded function
_FURTHEST_KNOWN = 37.0  # beyond this normal score probabilities cannot be written in float64
# So many numbers are worked on at once in means over normal scores, of which there are so many at a point.
_ENTRIES, _GRID = 2**17, 449


class Distribution(ABC):
    """At each of T points a distribution with ``mean`` and ``std``, each (T,)."""

    furthest: float = 28.0  # means are taken over normal scores up to here: enough for exponentials of a std of ten
    size: int = 1  # how many numbers it takes at a point
    mean: torch.Tensor
    std: torch.Tensor

    @property
    def under_prior(self) -> Distribution:
        """The same without margins: what is learned about error bars changes no mean."""
        return self

    @abstractmethod
    def scores(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The normal scores of ``values`` (k, T), and their log densities, each (k, T)."""

    @abstractmethod
    def values(self, scores: torch.Tensor) -> torch.Tensor:
        """The values (k, T) with finite normal ``scores`` (k, T)."""

    def quantiles(self, p: torch.Tensor) -> torch.Tensor:
        """The values (k, T) of probabilities ``p`` (k,)."""
        return self.values(torch.special.ndtri(p)[:, None].expand(-1, len(self.mean)))

    def drawn(self, draws: torch.Tensor) -> torch.Tensor:
        """Joint draws (n, T) of the normal distributions underneath as draws of this one."""
        return draws

    def counted(self, values: torch.Tensor) -> torch.Tensor:
        """Values (n, T) as ``mean`` and ``std`` count them."""
        return values

    def grid(self, furthest: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Values (g, T) up to a normal score, and weights (g,): weights @ f(values) is the mean of a smooth f."""
        scores, weights = normal_grid(min(furthest, self.furthest), self.mean.device)
        return self.values(scores[:, None].expand(-1, len(self.mean))), weights

    @abstractmethod
    def at(self, columns: torch.Tensor) -> Distribution:
        """The distributions at some of the points, by their numbers (n,)."""


def normal_grid(furthest: float, device: torch.device | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Normal scores up to ``furthest``, and their weights in a mean by the trapezoidal rule, each (g,)."""
    steps = math.floor(furthest / _STEP)
    scores = torch.arange(-steps, steps + 1, dtype=torch.float64, device=device) * _STEP
    weights = (-0.5 * scores.square()).exp()
    return scores, weights / weights.sum()


@dataclass(frozen=True, eq=False)
class NormalMixture(Distribution):
    """Mixtures of normal distributions with ``means`` and ``variances`` (m, T), and ``weights`` (m,)."""

    means: torch.Tensor
    variances: torch.Tensor
    weights: torch.Tensor

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.weights)

    @cached_property
    def mean(self) -> torch.Tensor:  # type: ignore[override]
        return self.weights @ self.means

    @cached_property
    def std(self) -> torch.Tensor:  # type: ignore[override]
        if len(self.weights) == 1:
            return self._stds[0]
        return (self.weights @ (self.variances + (self.means - self.mean).square())).sqrt()

    @cached_property
    def _stds(self) -> torch.Tensor:
        return self.variances.sqrt()

    def at(self, columns: torch.Tensor) -> NormalMixture:
        return NormalMixture(self.means[:, columns], self.variances[:, columns], self.weights)

    def scores(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = self._standardised(values)
        log_densities = -0.5 * (z.square() + math.log(2 * math.pi)) - self._stds.log()
        log_densities = log_densities.nan_to_num(-math.inf, math.inf, -math.inf)  # beside what is known for certain
        if len(self.weights) == 1:
            return z[:, 0], log_densities[:, 0]
        return self._score(z), (log_densities + self.weights.log()[:, None]).logsumexp(dim=1)

    def _standardised(self, values: torch.Tensor) -> torch.Tensor:
        """How far ``values`` (k, T) are from the means of the parts in their standard deviations, (k, m, T).

        At the mean itself it is zero, also where a part knows it for certain.
        """
        z = (values[:, None] - self.means) / self._stds
        return z.nan_to_num(0.0, math.inf, -math.inf)

    def _score(self, z: torch.Tensor) -> torch.Tensor:
        """The normal score of the mixture (k, T) from those of its parts (k, m, T), from the nearer tail."""
        above = (self.weights @ z) > 0
        nearer = torch.where(above[:, None], -z, z)
        tail = self.weights @ torch.special.ndtr(nearer)
        score = torch.special.ndtri(tail)
        if bool((tail < _WRITTEN).any()):
            score = torch.where(tail < _WRITTEN, self._far_score(nearer), score)
        return torch.where(above, -score, score)

    def _far_score(self, z: torch.Tensor) -> torch.Tensor:
        """The normal score of the mixture (k, T) from those of its parts (k, m, T), all far below zero."""
        wanted = (torch.special.log_ndtr(z) + self.weights.log()[:, None]).logsumexp(dim=1)
        score = -(-2 * wanted).sqrt()
        for _ in range(_STEPS_FAR_OUT):  # Newton's, with the slope −score of the logarithm of Φ so far out
            score = score + (torch.special.log_ndtr(score) - wanted) / score
        return torch.where(score.isfinite(), score, z.amax(dim=1))  # where its logarithm cannot be written, the nearest

    def values(self, scores: torch.Tensor) -> torch.Tensor:
        each = self.means + scores[:, None] * self._stds
        if len(self.weights) == 1:
            return each[:, 0]
        low, high = each.amin(dim=1), each.amax(dim=1)  # the mixture's value lies between those of its parts
        wanted = scores.clamp(-_FURTHEST_KNOWN, _FURTHEST_KNOWN)
        value = (self.mean + self.std * wanted).clamp(low, high)
        before = torch.full_like(value, math.inf)
        for _ in range(_NEWTON):  # Newton's steps in normal scores, which are nearly linear, kept inside
            z = self._standardised(value)
            score = self._score(z)
            excess = score - wanted
            found = excess.abs() <= _CLOSE
            if bool(found.all()):
                break
            low, high = torch.where(excess < 0, value, low), torch.where(excess < 0, high, value)
            slope = self.weights @ ((score.square()[:, None] - z.square()).mul_(0.5).exp_() / self._stds)
            newton = value - excess / slope
            # between narrow parts steps may go to and fro for ever: then the middle
            nearer = (newton >= low) & (newton <= high) & (excess.abs() < 0.5 * before)
            value, before = torch.where(found, value, torch.where(nearer, newton, (low + high) / 2)), excess.abs()
        return value

    def grid(self, furthest: float) -> tuple[torch.Tensor, torch.Tensor]:
        """That of each component: they are smooth where quantiles of the mixture need not be."""
        scores, weights = normal_grid(min(furthest, self.furthest), self.means.device)
        values = self.means + scores[:, None, None] * self._stds
        return values.flatten(0, 1), torch.outer(weights, self.weights).flatten()


@dataclass(frozen=True, eq=False)
class Transformed(Distribution):
    """The distribution of y = g⁻¹(value) for values of a ``base`` one, on the scale of y; ``transform`` is g.

    Mean and std are integrals, to which with a ``reach``, a smallest and a largest g(y), values beyond count as if they
    lay there, or at the median, where that is further out: far out a distribution is an assumption. The mean is that
    under the prior: of the tails that margins learn, a transform would make most of it.
    """

    base: Distribution
    transform: Transform
    reach: tuple[float, float] | None = None

    @cached_property
    def _moments(self) -> tuple[torch.Tensor, torch.Tensor]:
        parts, size = [], max(1, _ENTRIES // (_GRID * self.base.size))
        for columns in torch.arange(len(self.base.mean), device=self.base.mean.device).split(size):
            base = self.base.at(columns)
            prior = base if self.reach is None else base.under_prior  # models of earlier versions have no reach
            low, median, high = _reached(prior, self.reach)
            centre = self.transform.inverse(median)
            ends = self.transform.inverse(torch.stack([low, high]))
            furthest = _FURTHEST_OF_BOUNDED if bool(ends.isfinite().all()) else base.furthest

            def moments(
                of: Distribution, low: torch.Tensor, high: torch.Tensor, centre: torch.Tensor, furthest: float
            ) -> list[torch.Tensor]:
                values, weights = of.grid(furthest)
                # from the median, so that digits of the variance stay
                apart = self.transform.inverse(values.clamp(low, high)) - centre
                return [weights @ apart, weights @ apart.square()]

            first, second = moments(prior, low, high, centre, furthest)
            variance = second - first.square()
            if base is not prior:  # the error of the mean under the prior
                own, second = moments(base, low, high, centre, furthest)
                variance = second - 2 * first * own + first.square()
            variance = torch.where(second.isfinite(), variance, torch.inf).clamp_min(0.0)
            # a median beyond float64 is infinite, and so is the mean
            parts.append(torch.stack([torch.where(centre.isfinite(), centre + first, centre), variance.sqrt()]))
        mean, std = torch.cat(parts, dim=1)
        return mean, std

    @property
    def mean(self) -> torch.Tensor:  # type: ignore[override]
        return self._moments[0]

    @property
    def std(self) -> torch.Tensor:  # type: ignore[override]
        return self._moments[1]

    def at(self, columns: torch.Tensor) -> Transformed:
        return Transformed(self.base.at(columns), self.transform, self.reach)

    def scores(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Where no observation can be the density is 0, and the score −∞ or ∞."""
        z = self.transform.forward(values)
        known = z.isfinite() & (values >= self.transform.lower) & (values <= self.transform.upper)
        scores, log_densities = self.base.scores(torch.where(known, z, 0.0))
        slope = self.transform.log_slope(torch.where(known, values, self.transform.inverse(torch.zeros_like(values))))
        beyond = torch.where(values >= self.transform.upper, torch.inf, -torch.inf).to(scores)
        return torch.where(known, scores, beyond), torch.where(known, log_densities + slope, -torch.inf)

    def values(self, scores: torch.Tensor) -> torch.Tensor:
        return self.transform.inverse(self.base.values(scores))

    def quantiles(self, p: torch.Tensor) -> torch.Tensor:
        return self.transform.inverse(self.base.quantiles(p))

    def drawn(self, draws: torch.Tensor) -> torch.Tensor:
        return self.transform.inverse(self.base.drawn(draws))

    def counted(self, values: torch.Tensor) -> torch.Tensor:
        """On the scale of y, within the reach."""
        if self.reach is None:
            return values
        low, _, high = _reached(self.base.under_prior, self.reach)
        return values.clamp(self.transform.inverse(low), self.transform.inverse(high))


def _reached(base: Distribution, reach: tuple[float, float] | None) -> tuple[torch.Tensor, ...]:
    """The lowest value that a mean counts, the median and the highest one, each (T,), on the scale of ``base``."""
    lowest, highest = reach or (-math.inf, math.inf)
    median = base.values(torch.zeros_like(base.mean)[None])[0]
    return median.clamp_max(lowest), median, median.clamp_min(highest)


@dataclass(frozen=True, eq=False)
class Sampled(Distribution):
    """The distributions that ``draws`` (n, T) are from, with a ``mean`` and a ``std`` (T,) that are known otherwise.

    Probabilities are shares of the draws. Densities are not known.
    """

    draws: torch.Tensor
    mean: torch.Tensor
    std: torch.Tensor

    def at(self, columns: torch.Tensor) -> Sampled:
        return Sampled(self.draws[:, columns], self.mean[columns], self.std[columns])

    def scores(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shares = torch.stack([(self.draws <= each).double().mean(dim=0) for each in values])
        return torch.special.ndtri(shares), torch.full_like(shares, torch.nan)

    def values(self, scores: torch.Tensor) -> torch.Tensor:
        """Of n + 1 parts between n draws, so that a new one falls below with just this probability."""
        n = len(self.draws)
        place = torch.special.ndtr(scores) * (n + 1) - 1
        if bool(((place < 0) | (place > n - 1)).any()):
            tail = max(float(torch.special.ndtr(-scores.abs()).min()), 1e-16)
            raise InputError(
                f"{n:,} simulated fields do not tell quantiles that only a share of {tail:.2g} lies beyond; simulate "
                f"more, average(..., fields={math.ceil(2 / tail)}), or ask for less"
            )
        low, ranked = place.floor().long(), self.draws.sort(dim=0).values
        return torch.lerp(ranked.gather(0, low), ranked.gather(0, (low + 1).clamp_max(n - 1)), place - low)


MEANS_REACH = "In means, values beyond all observations by more than twice the noise count as no further away."
"""What ``reach_of`` does, in words."""
MEDIANS_DO_NOT = "Intervals and probabilities count them in full, so that a mean far out may lie below the median."


def reach_of(component: Conditioned, transform: Transform) -> tuple[float, float]:
    """How far the mean of a transform looks: twice the noise beyond all observations but outliers where g⁻¹ is the
    steeper, and at the other end as far as they are apart.
    """
    recipe, prior = component.recipe, component.prior
    y, variance = torch.from_numpy(np.delete(recipe.y, prior.outliers)), prior.noise_variance
    if any(isinstance(part.kernel, Coregionalised) for part in prior.kernel.walk()):  # of one quantity, whose
        own = np.setdiff1d(recipe.judging, prior.outliers)  # observations may be left out
        y, variance = torch.from_numpy(recipe.y[own]), prior.noise(torch.from_numpy(recipe.X)).numpy()[own]
    noise = float(np.mean(variance)) ** 0.5
    low, high = y.min(), y.max()
    ends = transform.inverse(torch.stack([low - _BEYOND * noise, low, high, high + _BEYOND * noise]))
    apart = ends[2] - ends[1]
    further = transform.forward(torch.stack([ends[1] - apart, ends[2] + apart]))
    lowest, highest = float(low - _BEYOND * noise), float(high + _BEYOND * noise)
    if ends[3] - ends[2] >= ends[1] - ends[0]:
        lowest = min(lowest, float(further[0].nan_to_num(-math.inf)))
    else:
        highest = max(highest, float(further[1].nan_to_num(math.inf)))
    return lowest, highest

"""The posterior of the hyperparameters, as a few priors with weights: what a prediction integrates over."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ..errors import InputError, NotPositiveDefiniteError
from ..prior import Prior
from ..solvers.exact import EXACT_UP_TO
from ..support.interrupt import Interrupt
from ..support.memory import resolve_budget
from ..support.validation import ArrayLike, count
from .exact import exact_likelihood
from .hyperpriors import Hyperpriors
from .importance import WeightedPoints, few_points, importance_sample
from .likelihood import Evaluation, Likelihood
from .observations import observations
from .optimise import maximise
from .search_space import Space

_TOLERANCE = 1e-3
_STEP = 1e-2  # in log space: the curvature only says where to look, so that one-sided differences are enough
# Limits of the curvature: a direction that the data and the prior leave open has a standard deviation of 4.5.
_FLAT, _SHARP = 0.05, 1e8


@dataclass(frozen=True, eq=False)
class HyperparameterPosterior:
    """``priors`` with ``weights`` (m,) that stand for the posterior of the hyperparameters ``names``.

    ``sample`` has the logarithms of the hyperparameters (S, q) that they were chosen from, angles in radians, with
    their weights;
    ``hyperpriors`` what was believed before.
    """

    names: tuple[str, ...]
    priors: tuple[Prior, ...]
    weights: np.ndarray
    sample: WeightedPoints
    hyperpriors: Hyperpriors

    def quantile(self, p: float) -> dict[str, float]:
        """The quantile of each hyperparameter at probability p."""
        found, angles = {}, self.priors[0].kernel.angle_names()
        for name, column in zip(self.names, self.sample.points.T, strict=True):
            order = np.argsort(column, kind="stable")
            below = np.cumsum(self.sample.weights[order]) - self.sample.weights[order] / 2
            at = float(np.interp(p, below, column[order]))
            found[name] = math.degrees(at) if name in angles else math.exp(at)
        return found

    def __str__(self) -> str:
        low, middle, high = (self.quantile(p) for p in (0.025, 0.5, 0.975))
        lines = [f"{len(self.priors)} priors stand for the posterior of {len(self.names)} hyperparameters:"]
        lines += [f"  {name}: {middle[name]:.3g} ({low[name]:.3g} to {high[name]:.3g})" for name in self.names]
        return "\n".join(lines)


class _Penalised(Likelihood):
    """The logarithm of likelihood times prior."""

    def __init__(self, likelihood: Likelihood, hyperpriors: Hyperpriors) -> None:
        super().__init__(likelihood.space, likelihood.data)
        self._likelihood, self._hyperpriors = likelihood, hyperpriors
        self.informed = likelihood.informed

    def __call__(self, log_values: np.ndarray) -> Evaluation:
        found, believed = self._likelihood(log_values), self._hyperpriors
        value = found.log_likelihood + float(believed.log_density(log_values[None])[0])
        slope, information = believed.slope(log_values), found.information
        if information is not None:
            bend = (slope - believed.slope(log_values + _STEP)) / _STEP
            information = information + np.diag(np.maximum(bend, 0.0))
        return Evaluation(value, found.gradient + slope, found.trend, information)


def posterior(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    *,
    hyperpriors: Hyperpriors | None = None,
    fix: str | Iterable[str] = (),
    fix_noise: bool = False,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    components: int | None = None,
    evaluations: int | None = None,
    seed: int = 0,
    memory_budget: float | None = None,
    device: str | torch.device | None = None,
) -> HyperparameterPosterior:
    """What observations y (n,) at X (n, p) say of the hyperparameters of ``prior``, whose values are the start.

    The likelihood is exact, with unknown coefficients of the mean integrated out, times ``hyperpriors``, by default
    ``Hyperpriors.of(prior, X, y)``. ``evaluations`` points of the posterior are drawn by importance sampling around its
    mode, by default 256, and fewer beyond 700 observations, or half as many where the first half says enough; of these
    at most ``components`` are kept, with weights that give the same averages of polynomials: 30, and fewer beyond 500
    observations. ``fix``, ``fix_noise`` and ``bounds`` are those of ``fit``. The same ``seed`` gives the same result.
    At most 2,000 observations.

    >>> import numpy as np, cagp
    >>> X = np.linspace(0, 1, 12)[:, None]
    >>> found = cagp.hyperparameters.posterior(cagp.Prior(cagp.RBF(0.3)), X, np.sin(6 * X[:, 0]))
    >>> found.names
    ('kernel.lengthscale', 'kernel.variance', 'noise_variance')
    """
    space = Space.of(prior, fix, bounds, fix_noise)
    data = observations(prior, X, y, device)
    if data.size > EXACT_UP_TO:
        raise InputError(
            f"the posterior of hyperparameters is for at most {EXACT_UP_TO:,} observations, got {data.size:,}; "
            "with so many, hyperparameters.fit and its standard errors say as much"
        )
    if data.y.ndim > 1:
        raise InputError(f"y must have one dimension, got shape {tuple(data.y.shape)}; call it for each output")
    if hyperpriors is None:
        hyperpriors = Hyperpriors.of(prior, data.X, data.y)
    believed = hyperpriors.among(space)
    data = data.with_mean(prior.mean) if data.basis is None else data
    most, size = affordable(data.size)
    most = most if components is None else count(components, "components", minimum=1)
    size = size if evaluations is None else count(evaluations, "evaluations", minimum=8)
    exact = exact_likelihood(space, data, resolve_budget(memory_budget, data.y.device))
    mode, covariance = _mode(_Penalised(exact, believed))

    def log_density(log_values: np.ndarray) -> np.ndarray:
        inside = ((log_values >= space.lower) & (log_values <= space.upper)).all(axis=1)
        found = np.full(len(log_values), -np.inf)
        if inside.any():
            found[inside] = exact.values(log_values[inside]) + believed.log_density(log_values[inside])
        return found

    sample = importance_sample(
        log_density, believed, mode, covariance, size=size, observations=data.size, seed=count(seed, "seed")
    )
    chosen, weights = few_points(sample, most)
    priors = tuple(map(space.prior_at, space.values(sample.points[chosen])))
    return HyperparameterPosterior(space.names, priors, weights, sample, believed)


def affordable(n: int) -> tuple[int, int]:
    """How many components, and how many evaluations of the likelihood, n observations allow in seconds."""
    return max(8, min(30, 15_000 // n)), max(32, min(256, int(1e11 / n**3)))


def _mode(density: Likelihood) -> tuple[np.ndarray, np.ndarray]:
    """About where the density is largest (q,), and the inverse (q, q) of its curvature there."""
    space = density.space
    with Interrupt() as interrupt:
        optimum = maximise(
            density,
            [space.start],
            tolerance=_TOLERANCE,
            max_iterations=50,
            interrupt=interrupt,
            advance=lambda steps: None,
        )
    at, gradient = optimum.log_values, optimum.evaluation.gradient
    hessian = optimum.evaluation.information
    if hessian is None:
        hessian = _differences(density, at, gradient)
    curvature, axes = np.linalg.eigh((hessian + hessian.T) / 2)
    covariance = (axes / np.clip(curvature, _FLAT, _SHARP)) @ axes.T
    ahead = np.clip(covariance @ gradient, -1.0, 1.0)  # what the search has left, by one step of Newton's method
    return np.clip(at + ahead, space.lower, space.upper), covariance


def _differences(density: Likelihood, at: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Minus the second derivatives (q, q) at ``at`` (q,), by differences of the gradient."""
    space = density.space
    hessian = np.empty((space.size, space.size))
    for i in range(space.size):
        step = np.zeros(space.size)
        step[i] = _STEP if at[i] + _STEP <= space.upper[i] else -_STEP
        try:
            hessian[i] = (gradient - density(at + step).gradient) / step[i]
        except NotPositiveDefiniteError:
            hessian[i] = np.eye(space.size)[i]
    return hessian

"""Fit the hyperparameters of a prior by maximum likelihood, and the likelihood of a prior as it stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypedDict

import numpy as np
import torch

from ..errors import InputError, NotPositiveDefiniteError
from ..prior import Prior
from ..support.interrupt import Interrupt
from ..support.memory import resolve_budget
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, choice, count, positive, real
from .exact_values import exact_values
from .likelihood import ExactLikelihood, Informed, Likelihood
from .neighbour_setting import NeighbourSetting
from .observations import observations
from .optimise import Optimum, maximise
from .radial_plan import compiled_plan
from .result import Errors, FitResult, summarise
from .search_space import Space
from .standard_errors import log_standard_errors, share_of_all_terms
from .terms import GivenTerms, sample_terms, terms_wanted

_LIKELIHOODS = ("exact", "nearest-neighbours")

_MAX_REFRESHES = 3

_WORTH_NEIGHBOURS, _NEIGHBOURS = 500, 30
"""From so many observations on, the exact likelihood is climbed with the information of so many neighbours."""


def fit(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    *,
    likelihood: str = "exact",
    subset: int | Sequence[int] | np.ndarray | None = None,
    fix: str | Iterable[str] = (),
    fix_noise: bool = False,
    refit_mean: bool = False,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    n_restarts: int = 2,
    n_neighbours: int = 45,
    terms: int | str | GivenTerms | None = None,
    seed: int = 0,
    jitter: float = 0.0,
    known_noise: ArrayLike | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 200,
    standard_errors: bool = True,
    memory_budget: float | None = None,
    device: str | torch.device | None = None,
    progress: bool | None = None,
) -> FitResult:
    """Maximum-likelihood hyperparameters for observations y (n,) at points X (n, p), with all that was found out.

    y may also be (n, outputs): independent functions that share the hyperparameters.

    The optimiser works on the logarithms of the hyperparameters, with exact gradients, in float64: Fisher scoring where
    the nearest-neighbour likelihood is compiled, L-BFGS-B elsewhere and where scoring does not settle. The exact
    likelihood of 500 observations or more takes its information from the compiled one, which is nearly the same and
    needs a fraction of the time. The optimiser starts from
    the values in ``prior`` and from ``n_restarts`` further points drawn within a factor of ten of them; the best end
    wins.

    ``likelihood``: "exact" (Cholesky: O(n³) time, two n × n matrices; refused where they exceed ``memory_budget``), or
    "nearest-neighbours" (Vecchia: each point given its ``n_neighbours`` nearest in a random order; O(n k³) time, any
    n). It is a sum of n ``terms``, of which a random sample is enough, as many for every scale of distance, each with
    its neighbours from all points: by default 6,000 where there are more, "all" for all, or as many as the number
    says. ``log_likelihood`` is then an unbiased estimate of that of all observations; the standard errors contain what
    the sampling adds, and ``sampling_errors`` is that part. With numba (``pip install "cagp[compiled]"``) it is
    compiled for sums and products of radial kernels, many times faster. ``GivenTerms`` are terms whose neighbours are
    chosen by the caller, outside of gaps for example: then the log score of these predictions is maximised.

    Neighbours are chosen at the starting values and again at the optimum, which is then sought anew, until fewer
    than 1% of them change, at most three times. Few neighbours overestimate: on 10,368 points of the temperature field
    of the paper the variance came out 11–21% above the exact fit with 15 neighbours, 3–6% with 30, 0.5–2% with 45 and
    0.4–0.8% with 60, over four orders. One likelihood never turns into the other by itself.

    ``subset``: fit to so many points drawn at random, or to the points with these indices.

    ``fix`` holds hyperparameters at their values, by name ("kernel.variance", "kernel.lengthscale[1]"), by what they
    are part of ("kernel.kernels[0]"), or all of a kind ("period"). ``fix_noise`` holds the noise; noise given per
    observation is always held. ``bounds`` maps such names to (low, high); elsewhere a hyperparameter may change by a
    factor of 10⁵ either way.

    Unknown coefficients of the mean, those of ``Constant()`` or ``Polynomial(1)``, are integrated out: this is the
    restricted likelihood (REML), and in the fitted prior they stay unknown. ``refit_mean`` chooses them together with
    the kernel instead, by generalised least squares and even where they were given (the profile likelihood), and plugs
    them into the fitted prior as if they had been known.

    ``known_noise``, one number or one per observation (n,), is noise that is there beside ``noise_variance`` and is not
    fitted: a known error of measurement. The fitted prior has the fitted part alone.

    ``jitter`` is added to the diagonal of G, in the units of the variance, and reported; it is never added unasked.
    ``tolerance`` is for the gradient of log p / n in log space; scoring also ends where a step promises less than 10⁴
    times its square in log p. ``standard_errors`` costs two evaluations for each
    hyperparameter. ``progress`` shows a bar: None on a terminal only. Ctrl-C keeps the best point so far.

    Raises NotPositiveDefiniteError where G is not positive definite at any start.

    >>> import numpy as np, cagp
    >>> from cagp import hyperparameters
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> result = hyperparameters.fit(cagp.Prior(cagp.RBF(0.3)), X, np.sin(6 * X[:, 0]), fix_noise=True)
    >>> sorted(result.values)
    ['kernel.lengthscale', 'kernel.variance']
    """
    choice(likelihood, "likelihood", _LIKELIHOODS)
    count(n_restarts, "n_restarts")
    count(n_neighbours, "n_neighbours", minimum=1)
    count(max_iterations, "max_iterations", minimum=1)
    count(seed, "seed")
    positive(tolerance, "tolerance")
    given = terms if isinstance(terms, GivenTerms) else None
    wanted_terms = None if isinstance(terms, GivenTerms) else terms
    terms_wanted(wanted_terms, 1)
    if given is not None and (likelihood == "exact" or subset is not None):
        raise InputError('GivenTerms are those of likelihood="nearest-neighbours" of all observations, without subset')
    if real(jitter, "jitter") < 0:
        raise InputError(f"jitter must not be negative, got {jitter!r}")
    subsets, orders, restarts, samples = _generators(seed)
    space = Space.of(prior, fix, bounds, fix_noise)
    data = observations(prior, X, y, device, refit_mean=refit_mean, jitter=jitter, known_noise=known_noise)
    data = data.rows(_chosen(subset, data.size, subsets))
    if data.basis is None:
        data = data.with_mean(prior.mean)
    budget = resolve_budget(memory_budget, data.y.device)
    starts = [space.start, *(space.random_start(restarts) for _ in range(n_restarts))]
    refreshes = 0
    with Interrupt() as interrupt, progress_bar("fit", len(starts) * max_iterations, progress) as advance:

        def search(where: Likelihood, begin: Sequence[np.ndarray]) -> Optimum:
            return maximise(
                where, begin, tolerance=tolerance, max_iterations=max_iterations, interrupt=interrupt, advance=advance
            )

        objective: Likelihood
        if likelihood == "exact":
            objective = ExactLikelihood(space, data, budget)
            optimum = search(_informed(objective, orders, samples), starts)
        elif given is not None:
            everything = sample_terms(data.size, data.size, samples)
            objective = NeighbourSetting(space, data, everything, n_neighbours, budget).given(given)
            optimum = search(objective, starts)
        else:
            data = data.rows(orders.permutation(data.size))
            sample = sample_terms(data.size, terms_wanted(wanted_terms, data.size), samples)
            setting = NeighbourSetting(space, data, sample, n_neighbours, budget)
            chosen = space.start
            near = objective = setting.likelihood(chosen)
            optimum = search(near, starts)
            while refreshes < _MAX_REFRESHES and not interrupt.requested:
                fresh = setting.refreshed(near, chosen, optimum.log_values)
                if fresh is None:
                    break
                chosen = optimum.log_values
                again = search(fresh, [chosen])
                optimum = dataclasses.replace(again, trace=optimum.trace + again.trace, finals=optimum.finals)
                near = objective = fresh
                refreshes += 1
        whole: Likelihood = objective
        if likelihood != "exact" and given is None:
            whole = setting.estimate(near)
        inner = (optimum.log_values > space.lower) & (optimum.log_values < space.upper)
        wanted = standard_errors and not interrupt.requested
        errors = log_standard_errors(objective, optimum.log_values, inner) if wanted else None
        sampled = whole is not objective
        share = share_of_all_terms(objective, whole, optimum.log_values, inner) if wanted and sampled else None
        value = whole(optimum.log_values).log_likelihood if sampled else optimum.evaluation.log_likelihood
    return summarise(objective, optimum, Errors(errors, share), value, likelihood, refreshes)


def _informed(exact: ExactLikelihood, orders: np.random.Generator, samples: np.random.Generator) -> Likelihood:
    """The exact likelihood with the information of that of nearest neighbours, where this is cheap beside it."""
    data, space = exact.data, exact.space
    if data.size < _WORTH_NEIGHBOURS or compiled_plan(space, data.X) is None:
        return exact
    everything = sample_terms(data.size, data.size, samples)
    shuffled = data.rows(orders.permutation(data.size))
    setting = NeighbourSetting(space, shuffled, everything, _NEIGHBOURS, exact.budget)
    return Informed(exact, setting.likelihood(space.start))


def log_likelihood(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    *,
    likelihood: str = "exact",
    n_neighbours: int = 45,
    terms: int | str | None = "all",
    seed: int = 0,
    memory_budget: float | None = None,
    device: str | torch.device | None = None,
) -> float:
    """log p(y) for observations y (n,), or (n, outputs), at points X (n, p).

    ``likelihood`` "exact" takes O(n³) time and two n × n matrices, "nearest-neighbours" is the approximation that
    ``fit`` uses for large n, with the same ``n_neighbours``, ``terms`` and ``seed``; here all terms count unless a
    sample is asked for. Unknown coefficients of the mean are
    integrated out (restricted likelihood), so that values for different trends cannot be compared with each other.
    """
    choice(likelihood, "likelihood", _LIKELIHOODS)
    count(n_neighbours, "n_neighbours", minimum=1)
    terms_wanted(terms, 1)
    data = observations(prior, X, y, device)
    data = data.with_mean(prior.mean) if data.basis is None else data
    nothing = np.zeros(0)
    space = Space(prior, (), nothing, nothing, nothing)
    budget = resolve_budget(memory_budget, data.y.device)
    if likelihood == "exact":
        return ExactLikelihood(space, data, budget)(nothing).log_likelihood
    _, orders, _, samples = _generators(count(seed, "seed"))
    data = data.rows(orders.permutation(data.size))
    sample = sample_terms(data.size, terms_wanted(terms, data.size), samples)
    setting = NeighbourSetting(space, data, sample, n_neighbours, budget)
    return setting.estimate(setting.likelihood(nothing))(nothing).log_likelihood


def log_likelihoods(
    priors: Sequence[Prior],
    X: ArrayLike,
    y: ArrayLike,
    *,
    likelihood: str = "exact",
    subset: int | Sequence[int] | np.ndarray | None = None,
    n_neighbours: int = 45,
    terms: int | str | None = None,
    seed: int = 0,
    memory_budget: float | None = None,
    device: str | torch.device | None = None,
) -> np.ndarray:
    """The objective of ``fit``, up to a constant, at priors (m,) that differ in values alone; −∞ where there is none.

    All have the terms of the first one with its neighbours, so that small differences are those of the values.
    """
    subsets, orders, _, samples = _generators(seed)
    spaces = [Space.of(each) for each in priors]
    data = observations(priors[0], X, y, device)
    data = data.rows(_chosen(subset, data.size, subsets))
    data = data.with_mean(priors[0].mean) if data.basis is None else data
    budget = resolve_budget(memory_budget, data.y.device)
    log_values = np.stack([each.start for each in spaces])
    if likelihood == "exact":
        return exact_values(ExactLikelihood(spaces[0], data, budget), log_values)
    data = data.rows(orders.permutation(data.size))
    sample = sample_terms(data.size, terms_wanted(terms, data.size), samples)
    near = NeighbourSetting(spaces[0], data, sample, n_neighbours, budget).likelihood(log_values[0])
    found = np.full(len(priors), -np.inf)
    for i, each in enumerate(log_values):
        with suppress(NotPositiveDefiniteError):
            found[i] = near(each).log_likelihood
    return found


def _chosen(subset: int | Sequence[int] | np.ndarray | None, n: int, generator: np.random.Generator) -> np.ndarray:
    """The indices of the points to fit to."""
    if subset is None:
        return np.arange(n)
    if np.ndim(subset) == 0:
        size = count(subset, "subset", minimum=2)
        if size > n:
            raise InputError(f"subset={size} is larger than the {n} observations; leave it out to fit to all")
        return np.sort(generator.choice(n, size, replace=False))
    indices = np.asarray(subset)
    if indices.ndim != 1 or indices.dtype.kind not in "iu" or not len(indices):
        raise InputError(f"subset must be a number of points or a list of indices, got {subset!r}")
    if indices.min() < 0 or indices.max() >= n or len(np.unique(indices)) != len(indices):
        raise InputError(f"the indices in subset must be distinct and in 0…{n - 1}")
    return indices.astype(np.int64)


def _generators(seed: int) -> list[np.random.Generator]:
    """For the subset, the order of the points, the restarts and the terms: none depends on whether another is used."""
    return [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4)]


class FitOptions(TypedDict, total=False):
    """Keyword arguments that ``Prior.fit`` hands on to ``cagp.hyperparameters.fit``."""

    likelihood: str
    subset: int | Sequence[int] | np.ndarray | None
    fix: str | Iterable[str]
    fix_noise: bool
    refit_mean: bool
    bounds: Mapping[str, tuple[float, float]] | None
    n_restarts: int
    n_neighbours: int
    terms: int | str | GivenTerms | None
    seed: int
    jitter: float
    known_noise: ArrayLike | None
    tolerance: float
    max_iterations: int
    standard_errors: bool
    memory_budget: float | None
    device: str | torch.device | None
    progress: bool | None


class LikelihoodOptions(TypedDict, total=False):
    """Keyword arguments that ``Prior.log_likelihood`` hands on to ``cagp.hyperparameters.log_likelihood``."""

    likelihood: str
    n_neighbours: int
    terms: int | str | None
    seed: int
    memory_budget: float | None
    device: str | torch.device | None

"""Fit the hyperparameters of a prior by maximum likelihood, and the likelihood of a prior as it stands."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypedDict

import numpy as np
import torch

from ..errors import InputError
from ..gram.previous_neighbours import NONE, previous_neighbours
from ..prior import Prior
from ..solvers.exact import EXACT_UP_TO
from ..support.interrupt import Interrupt
from ..support.memory import resolve_budget
from ..support.progress import progress as progress_bar
from ..support.threads import threads_for
from ..support.validation import ArrayLike, choice, count, positive, squarable_variance
from .exact import exact_likelihood
from .likelihood import Likelihood
from .observations import Observations, observations
from .optimise import Optimum, maximise
from .radial_plan import compiled_plan
from .result import Ending, FitResult, summarise
from .search_space import Space
from .terms import GivenTerms, Sample, sample_terms, terms_wanted
from .vecchia import NeighbourSetting

NEIGHBOURS = 45
"""Few neighbours overestimate: on 10,368 points of the temperature field of the paper the variance came out 11–21%
above the exact fit with 15 neighbours, 3–6% with 30, 0.5–2% with 45 and 0.4–0.8% with 60, over four orders.
"""

_LIKELIHOODS = ("exact", "nearest-neighbours", "auto")

_MAX_REFRESHES = 3
_SOME = 1000  # points where the variance of the start is looked at

Subset = int | Sequence[int] | np.ndarray | None


class FitOptions(TypedDict, total=False):
    """Keyword arguments of ``cagp.hyperparameters.fit``, whose signature has their defaults."""

    likelihood: str
    subset: Subset
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


def fit(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    *,
    likelihood: str = "auto",
    subset: Subset = None,
    fix: str | Iterable[str] = (),
    fix_noise: bool = False,
    refit_mean: bool = False,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    n_restarts: int = 2,
    n_neighbours: int = NEIGHBOURS,
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

    y may also be (n, outputs): independent functions that share the hyperparameters. The optimiser works on logarithms,
    with exact gradients, in float64: Fisher scoring where the information is known, L-BFGS-B elsewhere. It starts from
    the values in ``prior`` and from ``n_restarts`` points within a factor of ten of them; the best end wins.

    ``likelihood``: "exact" (Cholesky: O(n³) time, two n × n matrices; refused where they exceed ``memory_budget``),
    "nearest-neighbours" (Vecchia: each point given its ``n_neighbours`` nearest in a random order; O(n k³) time, any
    n), or "auto": exact up to 2,000 observations. The second is a sum of n ``terms``, of which a random sample is
    enough, each with its neighbours from all points: by default 6,000 where there are more, "all" for all, or as many
    as the number says. ``log_likelihood`` is then an unbiased estimate of that of all; standard errors contain what the
    sampling adds, and ``sampling_errors`` is that part. ``GivenTerms`` have neighbours that the caller chose, outside
    of gaps for example: then the log score of these predictions is maximised. Neighbours are chosen at the starting
    values and anew at the optimum until fewer than 1% change, at most three times.

    ``subset``: fit to so many points drawn at random, or to the points with these indices. ``fix`` holds
    hyperparameters at their values, by name ("kernel.variance", "kernel.lengthscale[1]"), by what they are part of
    ("kernel.kernels[0]"), or all of a kind ("period"). ``fix_noise`` holds the noise; noise given per observation is
    always held. ``bounds`` maps such names to (low, high); elsewhere any may change by a factor of 10⁵ either way.

    Unknown coefficients of the mean are integrated out: this is the restricted likelihood (REML), and in the fitted
    prior they stay unknown. ``refit_mean`` chooses them by generalised least squares instead, even where they were
    given (the profile likelihood), and plugs them in as if they had been known. ``known_noise``, one number or one per
    observation (n,), is a known error of measurement beside ``noise_variance``; the fitted prior is without it.

    ``jitter`` is added to the diagonal of G and reported; never unasked. ``tolerance`` is for the gradient of log p / n
    in log space. ``standard_errors`` take two evaluations for each hyperparameter; ``FitResult.with_standard_errors``
    adds them later. ``progress`` shows a bar: None on a terminal only. Ctrl-C keeps the best point so far. Raises
    NotPositiveDefiniteError where G is not positive definite at any start.

    >>> import numpy as np, cagp
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> result = cagp.hyperparameters.fit(cagp.Prior(cagp.RBF(0.3)), X, np.sin(6 * X[:, 0]), fix_noise=True)
    >>> sorted(result.values)
    ['kernel.lengthscale', 'kernel.variance']
    """
    counts = {"n_restarts": n_restarts, "n_neighbours": n_neighbours, "max_iterations": max_iterations, "seed": seed}
    _check(likelihood, terms, **counts)
    positive(tolerance, "tolerance")
    if isinstance(terms, GivenTerms) and (likelihood == "exact" or subset is not None):
        raise InputError('GivenTerms are those of likelihood="nearest-neighbours" of all observations, without subset')
    space = Space.of(prior, fix, bounds, fix_noise)
    beside: dict[str, Any] = {"refit_mean": refit_mean, "jitter": jitter, "known_noise": known_noise}
    prepared = partial(_Fitting.of, space, X, y, subset, seed, memory_budget, device, **beside)
    task = prepared()
    kind = task.kind(likelihood, terms)
    starts = [space.start, *(space.random_start(task.restarts) for _ in range(n_restarts))]
    show = progress_bar("fit", len(starts) * max_iterations, progress)
    little = kind != "exact" and compiled_plan(space, task.data.X) is not None  # which threads share by themselves
    with _with_gradients(), threads_for(0 if little else task.data.size**3), Interrupt() as interrupt, show as advance:
        task.require_squarable_start()
        how: dict[str, Any] = {"tolerance": tolerance, "max_iterations": max_iterations}
        search = partial(maximise, interrupt=interrupt, advance=advance, **how)
        ending = task.climbed(kind, starts, terms, n_neighbours, search, interrupt)
        errors, at = ending.errors() if standard_errors and not interrupt.requested else None, ending.neighbours_at
        # made anew when asked for: a search among many candidates would hold the observations many times
        return summarise(ending, errors, lambda: prepared().likelihoods(kind, terms, n_neighbours, at))


def log_likelihood(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    *,
    likelihood: str = "exact",
    n_neighbours: int = NEIGHBOURS,
    terms: int | str | None = "all",
    seed: int = 0,
    memory_budget: float | None = None,
    device: str | torch.device | None = None,
) -> float:
    """log p(y) for observations y (n,), or (n, outputs), at points X (n, p).

    ``likelihood`` "exact" takes O(n³) time and two n × n matrices, "nearest-neighbours" is the approximation that
    ``fit`` uses for large n, with the same ``n_neighbours``, ``terms`` and ``seed``; here all terms count unless a
    sample is asked for. Unknown coefficients of the mean are integrated out (restricted likelihood), so that values for
    different trends cannot be compared with each other.
    """
    _check(likelihood, terms, n_neighbours=n_neighbours, seed=seed)
    nothing = np.zeros(0)
    task = _Fitting.of(Space(prior, (), nothing, nothing, nothing), X, y, None, seed, memory_budget, device)
    if task.kind(likelihood) == "exact":
        with threads_for(task.data.size**3):
            return task.exact(nothing).log_likelihood
    setting = task.setting(terms, n_neighbours)
    return setting.estimate(setting.likelihood(nothing))(nothing).log_likelihood


def log_likelihoods(
    priors: Sequence[Prior],
    X: ArrayLike,
    y: ArrayLike,
    *,
    likelihood: str = "auto",
    subset: Subset = None,
    n_neighbours: int = NEIGHBOURS,
    terms: int | str | None = None,
    seed: int = 0,
    memory_budget: float | None = None,
    device: str | torch.device | None = None,
) -> np.ndarray:
    """The objective of ``fit``, up to a constant, at priors (m,) that differ in values alone; −∞ where there is none.

    All have the terms of the first one with its neighbours, so that small differences are those of the values.
    """
    spaces = [Space.of(each) for each in priors]
    task = _Fitting.of(spaces[0], X, y, subset, seed, memory_budget, device)
    log_values = np.stack([each.start for each in spaces])
    if task.kind(likelihood) == "exact":
        with threads_for(task.data.size**3):
            return task.exact.values(log_values)
    return task.setting(terms, n_neighbours).likelihood(log_values[0]).values(log_values)


def neighbour_terms(
    prior: Prior,
    X: ArrayLike,
    y: ArrayLike,
    *,
    n_neighbours: int = NEIGHBOURS,
    terms: int | str | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> GivenTerms:
    """The terms that ``fit`` would sum up, with the neighbours that are near under ``prior``, for fits to share."""
    task = _Fitting.of(Space.of(prior), X, y, None, seed, None, device)
    order = task.orders.permutation(task.data.size)
    places = sample_terms(task.data.size, terms_wanted(terms, task.data.size), task.samples).places
    k = min(n_neighbours, task.data.size - 1)
    near = previous_neighbours(prior.kernel, task.data.X[order], k, torch.from_numpy(places)).cpu().numpy()
    return GivenTerms(order[places], np.where(near == NONE, -1, order[near]))


@contextmanager
def _with_gradients() -> Iterator[None]:
    """Inside, torch differentiates, whatever the program around has switched off."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def _check(likelihood: str, terms: int | str | GivenTerms | None, **counts: int) -> None:
    choice(likelihood, "likelihood", _LIKELIHOODS)
    for name, value in counts.items():
        count(value, name, minimum=1 if name in ("n_neighbours", "max_iterations") else 0)
    if not isinstance(terms, GivenTerms):
        terms_wanted(terms, 1)


@dataclass(frozen=True)
class _Fitting:
    """Hyperparameters of a ``space``, the ``data`` that are to tell them, and how much memory there is.

    The generators are for the ``orders`` of the points, the ``restarts`` and the ``samples`` of terms: none depends on
    whether another is used.
    """

    space: Space
    data: Observations
    budget: int
    orders: np.random.Generator
    restarts: np.random.Generator
    samples: np.random.Generator

    @classmethod
    def of(
        cls,
        space: Space,
        X: ArrayLike,
        y: ArrayLike,
        subset: Subset,
        seed: int,
        memory_budget: float | None,
        device: str | torch.device | None,
        **beside: Any,
    ) -> _Fitting:
        """From what a user hands over; ``beside`` are the other options of ``observations``."""
        subsets, *others = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(4))
        data = observations(space.prior, X, y, device, **beside)
        # copies, whoever changes X and y later
        data = data.owned() if subset is None else data.rows(_chosen(subset, data.size, subsets))
        data = data.with_mean(space.prior.mean) if data.basis is None else data
        return cls(space, data, resolve_budget(memory_budget, data.y.device), *others)

    def require_squarable_start(self) -> None:
        """Refuse a start whose variance, at some of the points, has no square, before all work."""
        kernel, some = self.space.prior.kernel, self.data.X[:_SOME]
        squarable_variance(float(kernel.diagonal(kernel.embed(some, some.mean(dim=0))).max()), torch.float64)

    def kind(self, likelihood: str, terms: Any = None) -> str:
        """Which likelihood is meant by "auto"."""
        exact = self.data.size <= EXACT_UP_TO and not isinstance(terms, GivenTerms)
        return likelihood if likelihood != "auto" else "exact" if exact else "nearest-neighbours"

    @property
    def exact(self) -> Likelihood:
        """The exact likelihood."""
        return exact_likelihood(self.space, self.data, self.budget)

    def setting(self, terms: int | str | None, k: int) -> NeighbourSetting:
        """That of nearest neighbours, with the points in a random order."""
        data = self.data.rows(self.orders.permutation(self.data.size))
        sample = sample_terms(data.size, terms_wanted(terms, data.size), self.samples)
        return NeighbourSetting(self.space, data, sample, k, self.budget)

    def likelihoods(
        self, kind: str, terms: int | str | GivenTerms | None, k: int, at: np.ndarray | None = None
    ) -> tuple[Likelihood, Likelihood]:
        """What is climbed, and the estimate of that of all terms, with neighbours that are near under ``at`` (q,)."""
        if kind == "exact":
            return (self.exact,) * 2
        if isinstance(terms, GivenTerms):
            given = Sample(terms.rows, np.ones(len(terms.rows)))
            return (NeighbourSetting(self.space, self.data, given, k, self.budget).given(terms),) * 2
        setting = self.setting(terms, k)
        near = setting.likelihood(self.space.start if at is None else at)
        return near, setting.estimate(near)

    def climbed(
        self,
        kind: str,
        starts: Sequence[np.ndarray],
        terms: int | str | GivenTerms | None,
        k: int,
        search: Callable[[Likelihood, Sequence[np.ndarray]], Optimum],
        interrupt: Interrupt,
    ) -> Ending:
        """The optimum that ``search`` finds from ``starts``, each (q,)."""
        if kind == "exact" or isinstance(terms, GivenTerms):
            whole, _ = self.likelihoods(kind, terms, k)
            return Ending(kind, whole, whole, search(whole, starts))
        setting, chosen, refreshes = self.setting(terms, k), self.space.start, 0
        near = setting.likelihood(chosen)
        optimum = search(near, starts)
        while refreshes < _MAX_REFRESHES and not interrupt.requested:
            fresh = setting.refreshed(near, chosen, optimum.log_values)
            if fresh is None:
                break
            near, chosen, refreshes = fresh, optimum.log_values, refreshes + 1
            again = search(near, [chosen])
            optimum = dataclasses.replace(again, trace=optimum.trace + again.trace, finals=optimum.finals)
        return Ending(kind, near, setting.estimate(near), optimum, refreshes, chosen)


def _chosen(subset: int | Sequence[int] | np.ndarray, n: int, generator: np.random.Generator) -> np.ndarray:
    """The indices of the points to fit to."""
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

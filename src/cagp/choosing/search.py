"""A list of steps finds the model: each proposes candidates, which are fitted and judged by the same left-out
observations, or makes something of the best of them. One loop runs them, and knows progress, Ctrl-C and time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch

from ..errors import NotPositiveDefiniteError
from ..hyperparameters import FitResult
from ..hyperparameters import fit as fit_hyperparameters
from ..hyperparameters.fitting import log_likelihoods, neighbour_terms
from ..hyperparameters.search_space import BOUND_FACTOR
from ..hyperparameters.terms import GivenTerms
from ..kernels import Radial, Rotated
from ..model import Model
from ..predicting.conditioned import Conditioned
from ..prior import Prior
from ..solvers.exact import EXACT_UP_TO
from ..support import clock
from ..support.interrupt import Interrupt, ending_at
from ..support.progress import LOGGER
from ..support.progress import progress as progress_bar
from ..support.threads import share_out
from ..transforms import Transform
from .candidates import CandidatePrior
from .options import FitRequest
from .scoring import JudgingSet, LeftOutScores

Item = TypeVar("Item")
Result = TypeVar("Result")

# Models of more observations are let go once they are judged, and those chosen made again, which takes seconds: each
# holds coordinates of the data, twice, and chosen ones a search tree.
_KEPT_UP_TO = 200_000

EXPLORING, MAKING = 0.6, 0.8
"""The shares of the budget after which no more candidates are tried, and nothing more is made of those chosen."""

JUDGES = 2000
"""So many left-out observations judge the candidates."""

_NEIGHBOURS = 30
# Candidates are explored until a step promises less than a twentieth in log p, those that are chosen are polished until
# it promises less than a hundredth: hyperparameters to a small part of their standard errors.
_EXPLORED, _POLISHED = 2e-3, 1e-3
_FEW, _FEW_STEPS, _SKETCHED = 300, 8, 5e-3  # observations, steps and tolerance that tell starts from each other
_LEAST_NOISE = 1e-9  # of the variance of y: with less, covariance matrices of close points are singular to rounding
_IDLE = 1e-4  # of the variance of y: what varies less along a column is idle
# What is chosen is fitted by all terms where observations times hyperparameters are no more than this, which takes
# seconds; beyond, by a sample, which has all scales.
_ALL_TERMS = 150_000
_OF_THE_LIKELIHOOD = ("subset", "n_neighbours", "terms", "seed", "memory_budget")


@dataclass(frozen=True, eq=False)
class FittedCandidate:
    """A candidate after its fit: what the fit found, the model that it makes, its scores, and how long it took.

    ``charge`` is the share by which the scores were made worse. Among very many observations the ``model`` is not kept,
    see ``CandidateSearch.model_of``.
    """

    candidate: CandidatePrior
    result: FitResult
    model: Model | None
    scores: LeftOutScores
    seconds: float
    charge: float = 0.0

    @property
    def prior(self) -> Prior:
        """The prior that was found."""
        return self.result.prior

    @property
    def crps(self) -> float:
        """The average score."""
        return float(self.scores.crps.mean())


class CandidateSearch:
    """What a search knows: the data, what was asked for, the candidates that were fitted to y (n,) at X (n, p), and
    what steps made of them.

    ``transform`` made y of the observations, where there is one; scores are on their scale. ``chosen`` are the
    candidates that predict, with their weights, ``model`` what they make together, ``result`` the fit of the heaviest.
    ``settled`` is what was tried before its step. ``notes`` and ``findings`` are for the story, ``not_tried``
    is what there was no time for; ``seconds`` is how long each step took besides them.
    """

    def __init__(self, request: FitRequest, transform: Transform | None = None, started: float | None = None) -> None:
        self.request, self.transform = request, transform
        self.started = clock.now() if started is None else started
        self.share, self.not_tried = EXPLORING, list[str]()
        self.X, self.y, self.device = request.data.X, request.data.y, request.data.device
        self.seed = request.options.seed
        self.fitting = {name: value for name, value in (request.options.fit_options or {}).items() if name != "fix"}
        if transform is not None:
            self.y = transform.of(torch.from_numpy(self.y)).numpy()
        self.start = request.first_candidate(self.y)
        self.first: Conditioned | None = None  # whose data others share
        self.judges: JudgingSet | None = None
        self.fits: list[FittedCandidate] = []
        self.settled: set[str] = set()
        self.notes: list[str] = []
        self.findings: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.left_out_seconds = 0.0  # that one candidate took for each left-out observation
        self.evaluation_seconds = math.inf  # that an evaluation of the objective took, when it was quickest
        self.interrupt = Interrupt()
        self.chosen: list[tuple[FittedCandidate, float]] = []
        self.model: Model | None = None
        self.result: FitResult | None = None

    def end(self, share: float) -> float:
        """The moment when this share of the budget is used up; if not hurried, not before there is a candidate. After
        Ctrl-C there is no time left.
        """
        if self.interrupt.requested:
            return -math.inf
        waits = not self.request.hurried and not self.fits
        return math.inf if waits else self.started + share * self.request.seconds

    @property
    def is_over(self) -> bool:
        """Whether Ctrl-C or the budget ends the step in hand."""
        return self.interrupt.requested or clock.now() > self.end(self.share)

    def run(self, candidate: CandidatePrior) -> FittedCandidate | None:
        """Fit a candidate and judge it; None where that fails.

        Time may be up after one evaluation: hurried, the first one starts from what a few observations like.
        """
        quick = not self.fits and (self.request.hurried or self.interrupt.requested)
        found = self.tried(self.sketched(candidate)[1]) if quick else ""
        return self.keep(candidate, self.tried(candidate) if isinstance(found, str) else found)

    def tried(self, candidate: CandidatePrior, charge: float = 0.0) -> FittedCandidate | str:
        """The candidate as ``run`` fits it, or why it failed; nothing is kept yet but who judges.

        Its scores are made worse by the share ``charge``.
        """
        started = clock.now()
        try:
            result = self.fit(candidate)
            model = self.condition(result.prior)
            judges = self.judges or JudgingSet.chosen(model, self.request.like, JUDGES, self.seed, self.transform)
            began = clock.now()
            scores = judges.scores(model).charged(charge) if len(self.y) > 1 else LeftOutScores.unknown()
            self.left_out_seconds = (clock.now() - began) / len(scores.index)
        except NotPositiveDefiniteError as error:
            return str(error)
        self.judges = judges
        kept = model if len(self.y) <= _KEPT_UP_TO else None
        return FittedCandidate(candidate, result, kept, scores, clock.now() - started, charge)

    def keep(self, candidate: CandidatePrior, found: FittedCandidate | str) -> FittedCandidate | None:
        """Among the fits what ``tried`` found, and among the notes where it failed."""
        if isinstance(found, str):
            LOGGER.debug("fit: %s failed: %s", candidate.name, found)
            self.notes.append(f"{candidate.name} could not be fitted ({found}).")
            return None
        LOGGER.debug("fit: %s, CRPS %.4g, %.1f s", candidate.name, found.crps, found.seconds)
        self.fits.append(found)
        return found

    def together(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """What ``work`` makes of each item: of few observations at the same time, since threads inside do not pay."""
        if len(self.y) > EXACT_UP_TO:
            return [work(item) for item in items]
        found: dict[int, Result] = {}
        device = torch.device("cpu" if self.device is None else self.device)
        share_out(lambda i: found.__setitem__(i, work(items[i])), range(len(items)), device, large=True)
        return [found[i] for i in range(len(items))]

    def polish(self, found: FittedCandidate) -> FittedCandidate:
        """The candidate fitted to the end, from where exploring it has ended; its scores stay those that chose it."""
        started = clock.now()
        terms = "all" if len(self.y) * len(found.result.values) <= _ALL_TERMS else None
        try:
            result = self.fit(
                found.candidate.starting_at(found.prior), **{"tolerance": _POLISHED, "terms": terms, **self.fitting}
            )
            model = self.condition(result.prior)
        except NotPositiveDefiniteError:
            return found
        return replace(found, result=result, model=model, seconds=found.seconds + clock.now() - started)

    def sketched(self, candidate: CandidatePrior) -> tuple[float, CandidatePrior]:
        """The candidate as a few hundred observations like it best, after some steps, and their log-likelihood.

        That costs little beside a fit to all, and which of several starts leads to the best optimum it mostly knows.
        """
        some = np.sort(np.random.default_rng(self.seed).permutation(len(self.y))[:_FEW])
        options = {"likelihood": "exact", "tolerance": _SKETCHED, "max_iterations": _FEW_STEPS, **self.fitting}
        options.update(n_restarts=0, standard_errors=False, subset=some, terms=None, progress=False)
        try:
            with ending_at(self.end(self.share) if self.fits else math.inf):
                options["bounds"] = self._bounds(candidate)
                result = fit_hyperparameters(candidate.start, self.X, self.y, fix=self.held(candidate), **options)
        except NotPositiveDefiniteError:
            return -math.inf, candidate
        return result.log_likelihood, candidate.starting_at(result.prior)

    def model_of(self, found: FittedCandidate) -> Model:
        """The model that a fit makes: the one that was judged, or made again where that would have been too large."""
        return found.model if found.model is not None else self.condition(found.prior)

    def condition(self, prior: Prior) -> Model:
        """The prior given the data; what was made of them for the first one is shared by all."""
        if self.first is not None:
            return Model([self.first.with_prior(prior)])
        options = {"device": self.device, **(self.request.options.condition_options or {})}
        model = prior.condition(self.X, self.y, self.request.solver, **options)
        self.first = model.components[0]
        self.first.recipe = replace(self.first.recipe, whole=self.request.data.whole)
        return model

    @cached_property
    def spread(self) -> np.ndarray:
        """The standard deviation of each column (p,)."""
        return np.asarray(self.X.std(axis=0))

    @property
    def variance(self) -> float:
        """That of the observations, without outliers."""
        return float(np.delete(self.y, self.start.start.outliers).var())

    @cached_property
    def idle(self) -> set[int]:
        """The columns along which the first candidate hardly varies: their lengthscales stay."""
        found, least = set[int](), _IDLE * self.variance
        for part, column, place in self._lengthscales(self.fits[0].prior):
            reach = 2 * float(self.spread[column]) / part.kernel.lengthscale[place]
            if part.kernel.variance * reach**2 < least:
                found.add(column)
        return found if len(found) < self.X.shape[1] else set()

    def _lengthscales(self, prior: Prior) -> Iterator[tuple[Any, int, int]]:
        """The parts of a kernel that have a lengthscale for each column, each column, and its place there."""
        for part in prior.kernel.walk(range(self.X.shape[1])):
            turned = part.coordinate == Rotated.coordinate_called
            if isinstance(part.kernel, Radial) and isinstance(part.kernel.lengthscale, tuple) and not turned:
                yield from ((part, column, place) for place, column in enumerate(part.columns))

    @cached_property
    def _shared_terms(self) -> GivenTerms | None:
        """The terms, with their neighbours, that explore all candidates after the first; None where exact ones do."""
        objective = self._objective()
        if objective.pop("likelihood") == "exact" or {"subset", "terms", "n_neighbours"} & set(self.fitting):
            return None
        return neighbour_terms(self.fits[0].prior, self.X, self.y, **objective)

    def held(self, candidate: CandidatePrior) -> tuple[str, ...]:
        """What of a candidate is not fitted: what is held, and among many observations the lengthscales of idle columns
        after the first candidate.
        """
        if not self.fits or len(self.y) <= EXACT_UP_TO:
            return candidate.fixed
        scales = self._lengthscales(candidate.start)
        idle = (f"{part.path}.lengthscale[{place}]" for part, column, place in scales if column in self.idle)
        return (*candidate.fixed, *idle)

    def _bounds(self, candidate: CandidatePrior) -> dict[str, tuple[float, float]]:
        """Those asked for, and that the noise is no smaller than rounding errors of solvers allow."""
        asked, noise = dict(self.fitting.get("bounds") or {}), candidate.start.noise_variance
        if np.ndim(noise) or self.fitting.get("fix_noise") or "noise_variance" in {*asked, *candidate.fixed}:
            return asked
        own = float(noise)
        least = min(own, max(own / BOUND_FACTOR, _LEAST_NOISE * self.variance))
        return {"noise_variance": (least, own * BOUND_FACTOR), **asked}

    def fit(self, candidate: CandidatePrior, **more: Any) -> FitResult:
        """The candidate by its likelihood of the data, or by ``more``."""
        options = {
            **self._objective(),
            "n_restarts": 0,
            "standard_errors": False,
            "tolerance": _EXPLORED,
            "fix": self.held(candidate),
            "progress": False,
            "terms": self._shared_terms if self.fits else None,
            **self.fitting,
            **more,
            "bounds": self._bounds(candidate),
        }
        began = clock.now()
        with ending_at(self.end(self.share)):
            result = fit_hyperparameters(candidate.start, self.X, self.y, **options)
        each = (clock.now() - began) / max(1, len(result.trace))
        self.evaluation_seconds = min(self.evaluation_seconds, each)
        known = dict[str, float]()
        result.prior.kernel.with_hyperparameters(known.setdefault)
        told = set(result.values) | (set(options["fix"]) - set(candidate.fixed))  # values that stay are values, too
        return replace(result, values={name: known[name] for name in known if name in told} | result.values)

    def log_likelihoods(self, priors: Sequence[Prior]) -> np.ndarray:
        """The objective of the fits at priors (m,) that differ in values alone, up to a constant."""
        given = {name: value for name, value in self.fitting.items() if name in _OF_THE_LIKELIHOOD}
        return log_likelihoods(priors, self.X, self.y, **{**self._objective(), **given})

    def _objective(self) -> dict[str, Any]:
        """Which likelihood the data have: an exact one of few, by default, and that of nearest neighbours of many."""
        subset, asked = self.fitting.get("subset"), self.request.options.likelihood
        size = len(self.y) if subset is None else int(subset) if np.ndim(subset) == 0 else len(subset)
        exact = asked == "exact" or (asked == "auto" and size <= EXACT_UP_TO)
        kind = "exact" if exact else "nearest-neighbours"
        return {"likelihood": kind, "n_neighbours": _NEIGHBOURS, "seed": self.seed, "device": self.device}

    @property
    def best(self) -> FittedCandidate:
        """The one with the best CRPS."""
        return min(self.fits, key=lambda each: each.crps)

    @property
    def heaviest(self) -> FittedCandidate:
        """Of those that predict, the one with the most weight."""
        return max(self.chosen, key=lambda part: part[1])[0]


@dataclass(frozen=True)
class Step:
    """A step of the search: ``run`` takes it on, and gives back what goes on: the same search, mostly.

    It ends when its ``share`` of the budget is used up, and is not begun after that. ``what`` it is about is told then.
    After Ctrl-C, and when time is up, only those that are ``always`` done are run: without them there is no model.
    """

    name: str
    run: Callable[[CandidateSearch], CandidateSearch]
    what: str = ""
    share: float = EXPLORING
    always: bool = False


def run_steps(search: CandidateSearch, steps: Sequence[Step], progress: bool | None) -> CandidateSearch:
    """The search after all steps, with the seconds that those of each name took besides the candidates that it has."""
    seconds: dict[str, float] = {}
    with Interrupt(joins=True) as interrupt, progress_bar("fit", len(steps), progress) as advance:
        for step in steps:
            began = clock.now() - sum(each.seconds for each in search.fits)
            search.interrupt, search.share = interrupt, step.share
            if step.always or not search.is_over:
                search = step.run(search)
            elif step.what and step.what not in (*search.settled, *search.not_tried):
                search.not_tried.append(step.what)
            taken = clock.now() - sum(each.seconds for each in search.fits) - began
            seconds[step.name] = seconds.get(step.name, 0.0) + taken
            advance(1)
        search.seconds, search.interrupt = seconds, interrupt
    return search

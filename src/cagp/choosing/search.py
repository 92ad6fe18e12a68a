"""Candidates are fitted one after another, judged by the same left-out observations, and the best are taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..errors import NotPositiveDefiniteError
from ..hyperparameters import FitResult, GivenTerms
from ..hyperparameters import fit as fit_hyperparameters
from ..hyperparameters.fitting import log_likelihoods
from ..model import Model
from ..prior import Prior
from ..solvers import Solver
from ..support.interrupt import Interrupt
from ..transforms import Transform
from .candidates import Candidate
from .scoring import Scored, Site, clearly_worse, stacked

_KEPT_UP_TO = 200_000
"""Models of more observations are let go once they are judged, and those chosen made again, which takes seconds: each
holds the data, their coordinates, the functions of the trend and a search tree.
"""

EXACT_UP_TO = 2000
"""Up to so many observations likelihood and predictions are exact."""

LIKELIHOOD = "likelihood"
LEFT_OUT_SCORE = "left-out score"

SITES = 2000
"""So many left-out observations judge the candidates."""

_NEIGHBOURS = 30
_TOLERANCE = 1e-4
"""Of the gradient of log p / n: hyperparameters to a small part of their standard errors, in half the evaluations."""

_BY_TERMS = {"likelihood": "nearest-neighbours", "subset": None, "n_restarts": 0}
_OF_THE_LIKELIHOOD = ("subset", "n_neighbours", "terms", "seed", "memory_budget")
_MOST_PARTS = 3
_CLOSE = 0.01
"""A candidate whose score is within so much of the best is as good."""

_TREND_ROWS = 10
"""So many observations for each column are needed for a linear trend to be tried."""


_UNDETERMINED = (
    "A linear trend was not tried, because the columns do not determine one: some of them add up to a constant, as "
    "those of all categories do, or one of them varies in a single row."
)
_ROUNDING = 1e-10


def determines_trend(X: np.ndarray) -> bool:
    """Whether X (n, p) determines a linear trend, and still does when any one row is left out."""
    if (np.ptp(X, axis=0) <= _ROUNDING * np.abs(X).max(axis=0)).any():  # a constant beside the constant
        return False
    centred = X - X.mean(axis=0)
    centred = centred / np.abs(centred).max(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(X))
    if not values[0] > _ROUNDING * values[-1]:
        return False
    leverage = 1 / len(X) + np.square(centred @ (vectors / np.sqrt(values * len(X)))).sum(axis=1)
    return bool(leverage.max() < 1 - 1e-6)


@dataclass(frozen=True)
class Fit:
    """A candidate after its fit: what the fit found, the model that it makes, its scores, and how long it took.

    ``charge`` is the share by which the scores were made worse. Among very many observations the ``model`` is not kept,
    see ``Search.model_of``.
    """

    candidate: Candidate
    fitted_by: str
    result: FitResult
    model: Model | None
    scores: Scored
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


@dataclass(frozen=True)
class Settings:
    """What all candidates have in common.

    ``fitting`` and ``conditioning`` are further options of ``hyperparameters.fit`` and ``Prior.condition``.
    """

    solver: Solver
    likelihood: str
    seed: int
    device: str | torch.device | None
    fitting: Mapping[str, Any]
    conditioning: Mapping[str, Any]

    def condition(self, prior: Prior, X: Any, y: Any) -> Model:
        """The prior given y (n,) at X (n, p)."""
        return prior.condition(X, y, self.solver, device=self.device, **self.conditioning)

    def _likelihood(self, n: int) -> str:
        """Which likelihood n observations have."""
        subset = self.fitting.get("subset")
        size = n if subset is None else int(subset) if np.ndim(subset) == 0 else len(subset)
        exact = self.likelihood == "exact" or (self.likelihood == "auto" and size <= EXACT_UP_TO)
        return "exact" if exact else "nearest-neighbours"

    def log_likelihoods(self, priors: Sequence[Prior], X: Any, y: Any) -> np.ndarray:
        """The objective of ``fit`` at priors (m,) that differ in values alone, up to a constant."""
        options = {"likelihood": self._likelihood(len(y)), "n_neighbours": _NEIGHBOURS, "seed": self.seed}
        given = {k: v for k, v in self.fitting.items() if k in _OF_THE_LIKELIHOOD}
        return log_likelihoods(priors, X, y, device=self.device, **{**options, **given})

    def fit(self, candidate: Candidate, X: Any, y: Any, **more: Any) -> FitResult:
        """The candidate by its likelihood of y (n,) at X (n, p), or by ``more``."""
        options = {
            "likelihood": self._likelihood(len(y)),
            "n_neighbours": _NEIGHBOURS,
            "n_restarts": 0,
            "standard_errors": False,
            "tolerance": _TOLERANCE,
            "seed": self.seed,
            "device": self.device,
            "progress": False,
        }
        return fit_hyperparameters(candidate.start, X, y, fix=candidate.fixed, **{**options, **self.fitting, **more})


class Search:
    """Fits candidates to y (n,) at X (n, p) one after another; keeps what they found.

    ``like`` (T, p) is where predictions are wanted, None where that was not said. Where y is what a ``transform`` made
    of the observations, scores are on their own scale.
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        like: torch.Tensor | None,
        settings: Settings,
        transform: Transform | None = None,
    ) -> None:
        self.transform = transform
        self.X, self.y, self._like, self.settings = X, y, like, settings
        self.site: Site | None = None
        self.fits: list[Fit] = []
        self.failures: list[str] = []

    def run(self, candidate: Candidate, by: str = LIKELIHOOD, charge: float = 0.0) -> Fit | None:
        """Fit a candidate by its likelihood, or by the log score of the left-out observations; None where it fails.

        Its scores are made worse by the share ``charge``.
        """
        started = time.perf_counter()
        try:
            more = _BY_TERMS | {"terms": self._terms(candidate)} if by == LEFT_OUT_SCORE else {}
            result = self.settings.fit(candidate, self.X, self.y, **more)
            model = self.settings.condition(result.prior, self.X, self.y)
            site = self.site or Site.chosen(model, self._like, SITES, self.settings.seed, self.transform)
            scores = site.scored(model).charged(charge) if len(self.y) > 1 else Scored.unknown()
        except NotPositiveDefiniteError as error:
            self.failures.append(f"{candidate.name} could not be fitted ({error}).")
            return None
        self.site = site
        kept = model if len(self.y) <= _KEPT_UP_TO else None
        found = Fit(candidate, by, result, kept, scores, time.perf_counter() - started, charge)
        self.fits.append(found)
        return found

    def model_of(self, found: Fit) -> Model:
        """The model that a fit makes: the one that was judged, or made again where that would have been too large."""
        return found.model if found.model is not None else self.settings.condition(found.prior, self.X, self.y)

    def run_all(
        self,
        start: Candidate,
        kinds: tuple[str, ...],
        trends: bool,
        turn: Callable[[Fit], None],
        interrupt: Interrupt,
        advance: Callable[[float], None],
    ) -> None:
        """Fit the kinds one after another; the best also with a linear trend, as ``turn`` has it, and to the left-out
        observations.
        """
        first = self.fits[0] if self.fits else self.run(start)
        advance(1)
        if first is None:
            raise NotPositiveDefiniteError(f"the first fit failed: {self.failures[0]} A larger noise_variance helps.")
        for kind in kinds[1:] if len(self.y) > 1 else ():
            if interrupt.requested:
                return
            self.run(start.from_values_of(first.prior, kind))
            advance(1)
        if trends and not interrupt.requested and len(self.y) > _TREND_ROWS * self.X.shape[1]:
            if determines_trend(self.X):
                self.run(self.best.candidate.starting_at(self.best.prior).with_trend("linear"))
            else:
                self.failures.append(_UNDETERMINED)
        advance(1)
        if not interrupt.requested and len(self.y) > 1:
            turn(self.best)
        advance(1)
        if self.site is not None and self.site.gaps is not None and not interrupt.requested:
            self.run(self.best.candidate.starting_at(self.best.prior), LEFT_OUT_SCORE)
        advance(1)

    def log_likelihoods(self, priors: Sequence[Prior]) -> np.ndarray:
        """The objective of the fits at priors (m,) that differ in values alone, up to a constant."""
        return self.settings.log_likelihoods(priors, self.X, self.y)

    def with_standard_errors(self, found: Fit) -> FitResult:
        """What a fit found, with standard errors, where the likelihood has them."""
        if found.fitted_by != LIKELIHOOD or not self.settings.fitting.get("standard_errors", True):
            return found.result
        again = self.settings.fit(
            found.candidate.starting_at(found.prior), self.X, self.y, standard_errors=True, n_restarts=0
        )
        return replace(again, prior=found.prior, story=found.result.story, trace=found.result.trace)

    def _terms(self, candidate: Candidate) -> GivenTerms:
        assert self.site is not None
        return self.site.terms(self.settings.condition(candidate.start, self.X, self.y))

    @property
    def best(self) -> Fit:
        """The one with the best CRPS."""
        return min(self.fits, key=lambda each: each.crps)

    def parts(self, mixture: bool, among: Callable[[Fit], bool] = lambda each: True) -> list[tuple[Fit, float]]:
        """What predicts, with weights: the best candidate, or those that are about as good, ``among`` some of them."""
        fits = list(filter(among, self.fits)) or self.fits
        best = min(fits, key=lambda each: each.crps)
        # patterns that do not predict better add nothing to a mixture
        fits = [each for each in fits if best.candidate.varies or not each.candidate.varies]
        if not mixture or len(fits) == 1:
            return [(best, 1.0)]
        index = best.scores.index
        for each in fits:
            index = np.intersect1d(index, each.scores.index)
        scores = {id(each): each.scores.at(index) for each in fits}
        least = float(scores[id(best)].crps.mean())
        ranked = sorted(fits, key=lambda each: float(scores[id(each)].crps.mean()))
        # observations that are left out with each other err together: so many count like one
        errors = 2.0 * (1.0 if self.site is None else self.site.crowd) ** 0.5
        close = [
            each
            for each in ranked
            if float(scores[id(each)].crps.mean()) <= (1 + _CLOSE) * least
            or not clearly_worse(scores[id(each)].crps, scores[id(best)].crps, errors)
        ]
        # different kernels first: they differ more from each other than trends and objectives do
        kernels = [each.candidate.kernel for each in close]
        new = [kernel not in kernels[:i] for i, kernel in enumerate(kernels)]
        close = [each for wanted in (True, False) for each, is_new in zip(close, new, strict=True) if is_new is wanted]
        close = close[:_MOST_PARTS]
        if len(close) == 1:
            return [(best, 1.0)]
        weights = stacked(np.stack([scores[id(each)].log_score for each in close]))
        return list(zip(close, weights.tolist(), strict=True))

"""How well fitted priors predict left-out observations, in the geometry of the points to be predicted."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.special import ndtr

from ..left_out import Geometry, LeftOut, StandIns, leave_out, leave_out_of, who_judges
from ..model import Model
from ..predicting.distributions import NormalMixture, Transformed, normal_grid, reach_of
from ..recalibration.learning import ordinary
from ..transforms import Transform

ALL, _ROUNDING = 1e-6, 1e-10  # of a trend, and of the largest of several numbers
_MOST_ALONE = 0.1  # more of all observations are not alone, but in as many columns as rows
_FURTHEST = 12.0  # quantiles up to this normal score are in the CRPS of a transformed prediction


@dataclass(frozen=True)
class JudgingSet:
    """Training observations that judge the candidates: rows (n,), each left out alone, or stand-ins for points to be
    predicted. ``geometry`` is that of the first candidate. A ``crowd`` of them err together: so many count like one.

    Scores are on the scale of the observations before a ``transform``, where there is one. ``note`` says how
    well stand-ins match, and where nothing can be judged. With ``place`` (d,), where each training point is, all others
    at their places are left out with them.
    """

    which: np.ndarray | StandIns
    geometry: Geometry
    crowd: float = 1.0
    transform: Transform | None = None
    note: str = ""
    place: torch.Tensor | None = None

    @classmethod
    def chosen(
        cls, model: Model, like: torch.Tensor | None, n: int, seed: int, transform: Transform | None = None
    ) -> JudgingSet:
        """At most n observations, drawn at random; those that stand in for points ``like`` (T, p), where there are."""
        component = model.components[0]
        (which, note), geometry = who_judges(component, like, n, seed), Geometry(component)
        if not isinstance(which, StandIns):
            lone = alone(component.X.cpu().numpy())
            if len(lone):
                which = np.setdiff1d(which, lone)
                one = len(lone) == 1
                said = "1 of the observations is" if one else f"{len(lone)} of the observations are"
                why = "the only one of a category" if one else "each the only one of a category"
                note = f"{said} {why}, or far from all others, which say nothing of it: it is not left out. {note}"
            return cls(which, geometry, 1.0, transform, note.strip())
        seen = leave_out_of(component, which, seed=seed, correlated=True)
        return cls(which, geometry, len(seen) / seen.worth, transform, f"{which.how} {note}".strip())

    def __len__(self) -> int:
        return len(self.which)

    @property
    def rows(self) -> np.ndarray:
        """Which training points they are; some may stand in for several points."""
        return self.which.rows.cpu().numpy() if isinstance(self.which, StandIns) else self.which

    @property
    def stand_in(self) -> bool:
        """Whether they stand in for points to be predicted."""
        return isinstance(self.which, StandIns)

    def left_out(self, model: Model) -> LeftOut:
        """What a model predicts for them, as for new observations, without outliers that are mistakes."""
        return ordinary(leave_out(model, self.which, another=self.geometry, place=self.place), model)

    def scores(self, model: Model) -> LeftOutScores:
        """The scores of a model here."""
        found = self.left_out(model)
        if self.transform is None:
            return LeftOutScores.of(found)
        return LeftOutScores.carried_over(found, self.transform, reach_of(model.components[0], self.transform))


@dataclass(frozen=True)
class LeftOutScores:
    """Scores of left-out observations, each (n,), smaller is better: ``crps``, ``log_score``, and the squared error of
    the mean, ``squared``. ``index`` (n,) tells them from each other.
    """

    index: np.ndarray
    crps: np.ndarray
    log_score: np.ndarray
    squared: np.ndarray

    @classmethod
    def unknown(cls) -> LeftOutScores:
        """Where there is but one observation, and nothing to predict it from."""
        return cls(np.zeros(1, dtype=np.int64), *(np.full(1, np.nan) for _ in range(3)))

    @classmethod
    def of(cls, found: LeftOut) -> LeftOutScores:
        crps = normal_crps(found.y - found.mean, found.std)
        log_score = 0.5 * found.z**2 + np.log(found.std) + 0.5 * np.log(2 * np.pi)
        return cls(found.number, crps, log_score, (found.y - found.mean) ** 2)

    @classmethod
    def carried_over(
        cls, found: LeftOut, transform: Transform, reach: tuple[float, float] | None = None
    ) -> LeftOutScores:
        """Scores on the scale of the observations, of predictions of what ``transform`` makes of them."""
        mean, variance = (torch.from_numpy(each)[None] for each in (found.mean, found.std**2))
        predicted = Transformed(NormalMixture(mean, variance, torch.ones(1, dtype=torch.float64)), transform, reach)
        y = transform.inverse(torch.from_numpy(found.y))
        scores, weights = normal_grid(_FURTHEST)
        quantiles = predicted.values(scores[:, None].expand(-1, len(y)))
        # the CRPS is twice the average pinball loss of all quantiles
        pinball = 2 * ((y <= quantiles).double() - torch.special.ndtr(scores)[:, None]) * (quantiles - y)
        log_score = -predicted.scores(y[None])[1][0]
        # a tail beyond all numbers is infinitely bad
        bad = ((weights @ pinball).numpy(), (predicted.mean - y).square().numpy())
        crps, squared = (np.where(np.isnan(each), np.inf, each) for each in bad)
        return cls(found.number, crps, log_score.numpy(), squared)

    def charged(self, share: float) -> LeftOutScores:
        """Made worse: the CRPS by that share of it, the log score by as many nats."""
        return replace(self, crps=(1 + share) * self.crps, log_score=self.log_score + share)

    @property
    def rmse(self) -> float:
        """The root mean square error of the means."""
        return float(np.sqrt(self.squared.mean()))

    def at(self, index: np.ndarray) -> LeftOutScores:
        """Those of the observations ``index`` (m,)."""
        there = np.isin(self.index, index)
        return LeftOutScores(self.index[there], self.crps[there], self.log_score[there], self.squared[there])


def alone(X: np.ndarray) -> np.ndarray:
    """The rows of X (n, p) of which no other says anything: the only one of a category, or one that lies far from all.

    None where these are so many that hardly anybody would be left.
    """
    found = np.flatnonzero(leverage(X) > 1 - ALL) if len(X) > 1 else np.zeros(0, dtype=np.int64)
    return found if len(found) <= _MOST_ALONE * len(X) else found[:0]


def leverage(X: np.ndarray) -> np.ndarray:
    """How much of a linear trend at each row of X (n, p) its own observation decides, (n,): 1 is all of it."""
    centred = X - X.mean(axis=0)
    largest = np.abs(centred).max(axis=0)
    centred = centred[:, largest > 0] / largest[largest > 0]
    values, vectors = np.linalg.eigh(centred.T @ centred / len(X))
    told = values > _ROUNDING * values.max(initial=0.0)
    across = centred @ (vectors[:, told] / np.sqrt(values[told] * len(X)))
    return np.asarray(1 / len(X) + np.square(across).sum(axis=1))


def normal_crps(error: np.ndarray, std: np.ndarray) -> np.ndarray:
    """The CRPS (n,) of normal predictions whose means are off by ``error`` (n,)."""
    z = error / std
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    return np.asarray(std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi)))


def clearly_worse(one: np.ndarray, best: np.ndarray, by: float = 2.0) -> bool:
    """Whether scores ``one`` (n,) are worse than ``best`` (n,) by so many standard errors of the average difference."""
    with np.errstate(invalid="ignore"):  # of two infinite ones
        difference = one - best
    if len(difference) < 2:  # one of them has no standard error
        return False
    if not np.isfinite(difference).all():
        return bool(np.isposinf(difference).any() and not np.isneginf(difference).any())
    return float(difference.mean()) > by * float(difference.std(ddof=1)) / len(difference) ** 0.5


def stacked(log_scores: np.ndarray, rounds: int = 200) -> np.ndarray:
    """Weights (m,) of the mixture of m predictions with the best log score, given theirs (m, n), halfway to equal ones.

    By expectation maximisation. Weights that fit the left-out observations best are too sure of themselves elsewhere.
    """
    density = np.exp(log_scores.min(axis=0) - log_scores)
    weights = np.full(len(density), 1 / len(density))
    for _ in range(rounds):
        weights = (weights[:, None] * density / (weights @ density)).mean(axis=1)
    return 0.5 * weights + 0.5 / len(density)

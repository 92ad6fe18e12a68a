"""Predictions of observations that the weights have not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..calibration import Scores, score
from ..solvers import Solver
from .correlated_errors import Correlation, correlation_of
from .diagnosis import Diagnosis, diagnose
from .inputs import Given
from .numbers import duration
from .refits import LOCAL, array, refit, seconds, working

if TYPE_CHECKING:
    from ..model import Model

Advance = Callable[[float], None]

_FOLDS = 5
_SINGLY = 25
"""Up to so many observations each is left out alone."""

_POINTS = 1000
_FEWER_POINTS = 200
_LOCAL_POINTS = 500
_LIMIT_SECONDS = 8.0
_HOLDOUT_SECONDS = 60.0


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Observations ``truth`` (n,) at X (n, p), and what was predicted for them: ``mean`` and ``std``, each (n,).

    ``rows`` (n,) are their positions, from 0, in ``rows_of``: the held-out data as given, or the training data.
    ``how`` says in sentences where they come from; ``short`` in a few words. ``correlation`` is that of the errors
    under the model, where it was computed.
    """

    X: np.ndarray
    truth: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    rows: np.ndarray
    rows_of: str
    how: str
    short: str
    correlation: Correlation | None = None

    def __len__(self) -> int:
        return len(self.truth)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """What the observations say about the error bars."""
        return diagnose(self.scores.z, self.correlation)

    @cached_property
    def scores(self) -> Scores:
        """RMSE, proper scores, z and PIT of the observations."""
        return score(self.mean, self.std, self.truth, of="observed")


def predict_unseen(model: Model, holdout: Given | None, seed: int, advance: Advance) -> HeldOut | None:
    """Predictions of the data held out or, where there are none, of left-out training data; advances by 1."""
    if holdout is None:
        return leave_out(model, seed, advance)
    n = size = len(holdout.y)
    while n > 50 and seconds(model, working(model), len(model.y), n) > _HOLDOUT_SECONDS:
        n = max(50, n // 2)
    how = f"{size:,} observations that are not among the training rows, predicted by the model itself."
    if n < size:
        holdout = holdout.some(np.sort(np.random.default_rng(seed).choice(size, n, replace=False)))
        how = f"{n:,} observations, drawn at random from the held-out ones, predicted by the model itself."
    if holdout.known:
        how += (
            f" {holdout.known:,} of the {size + holdout.known:,} rows given are training rows, the same in all columns "
            "and the target, and were left out of the judgement."
        )
    noise: Any = model.prior.noise_variance if holdout.noise is None else holdout.noise
    if holdout.noise is None and np.ndim(noise):
        noise = float(np.mean(noise))
        how += (
            " The training observations each have a noise variance of their own, which says nothing about new ones: "
            "their average was used."
        )
    post = model.predict(holdout.X, progress=False).observed(noise)
    found = HeldOut(
        X=array(holdout.X),
        truth=array(holdout.y),
        mean=array(post.mean),
        std=array(post.std),
        rows=holdout.rows,
        rows_of="held-out data",
        how=how,
        short="held-out data",
        correlation=correlation_of(post, len(model.y)),
    )
    advance(1)
    return found


def leave_out(model: Model, seed: int, advance: Advance) -> HeldOut | None:
    """Predictions of some training observations from the others: new weights, the same hyperparameters.

    K-fold where that takes seconds, one group left out otherwise; from nearest neighbours where even that would take
    minutes. None where there are not two observations.
    """
    size = len(model.y)
    if size < 2:
        return None
    n, folds, solver, note = _plan(model, size)
    chosen = np.random.default_rng(seed).permutation(size)[:n]
    groups = [np.sort(group) for group in np.array_split(chosen, folds)]
    mean, std = np.empty(size), np.empty(size)
    correlations = []
    for group in groups:
        kept = np.setdiff1d(np.arange(size), group)
        again = refit(model, solver.for_points(kept, size), kept)
        noise = model.prior.noise_variance
        post = again.predict(model.X[torch.from_numpy(group).to(model.X.device)], progress=False)
        post = post.observed(noise[group] if np.ndim(noise) else noise)
        mean[group], std[group] = array(post.mean), array(post.std)
        correlations.append(correlation_of(post, size))
        advance(1 / len(groups))
    seen = np.sort(chosen)
    some = f"{n:,} of the {size:,} training observations, drawn at random," if n < size else ""
    together, short = f"in {folds} groups", f"{folds}-fold cross-validation"
    if folds == 1:
        together, short = "together", "left-out training data"
    if folds == n:
        together, short = "each in turn" if folds > 1 else "together", "leave-one-out"
    how = (
        f"{some or f'All {size:,} training observations'} were left out {together} and predicted from the others: with "
        "new weights, but with the same hyperparameters and prior mean, which have seen them. So this is slightly "
        f"kinder than data that were never used.{note}"
    )
    return HeldOut(
        X=array(model.X)[seen],
        truth=array(model.y)[seen],
        mean=mean[seen],
        std=std[seen],
        rows=seen,
        rows_of="training data",
        how=how,
        short=short,
        correlation=Correlation.joined([part for part in correlations if part is not None]),
    )


def _plan(model: Model, size: int) -> tuple[int, int, Solver, str]:
    """How many to leave out, in how many groups, and what predicts them; with a note where that is another solver."""
    solver = working(model)
    n = min(size, _POINTS)
    folds = size if size <= _SINGLY else _FOLDS

    def cost(left_out: int) -> float:
        return seconds(model, solver, size - left_out, left_out)

    if folds * cost(-(-n // folds)) <= _LIMIT_SECONDS:
        return n, folds, solver, ""
    fewer = min(_FEWER_POINTS, size // _FOLDS)
    if cost(fewer) <= _LIMIT_SECONDS:
        return fewer, 1, solver, ""
    note = (
        f" They were predicted with {LOCAL!r} from all other points instead of {solver!r}, which would take about "
        f"{duration(cost(fewer))}: this judges the kernel, the noise and the mean, not the solver."
    )
    return min(_LOCAL_POINTS, size // _FOLDS), 1, LOCAL, note

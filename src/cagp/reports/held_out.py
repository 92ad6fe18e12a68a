"""Predictions of observations that the weights have not seen: as they are, and as a recalibration makes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from scipy.special import ndtri

from ..calibration import Scores, evaluate
from ..errors import InputError
from ..left_out import FEWEST, Correlation, Gaps, Geometry, LeftOut, affordable, correlation_of, left_out
from ..model import Model
from ..prediction import Prediction
from ..recalibration import GROUPS, Conformal, WholeGaps, cross_recalibrated, learn, ordinary
from ..recalibration.diagnosis import Diagnosis, bounded, diagnose, from_gap_to_gap
from ..support.convert import array
from .inputs import HoldoutData, ReportInputs, seconds, working

_POINTS, _POINTS_OF_MIXTURES = 20_000, 5000
_FEWER_POINTS = 1000  # so many are left out where the model's own solver conditions anew on the others
_HOLDOUT_SECONDS = 60.0
_AROUND = 10  # so many observations around a point say how rough it is there
_WORTH_TRYING = 100  # with fewer observations a recalibration is not tried: it would say little
_POSSIBLE = FEWEST * GROUPS // (GROUPS - 1)  # with fewer the other groups have too little to learn from
_KINDER = "The hyperparameters have seen them, so this is slightly kinder than data that were never used."


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Observations ``truth`` (n,) at X (n, p), and the ``prediction`` of them, noise included.

    ``distance`` (n,) is that of the nearest observation which predicts, in lengthscales, ``roughness`` (n,) how much
    those around differ, ``rows`` (n,) are positions in ``rows_of``. ``how`` says where they come from, ``short`` in a
    few words. Predictions of a ``transformed`` model are skewed. The observations lie in ``gaps``; z and gaps of the
    ``whole`` ones say how coverage differs between these.
    """

    X: np.ndarray
    truth: np.ndarray
    prediction: Prediction
    distance: np.ndarray
    roughness: np.ndarray | None
    rows: np.ndarray
    rows_of: str
    how: str
    short: str
    correlation: Correlation | None = None
    transformed: bool = False
    gaps: Gaps | None = None
    whole: tuple[np.ndarray, Gaps] | None = None

    def __len__(self) -> int:
        return len(self.truth)

    @cached_property
    def scores(self) -> Scores:
        """RMSE, proper scores, z and PIT of the observations."""
        return evaluate(self.prediction, self.truth, "observed")

    @cached_property
    def z(self) -> np.ndarray:
        """The normal score of the predicted probability, (n,): error / std where the prediction is normal."""
        return bounded(self._score)

    @cached_property
    def _score(self) -> np.ndarray:
        return array(self.prediction.normal_score(self.truth))

    @property
    def relative(self) -> np.ndarray:
        """Errors over what is promised, (n,), of the root mean square 1 if that is right: see ``relative_is``."""
        return self.z if self.transformed else self.scores.z

    @property
    def relative_is(self) -> str:
        """What these are called: where predictions are skewed, error / std is large too often by itself."""
        return "z" if self.transformed else "error / std"

    def inside(self, level: float) -> np.ndarray:
        """Which observations (n,) lie in their central interval of this level."""
        return np.asarray(np.abs(self.z) <= ndtri((1 + level) / 2))

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """What the observations say about the error bars."""
        found = diagnose(self._score, self.correlation, len(np.unique(self.rows)), self.gaps)
        differs = "" if self.whole is None else from_gap_to_gap(*self.whole)
        return replace(found, notes=(*found.notes, differs)) if differs else found

    @property
    def worth(self) -> float:
        """How many independent values they count like."""
        return min(self.diagnosis.worth.mean, self.diagnosis.worth.spread)


@dataclass(frozen=True, eq=False)
class BeforeAndAfter:
    """The same observations ``before`` a recalibration and ``after`` that of a ``recalibrated`` model, or a trial."""

    before: HeldOut
    after: HeldOut | None
    recalibrated: bool
    how: str

    @property
    def judged(self) -> HeldOut:
        """The observations under the model that was given."""
        return self.after if self.recalibrated and self.after is not None else self.before


def predict_held_out(given: ReportInputs, seed: int) -> BeforeAndAfter | None:
    """The data held out, or training data left out in the geometry of ``like``; None with nothing to leave out."""
    if given.holdout is not None:
        return _of_holdout(given.model, given.holdout, seed)
    return None if len(given.model.recipe.y) < 2 else _of_training_data(given.model, given.like, seed)


def _of_holdout(model: Model, holdout: HoldoutData, seed: int) -> BeforeAndAfter:
    """Data held out. Where they reject a model without recalibration, one from its training data is tried."""
    component, size, n = model.components[0], len(holdout.y), len(holdout.y)
    while n > 50 and seconds(model, working(model), len(component.y), n) > _HOLDOUT_SECONDS:
        n = max(50, n // 2)
    how = f"{size:,} observations that are not among the training rows, predicted by the model itself."
    geometry = Geometry(component)
    gaps = Gaps.of_points(geometry, holdout.X)
    if n < size:
        chosen = np.sort(np.random.default_rng(seed).choice(size, n, replace=False))
        holdout, gaps = holdout.some(chosen), gaps.some(chosen)
        how = f"{n:,} observations, drawn at random from the held-out ones, predicted by the model itself."
    if holdout.known:
        how += f" {holdout.known:,} of the {size + holdout.known:,} rows given are training rows, the same in all "
        how += "columns and the target, and were left out of the judgement."
    noise = None if holdout.noise is None else array(holdout.noise)
    if noise is None and np.ndim(model.prior.noise_variance):
        noise = np.mean(model.prior.noise_variance)
        how += " The training observations each have a noise variance of their own, which says nothing about new ones: "
        how += "their average was used."
    X, short = array(holdout.X)[:, : model.X.shape[1]], "held-out data"
    found = model.replace(margins=None).predict(X, progress=False)
    kept = [np.stack([array(getattr(each, name)) for each in found.components]) for name in ("mean", "variance")]
    rough = _roughness(model, lambda k: geometry.search.query(geometry.coordinates(holdout.X), k))
    correlation = correlation_of(found.components[0].observed(noise), len(component.y))
    data = X, array(holdout.y), found.observed(noise), array(geometry.distance(holdout.X)), rough
    before = HeldOut(*data, holdout.rows, short, how, short, correlation, model.transform is not None, gaps)
    before = replace(before, whole=(before.z, gaps))
    margins, after = model.margins, None
    if margins is not None:
        tried = "The recalibrated error bars were judged."
    elif before.diagnosis.state == "right":
        tried = "Recalibration was not tried: there is no sign that it is needed."
    elif before.diagnosis.failures == ("outliers",):
        tried = "Recalibration was not tried: it changes the width of all error bars, of which most hold."
    else:
        try:
            margins = learn(model, holdout.X, min(len(model.y), _POINTS), seed, progress=False)
            tried = f"For the recalibration, only training observations were used. {margins.how}"
        except InputError as error:
            tried = f"Recalibration was not tried: {error}."
    if margins is not None:
        mended = model.replace(margins=margins).prediction_of(X, *kept).observed(noise)
        after = replace(before, prediction=mended, how=f"{before.how} {tried}")
        after = replace(after, whole=(after.z, gaps))
    return BeforeAndAfter(before, after, model.margins is not None, tried)


def _of_training_data(model: Model, like: torch.Tensor | None, seed: int) -> BeforeAndAfter:
    """Left-out training data, which recalibrate one another where there are enough of them."""
    found, recalibrated = leave_out(model, like, seed), model.margins is not None
    before = left_out_data(model, found)
    gaps = None if like is None else WholeGaps.like(model, like, seed)
    whole = None if gaps is None else gaps.scores(model.margins)
    before = before if recalibrated else replace(before, whole=whole)
    if len(found) < (_POSSIBLE if recalibrated else _WORTH_TRYING):
        few = f"{len(found)} left-out observations are too few to recalibrate one another"
        if recalibrated:
            before = replace(before, how=f"{before.how} {few}: the error bars without recalibration were judged.")
        return BeforeAndAfter(before, None, recalibrated, f"Recalibration was not tried: {few}.")
    how = f"For the recalibration they were put into {GROUPS} groups at random, and the error bars of each group "
    how += "come from the other groups: no observation judges itself."
    if isinstance(model.margins, Conformal):
        how += " The conformal step, which has calibration data of its own, was left out of this."
    mended = cross_recalibrated(found, model.components[0], seed).carried_back(model.transform, model.reach)
    after = replace(before, prediction=mended, how=f"{before.how} {how}", whole=whole if recalibrated else None)
    return BeforeAndAfter(before, after, recalibrated, how)


def leave_out(model: Model, like: torch.Tensor | None, seed: int) -> LeftOut:
    """Some training observations predicted from the others before any recalibration."""
    size = len(model.y)
    fewer = min(size, _FEWER_POINTS)
    most = _POINTS if len(model.components) == 1 else _POINTS_OF_MIXTURES
    by_folds = like is None and affordable(model.components[0], working(model), fewer)
    n = fewer if by_folds else min(size, most) if like is None else None  # stand-ins are fewer
    return ordinary(left_out(model, like, n, seed, progress=False, correlated=True), model)


def left_out_data(model: Model, found: LeftOut) -> HeldOut:
    """Left-out observations as held-out data, on the scale of the observations."""
    component = model.components[0]
    geometry, rows = Geometry(component), torch.from_numpy(found.index).to(component.device)
    rough = _roughness(model, lambda k: geometry.others(rows, k))
    prediction = found.prediction.carried_back(model.transform, model.reach)
    z, X = component.y[rows], found.X[:, : model.X.shape[1]]
    y = array(z if model.transform is None else model.transform.inverse(z))
    data, how = (X, y, prediction, found.distance, rough), f"{found.how} {_KINDER}"
    transformed = model.transform is not None
    gaps = None if found.stand_ins is None else Gaps.of_left_out(geometry, found)
    return HeldOut(*data, found.index, "training data", how, found.short, found.correlation, transformed, gaps)


def _roughness(model: Model, nearest: Callable[[int], torch.Tensor]) -> np.ndarray | None:
    """The standard deviation of the ``nearest`` k observations at each of n points (n, k), shape (n,); None if few."""
    if model.quantity is not None:  # neighbours are of others, too
        return None
    around = nearest(min(_AROUND, len(model.y) - 1))
    known = around.shape[1] > 1 and bool((around >= 0).all())
    return array(model.y[around].double().std(dim=1)) if known else None

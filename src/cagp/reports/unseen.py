"""The model against data that it has not seen: as it is, and what a recalibration makes or would make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ..errors import InputError
from ..mixtures import MixtureModel, before_recalibration, is_recalibrated
from ..recalibration import GROUPS, ConformalModel, LayeredModel, RecalibratedModel, cross_recalibrated, learn
from ..support.convert import Output
from .held_out import HeldOut, leave_out, left_out_data, plain_of, predict_held_out
from .inputs import Given

if TYPE_CHECKING:
    from ..model import Model

_FEWEST = 100
"""With fewer observations a recalibration is not tried: it would say little."""

_POSSIBLE = 25
"""With fewer observations none can be judged: what is left to learn from is too little."""

_LEARNED_FROM = 20_000
"""So many left-out observations teach a recalibration that is tried."""


@dataclass(frozen=True, eq=False)
class Unseen:
    """The same observations under the ``plain`` model, and ``recalibrated`` where the model is, or where it was tried.

    ``layered`` says that the model given is the recalibrated one; ``how`` where the recalibration comes from, or why
    there is none.
    """

    plain: HeldOut
    recalibrated: HeldOut | None
    layered: bool
    how: str

    @property
    def judged(self) -> HeldOut:
        """The observations under the model that was given."""
        return self.recalibrated if self.layered and self.recalibrated is not None else self.plain


def predict_unseen(
    model: Model | LayeredModel,
    holdout: Given | None,
    like: torch.Tensor | None,
    seed: int,
    advance: Callable[[float], None],
) -> Unseen | None:
    """Predictions of the data held out or, where there are none, of left-out training data; advances by 1.

    None where there is nothing to leave out. Training data are left out in the geometry of ``like`` (T, p).
    """
    layered, base = is_recalibrated(model), before_recalibration(model)
    if holdout is not None:
        found = predict_held_out(model, holdout, seed)
        result = _already(found) if layered else _tried(base, found, seed)
    else:
        left = leave_out(base, like, seed)
        if left is None:
            return None
        plain = left_out_data(model.plain, left)
        if len(left) < (_POSSIBLE if layered else _FEWEST):
            few = f"{len(left)} left-out observations are too few to recalibrate one another"
            if layered:
                plain = plain.predicted_by(
                    plain.prediction, f"{few}: the error bars without recalibration were judged."
                )
            advance(1)
            return Unseen(plain, None, layered, f"Recalibration was not tried: {few}.")
        how = (
            f"For the recalibration they were put into {GROUPS} groups at random, and the error bars of each group "
            "come from the other groups: no observation judges itself."
        )
        if isinstance(model, ConformalModel):
            how += " The conformal step, which has calibration data of its own, was left out of this."
        recalibrated = plain.predicted_by(cross_recalibrated(left, base.plain, seed), how)
        result = Unseen(plain, recalibrated, layered, how)
    advance(1)
    return result


def _already(found: HeldOut) -> Unseen:
    """Held-out data of a model that is recalibrated."""
    how = "The recalibrated error bars were judged."
    plain = found.predicted_by(plain_of(found.prediction), "")
    return Unseen(plain, found.predicted_by(found.prediction, how), True, how)


def _tried(model: Model | MixtureModel, found: HeldOut, seed: int) -> Unseen:
    """Held-out data of a plain model: where it is rejected, a recalibration from its training data is tried."""
    if found.diagnosis.state == "right":
        return Unseen(found, None, False, "Recalibration was not tried: there is no sign that it is needed.")
    X = torch.from_numpy(found.X).to(model.plain.device)
    try:
        layer = RecalibratedModel(model, learn(model, X, min(len(model.plain.y), _LEARNED_FROM), seed, progress=False))
    except InputError as error:
        return Unseen(found, None, False, f"Recalibration was not tried: {error}.")
    how = f"For the recalibration, only training observations were used. {layer.recalibration.how}"
    return Unseen(found, found.predicted_by(layer.wrapped(found.prediction, X, Output(None)), how), False, how)

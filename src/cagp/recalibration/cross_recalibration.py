"""What a recalibration does to the observations that it is learned from, without any of them judging itself.

Left-out observations are put into groups at random, and the predictions of each group are recalibrated by what all
other groups teach. Where the recalibration mends the error bars of the left-out observations, it mends those of new
ones that are like them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from ..left_out import LeftOut
from ..support.convert import Output
from .learning import learned_from
from .recalibrated import Adjustment, Recalibrated, RecalibratedModel

if TYPE_CHECKING:
    from ..model import Model

GROUPS = 5
"""So many that each learns from almost as much as a recalibration by all of them."""


def cross_recalibrated(found: LeftOut, model: Model, seed: int) -> Recalibrated:
    """The predictions of left-out observations, those of each group recalibrated by the other groups.

    ``model`` is the plain one that left them out. The same ``seed`` makes the same groups.
    """
    order = np.random.default_rng(seed).permutation(len(found))
    parts = []
    for group in np.array_split(order, GROUPS):
        others = np.setdiff1d(order, group)
        layer = RecalibratedModel(model, learned_from(found.some(others), model, seed))
        X, distance = (torch.from_numpy(each[group]).to(model.device) for each in (found.X, found.distance))
        parts.append(layer.adjustment(X, distance))
    place = torch.from_numpy(np.argsort(order)).to(model.device)
    return Recalibrated(found.prediction, Output(None), Adjustment.joined(parts, place))

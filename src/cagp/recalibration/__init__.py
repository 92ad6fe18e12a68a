"""Error bars that hold on the data: scaled and shaped by left-out predictions, or by a calibration set."""

from .conformal import Conformal, ConformalModel
from .cross_recalibration import GROUPS, cross_recalibrated
from .layer import Layer, LayeredModel
from .learning import Recalibration, learn, learned_from
from .recalibrated import Recalibrated, RecalibratedModel

__all__ = [
    "GROUPS",
    "Conformal",
    "ConformalModel",
    "Layer",
    "LayeredModel",
    "Recalibrated",
    "RecalibratedModel",
    "Recalibration",
    "cross_recalibrated",
    "learn",
    "learned_from",
]

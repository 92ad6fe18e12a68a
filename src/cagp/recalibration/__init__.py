"""Error bars that hold on the data: scaled and shaped by left-out predictions, or by a calibration set."""

from .conformal import Conformal, ConformalModel
from .layer import Layer, LayeredModel
from .learning import Recalibration, learn
from .recalibrated import Recalibrated, RecalibratedModel, recalibrated

__all__ = [
    "Conformal",
    "ConformalModel",
    "Layer",
    "LayeredModel",
    "Recalibrated",
    "RecalibratedModel",
    "Recalibration",
    "learn",
    "recalibrated",
]

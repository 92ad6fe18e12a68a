"""Error bars that hold on the data: scaled and shaped by left-out predictions, or by a calibration set."""

from .conformal import Calibration, Conformal, ConformalModel
from .layer import Layer, LayeredModel, Learned
from .learning import Recalibration, learn
from .recalibrated import Recalibrated, RecalibratedModel, recalibrated

__all__ = [
    "Calibration",
    "Conformal",
    "ConformalModel",
    "Layer",
    "LayeredModel",
    "Learned",
    "Recalibrated",
    "RecalibratedModel",
    "Recalibration",
    "learn",
    "recalibrated",
]

"""Error bars that hold on the data: scaled and shaped by left-out predictions, or by a calibration set."""

from .conformal import Conformal, jackknife_interval
from .learning import GROUPS, cross_recalibrated, in_whole_gaps, learn, learned_from, ordinary
from .margins import Margins, PlacedMargins
from .recalibrated import Recalibration

__all__ = [
    "GROUPS",
    "Conformal",
    "Margins",
    "PlacedMargins",
    "Recalibration",
    "cross_recalibrated",
    "in_whole_gaps",
    "jackknife_interval",
    "learn",
    "learned_from",
    "ordinary",
]

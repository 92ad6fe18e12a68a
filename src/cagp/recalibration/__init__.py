"""Error bars that hold on the data: scaled and shaped by left-out predictions, or by a calibration set."""

from .conformal import Conformal, jackknife_interval
from .learning import (
    GROUPS,
    brought_up_to_date,
    cross_recalibrated,
    learn,
    learned_from,
    learned_in_seconds,
    ordinary,
)
from .margins import Margins, PlacedMargins
from .recalibrated import Recalibration
from .whole_gaps import WholeGaps

__all__ = [
    "GROUPS",
    "Conformal",
    "Margins",
    "PlacedMargins",
    "Recalibration",
    "WholeGaps",
    "brought_up_to_date",
    "cross_recalibrated",
    "jackknife_interval",
    "learn",
    "learned_from",
    "learned_in_seconds",
    "ordinary",
]

"""Training observations predicted from the others: what judging, choosing and recalibrating are based on."""

from .by_folds import affordable
from .correlation import Correlation, correlation_of
from .engine import Leaving, leave_out, left_out
from .geometry import Gaps, Geometry, Voids
from .result import LeftOut

__all__ = [
    "Correlation",
    "Gaps",
    "Geometry",
    "Leaving",
    "LeftOut",
    "Voids",
    "affordable",
    "correlation_of",
    "leave_out",
    "left_out",
]

"""Training observations predicted from the others: what judging, choosing and recalibrating are based on."""

from .correlation import Correlation, correlation_of
from .engine import Mixture, heaviest, leave_out, leave_out_of, left_out
from .gaps import Gaps, Voids
from .geometry import Geometry
from .result import LeftOut
from .ways import affordable, few_of

__all__ = [
    "Correlation",
    "Gaps",
    "Geometry",
    "LeftOut",
    "Mixture",
    "Voids",
    "affordable",
    "correlation_of",
    "few_of",
    "heaviest",
    "leave_out",
    "leave_out_of",
    "left_out",
]

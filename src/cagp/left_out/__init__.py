"""Training observations predicted from the others: what judging, choosing and recalibrating are based on."""

from .engine import Leaving, leave_out, left_out
from .geometry import Gaps, Geometry, Voids
from .result import LeftOut

__all__ = ["Gaps", "Geometry", "Leaving", "LeftOut", "Voids", "leave_out", "left_out"]

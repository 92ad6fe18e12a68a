"""Training observations predicted from the others: what judging, choosing and recalibrating are based on."""

from .engine import leave_out, left_out
from .geometry import Gaps, Geometry, Voids
from .result import LeftOut

__all__ = ["Gaps", "Geometry", "LeftOut", "Voids", "leave_out", "left_out"]

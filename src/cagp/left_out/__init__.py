"""Training observations predicted from the others: what judging, choosing and recalibrating are based on."""

from .engine import leave_out, left_out
from .geometry import Geometry
from .result import LeftOut

__all__ = ["Geometry", "LeftOut", "leave_out", "left_out"]

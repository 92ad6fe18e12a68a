"""Training observations predicted from the others: what judging, choosing and recalibrating are based on."""

from .correlation import Correlation, correlation_of
from .engine import (
    FEWEST,
    MISSED,
    STANDING_IN,
    Mixture,
    heaviest,
    leave_out,
    leave_out_gaps,
    leave_out_of,
    left_out,
    matching,
    stand_ins_for,
    who_judges,
)
from .gaps import MANY, NEAR, Gaps
from .geometry import Geometry, blocks_like
from .result import LeftOut
from .stand_ins import StandIns
from .ways import affordable

__all__ = [
    "FEWEST",
    "MANY",
    "MISSED",
    "NEAR",
    "STANDING_IN",
    "Correlation",
    "Gaps",
    "Geometry",
    "LeftOut",
    "Mixture",
    "StandIns",
    "affordable",
    "blocks_like",
    "correlation_of",
    "heaviest",
    "leave_out",
    "leave_out_gaps",
    "leave_out_of",
    "left_out",
    "matching",
    "stand_ins_for",
    "who_judges",
]

"""Dates and times as numbers: days since 1970-01-01, in UTC where they have a time zone.

The origin is always the same, so that training points and test points are counted alike without anything to remember.
"""

from __future__ import annotations

import numpy as np

DAYS = "days since 1970-01-01"
"""The unit of dates and times, in the words of the CF conventions."""

_EPOCH = np.datetime64("1970-01-01", "s")
_DAY = np.timedelta64(1, "D")


def days_since_1970(values: np.ndarray) -> np.ndarray:
    """datetime64 (n,) as days since 1970-01-01, or timedelta64 (n,) as days: float64, NaN where it is missing."""
    numbers = (values - _EPOCH) / _DAY if values.dtype.kind == "M" else values / _DAY
    return np.where(np.isnat(values), np.nan, numbers)

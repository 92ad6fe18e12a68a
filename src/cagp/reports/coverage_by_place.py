"""Where error bars hold, and where they do not: by roughness and by distance from the data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from ..support.numbers import coverage_percent, number
from .held_out import HeldOut
from .names import Names
from .page import Table
from .unseen import Unseen

LEVELS = (0.5, 0.8, 0.95)

_FEWEST = 100
"""Fewer observations are not divided."""

WORDS = (
    "The roughness of a place is the standard deviation of the ten training observations nearest to it, without the "
    "one that is predicted: large where the data change quickly. The distance is that to the nearest observation that "
    "predicts, in lengthscales."
)


@dataclass(frozen=True, eq=False)
class Part:
    """The observations whose roughness or distance lies in a range: which they are, ``chosen`` (n,), in words."""

    label: str
    chosen: np.ndarray

    def coverage(self, found: HeldOut, level: float) -> float:
        """The share of them that lie in their central interval of this level."""
        return float((np.abs(found.z[self.chosen]) <= ndtri((1 + level) / 2)).mean())

    def spread(self, found: HeldOut) -> float:
        """The root mean square of error / std: above 1 the error bars are too narrow."""
        return float(np.sqrt(np.square(found.scores.z[self.chosen]).mean()))


@dataclass(frozen=True, eq=False)
class Division:
    """Observations in ``parts`` ``by`` something in a ``unit``, from where there is least of it to most."""

    by: str
    unit: str
    parts: tuple[Part, ...]

    @property
    def label(self) -> str:
        """For an axis and the head of a table."""
        return f"{self.by} [{self.unit}]" if self.unit else self.by


def divisions(unseen: Unseen, names: Names) -> list[Division]:
    """By quarters of roughness and of distance; none where there are few observations, or no difference."""
    found = unseen.plain
    if len(found) < _FEWEST:
        return []
    given = (("roughness", found.roughness, names.target_unit), ("distance", found.distance, "lengthscales"))
    made = [Division(by, unit, _quarters(values)) for by, values, unit in given if values is not None]
    return [each for each in made if len(each.parts) > 1]


def _quarters(values: np.ndarray) -> tuple[Part, ...]:
    """Quarters of the observations by their ``values`` (n,); fewer parts where many are the same."""
    values = np.round(values, 12)  # distances on a grid differ by rounding
    edges = np.unique(np.quantile(values, (0.25, 0.5, 0.75), method="lower"))
    number_of = np.searchsorted(edges, values, side="left")
    parts = []
    for each in np.unique(number_of):
        chosen = number_of == each
        low, high = (number(float(end), 2) for end in (values[chosen].min(), values[chosen].max()))
        parts.append(Part(low if low == high else f"{low} to {high}", chosen))
    return tuple(parts)


def table_of(division: Division, unseen: Unseen) -> Table:
    """Spread of z and coverage in each part; where there is a recalibration, before it and after it."""
    both = [unseen.plain] if unseen.recalibrated is None else [unseen.plain, unseen.recalibrated]
    rows = [
        (
            part.label,
            f"{int(part.chosen.sum()):,}",
            " → ".join(number(part.spread(found), 2) for found in both),
            *(" → ".join(coverage_percent(part.coverage(found, level)) for found in both) for level in LEVELS),
        )
        for part in division.parts
    ]
    caption = f"By {division.by}, from least to most."
    if len(both) > 1:
        caption += " Before → after the recalibration."
    heads = (division.label, "points", "rms of z", *(f"{100 * level:g}% intervals hold" for level in LEVELS))
    return Table(caption, heads, rows, f"by-{division.by}")

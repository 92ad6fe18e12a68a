"""What left-out predictions teach about the error bars of a model: near the data, and in gaps of all widths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError
from ..left_out import Geometry, leave_out
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, count, points
from .bands import Band

if TYPE_CHECKING:
    from ..model import Model

MOST = 1_000_000
"""So many single observations are left out where nothing else is said."""

_IN_GAPS = 4_000
"""So many are left out for gaps of about the same width."""

_NEAR = 1.5
"""Test points that are at most so many times the usual spacing from the data are like single observations left out."""

_WIDER = 3.0
"""The gaps of a band are up to so many times as wide as those of the one before."""

_FEWEST = 20
"""Fewer left-out observations say nothing about their spread."""


@dataclass(frozen=True)
class Recalibration:
    """Bands of left-out observations, from near the data to far from it; ``how`` they were found, in sentences.

    ``seed`` is that of the random choices.
    """

    bands: tuple[Band, ...]
    how: str
    seed: int

    def __repr__(self) -> str:
        distances = ", ".join(f"{band.distance:.3g}" for band in self.bands)
        return f"Recalibration({sum(len(band.z) for band in self.bands):,} left out, at distances {distances})"


def learn(
    model: Model, like: ArrayLike | None, n: int | None, seed: int, progress: bool | None = None
) -> Recalibration:
    """Leave out single observations, and gaps: of the widths of those that ``like`` (T, p) lie in, or of all widths."""
    size, generator = len(model.y), np.random.default_rng(count(seed, "seed"))
    asked = min(size, MOST) if n is None else count(n, "n", minimum=_FEWEST)
    if asked > size or size < _FEWEST:
        raise InputError(
            f"{asked} of {size} observations cannot be left out: a recalibration needs at least {_FEWEST} observations "
            "and n of at most all of them"
        )
    geometry = Geometry(model)
    wanted = None
    if like is not None:
        test = points(like, "like", model.device, columns=model.X.shape[1])
        wanted = geometry.distance(test).double().cpu().numpy()
    rows = np.arange(size) if asked == size else np.sort(generator.choice(size, asked, replace=False))
    with progress_bar("recalibrate", asked, progress) as advance:
        return _learn(model, geometry, rows, wanted, generator, seed, advance)


def _learn(
    model: Model,
    geometry: Geometry,
    rows: np.ndarray,
    wanted: np.ndarray | None,
    generator: np.random.Generator,
    seed: int,
    advance: Callable[[float], None],
) -> Recalibration:
    alone = leave_out(model, geometry, rows, None, advance, seed)
    bands = [Band.learned(alone, geometry, seed)]
    spacing = float(np.median(alone.distance))
    widest = _widest(geometry, generator) if wanted is None else float(wanted.max(initial=0.0))
    widths = []
    low = _NEAR * spacing
    while spacing > 0 and low < widest:
        high = min(low * _WIDER, widest)
        radius = _radii(wanted, low, low * _WIDER, high, min(len(model.y), _IN_GAPS), generator)
        if len(radius) >= _FEWEST:
            some = np.sort(generator.choice(len(model.y), len(radius), replace=False))
            try:
                found = leave_out(model, geometry, some, radius)
            except InputError:  # nothing is left outside of gaps as wide as these
                break
            if len(found) >= _FEWEST:
                bands.append(Band.learned(found, geometry, seed))
                widths.append(bands[-1].distance)
        low *= _WIDER
    how = alone.how
    if widths:
        whose = "gaps of all widths" if wanted is None else "gaps as wide as those that the points of like lie in"
        how += (
            f" So were {_IN_GAPS:,} or fewer observations in each of {len(widths)} {whose}, up to a distance of "
            f"{widths[-1]:.3g} lengthscales from the data."
        )
    return Recalibration(tuple(bands), how, seed)


def _widest(geometry: Geometry, generator: np.random.Generator) -> float:
    """A quarter of how far two observations usually lie apart: beyond, hardly anything is left to predict from."""
    some = generator.choice(len(geometry.points), (2, 1000))
    apart = (geometry.points[some[0]] - geometry.points[some[1]]).norm(dim=1)
    return float(apart.median()) / 4


def _radii(
    wanted: np.ndarray | None, low: float, end: float, high: float, n: int, generator: np.random.Generator
) -> np.ndarray:
    """Half widths of gaps between ``low`` and ``high``: those ``wanted`` there, or evenly spread; at most n."""
    if wanted is None:
        return np.exp(generator.uniform(np.log(low), np.log(high), n // 2))
    there = wanted[(wanted > low) & (wanted <= end)]
    return generator.choice(there, n) if len(there) else there

"""What left-out predictions teach about the error bars of a model: near the data, and in gaps of all widths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ..errors import InputError
from ..left_out import Geometry, Leaving, LeftOut, Voids
from ..prediction import Guarantee
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, count, points
from .bands import Band
from .layer import Learned

if TYPE_CHECKING:
    from ..model import Model

MOST = 1_000_000
"""So many single observations are left out where nothing else is said."""

_IN_GAPS = 2_000
"""So many are left out for gaps of about the same width."""

_NEAR = 1.5
"""Test points that are at most so many times the usual spacing from the data are like single observations left out."""

_WIDER = 3.0
"""The gaps of a band are up to so many times as wide as those of the one before."""

_IN_BAND = 500
_APART = 1.1
_WORTH_IT = 0.01
"""More bands of single observations need so many in each, at distances so many times apart, and so much better a score.
"""

_FEWEST, _FEWEST_IN_GAPS = 20, 100
"""Fewer left-out observations say nothing about their spread; in gaps, where many are wrong together, more are needed.
"""


EMPIRICAL = Guarantee(
    "empirical",
    "The error bars are as wide as the errors of left-out observations were, at this place and distance from the data: "
    "right for new observations that are like those.",
)


@dataclass(frozen=True)
class Recalibration(Learned):
    """Bands of left-out observations, from near the data to far from it; ``how`` they were found, in sentences.

    ``seed`` is that of the random choices. ``added`` observations came to the model later: nothing was learned from
    them.
    """

    name = "recalibration"

    bands: tuple[Band, ...]
    how: str
    seed: int
    added: int = 0

    @property
    def in_words(self) -> str:
        later = f" (observations added since: {self.added:,})" if self.added else ""
        return f"recalibrated by {sum(len(band.z) for band in self.bands):,} left-out predictions{later}"

    @property
    def guarantee(self) -> Guarantee:
        if not self.added:
            return EMPIRICAL
        later = f" Observations added to the model since this was learned: {self.added:,}."
        return replace(EMPIRICAL, sentence=EMPIRICAL.sentence + later)

    def after(self, added: int, held: Guarantee) -> Recalibration:
        return replace(self, added=self.added + added)

    def to_json(self, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
        bands = [band.to_json(f"bands[{i}]", arrays) for i, band in enumerate(self.bands)]
        later = {"added": self.added} if self.added else {}
        return {"bands": bands, "how": self.how, "seed": self.seed, **later}

    @classmethod
    def from_json(cls, content: Any, arrays: Mapping[str, np.ndarray], size: int) -> Recalibration:
        if not isinstance(content, dict) or set(content) - {"added"} != {"bands", "how", "seed"}:
            raise InputError("a recalibration must have exactly the entries bands, how and seed")
        if not isinstance(content["bands"], list) or not content["bands"]:
            raise InputError("the bands of a recalibration must be a list with at least one entry")
        described = enumerate(content["bands"])
        bands = tuple(Band.from_json(each, f"bands[{i}]", arrays, size) for i, each in described)
        if any(first.distance >= second.distance for first, second in pairwise(bands)):
            raise InputError("the bands of a recalibration must lie ever further from the data")
        seed, added = (count(content.get(name, 0), name) for name in ("seed", "added"))
        return cls(bands, str(content["how"]), seed, added)

    def __repr__(self) -> str:
        distances = ", ".join(f"{band.distance:.3g}" for band in self.bands)
        return f"Recalibration({sum(len(band.z) for band in self.bands):,} left out, at distances {distances})"


def learn(
    leaving: Leaving,
    like: ArrayLike | None,
    n: int | None,
    seed: int,
    progress: bool | None = None,
    alone: LeftOut | None = None,
) -> Recalibration:
    """Leave out single observations, and gaps: of the widths of those that ``like`` (T, p) lie in, or of all widths.

    ``alone`` are the single ones, where they were left out before.
    """
    model = leaving.plain
    size, generator = len(model.y), np.random.default_rng(count(seed, "seed"))
    asked = min(size, MOST) if n is None else count(n, "n", minimum=_FEWEST)
    if asked > size or size < _FEWEST:
        raise InputError(
            f"{asked} of {size} observations cannot be left out: a recalibration needs at least {_FEWEST} observations "
            "and n of at most all of them"
        )
    geometry = Geometry(model)
    wanted, draws = None, torch.Generator().manual_seed(seed)
    if like is not None:
        wanted = geometry.voids(points(like, "like", model.device, columns=model.X.shape[1]), draws)
    rows = np.arange(size) if asked == size else np.sort(generator.choice(size, asked, replace=False))
    with progress_bar("recalibrate", asked, progress) as advance:
        if alone is None:
            alone = leaving.leave_out(geometry, rows, None, advance, seed)
        else:
            advance(asked)
        return _learn(leaving, geometry, alone, wanted, draws, seed)


def learned_from(found: LeftOut, model: Model, seed: int) -> Recalibration:
    """What these left-out predictions alone teach: where gaps were left out, in bands by the distance from the data."""
    geometry = Geometry(model)
    if len(found) < _FEWEST:
        raise InputError(f"{len(found)} left-out observations are too few for a recalibration, which needs {_FEWEST}")
    if not found.gaps.any:
        return Recalibration(tuple(_by_distance(found, geometry, seed)), found.how, seed)
    number = np.zeros(len(found), dtype=int)
    rows = torch.from_numpy(found.index).to(model.device)
    nearest = geometry.beyond(rows, geometry.single(rows), 1)[:, 0]
    near = _NEAR * float((geometry.points[nearest] - geometry.points[rows]).norm(dim=1).median())
    if near > 0:
        number = np.ceil(np.log(np.maximum(found.distance / near, 1.0)) / np.log(_WIDER)).astype(int)
    bands, waiting = [], np.zeros(len(found), dtype=bool)
    for each in np.unique(number):  # a band with too few goes to the next one, and the last ones are not too few
        waiting |= number == each
        rest = int((number > each).sum())
        if waiting.sum() >= _FEWEST and (not rest or rest >= _FEWEST):
            bands.append(Band.learned(found.some(waiting), geometry, seed)[0])
            waiting = np.zeros(len(found), dtype=bool)
    return Recalibration(tuple(bands), found.how, seed)


def _learn(
    leaving: Leaving,
    geometry: Geometry,
    alone: LeftOut,
    wanted: Voids | None,
    draws: torch.Generator,
    seed: int,
) -> Recalibration:
    """Bands of single observations left out ``alone``, and of gaps as wide as those ``wanted``, or of all widths."""
    model = leaving.plain
    bands, size = _by_distance(alone, geometry, seed), len(model.y)
    spacing = float(np.median(alone.distance))
    widest = _widest(geometry, draws) if wanted is None else float(wanted.distance.max())
    low = _NEAR * spacing
    while spacing > 0 and low < widest:
        voids = _evenly(geometry, low, min(low * _WIDER, widest), widest, draws) if wanted is None else wanted
        there = ((voids.distance > low) & (voids.distance <= low * _WIDER)).nonzero()[:, 0]
        n = min(size, _IN_GAPS) if len(there) else 0
        low *= _WIDER
        if n < _FEWEST_IN_GAPS:
            continue
        some = torch.randperm(size, generator=draws)[:n].sort().values
        chosen = there[torch.randint(len(there), (n,), generator=draws).to(there.device)]
        gaps = geometry.like(some.to(model.device), voids.some(chosen.to(model.device)), draws)
        try:
            found = leaving.leave_out(geometry, some.numpy(), gaps)
        except InputError:  # nothing is left outside of gaps as wide as these
            break
        # bands lie ever further from the data: between two of them the sizes of errors are interpolated
        if len(found) >= _FEWEST and np.median(found.distance) > bands[-1].distance:
            bands.append(Band.learned(found, geometry, seed)[0])
    how = alone.how
    if len(bands) > 1:
        whose = "of all widths" if wanted is None else "as wide as those that the points of like lie in"
        number = "one band" if len(bands) == 2 else f"{len(bands) - 1} bands"
        how += (
            f" Up to {_IN_GAPS:,} were left out with a gap around each, for {number} of gaps {whose}, up to a distance "
            f"of {bands[-1].distance:.3g} lengthscales from the data."
        )
    return Recalibration(tuple(bands), how, seed)


def _by_distance(alone: LeftOut, geometry: Geometry, seed: int) -> list[Band]:
    """Single observations left out in bands by their distance from the data, as many as have the best log score.

    On a grid all lie at the same distance. Elsewhere those that have close neighbours may be wrong in other ways than
    those that stand alone.
    """
    order = np.argsort(alone.distance, kind="stable")
    best: list[Band] = []
    score = -np.inf
    for parts in (1, 3, 6):
        groups = np.array_split(order, parts)
        middle = [float(np.median(alone.distance[group])) for group in groups]
        if parts > 1 and (len(order) < parts * _IN_BAND or not all(_APART * a < b for a, b in pairwise(middle))):
            break
        found = [Band.learned(alone.some(np.sort(group)), geometry, seed) for group in groups]
        mean = float(np.mean([each for _, each in found]))
        if not best or mean > score + _WORTH_IT:
            best, score = [band for band, _ in found], mean
    # what holds for single observations holds up to the distances that most of them have; then gaps begin to count
    furthest = float(np.quantile(alone.distance, 0.9))
    return [*best[:-1], replace(best[-1], distance=max(best[-1].distance, furthest))]


def _widest(geometry: Geometry, draws: torch.Generator) -> float:
    """A quarter of how far two observations usually lie apart: beyond, hardly anything is left to predict from."""
    first, second = torch.randint(len(geometry.points), (2, 1000), generator=draws).to(geometry.points.device)
    return float((geometry.points[first] - geometry.points[second]).norm(dim=1).median()) / 4


def _evenly(geometry: Geometry, low: float, high: float, widest: float, draws: torch.Generator) -> Voids:
    """Voids at distances between ``low`` and ``high``, evenly spread, as points in the plane lie in discs."""
    n = min(len(geometry.points), _IN_GAPS)
    share, depth = torch.rand(2, n, generator=draws, dtype=torch.float64).to(geometry.points)
    distance = low * (high / low) ** share
    reach = (distance / (1 - 0.9 * depth.sqrt())).clamp_max(max(widest, high))
    return Voids(distance, reach, reach - distance)

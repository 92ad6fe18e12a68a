"""What left-out predictions teach about the error bars of a model: near the data, and in gaps of all widths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from ..errors import InputError
from ..left_out import Geometry, LeftOut, Mixture, Voids, heaviest, leave_out
from ..predicting.conditioned import Conditioned
from ..prediction import Prediction
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, count, points
from .bands import DistanceBand
from .recalibrated import EMPIRICAL, Adjustment, Recalibration, SizesOfErrors

MOST = 1_000_000
"""So many single observations are left out where nothing else is said."""

_IN_GAPS, _EXACTLY = 2_000, 500  # so many are left out for gaps of about the same width, by exact models fewer
_PARTS_IN_GAPS = 3  # so many components, the heaviest, predict what is left out in gaps
# Test points that are at most so many times the usual spacing from the data are like single observations left out.
_NEAR = 1.5
_WIDER = 3.0  # the gaps of a band are up to so many times as wide as those of the one before
# More bands of single observations need so many in each, at distances so many times apart, and so much better a score.
_IN_BAND, _APART, _WORTH_IT = 500, 1.1, 0.01

FEWEST, _FEWEST_IN_GAPS = 20, 100
"""Fewer left-out observations say nothing about their spread; in gaps, where many are wrong together, more are needed.
"""

GROUPS = 5
"""Left-out observations that recalibrate one another are in so many groups: each learns from almost all of them."""


def learn(
    mixture: Mixture,
    like: ArrayLike | None,
    n: int | None,
    seed: int,
    progress: bool | None = None,
    alone: LeftOut | None = None,
    near: Sequence[DistanceBand] = (),
) -> Recalibration:
    """Leave out single observations, and gaps: of the widths of those that ``like`` (T, p) lie in, or of all widths.

    ``alone`` are the single ones, where they were left out before, ``near`` the bands that were learned from them.
    """
    model = mixture.components[0]
    size, generator = len(model.y), np.random.default_rng(count(seed, "seed"))
    asked = min(size, MOST) if n is None else count(n, "n", minimum=FEWEST)
    if asked > size or size < FEWEST:
        raise InputError(
            f"{asked} of {size} observations cannot be left out: a recalibration needs at least {FEWEST} observations "
            "and n of at most all of them"
        )
    geometry = Geometry(model)
    wanted, draws = None, torch.Generator().manual_seed(seed)
    if like is not None:
        wanted = geometry.voids(points(like, "like", model.device, columns=model.X.shape[1]), draws)
    rows = np.arange(size) if asked == size else np.sort(generator.choice(size, asked, replace=False))
    with progress_bar("recalibrate", asked, progress) as advance:
        if alone is None:
            alone = ordinary(leave_out(mixture, geometry, rows, None, advance, seed), mixture)
        else:
            advance(asked)
        return _learn(mixture, geometry, alone, wanted, draws, seed, near)


def ordinary(found: LeftOut, mixture: Mixture) -> LeftOut:
    """Left-out predictions without those of outliers: what error bars promise, they promise of the others."""
    others = ~np.isin(found.index, mixture.components[0].prior.outliers)
    if others.all() or not others.any():
        return found
    how = f"{found.how} {int((~others).sum()):,} of them, taken for outliers, are not in the result."
    return replace(found.some(others), how=how)


def learned_from(found: LeftOut, component: Conditioned, seed: int) -> Recalibration:
    """What these left-out predictions alone teach: where gaps were left out, in bands by the distance from the data."""
    geometry = Geometry(component)
    if len(found) < FEWEST:
        raise InputError(f"{len(found)} left-out observations are too few for a recalibration, which needs {FEWEST}")
    if not found.gaps.any:
        return Recalibration(tuple(_by_distance(found, geometry, seed)), found.how, seed)
    number = np.zeros(len(found), dtype=int)
    rows = torch.from_numpy(found.index).to(component.device)
    near = _NEAR * float(geometry.gap(rows, geometry.single(rows)).median())
    if near > 0:
        number = np.ceil(np.log(np.maximum(found.distance / near, 1.0)) / np.log(_WIDER)).astype(int)
    bands, waiting = [], np.zeros(len(found), dtype=bool)
    for each in np.unique(number):  # a band with too few goes to the next one, and the last ones are not too few
        waiting |= number == each
        rest = int((number > each).sum())
        if waiting.sum() >= FEWEST and (not rest or rest >= FEWEST):
            bands.append(DistanceBand.learned(found.some(waiting), geometry, seed)[0])
            waiting = np.zeros(len(found), dtype=bool)
    return Recalibration(tuple(bands), found.how, seed)


def cross_recalibrated(found: LeftOut, component: Conditioned, seed: int) -> Prediction:
    """The predictions of left-out observations, those of each group recalibrated by the other groups.

    No observation judges itself: where this mends the error bars of the left-out observations, a recalibration mends
    those of new ones that are like them. ``component`` is the one whose data were left out.
    """
    order = np.random.default_rng(seed).permutation(len(found))
    parts = []
    for group in np.array_split(order, GROUPS):
        others = np.setdiff1d(order, group)
        sizes = SizesOfErrors(learned_from(found.some(others), component, seed), component)
        X, distance = (torch.from_numpy(each[group]).to(component.device) for each in (found.X, found.distance))
        parts.append(sizes.adjustment(X, distance))
    place = torch.from_numpy(np.argsort(order)).to(component.device)
    adjustment = Adjustment.joined(parts, place)
    on_cpu = (getattr(adjustment, name).cpu() for name in ("size", "band", "share", "values", "spreads"))
    return replace(found, guarantee=EMPIRICAL).reshaped(Adjustment(*on_cpu).reshape)


def _learn(
    mixture: Mixture,
    geometry: Geometry,
    alone: LeftOut,
    wanted: Voids | None,
    draws: torch.Generator,
    seed: int,
    near: Sequence[DistanceBand] = (),
) -> Recalibration:
    """Bands of single observations left out ``alone``, and of gaps as wide as those ``wanted``, or of all widths."""
    model, few = mixture.components[0], heaviest(mixture, _PARTS_IN_GAPS)
    bands, size = list(near) or _by_distance(alone, geometry, seed), len(model.y)
    most = min(_IN_GAPS if model.prepared.factor is None else _EXACTLY, max(_FEWEST_IN_GAPS, len(alone)))
    spacing = float(np.median(alone.distance))
    widest = _widest(geometry, draws) if wanted is None else float(wanted.distance.max())
    low = _NEAR * spacing
    while spacing > 0 and low < widest:
        voids = _evenly(geometry, low, min(low * _WIDER, widest), widest, draws) if wanted is None else wanted
        there = ((voids.distance > low) & (voids.distance <= low * _WIDER)).nonzero()[:, 0]
        n = min(size, most) if len(there) else 0
        low *= _WIDER
        if n < _FEWEST_IN_GAPS:
            continue
        some = torch.randperm(size, generator=draws)[:n].sort().values
        chosen = there[torch.randint(len(there), (n,), generator=draws).to(there.device)]
        gaps = geometry.like(some.to(model.device), voids.some(chosen.to(model.device)), draws)
        try:
            found = ordinary(leave_out(few, geometry, some.numpy(), gaps), few)
        except InputError:  # nothing is left outside of gaps as wide as these
            break
        # bands lie ever further from the data: between two of them the sizes of errors are interpolated
        if len(found) >= FEWEST and np.median(found.distance) > bands[-1].distance:
            bands.append(DistanceBand.learned(found, geometry, seed)[0])
    how = alone.how
    if len(bands) > 1:
        whose = "of all widths" if wanted is None else "as wide as those that the points of like lie in"
        number = "one band" if len(bands) == 2 else f"{len(bands) - 1} bands"
        how += (
            f" Up to {most:,} were left out with a gap around each, for {number} of gaps {whose}, up to a distance "
            f"of {bands[-1].distance:.3g} lengthscales from the data."
        )
    return Recalibration(tuple(bands), how, seed)


def _by_distance(alone: LeftOut, geometry: Geometry, seed: int) -> list[DistanceBand]:
    """Single observations left out in bands by their distance from the data, as many as have the best log score.

    On a grid all lie at the same distance. Elsewhere those that have close neighbours may be wrong in other ways than
    those that stand alone.
    """
    order = np.argsort(alone.distance, kind="stable")
    best: list[DistanceBand] = []
    score = -np.inf
    for parts in (1, 3, 6):
        groups = np.array_split(order, parts)
        middle = [float(np.median(alone.distance[group])) for group in groups]
        if parts > 1 and (len(order) < parts * _IN_BAND or not all(_APART * a < b for a, b in pairwise(middle))):
            break
        found = [DistanceBand.learned(alone.some(np.sort(group)), geometry, seed) for group in groups]
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

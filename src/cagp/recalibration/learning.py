"""What left-out predictions teach about the error bars of a model: near the data, and in gaps of all widths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from ..errors import InputError
from ..left_out import (
    FEWEST,
    MISSED,
    NEAR,
    STANDING_IN,
    Geometry,
    LeftOut,
    Mixture,
    heaviest,
    leave_out,
    matching,
    stand_ins_for,
)
from ..predicting.conditioned import Conditioned
from ..prediction import Prediction
from ..solvers import NearestNeighbours, Solver
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, count, points
from .bands import DistanceBand
from .margins import Margins
from .recalibrated import EMPIRICAL, Adjustment, Recalibration, SizesOfErrors

MOST = 1_000_000
"""So many single observations are left out where nothing else is said."""

_PARTS_IN_GAPS = 3  # so many components, the heaviest, predict what is left out in gaps
_WIDER = 3.0  # the gaps of a band are up to so many times as wide as those of the one before
_MOST_BANDS = 8
# More bands of single observations need so many in each, at distances so many times apart, and so much better a score.
_IN_BAND, _APART, _WORTH_IT = 500, 1.1, 0.01
_IN_BAND_OF_STAND_INS = 50  # independent ones: several bands of fewer would be learned from chance
# Margins are learned anew when so large a share is new, in at most so many predictions from neighbours, or operations
# of factors: seconds.
_NEW, _PREDICTED, _OPERATIONS = 0.01, 20_000, 3e10
_FEWEST_IN_GAPS = 100  # where many are wrong together, more are needed than FEWEST

MISTAKEN = 6.0
"""Outliers further out, in standard deviations, are mistakes; others are tails, which new observations have as well."""

GROUPS = 5
"""Left-out observations that recalibrate one another are in so many groups: each learns from almost all of them."""


def learn(
    mixture: Mixture,
    like: ArrayLike | None,
    n: int | None,
    seed: int,
    progress: bool | None = None,
    seen: LeftOut | None = None,
    taught: Sequence[DistanceBand] = (),
) -> Recalibration:
    """Leave out single observations, and those that stand in for points ``like`` (T, p), or for points in gaps of all
    widths.

    ``seen`` were left out before, alone or as stand-ins, and ``taught`` these bands.
    """
    model = mixture.components[0]
    able, generator = model.recipe.judging, np.random.default_rng(count(seed, "seed"))
    size = len(able)
    asked = min(size, MOST) if n is None else count(n, "n", minimum=FEWEST)
    if asked > size or size < FEWEST:
        raise InputError(
            f"{asked} of {size} observations cannot be left out: a recalibration needs at least {FEWEST} observations "
            "and n of at most all of them"
        )
    geometry = Geometry(model)
    if like is not None:
        test = points(like, "like", model.device, columns=model.X.shape[1])
        stand_ins = stand_ins_for(model, test, min(size, STANDING_IN), seed)
        seen = ordinary(leave_out(mixture, stand_ins, seed=seed, correlated=True), mixture)
        taught = learned_from(seen, model, seed).bands
    with progress_bar("recalibrate", asked, progress) as advance:
        known = len(model.prior.outliers)
        if seen is not None and seen.stand_ins is None and len(seen) + known >= asked:
            alone, near = seen, list(taught)
            advance(asked)
        else:
            rows = able if asked == size else able[np.sort(generator.choice(size, asked, replace=False))]
            alone = ordinary(leave_out(mixture, rows, advance, seed), mixture)
            near = _by_distance(alone, geometry, seed)
    bands, how = near, alone.how
    if seen is not None and seen.stand_ins is not None:
        bands = near + [band for band in taught if band.distance > near[-1].distance]
        how += f" {seen.how}" if len(bands) > len(near) else ""
    if seen is None or seen.stand_ins is None or seen.stand_ins.missing > MISSED:
        known = len(bands)
        bands = _in_gaps(mixture, geometry, alone, bands, seed)
        how += " Others were left out with all that is near them, for gaps of all widths." if len(bands) > known else ""
    if len(bands) > len(near):
        how += f" Error bars are known up to a distance of {bands[-1].distance:.3g} lengthscales from the data."
    by_itself = seen is None or seen.stand_ins is None
    return Recalibration(tuple(bands), how, seed, single=asked if by_itself else None)


def learned_in_seconds(margins: Margins | None, solver: Solver, components: int, size: int) -> bool:
    """Whether margins are learned anew when observations are added: what the data alone taught, where it takes seconds.

    ``solver`` is that of so many ``components`` of ``size`` observations.
    """
    if not isinstance(margins, Recalibration) or margins.single is None:
        return False
    if isinstance(solver, NearestNeighbours):
        return components * margins.single <= _PREDICTED
    return components * size**3 <= _OPERATIONS


def brought_up_to_date(mixture: Mixture, margins: Margins | None) -> Margins | None:
    """The margins of a model that has grown: learned anew where that takes seconds, and it has grown by a hundredth."""
    first = mixture.components[0]
    able, solver = len(first.recipe.judging), first.picked or first.solver
    if not learned_in_seconds(margins, solver, len(mixture.components), len(first.y)):
        return margins
    assert isinstance(margins, Recalibration)
    if margins.added < _NEW * (able - margins.added):
        return margins
    all_of_them = margins.single == able - margins.added
    return learn(mixture, None, None if all_of_them else margins.single, margins.seed, progress=False)


def as_new(found: LeftOut, mixture: Mixture) -> LeftOut:
    """Left-out predictions with the noise of new observations: that an observation was an outlier is not foreseen."""
    if all(each.prior.noise_factors is None for each in mixture.components):
        return found
    more = np.zeros(len(found))
    for weight, each in zip(mixture.weights, mixture.components, strict=True):
        own, new = (prior.noise(each.X) for prior in (each.prior, replace(each.prior, noise_factors=None)))
        more += weight * (own - new).cpu().numpy()[found.index]
    # what is left of a large number less nearly the same one has the digits of the large one
    least = np.finfo(float).eps * found.std**2
    return replace(found, std=np.sqrt(np.maximum(found.std**2 - more, least)))


def ordinary(found: LeftOut, mixture: Mixture) -> LeftOut:
    """Left-out observations predicted like new ones, without outliers that are mistakes: error bars promise that they
    hold the rest, others that were taken for outliers among them.
    """
    found = as_new(found, mixture)
    kept = usual(found, mixture)
    if kept.all() or not kept.any():
        return found
    how = f"{found.how} {int((~kept).sum()):,} of them, outliers more than {MISTAKEN:g} standard deviations out, are "
    return replace(found.some(kept), how=f"{how}not in the result.")


def usual(found: LeftOut, mixture: Mixture) -> np.ndarray:
    """Which observations (n,), predicted like new ones, are no outliers that are mistakes."""
    return ~(np.isin(found.index, mixture.components[0].prior.outliers) & (np.abs(found.z) > MISTAKEN))


def learned_from(found: LeftOut, component: Conditioned, seed: int) -> Recalibration:
    """What these left-out predictions alone teach: where gaps were left out, in bands by the distance from the data."""
    geometry = Geometry(component)
    if len(found) < FEWEST:
        raise InputError(f"{len(found)} left-out observations are too few for a recalibration, which needs {FEWEST}")
    if found.stand_ins is None:
        return Recalibration(tuple(_by_distance(found, geometry, seed)), found.how, seed)
    number = np.zeros(len(found), dtype=int)
    rows = torch.from_numpy(found.index).to(component.device)
    near = NEAR * float(geometry.distance_of(geometry.others(rows, 1), rows).median())
    if near > 0:
        number = np.ceil(np.log(np.maximum(found.distance / near, 1.0)) / np.log(_WIDER)).astype(int)
    bands, waiting = [], np.zeros(len(found), dtype=bool)
    for each in np.unique(number):  # a band with too few goes to the next one, and the last ones are not too few
        waiting |= number == each
        rest = number > each
        if not rest.any() or min(found.some(waiting).worth, found.some(rest).worth) >= _IN_BAND_OF_STAND_INS:
            bands.append(DistanceBand.learned(found.some(waiting), geometry, seed)[0])
            waiting = np.zeros(len(found), dtype=bool)
    return Recalibration(tuple(bands), found.how, seed)


def cross_recalibrated(found: LeftOut, component: Conditioned, seed: int) -> Prediction:
    """The predictions of left-out observations, those of each group recalibrated by the other groups.

    ``component`` is the one whose data were left out.
    """
    return replace(found, guarantee=EMPIRICAL).reshaped(cross_adjustment(found, component, seed).reshape)


def cross_adjustment(found: LeftOut, component: Conditioned, seed: int) -> Adjustment:
    """What the other groups of left-out observations change about those of each group.

    No observation judges itself, for whatever points it stands in: where this mends the error bars of the left-out
    observations, a recalibration mends those of new ones that are like them.
    """
    single = np.random.default_rng(seed).permutation(np.unique(found.index))
    groups = [np.flatnonzero(np.isin(found.index, some)) for some in np.array_split(single, GROUPS)]
    order, parts = np.concatenate(groups), []
    for group in groups:
        others = np.setdiff1d(order, group)
        sizes = SizesOfErrors(learned_from(found.some(others), component, seed), component)
        X, distance = (torch.from_numpy(each[group]).to(component.device) for each in (found.X, found.distance))
        parts.append(sizes.adjustment(X, distance))
    place = torch.from_numpy(np.argsort(order)).to(component.device)
    adjustment = Adjustment.joined(parts, place)
    on_cpu = (getattr(adjustment, name).cpu() for name in ("size", "band", "share", "values", "spreads"))
    return Adjustment(*on_cpu)


def _in_gaps(
    mixture: Mixture, geometry: Geometry, alone: LeftOut, known: Sequence[DistanceBand], seed: int
) -> list[DistanceBand]:
    """The ``known`` bands, and further ones of observations left out with all that is near them, for wider gaps."""
    model, few = mixture.components[0], heaviest(mixture, _PARTS_IN_GAPS)
    able = torch.from_numpy(model.recipe.judging)  # who may be left out
    draws, size, bands = torch.Generator().manual_seed(seed), len(able), list(known)
    spacing, widest = float(np.median(alone.distance)), _widest(geometry, draws)
    n = min(size, STANDING_IN, max(_FEWEST_IN_GAPS, len(alone)))
    # where many lie next to each other, widths that hardly differ from none for most are not worth their time
    low = max(NEAR * spacing, widest / _WIDER**_MOST_BANDS) if spacing > 0 else 0.0
    matched = matching(model)
    while n >= _FEWEST_IN_GAPS and 0 < low < widest:
        share = torch.rand(n, generator=draws, dtype=torch.float64)
        width = low * (min(_WIDER, widest / low) ** share).to(geometry.points)
        low *= _WIDER
        rows = able[torch.randperm(size, generator=draws)[:n].sort().values].to(model.device)
        stand_ins = matched.beyond(rows, width)
        if len(stand_ins) < _FEWEST_IN_GAPS:  # hardly anybody has something left outside of gaps as wide as these
            break
        found = ordinary(leave_out(few, stand_ins, seed=seed, correlated=True), few)
        # bands lie ever further from the data: between two of them the sizes of errors are interpolated
        if np.median(found.distance) > bands[-1].distance:
            bands.append(DistanceBand.learned(found, geometry, seed)[0])
    return bands


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

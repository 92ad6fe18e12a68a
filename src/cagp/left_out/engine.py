"""Which training observations are left out, of what around them, and what predicts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from ..errors import InputError, NotPositiveDefiniteError
from ..predicting.conditioned import Conditioned
from ..solvers import NearestNeighbours, Solver
from ..solvers.nearest_neighbours import PreparedNearestNeighbours
from ..support.progress import progress as progress_bar
from ..support.threads import share_out
from ..support.validation import count
from .correlation import some_of
from .gaps import Gaps
from .geometry import Geometry
from .result import LeftOut
from .ways import affordable, by_folds, by_neighbours, closed_form, correlation_by_neighbours, few_of, in_closed_form

MOST = 100_000
"""So many are left out where nothing else is said: more take minutes and say no more."""

STAND_IN = NearestNeighbours()
"""What predicts where the solver of the model would take too long."""

_SECONDS = 8.0  # more neighbours than the stand-in has are not waited for longer than this, on one core


class Mixture(Protocol):
    """A model, as far as leaving out goes: its ``components`` of the same data, and their ``weights`` (m,)."""

    @property
    def components(self) -> Sequence[Conditioned]: ...

    @property
    def weights(self) -> np.ndarray: ...


@dataclass(frozen=True)
class _Part:
    """Some components of a mixture."""

    components: Sequence[Conditioned]
    weights: np.ndarray


def heaviest(mixture: Mixture, n: int) -> Mixture:
    """The n components with the most weight, as a mixture of their own."""
    chosen = np.sort(np.argsort(-np.asarray(mixture.weights), kind="stable")[:n])
    weights = np.asarray(mixture.weights)[chosen]
    return _Part([mixture.components[i] for i in chosen], weights / weights.sum())


def left_out(
    mixture: Mixture,
    like: torch.Tensor | None = None,
    n: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
    *,
    correlated: bool = False,
) -> LeftOut:
    """``n`` training observations, drawn at random, predicted from the others; see ``Model.left_out``.

    Where ``correlated``, the result knows the average correlation of the errors.
    """
    first = mixture.components[0]
    size = len(first.y)
    if size < 2:
        raise InputError("one observation cannot be left out: there is no other to predict it from")
    asked = min(size, MOST) if n is None else count(n, "n", minimum=1)
    if asked > size:
        raise InputError(f"n is {asked}, and there are {size} training observations; n=None takes all of them")
    generator = np.random.default_rng(count(seed, "seed"))
    rows = np.arange(size) if asked == size else np.sort(generator.choice(size, asked, replace=False))
    geometry, gaps, at = Geometry(first), None, torch.from_numpy(rows).to(first.device)
    if like is not None:
        draws = torch.Generator().manual_seed(seed)
        voids = geometry.voids(like, draws)
        chosen = torch.randint(len(voids.distance), (asked,), generator=draws).to(first.device)
        gaps = geometry.like(at, voids.some(chosen), draws)
    with progress_bar("left out", asked, progress) as advance:
        return leave_out(mixture, geometry, rows, gaps, advance, seed, correlated)


def leave_out(
    mixture: Mixture,
    geometry: Geometry,
    rows: np.ndarray,
    gaps: Gaps | None,
    advance: Callable[[float], None] = lambda steps: None,
    seed: int = 0,
    correlated: bool = False,
) -> LeftOut:
    """The training points ``rows`` (n,) predicted from the others, but for those in the gap of each."""
    first, *others = mixture.components
    found = [leave_out_of(first, geometry, rows, gaps, advance, seed, correlated)]
    if not others:
        return found[0]
    more: dict[int, LeftOut] = {}

    def one(which: int) -> None:
        more[which] = leave_out_of(others[which], geometry, rows, gaps, seed=seed)

    # exact ones, of few observations, at the same time: threads inside do not pay
    if all(closed_form(each) for each in others) and first.device.type == "cpu":
        share_out(one, range(len(others)), first.device, large=True)
    else:
        for which in range(len(others)):
            one(which)
    found += [more[which] for which in range(len(others))]
    there = set.intersection(*(set(each.index.tolist()) for each in found))
    found = [each.some(np.isin(each.index, list(there))) for each in found]
    means, stds = (np.stack([getattr(each, name) for each in found]) for name in ("mean", "std"))
    mean = mixture.weights @ means
    return replace(found[0], mean=mean, std=np.sqrt(mixture.weights @ (stds**2 + (means - mean) ** 2)))


def leave_out_of(
    model: Conditioned,
    geometry: Geometry,
    rows: np.ndarray,
    gaps: Gaps | None,
    advance: Callable[[float], None] = lambda steps: None,
    seed: int = 0,
    correlated: bool = False,
) -> LeftOut:
    """The training points ``rows`` (n,) predicted from the others, but for those in the gap of each, by one prior."""
    solver, size = model.prepared.picked or model.solver, len(model.y)
    at = torch.from_numpy(rows).to(model.device)
    if gaps is None:  # each from those that are near in its own coordinates, as in a prediction
        geometry = Geometry(model, geometry) if geometry.model is not model else geometry
    around = geometry.single(at) if gaps is None else gaps
    if gaps is None and affordable(model, solver, len(rows)):
        return by_folds(model, solver, rows, around, seed, advance, correlated)
    few = few_of(model, geometry, at, around)
    advance(len(rows) - len(few))
    rows, at, around = rows[few.cpu().numpy()], at[few], around.some(few)
    how, correlation = _which(len(rows), size, around.any), None
    if closed_form(model):
        compared = some_of(len(rows), size, 1, seed) if correlated else np.empty(0, dtype=np.int64)
        errors, variances, correlation = in_closed_form(model, geometry, at, around, compared)
        distances = geometry.gap(at, around)
        how += " in closed form, each from all the others: new weights."
        advance(len(rows))
    else:
        prepared, which = _neighbours(model, solver, len(rows))
        errors, variances, distances = by_neighbours(model, prepared, geometry, at, around, advance)
        how += f" with {which}"
        if correlated:
            correlation = correlation_by_neighbours(model, prepared, geometry, at, around, seed)
    error, variance, distance = (each.double().cpu().numpy() for each in (errors, variances, distances))
    useful = np.isfinite(variance) & (variance > 0) & np.isfinite(distance)
    if not useful.any() and not around.any:
        raise NotPositiveDefiniteError(
            "rounding errors leave no positive variance of a left-out observation: a larger noise_variance helps"
        )
    if not useful.any():
        raise InputError(
            f"none of the {len(rows)} observations can be predicted from the others that are left; with gaps as large "
            "as those of like, nothing is left: choose points nearer to the data"
        )
    if not useful.all():
        how += f" {int((~useful).sum()):,} are left out of the result: the others do not determine them."
    y, short = model.recipe.y[rows], "left-out gaps" if around.any else "leave-one-out"
    std = np.sqrt(np.where(useful, variance, 1.0))
    result = LeftOut(rows, model.recipe.X[rows], y, y - error, std, distance, how, short, around, correlation)
    return result if useful.all() else result.some(useful)


def _which(n: int, size: int, gaps: bool) -> str:
    some = f"{n:,} of the {size:,} observations, drawn at random," if n < size else f"All {size:,} observations"
    without = ", without what lies with each in a gap as wide as those to be predicted" if gaps else ""
    return f"{some} were predicted from the others{without},"


def _neighbours(model: Conditioned, solver: Solver, n: int) -> tuple[PreparedNearestNeighbours, str]:
    """What finds neighbours of ``n`` points for the model, and how it is called in a sentence."""
    own = model.prepared
    soon = solver.operations(len(model.y), n).seconds(tiles=True) <= _SECONDS
    if isinstance(solver, NearestNeighbours) and (solver.k <= STAND_IN.k or soon):
        if not isinstance(own, PreparedNearestNeighbours) or own.gram is not model.gram:
            own = solver.prepare(model.gram)
        return own, f"{solver!r}, as the model predicts."
    which = f"{STAND_IN!r} instead of {solver!r}, which would take long: this judges the prior, not the solver."
    return STAND_IN.prepare(model.gram), which

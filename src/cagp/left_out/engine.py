"""Which training observations are left out, of what around them, and what predicts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
import torch

from ..errors import InputError, NotPositiveDefiniteError
from ..predicting.conditioned import Conditioned
from ..solvers import NearestNeighbours, Solver
from ..solvers.nearest_neighbours import PreparedNearestNeighbours
from ..support.orthonormal import orthonormal
from ..support.progress import progress as progress_bar
from ..support.threads import share_out
from ..support.validation import count
from .correlation import some_of
from .gaps import Gaps
from .geometry import Geometry
from .result import LeftOut
from .stand_ins import Matching, StandIns
from .ways import affordable, by_folds, by_neighbours, closed_form, correlation_by_neighbours, in_closed_form

MOST = 100_000
"""So many are left out where nothing else is said: more take minutes and say no more."""

STAND_IN = NearestNeighbours()
"""What predicts where the solver of the model would take too long."""

STANDING_IN = 2_000
"""So many observations stand in for points to be predicted, at most: more say no more."""

FEWEST = 20
"""Fewer left-out observations say nothing about errors."""

_POINTS = 100_000  # so many points to be predicted say in which gaps they lie

MISSED = 0.005
"""A smaller share of points for which nobody stands in is not worth a word."""

# Stand-ins have a part of few observations as neighbours, at least so many, and for each function of a trend as many.
_FEWEST_NEIGHBOURS, _PART, _FOR_TREND = 30, 8, 2
_ALL_LEVERAGE = 1e-9  # a leverage this close to 1 is 1, but for rounding
_ENTRIES = 2**24  # so many neighbours are looked for at a time
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
    place: torch.Tensor | None = None,
) -> LeftOut:
    """``n`` training observations, drawn at random, predicted from the others; see ``Model.left_out``.

    Where ``correlated``, the result knows the average correlation of the errors. ``place`` is as in ``leave_out``.
    """
    first = mixture.components[0]
    size = len(first.y)
    if size < 2:
        raise InputError("one observation cannot be left out: there is no other to predict it from")
    if place is not None and not bool(place.any()):
        raise InputError("all observations are at one place, which cannot be left out: there is no other")
    able = len(first.recipe.judging)
    asked = min(able, MOST) if n is None else count(n, "n", minimum=1)
    which: np.ndarray | StandIns
    if asked > able:
        raise InputError(f"n is {asked}, and there are {able} training observations; n=None takes all of them")
    if like is None:
        which, _ = who_judges(first, None, asked, count(seed, "seed"))
    else:
        which = stand_ins_for(first, like, min(asked, STANDING_IN) if n is None else asked, count(seed, "seed"))
    with progress_bar("left out", len(which), progress) as advance:
        return leave_out(mixture, which, advance, seed, correlated, place=place)


def who_judges(model: Conditioned, like: torch.Tensor | None, n: int, seed: int) -> tuple[np.ndarray | StandIns, str]:
    """Who is left out to judge a model: n observations, drawn at random; those that stand in for points ``like`` (T, p)
    where that was said, if anybody does; and what to say where nobody does.
    """
    size, note = len(model.y), ""
    if like is not None:
        found = matching(model).stand_ins(like, min(n, size), seed)
        if found.missing > MISSED:
            note = (
                f"For {found.missing:.0%} of the points to be predicted nothing can be judged: no observation can "
                "stand in for them, since none has as little data around it; predictions there are extrapolations."
            )
        if len(found) >= FEWEST:
            return found, note
    able = model.recipe.judging
    chosen = torch.randperm(len(able), generator=torch.Generator().manual_seed(seed))[:n].sort().values
    return able[chosen.numpy()], note


def stand_ins_for(model: Conditioned, like: torch.Tensor, n: int, seed: int) -> StandIns:
    """Who stands in for n of the points ``like`` (T, p); refused where nobody can."""
    found = matching(model).stand_ins(like, n, seed)
    if not len(found):
        raise InputError(
            f"no observation can stand in for any of the points of like: none of all {len(model.y)} has as little data "
            "around it, so that predictions there cannot be judged; choose points nearer to the data"
        )
    return found


def leave_out_gaps(mixture: Mixture, like: torch.Tensor, seed: int) -> tuple[LeftOut, Gaps] | None:
    """Whole gaps like those that points ``like`` (T, p) lie in, predicted from what is around them, and which is which.

    None where most points lie alone, or nowhere else there is as much around such a gap.
    """
    model = mixture.components[0]
    some = torch.randperm(len(like), generator=torch.Generator().manual_seed(seed))[:_POINTS].sort().values
    like = like[some.to(like.device)]
    gaps = Gaps.of_points(Geometry(model), like)
    if not gaps.matter:
        return None
    stand_ins, number = matching(model).whole(like, gaps.number, seed)
    if not len(stand_ins):
        return None
    found = leave_out(mixture, stand_ins, seed=seed)
    known = np.isin(stand_ins.number, found.number)
    return found, Gaps(number).some(known)


def matching(model: Conditioned) -> Matching:
    """What finds stand-ins for a model: by neighbours, fewer where there are few observations."""
    trend = 0 if model.basis is None else _FOR_TREND * model.basis.at_training_points.shape[1]
    few = NearestNeighbours(min(STAND_IN.k, max(_FEWEST_NEIGHBOURS, len(model.y) // _PART)) + trend)
    solver = model.prepared.picked or model.solver
    return Matching(
        model, _prepared(model, solver if isinstance(solver, NearestNeighbours) and solver.k <= few.k else few)
    )


def leave_out(
    mixture: Mixture,
    which: np.ndarray | StandIns,
    advance: Callable[[float], None] = lambda steps: None,
    seed: int = 0,
    correlated: bool = False,
    another: Geometry | None = None,
    place: torch.Tensor | None = None,
) -> LeftOut:
    """Training points ``which`` (n,) predicted from the others, or stand-ins from their members.

    ``another`` geometry of the same data may know who is near. ``place`` (d,) says where each training point is: with
    it, points are predicted without all others at their place.
    """
    first, *others = mixture.components
    found = [leave_out_of(first, which, advance, seed, correlated, another, place)]
    if not others:
        return found[0]
    more: dict[int, LeftOut] = {}

    def one(i: int) -> None:
        more[i] = leave_out_of(others[i], which, seed=seed, another=another, place=place)

    # exact ones, of few observations, at the same time: threads inside do not pay
    if all(closed_form(each) for each in others) and first.device.type == "cpu":
        share_out(one, range(len(others)), first.device, large=True)
    else:
        for i in range(len(others)):
            one(i)
    found += [more[i] for i in range(len(others))]
    there = set.intersection(*(set(each.number.tolist()) for each in found))
    found = [each.some(np.isin(each.number, list(there))) for each in found]
    means, stds = (np.stack([getattr(each, name) for each in found]) for name in ("mean", "std"))
    mean = mixture.weights @ means
    return replace(found[0], mean=mean, std=np.sqrt(mixture.weights @ (stds**2 + (means - mean) ** 2)))


def leave_out_of(
    model: Conditioned,
    which: np.ndarray | StandIns,
    advance: Callable[[float], None] = lambda steps: None,
    seed: int = 0,
    correlated: bool = False,
    another: Geometry | None = None,
    place: torch.Tensor | None = None,
) -> LeftOut:
    """Training points ``which`` (n,) predicted from the others, or stand-ins from their members, by one prior."""
    solver, size = model.prepared.picked or model.solver, len(model.y)
    others = "" if place is None else "What else was measured at their places was left out with them."
    whole = place is not None
    if isinstance(which, StandIns):
        rows, stand_ins, members = which.rows.cpu().numpy(), which, which.members
    else:
        rows, stand_ins, members = which, None, None
        if place is None and model.recipe.copies is not None:
            place, others = model.recipe.copies.to(model.device), "Copies of them were left out with them."
        if place is None and affordable(model, solver, len(rows)):
            lost = _decides_trend(model)[rows]
            if not lost.all():
                found = by_folds(model, solver, rows[~lost], seed, advance, correlated)
                return replace(found, how=found.how + _not_determined(lost))
    at, geometry, correlation = torch.from_numpy(rows).to(model.device), Geometry(model, another), None
    if stand_ins is None and closed_form(model):
        compared = some_of(len(rows), size, 1, seed) if correlated else np.empty(0, dtype=np.int64)
        errors, variances, correlation = in_closed_form(model, at, compared, place)
        distances = geometry.distance_of(_elsewhere(geometry, at, place, 1), at)
        how = f"{_all_of(len(rows), size)} in closed form, each from all the others: new weights."
        advance(len(rows))
    else:
        if stand_ins is None:
            prepared, words = _neighbours(model, solver, len(rows))
            how = f"{_all_of(len(rows), size)} with {words}"
            if place is not None:
                members = prepared.members(partial(_elsewhere, geometry, at, place))
        else:
            prepared, how = _prepared(model, STAND_IN), stand_ins.how
        errors, variances, distances = by_neighbours(model, prepared, geometry, at, members, advance)
        if correlated:
            correlation = correlation_by_neighbours(model, prepared, geometry, at, members, seed)
    error, variance, distance = (each.double().cpu().numpy() for each in (errors, variances, distances))
    useful = np.isfinite(variance) & (variance > 0) & np.isfinite(distance) & ~_decides_trend(model, place)[rows]
    if not useful.any():
        raise NotPositiveDefiniteError(
            "rounding errors leave no positive variance of a left-out observation: a larger noise_variance helps"
        )
    how = f"{how} {others}".rstrip()
    how += _not_determined(~useful)
    short = "leave-one-out" if stand_ins is None else "stand-ins"
    short = "leave-one-place-out" if whole else short
    y, std = model.recipe.y[rows], np.sqrt(np.where(useful, variance, 1.0))
    result = LeftOut(rows, model.recipe.X[rows], y, y - error, std, distance, how, short, stand_ins, correlation)
    return result if useful.all() else result.some(useful)


def _elsewhere(
    geometry: Geometry, rows: torch.Tensor, place: torch.Tensor | None, k: int, among: torch.Tensor | None = None
) -> torch.Tensor:
    """As ``Geometry.others``, without those at the ``place`` of each of ``rows`` (n,): (n, k), or −1."""
    if place is None:
        return geometry.others(rows, k, among)
    wide = k + int((place if among is None else place[among]).bincount().max())
    found = []
    for some in rows.split(max(1, _ENTRIES // wide)):
        near = geometry.others(some, wide, among)
        gone = (near < 0) | (place[near] == place[some, None])
        order = gone.to(torch.uint8).argsort(dim=1, stable=True)
        found.append(near.masked_fill(gone, -1).gather(1, order)[:, :k])
    return torch.cat(found)


def _decides_trend(model: Conditioned, place: torch.Tensor | None = None) -> np.ndarray:
    """Without which training points, a mask (d,), the others determine no trend: their leverage in it is 1.

    With a ``place`` (d,) all of a place are gone together, and have a leverage in some direction.
    """
    if model.basis is None:
        return np.zeros(len(model.y), dtype=bool)
    Q, _ = orthonormal(model.basis.at_training_points.double())
    leverage = Q.square().sum(dim=1)
    if place is not None:
        q = Q.shape[1]
        several = (place.bincount() > 1).nonzero()[:, 0]
        for some in several.split(max(1, _ENTRIES // q**2)):
            here = torch.isin(place, some)
            at, Q_here = torch.searchsorted(some, place[here]), Q[here]
            together = Q.new_zeros(len(some), q, q).index_add_(0, at, Q_here[:, :, None] * Q_here[:, None])
            leverage[here] = torch.linalg.eigvalsh(together)[:, -1][at]
    return np.asarray((leverage > 1 - _ALL_LEVERAGE).cpu().numpy())


def _not_determined(lost: np.ndarray) -> str:
    """How many observations, a mask (n,), are not judged, in a sentence; "" of none."""
    verb, which = ("is", "it") if lost.sum() == 1 else ("are", "them")
    told = f" {lost.sum():,} {verb} left out of the result: the others do not determine {which}."
    return told if lost.any() else ""


def _all_of(n: int, size: int) -> str:
    some = f"{n:,} of the {size:,} observations, drawn at random," if n < size else f"All {size:,} observations"
    return f"{some} were predicted from the others,"


def _neighbours(model: Conditioned, solver: Solver, n: int) -> tuple[PreparedNearestNeighbours, str]:
    """What finds neighbours of ``n`` points for the model, and how it is called in a sentence."""
    soon = solver.operations(len(model.y), n).seconds(tiles=True) <= _SECONDS
    if isinstance(solver, NearestNeighbours) and (solver.k <= STAND_IN.k or soon):
        return _prepared(model, solver), f"{solver!r}, as the model predicts."
    which = f"{STAND_IN!r} instead of {solver!r}, which would take long: this judges the prior, not the solver."
    return STAND_IN.prepare(model.gram), which


def _prepared(model: Conditioned, solver: NearestNeighbours) -> PreparedNearestNeighbours:
    """The solver for the model's data: the one that the model has, if it has it."""
    own = model.prepared
    if isinstance(own, PreparedNearestNeighbours) and own.solver == solver and own.gram is model.gram:
        return own
    return solver.prepare(model.gram)

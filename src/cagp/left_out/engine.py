"""Which training observations are left out, of what around them, and what predicts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from ..errors import InputError
from ..posterior import UNDER_THE_PRIOR, guarantee_of
from ..solvers import NearestNeighbours, Solver
from ..solvers.nearest_neighbours import PreparedNearestNeighbours
from ..support.progress import progress as progress_bar
from ..support.validation import ArrayLike, count, points
from .by_folds import affordable, by_folds
from .by_neighbours import by_neighbours, correlation_by_neighbours
from .closed_form import COPIES, in_closed_form
from .correlation import some_of
from .geometry import Gaps, Geometry
from .result import LeftOut

if TYPE_CHECKING:
    from ..model import Model

MOST = 100_000
"""So many are left out where nothing else is said: more take minutes and say no more."""

STAND_IN = NearestNeighbours()
"""What predicts where the solver of the model would take too long."""

_SECONDS = 8.0
"""More neighbours than the stand-in has are not waited for longer than this, on one core."""


class Leaving(Protocol):
    """A model that can predict its training observations from the others; ``plain`` knows the data."""

    @property
    def plain(self) -> Model: ...

    def leave_out(
        self,
        geometry: Geometry,
        rows: np.ndarray,
        gaps: Gaps | None,
        advance: Callable[[float], None] = ...,
        seed: int = ...,
        correlated: bool = ...,
    ) -> LeftOut: ...


def left_out(
    leaving: Leaving,
    like: ArrayLike | None = None,
    n: int | None = None,
    seed: int = 0,
    progress: bool | None = None,
    *,
    correlated: bool = False,
) -> LeftOut:
    """``n`` training observations, drawn at random, predicted from the others; see ``Model.left_out``.

    Where ``correlated``, the result knows the average correlation of the errors.
    """
    model = leaving.plain
    size = len(model.y)
    if size < 2:
        raise InputError("one observation cannot be left out: there is no other to predict it from")
    asked = min(size, MOST) if n is None else count(n, "n", minimum=1)
    if asked > size:
        raise InputError(f"n is {asked}, and there are {size} training observations; n=None takes all of them")
    generator = np.random.default_rng(count(seed, "seed"))
    rows = np.arange(size) if asked == size else np.sort(generator.choice(size, asked, replace=False))
    geometry, gaps, at = Geometry(model), None, torch.from_numpy(rows).to(model.device)
    if like is not None:
        test, draws = points(like, "like", model.device, columns=model.X.shape[1]), torch.Generator().manual_seed(seed)
        voids = geometry.voids(test, draws)
        chosen = torch.randint(len(voids.distance), (asked,), generator=draws).to(model.device)
        gaps = geometry.like(at, voids.some(chosen), draws)
    with progress_bar("left out", asked, progress) as advance:
        return leaving.leave_out(geometry, rows, gaps, advance, seed, correlated)


def leave_out(
    model: Model,
    geometry: Geometry,
    rows: np.ndarray,
    gaps: Gaps | None,
    advance: Callable[[float], None] = lambda steps: None,
    seed: int = 0,
    correlated: bool = False,
) -> LeftOut:
    """The training points ``rows`` (n,) predicted from the others, but for those in the gap of each."""
    solver, size = model.prepared.picked or model.solver, len(model.y)
    at = torch.from_numpy(rows).to(model.device)
    around = geometry.single(at) if gaps is None else gaps
    note, correlation, guarantee = _which(len(rows), size, around.any), None, UNDER_THE_PRIOR
    if gaps is None and affordable(model, solver, len(rows)):
        found = by_folds(model, solver, rows, seed, advance, correlated)
        distance, error, variance = found.distance, found.error, found.variance
        how, short, correlation = found.how, found.short, found.correlation
        guarantee = guarantee_of(solver)
    else:
        if _exactly(model):
            compared = some_of(len(rows), size, 1, seed) if correlated else np.empty(0, dtype=np.int64)
            errors, variances, correlation = in_closed_form(model, geometry, at, around, compared)
            how = f"{note} in closed form, each from all the others: new weights."
            advance(len(rows))
        else:
            prepared, which = _neighbours(model, solver, len(rows))
            errors, variances = by_neighbours(model, prepared, geometry, at, around, advance)
            how = f"{note} with {which}"
            if correlated:
                correlation = correlation_by_neighbours(model, prepared, geometry, at, around, seed)
        error, variance = errors.double().cpu().numpy(), variances.double().cpu().numpy()
        nearest = geometry.beyond(at, around, 1)[:, 0]
        apart = (geometry.points[nearest] - geometry.points[at]).norm(dim=1)
        distance = torch.where(nearest >= 0, apart, torch.inf).double().cpu().numpy()
        short = "left-out gaps" if around.any else "leave-one-out"
    y = model.recipe.y[rows]
    useful = np.isfinite(variance) & (variance > 0) & np.isfinite(distance)
    if not useful.any():
        raise InputError(
            f"none of the {len(rows)} observations can be predicted from the others that are left; with gaps as large "
            "as those of like, nothing is left: choose points nearer to the data"
        )
    if not useful.all():
        how += f" {int((~useful).sum()):,} are left out of the result: the others do not determine them."
    std = np.sqrt(np.where(useful, variance, 1.0))
    result = LeftOut(
        rows, model.recipe.X[rows], y, y - error, std, distance, how, short, around, correlation, guarantee
    )
    return result if useful.all() else result.some(useful)


def _which(n: int, size: int, gaps: bool) -> str:
    some = f"{n:,} of the {size:,} observations, drawn at random," if n < size else f"All {size:,} observations"
    without = ", without what lies with each in a gap as wide as those to be predicted" if gaps else ""
    return f"{some} were predicted from the others{without},"


def _exactly(model: Model) -> bool:
    return model.prepared.factor is not None and COPIES * model.gram.dense_bytes <= model.gram.budget


def _soon(solver: Solver, size: int, n: int) -> bool:
    """Whether the solver predicts n of that many points in seconds; by counts of operations, not by a clock."""
    return solver.operations(size, n).seconds(tiles=True) <= _SECONDS


def _neighbours(model: Model, solver: Solver, n: int) -> tuple[PreparedNearestNeighbours, str]:
    """What finds neighbours of ``n`` points for the model, and how it is called in a sentence."""
    own = model.prepared
    if isinstance(solver, NearestNeighbours) and (solver.k <= STAND_IN.k or _soon(solver, len(model.y), n)):
        if not isinstance(own, PreparedNearestNeighbours) or own.gram is not model.gram:
            own = solver.prepare(model.gram)
        return own, f"{solver!r}, as the model predicts."
    which = f"{STAND_IN!r} instead of {solver!r}, which would take long: this judges the prior, not the solver."
    return STAND_IN.prepare(model.gram), which

"""Three ways to left-out predictions: by groups, in closed form, and from neighbours.

By groups, the solver of the model itself predicts each from a model of the others. An exact model has all of them from
one inverse: with P = G⁻¹ − G⁻¹H (HᵀG⁻¹H)⁻¹ HᵀG⁻¹ for a trend Hβ, the errors of observations B that are predicted
together from all others are (P_BB)⁻¹ (P b)_B, with covariance (P_BB)⁻¹. From neighbours, data may be of any size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

from ..algebra.weights import Weights
from ..gram import Cross
from ..posterior import solve
from ..predicting.conditioned import Conditioned
from ..prediction import guarantee_of
from ..solvers import NearestNeighbours, Solver
from ..solvers.nearest_neighbours import PreparedNearestNeighbours
from ..support.convert import Output
from ..support.memory import require
from .correlation import Correlation, correlation_of, correlation_of_sparse, some_of
from .gaps import Gaps
from .geometry import Geometry
from .result import LeftOut

COPIES = 3  # so many matrices of the size of G there are at once in closed form
_MOST_OPERATIONS, _FEWEST = 8e9, 100  # gaps that take more, about a second, are fewer, but not so few
_FOLDS = 5
_SINGLY = 25  # up to so many observations each is left out alone
_SECONDS = 8.0  # longer than this is not waited for
_ROWS = 2**14  # so many are predicted from neighbours before Ctrl-C is heard and progress is shown
_ENTRIES = 2**22  # so many pairs of points are looked at at once
_DIFFERENCES = "donot_use_mm_for_euclid_dist"  # products of matrices would lose the digits of small distances
_LEFT = 1e-8  # so much of what all points say about a trend must be said by those outside of a gap


def affordable(model: Conditioned, solver: Solver, n: int) -> bool:
    """Whether the solver has no other way to n left-out predictions and takes seconds, by counts, not by a clock."""
    if model.prepared.factor is not None or isinstance(solver, NearestNeighbours):
        return False
    size = len(model.y)
    folds = _folds(n, size)
    left_out = -(-n // folds)
    work = solver.operations(size - left_out, left_out)
    return folds * work.seconds(tiles=model.prepared.gram.storage == "tiles") <= _SECONDS


def _folds(n: int, size: int) -> int:
    return n if size <= _SINGLY else min(n, _FOLDS)


def by_folds(
    model: Conditioned,
    solver: Solver,
    rows: np.ndarray,
    gaps: Gaps,
    seed: int,
    advance: Callable[[float], None],
    correlated: bool,
) -> LeftOut:
    """Training points ``rows`` (n,), alone in their ``gaps``, left out in groups; ``correlated`` within a group."""
    size, n = len(model.y), len(rows)
    folds = _folds(n, size)
    mean, variance, distance = np.empty(n), np.empty(n), np.empty(n)
    noise = _array(model.prior.noise(model.X))
    together: list[Correlation | None] = []
    for group in np.array_split(np.random.default_rng(seed).permutation(n), folds):
        places = rows[group]
        kept = np.setdiff1d(np.arange(size), places)
        others = model.rebuilt(kept, solver=solver.for_points(kept, size), storage="auto")
        test = model.X[torch.from_numpy(places).to(model.device)]
        (posterior,) = solve([others], test, Output(model.device))
        post = posterior.observed(noise[places])
        mean[group], variance[group] = _array(post.mean), _array(post.variance)
        if correlated:
            together.append(correlation_of(post, size))
        distance[group] = _array(Geometry(others).distance(test))
        advance(len(group))
    one = "each in turn" if folds == n else f"in {folds} groups"
    which = f"All {size:,} observations" if n == size else f"{n:,} of the {size:,} observations, drawn at random,"
    how = f"{which} were left out {one} and predicted from the others by {solver!r} with new weights."
    short = "leave-one-out" if folds == n else f"{folds}-fold cross-validation"
    X, y, correlation = model.recipe.X[rows], model.recipe.y[rows], Correlation.joined(together)
    std, guarantee = np.sqrt(variance), guarantee_of(solver)
    return LeftOut(rows, X, y, mean, std, distance, how, short, gaps, correlation, guarantee)


def _array(values: torch.Tensor) -> np.ndarray:
    return values.double().cpu().numpy()


def in_closed_form(
    model: Conditioned, geometry: Geometry, rows: torch.Tensor, gaps: Gaps, compared: np.ndarray
) -> tuple[torch.Tensor, torch.Tensor, Correlation | None]:
    """The errors y − mean of the training points ``rows`` (n,), and their variances, noise included, each (n,).

    Each is predicted without what lies in its gap. With the correlation of those ``compared`` (m,), places in rows.
    """
    require(COPIES * model.gram.dense_bytes, model.gram.budget, "left-out predictions in closed form", "lower n")
    factor = model.prepared.factor
    assert factor is not None
    P = torch.cholesky_inverse(factor.to(model.gram.dtype))
    H = None if model.basis is None else model.basis.at_training_points.to(P.dtype)
    if H is not None:
        PH = P @ H
        P -= PH @ torch.linalg.solve(H.T @ PH, PH.T)
    residual, diagonal = P @ model.b, P.diagonal()[rows]
    error, variance = residual[rows] / diagonal, 1 / diagonal
    parts = P.new_zeros(len(compared), len(P))  # an error is such a combination of the entries of P b
    place = {int(i): j for j, i in enumerate(compared)}
    parts[torch.arange(len(compared)), rows[torch.from_numpy(compared).to(rows.device)]] = 1.0
    for i, members in _members(geometry, rows, gaps) if gaps.any else ():
        gap = torch.cat([members, rows[i, None]])
        if len(gap) > 1:
            # of the inverse of a block its last row alone is asked for: one factor, and one step back
            factor, info = torch.linalg.cholesky_ex(P[gap[:, None], gap])
            if int(info) or not _determined(H, gap):
                variance[i] = torch.inf
                continue
            last = P.new_zeros(len(gap), 1)
            last[-1] = 1 / factor[-1, -1]
            row = torch.linalg.solve_triangular(factor.T, last, upper=True)[:, 0]
            error[i], variance[i] = row @ residual[gap], row[-1]
            if i in place:
                parts[place[i], gap] = row
    return error, variance, Correlation.within(parts @ P @ parts.T)


def closed_form(model: Conditioned) -> bool:
    """Whether all left-out predictions come from one inverse."""
    return model.prepared.factor is not None and COPIES * model.gram.dense_bytes <= model.gram.budget


def few_of(model: Conditioned, geometry: Geometry, rows: torch.Tensor, gaps: Gaps) -> torch.Tensor:
    """Which of ``rows`` (n,) are left out: all, or in closed form some, drawn at random, where gaps hold so much that
    their factors would take long; in order.
    """
    everyone = torch.arange(len(rows), device=rows.device)
    if not gaps.any or not closed_form(model):
        return everyone
    work = torch.cat([inside.sum(dim=1).double() ** 3 / 3 for _, inside in _inside(geometry, rows, gaps)])
    drawn = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0)).to(rows.device)
    return drawn[(work[drawn].cumsum(0) <= _MOST_OPERATIONS) | (everyone < _FEWEST)].sort().values


def _inside(geometry: Geometry, rows: torch.Tensor, gaps: Gaps) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Some of the ``rows`` (n,) at a time, by their places (m,), and which training points lie in the gap of each, but
    for these themselves (m, d).
    """
    points = geometry.points
    for part in torch.arange(len(rows), device=rows.device).split(max(1, _ENTRIES // len(points))):
        around = gaps.some(part)
        apart = (torch.cdist(each, points, compute_mode=_DIFFERENCES) for each in (points[rows[part]], around.centre))
        inside = (next(apart) < around.radius[:, None]) | (next(apart) < around.reach[:, None])
        inside[torch.arange(len(part), device=rows.device), rows[part]] = False
        yield part, inside


def _members(geometry: Geometry, rows: torch.Tensor, gaps: Gaps) -> Iterator[tuple[int, torch.Tensor]]:
    """The place of each of ``rows`` (n,), and which training points lie in its gap with it."""
    for part, inside in _inside(geometry, rows, gaps):
        for i, own in zip(part.tolist(), inside, strict=True):
            yield i, own.nonzero()[:, 0]


def _determined(H: torch.Tensor | None, gap: torch.Tensor) -> bool:
    """Whether a trend with the basis H (d, q), of orthogonal columns, is determined without the rows ``gap``."""
    if H is None:
        return True
    if float(H[gap].square().sum()) < 0.5 * len(H):  # the more that is left, the less there is to look at
        return True
    rest = torch.eye(H.shape[1]).to(H) - H[gap].T @ H[gap] / len(H)
    return bool(torch.linalg.eigvalsh(rest)[0] > _LEFT)


def by_neighbours(
    model: Conditioned,
    prepared: PreparedNearestNeighbours,
    geometry: Geometry,
    rows: torch.Tensor,
    gaps: Gaps,
    advance: Callable[[float], None],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same, and how far the nearest of all that is left is, shape (n,).

    A variance is not finite where what is left determines no trend, or no positive definite matrix.
    """
    errors, variances, distances = [], [], []
    for part in torch.arange(len(rows), device=rows.device).split(_ROWS):
        some = rows[part]
        cross = model.cross(model.X[some])
        around = gaps.some(part)
        members, weights = _weights(prepared, geometry, cross, some, around)
        mean = model.offset(model.X[some]) + weights.apply(model.b)
        errors.append(model.y[some].to(mean.dtype) - mean)
        variances.append(cross.prior_variance() - weights.reduction + model.gram.noise[some])
        near = prepared.choice[0] > 0  # the nearest come first
        distances.append(geometry.distance_of(members[:, 0], some) if near else geometry.gap(some, around))
        advance(len(some))
    return torch.cat(errors), torch.cat(variances), torch.cat(distances)


def correlation_by_neighbours(
    model: Conditioned,
    prepared: PreparedNearestNeighbours,
    geometry: Geometry,
    rows: torch.Tensor,
    gaps: Gaps,
    seed: int,
) -> Correlation | None:
    """The average correlation of those errors, from a sample of them."""
    chosen = torch.from_numpy(some_of(len(rows), len(model.X), prepared.members_each, seed)).to(rows.device)
    some, around = rows[chosen], gaps.some(chosen)
    _, weights = _weights(prepared, geometry, model.cross(model.X[some]), some, around)
    possible = weights.reduction.isfinite()
    return correlation_of_sparse(model, some[possible], weights.rows(possible))


def _weights(
    prepared: PreparedNearestNeighbours, geometry: Geometry, cross: Cross, rows: torch.Tensor, gaps: Gaps
) -> tuple[torch.Tensor, Weights]:
    """Neighbours (n, k + far), or −1, of training points ``rows`` (n,) outside of their gaps, and the weights there."""
    anchors = prepared.anchors.expand(len(rows), -1)
    forbidden = gaps.hold(geometry.points[rows], geometry.points[anchors]) | (anchors == rows[:, None])
    nearest = partial(geometry.beyond, rows, gaps)
    members = geometry.remembered(prepared.choice, rows, gaps, lambda: prepared.members(nearest))
    return members, prepared.weights_on(cross, members, anchors.masked_fill(forbidden, -1))

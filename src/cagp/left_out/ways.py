"""Three ways to left-out predictions: by groups, in closed form, and from neighbours.

By groups, the solver of the model itself predicts each from a model of the others. An exact model has all of them from
one inverse: with P = G⁻¹ − G⁻¹H (HᵀG⁻¹H)⁻¹ HᵀG⁻¹ for a trend Hβ, the error of observation i predicted from all others
is (P b)ᵢ / Pᵢᵢ, with the variance 1 / Pᵢᵢ. From neighbours, or given members, data may be of any size.
"""

from __future__ import annotations

from collections.abc import Callable
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
from .geometry import Geometry
from .result import LeftOut

COPIES = 3  # so many matrices of the size of G there are at once in closed form
_FOLDS = 5
_SINGLY = 25  # up to so many observations each is left out alone
_SECONDS = 8.0  # longer than this is not waited for
_ROWS = 2**14  # so many are predicted from neighbours before Ctrl-C is heard and progress is shown


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
    seed: int,
    advance: Callable[[float], None],
    correlated: bool,
) -> LeftOut:
    """Training points ``rows`` (n,) left out in groups; ``correlated`` within a group."""
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
    std, guarantee = np.sqrt(variance), guarantee_of(solver, learned=model.prior.mean.learned)
    return LeftOut(rows, X, y, mean, std, distance, how, short, None, correlation, guarantee)


def _array(values: torch.Tensor) -> np.ndarray:
    return values.double().cpu().numpy()


def in_closed_form(
    model: Conditioned, rows: torch.Tensor, compared: np.ndarray, place: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, Correlation | None]:
    """The errors y − mean of the training points ``rows`` (n,), and their variances, noise included, each (n,).

    With the correlation of those ``compared`` (m,), places in rows. Where others at the same ``place`` (d,) are left
    out with each, the errors at g are P[g, g]⁻¹ (P b)[g], with the covariance P[g, g]⁻¹.
    """
    require(COPIES * model.gram.dense_bytes, model.gram.budget, "left-out predictions in closed form", "lower n")
    factor = model.prepared.factor
    assert factor is not None
    P = torch.cholesky_inverse(factor.to(model.gram.dtype))
    if model.basis is not None:
        H = model.basis.at_training_points.to(P.dtype)
        PH = P @ H
        P -= PH @ torch.linalg.solve(H.T @ PH, PH.T)
    b, group = model.unseeing
    projected, some = P @ b.T, rows[torch.from_numpy(compared).to(rows.device)]
    residual, diagonal = projected[rows, group[rows]], P.diagonal()[rows]
    errors, variances = residual / diagonal, 1 / diagonal
    if place is not None:
        several = place.bincount()[place] > 1
        for at in place[rows[several[rows]]].unique():
            g, here = (place == at).nonzero()[:, 0], place[rows] == at
            own, which = torch.linalg.inv_ex(P[g[:, None], g])[0], torch.searchsorted(g, rows[here])
            errors[here] = (own[which] * projected[g][:, group[rows[here]]].T).sum(dim=1)
            variances[here] = own.diagonal()[which]
    return errors, variances, Correlation.within(P[some[:, None], some])


def closed_form(model: Conditioned) -> bool:
    """Whether all left-out predictions come from one inverse."""
    return model.prepared.factor is not None and COPIES * model.gram.dense_bytes <= model.gram.budget


def by_neighbours(
    model: Conditioned,
    prepared: PreparedNearestNeighbours,
    geometry: Geometry,
    rows: torch.Tensor,
    members: torch.Tensor | None,
    advance: Callable[[float], None],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same from neighbours, or from given ``members`` (n, m), and how far the nearest that is used is, shape (n,).

    A variance is not finite where what is left determines no trend, or no positive definite matrix.
    """
    errors, variances, distances = [], [], []
    for part in torch.arange(len(rows), device=rows.device).split(_ROWS):
        some = rows[part]
        cross = model.cross(model.X[some])
        chosen, weights = weights_of(prepared, geometry, cross, some, None if members is None else members[part])
        b, group = model.unseeing
        own = group[some, None]
        errors.append((b.T[some] - weights.apply(b.T)).gather(1, own)[:, 0])
        variances.append(cross.prior_variance() - weights.reduction + model.gram.noise[some])
        near = chosen[:, :1] if members is None and prepared.near else chosen  # the nearest come first
        distances.append(geometry.distance_of(near, some))
        advance(len(some))
    return torch.cat(errors), torch.cat(variances), torch.cat(distances)


def correlation_by_neighbours(
    model: Conditioned,
    prepared: PreparedNearestNeighbours,
    geometry: Geometry,
    rows: torch.Tensor,
    members: torch.Tensor | None,
    seed: int,
) -> Correlation | None:
    """The average correlation of those errors, from a sample of them."""
    chosen = torch.from_numpy(some_of(len(rows), len(model.X), prepared.members_each, seed)).to(rows.device)
    some, cross = rows[chosen], model.cross(model.X[rows[chosen]])
    _, weights = weights_of(prepared, geometry, cross, some, None if members is None else members[chosen])
    possible = weights.reduction.isfinite()
    return correlation_of_sparse(model, some[possible], weights.rows(possible))


def weights_of(
    prepared: PreparedNearestNeighbours,
    geometry: Geometry,
    cross: Cross,
    rows: torch.Tensor,
    members: torch.Tensor | None,
) -> tuple[torch.Tensor, Weights]:
    """The neighbours (n, k + far), or −1, of training points ``rows`` (n,), or given ``members``, and the weights.

    Points that determine a trend by themselves are added to neighbours, and not to members, which are all there is.
    """
    anchors = prepared.anchors.expand(len(rows), -1)
    if members is not None:
        return members, prepared.weights_on(cross, members, torch.full_like(anchors, -1))
    members = prepared.members(partial(geometry.others, rows))
    return members, prepared.weights_on(cross, members, anchors.masked_fill(anchors == rows[:, None], -1))

"""Left-out predictions from neighbours: each training point from the nearest others, whatever the size of the data."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial

import torch

from ..algebra.weights import Weights
from ..gram import Cross
from ..predicting.conditioned import Conditioned
from ..solvers.nearest_neighbours import PreparedNearestNeighbours
from .correlation import Correlation, correlation_of_sparse, some_of
from .geometry import Gaps, Geometry

_ROWS = 2**14
"""So many are predicted before Ctrl-C is heard and progress is shown."""


def by_neighbours(
    model: Conditioned,
    prepared: PreparedNearestNeighbours,
    geometry: Geometry,
    rows: torch.Tensor,
    gaps: Gaps,
    advance: Callable[[float], None],
) -> tuple[torch.Tensor, torch.Tensor]:
    """The errors y − mean and their variances, noise included, each (n,), of the training points ``rows`` (n,).

    Each is predicted without itself and whatever lies in its gap. A variance that is not
    finite says that what is left determines neither the trend nor a positive definite matrix.
    """
    errors, variances = [], []
    for part in torch.arange(len(rows), device=rows.device).split(_ROWS):
        some = rows[part]
        cross = model.unarranged(model.X[some])
        weights = _weights(prepared, geometry, cross, some, gaps.some(part))
        mean = model.offset(model.X[some]) + weights.apply(model.b)
        errors.append(model.y[some].to(mean.dtype) - mean)
        variances.append(cross.prior_variance() - weights.reduction + model.gram.noise[some])
        advance(len(some))
    return torch.cat(errors), torch.cat(variances)


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
    weights = _weights(prepared, geometry, model.unarranged(model.X[some]), some, around)
    possible = weights.reduction.isfinite()
    return correlation_of_sparse(model, some[possible], weights.rows(possible))


def _weights(
    prepared: PreparedNearestNeighbours, geometry: Geometry, cross: Cross, rows: torch.Tensor, gaps: Gaps
) -> Weights:
    """The weights of training points ``rows`` (n,), given by their ``cross``, on what lies outside of their gaps."""
    anchors = prepared.anchors.expand(len(rows), -1)
    forbidden = gaps.hold(geometry.points[rows], geometry.points[anchors]) | (anchors == rows[:, None])
    # the models of a mixture, and candidates that are compared, ask for the same neighbours one after another
    asked = (prepared.choice, *(_digest(each) for each in (rows, gaps.radius, gaps.centre, gaps.reach)))
    members = geometry.remembered(asked, lambda: prepared.members(partial(geometry.beyond, rows, gaps)))
    return prepared.weights_on(cross, members, anchors.masked_fill(forbidden, -1))


def _digest(values: torch.Tensor) -> bytes:
    """What tells an array from others."""
    return hashlib.sha256(values.cpu().numpy().tobytes()).digest()

"""Left-out predictions from neighbours: each training point from the nearest others, whatever the size of the data."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from ..predicting.conditioned import Conditioned
from ..solvers.nearest_neighbours import PreparedNearestNeighbours
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
        some, around = rows[part], gaps.some(part)
        cross = model.unarranged(model.X[some])
        anchors = prepared.anchors.expand(len(some), -1)
        forbidden = around.hold(geometry.points[some], geometry.points[anchors]) | (anchors == some[:, None])
        members = prepared.members(partial(geometry.beyond, some, around))
        weights = prepared.weights_on(cross, members, anchors.masked_fill(forbidden, -1))
        mean = model.offset(model.X[some]) + weights.apply(model.b)
        errors.append(model.y[some].to(mean.dtype) - mean)
        variances.append(cross.prior_variance() - weights.reduction + model.gram.noise[some])
        advance(len(some))
    return torch.cat(errors), torch.cat(variances)

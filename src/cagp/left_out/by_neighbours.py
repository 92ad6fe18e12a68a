"""Left-out predictions from neighbours: each training point from the nearest others, whatever the size of the data."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..predicting.conditioned import Conditioned
from ..solvers.nearest_neighbours import PreparedNearestNeighbours
from .geometry import Geometry

_ROWS = 2**14
"""So many are predicted before Ctrl-C is heard and progress is shown."""


def by_neighbours(
    model: Conditioned,
    prepared: PreparedNearestNeighbours,
    geometry: Geometry,
    rows: torch.Tensor,
    radius: torch.Tensor,
    advance: Callable[[float], None],
) -> tuple[torch.Tensor, torch.Tensor]:
    """The errors y − mean and their variances, noise included, each (n,), of the training points ``rows`` (n,).

    Each is predicted without itself and whatever is nearer to it than its ``radius`` (n,). A variance that is not
    finite says that what is left determines neither the trend nor a positive definite matrix.
    """
    errors, variances = [], []
    for some, gap in zip(rows.split(_ROWS), radius.split(_ROWS), strict=True):
        cross = model.unarranged(model.X[some])

        def near(
            k: int, among: torch.Tensor | None, some: torch.Tensor = some, gap: torch.Tensor = gap
        ) -> torch.Tensor:
            return geometry.beyond(some, gap, k, among)

        anchors = prepared.anchors.expand(len(some), -1)
        apart = (geometry.points[anchors] - geometry.points[some, None]).norm(dim=2)
        forbidden = (apart < gap[:, None]) | (anchors == some[:, None])
        weights = prepared.weights_on(cross, prepared.members(near), anchors.masked_fill(forbidden, -1))
        mean = model.offset(model.X[some]) + weights.apply(model.b)
        errors.append(model.y[some].to(mean.dtype) - mean)
        variances.append(cross.prior_variance() - weights.reduction + model.gram.noise[some])
        advance(len(some))
    return torch.cat(errors), torch.cat(variances)

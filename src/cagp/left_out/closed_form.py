"""Left-out predictions of an exact model, all from one inverse.

With P = G⁻¹ − G⁻¹H (HᵀG⁻¹H)⁻¹ HᵀG⁻¹ for a trend Hβ, and P = G⁻¹ without one, the errors of the observations B that are
predicted together from all others are (P_BB)⁻¹ (P b)_B, with covariance (P_BB)⁻¹.
"""

from __future__ import annotations

import numpy as np
import torch

from ..predicting.conditioned import Conditioned
from ..support.memory import require
from .correlation import Correlation
from .geometry import Gaps, Geometry

COPIES = 3
"""How many matrices of the size of G there are at once."""


_LEFT = 1e-8
"""So much of what all points say about a trend must be said by those outside of a gap."""


def in_closed_form(
    model: Conditioned, geometry: Geometry, rows: torch.Tensor, gaps: Gaps, compared: np.ndarray
) -> tuple[torch.Tensor, torch.Tensor, Correlation | None]:
    """The errors y − mean and their variances, noise included, each (n,), of the training points ``rows`` (n,).

    Each is predicted without itself and whatever lies in its gap. With the average correlation of those ``compared``
    (m,), given by their place among the rows; None where these are fewer than two.
    """
    require(COPIES * model.gram.dense_bytes, model.gram.budget, "left-out predictions in closed form", "lower n")
    factor = model.prepared.factor
    assert factor is not None
    P = torch.cholesky_inverse(factor.to(model.gram.dtype))
    H: torch.Tensor | None = None
    if model.basis is not None:
        H = model.basis.at_training_points.to(P.dtype)
        PH = P @ H
        P -= PH @ torch.linalg.solve(H.T @ PH, PH.T)
    residual = P @ model.b
    diagonal = P.diagonal()
    error, variance = residual[rows] / diagonal[rows], 1 / diagonal[rows]
    parts = P.new_zeros(len(compared), len(P))  # an error is such a combination of the entries of P b
    place = {int(i): j for j, i in enumerate(compared)}
    parts[torch.arange(len(compared)), rows[torch.from_numpy(compared).to(rows.device)]] = 1.0
    for i in range(len(rows)) if gaps.any else ():
        inside = gaps.some(torch.tensor([i])).hold(geometry.points[rows[i, None]], geometry.points[None])[0]
        inside[rows[i]] = False
        gap = torch.cat([rows[i, None], inside.nonzero()[:, 0]])
        if len(gap) > 1:
            inverse, info = torch.linalg.inv_ex(P[gap[:, None], gap])
            if int(info) or not _determined(H, gap):
                variance[i] = torch.inf
                continue
            error[i], variance[i] = inverse[0] @ residual[gap], inverse[0, 0]
            if i in place:
                parts[place[i], gap] = inverse[0]
    return error, variance, Correlation.within(parts @ P @ parts.T)


def _determined(H: torch.Tensor | None, gap: torch.Tensor) -> bool:
    """Whether a trend with the basis H (d, q), whose columns are orthogonal, is determined without the rows ``gap``."""
    if H is None:
        return True
    rest = torch.eye(H.shape[1]).to(H) - H[gap].T @ H[gap] / len(H)
    return bool(torch.linalg.eigvalsh(rest)[0] > _LEFT)

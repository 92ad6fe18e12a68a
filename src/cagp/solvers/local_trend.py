"""A trend with unknown coefficients, seen from neighbourhoods: universal kriging on a few training points."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import qr, solve_triangular

from ..errors import InputError
from ..gram import Gram


class LocalTrend:
    """The basis H (d, q) of a trend in columns that are orthonormal over all training points.

    ``anchors`` (q,) are training points that determine the trend, and lie as far apart as its functions can tell: for
    neighbourhoods that do not determine it by themselves.
    """

    def __init__(self, gram: Gram) -> None:
        assert gram.basis is not None
        H = gram.basis.double().cpu().numpy()
        size = np.abs(H).max(axis=0, initial=0.0)
        Q, R = np.linalg.qr(H / np.where(size > 0, size, 1.0))
        diagonal = np.abs(np.diagonal(R))
        if len(H) < H.shape[1] or diagonal.min(initial=np.inf) <= 1e-10 * diagonal.max(initial=0.0):
            raise InputError(
                f"{len(H)} training points do not determine the {H.shape[1]} coefficients of the trend; "
                "use a trend with fewer terms, or give its coefficients"
            )
        scale = np.sqrt(len(H))
        # the columns of Q are those of H diag(1/size) R⁻¹
        inverse = solve_triangular(R / scale, np.eye(len(size))) / size[:, None]
        self._inverse = torch.from_numpy(inverse).to(gram.device)
        self.basis = torch.from_numpy(Q * scale).to(gram.noise)
        _, _, pivots = qr(Q.T, mode="economic", pivoting=True)
        self.anchors = torch.from_numpy(pivots[: H.shape[1]].astype(np.int64)).to(gram.device)

    def at(self, h: torch.Tensor) -> torch.Tensor:
        """The basis at test points (T, q) in the same columns."""
        return (h.double() @ self._inverse).to(h.dtype)


def constrained(
    half: torch.Tensor, whitened: torch.Tensor, h: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Universal kriging on batches of neighbourhoods with G = L Lᵀ, from L⁻¹v (B, m, s), L⁻¹H (B, m, q), h (B, s, q).

    Returns Lᵀw (B, m, s) of the weights w with Hᵀw = h and the smallest variance, what the constraint costs (B, s), and
    which neighbourhoods do not determine the trend (B,), whose results are of no use.
    """
    m, q = whitened.shape[1:]
    if m < q:
        nothing = half.new_zeros(len(half), half.shape[2])
        return half, nothing, torch.ones(len(half), dtype=torch.bool, device=half.device)
    # QR by two rounds of Cholesky: as exact as Householder's for a condition of up to 10⁸, and fast in batches anywhere
    size = whitened.norm(dim=1, keepdim=True)
    Q, right, limit = whitened / size, (h / size).mT, 10 * torch.finfo(half.dtype).eps ** 0.5
    poor = torch.zeros(len(half), dtype=torch.bool, device=half.device)
    for _ in range(2):
        L, info = torch.linalg.cholesky_ex(Q.mT @ Q)
        poor |= (info > 0) | ~(L.diagonal(dim1=1, dim2=2).amin(dim=1) > limit)
        Q = torch.linalg.solve_triangular(L.mT, Q, upper=True, left=False)
        right = torch.linalg.solve_triangular(L, right, upper=False)
    missing = right - Q.mT @ half
    return half + Q @ missing, missing.square().sum(dim=1), poor

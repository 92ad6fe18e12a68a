"""Weights of averages and other functionals from nearest neighbours: those of their points, added up and corrected.

The weights A W of functionals A f(X′), from the rows W of the points X′, see all data that any of the points sees. What
they are short of is the long range, which no single point needs: one exact solve for the residual on a sample of the
training points takes that back. At 8,000 data and 1,024 cells the variance of a mean was 1.00 to 1.21 times the exact
one with the sum and 1.005 when corrected, against 1.7 to 22 times with 500 to 2,000 points chosen for it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch

from ..algebra.weights import Weights
from ..gram import Cross, Functionals, Gram
from ..gram.weighted import form, together, weighted
from .local_kriging import LocalTrend, constrained

_NEAR, _FAR = 800, 200  # training points of the correction: drawn from those that have a weight, and from all
_POINTS_AT_ONCE = 20_000  # that are worked on before Ctrl-C is heard, where functionals share no points
_SHARED = 1.5  # functionals with more weights on each point are solved all at once, so that points are solved once


def functionals_at_once(cross: Functionals) -> list[torch.Tensor]:
    """The functionals that should be solved at a time: a few, where they have few points in common."""
    everything = torch.arange(cross.size)
    if cross.A.nnz > _SHARED * cross.A.shape[1]:
        return [everything]
    ends = np.cumsum(np.diff(cross.A.indptr))
    cuts = np.unique(np.searchsorted(ends, np.arange(_POINTS_AT_ONCE, int(ends[-1]), _POINTS_AT_ONCE)))
    return [piece for piece in everything.tensor_split(torch.from_numpy(cuts[cuts > 0])) if len(piece)]


def combined(
    cross: Functionals, pieces: list[torch.Tensor], solve: Callable[[Cross], Weights], trend: LocalTrend | None
) -> Weights:
    """The weights of functionals, from what ``solve`` gives for the points, some ``pieces`` of them at a time."""
    gram, columns = cross.gram, cross.A.tocsc()
    W = sp.csr_array((cross.size, gram.size))
    for rows in pieces:
        own = solve(cross.points.rows(rows.to(gram.device)))
        W = W + sp.csr_array(columns[:, rows.numpy()]) @ own.sparse()
    W.sort_indices()
    values, members = [], []
    reduction = torch.empty(cross.size, dtype=gram.dtype, device=gram.device)
    order: list[int] = []
    for group in together(W):
        some = cross.rows(torch.from_numpy(group))
        used, found, taken = _corrected(gram, some, sp.csr_array(W[group]), trend)
        reduction[torch.from_numpy(group).to(gram.device)] = taken
        order += group.tolist()
        values += list(found)
        members += [used] * len(group)
    width = max(map(len, members))
    filled, indices = gram.noise.new_zeros(cross.size, width), torch.zeros(cross.size, width, dtype=torch.int64)
    for row, value, used in zip(order, values, members, strict=True):
        filled[row, : len(used)], indices[row, : len(used)] = value, torch.from_numpy(used)
    return Weights(filled, reduction, 1, 0.0, gram.size, indices.to(gram.device))


def _corrected(
    gram: Gram, cross: Functionals, W: sp.csr_array, trend: LocalTrend | None
) -> tuple[np.ndarray, torch.Tensor, torch.Tensor]:
    """The training points (k,) of some functionals, their weights (m, k) there after one correction, and reductions."""
    near, rng = np.unique(W.indices), np.random.default_rng(0)
    chosen = near if len(near) <= _NEAR else rng.choice(near, _NEAR, replace=False)
    chosen = np.union1d(chosen, rng.choice(gram.size, min(_FAR, gram.size), replace=False)).astype(np.int64)
    used = np.union1d(near, chosen).astype(np.int64)
    there, corrected = np.searchsorted(used, near), np.searchsorted(used, chosen)
    values = np.zeros((cross.size, len(used)))
    values[:, there] = W[:, near].toarray()
    own = torch.from_numpy(values).to(gram.noise)
    points, where, at = (torch.from_numpy(each).to(gram.device) for each in (used, chosen, corrected))
    embedding = gram.chosen(points)
    V = cross.columns(points)
    product = weighted(gram, sp.csr_array(values), embedding, gram.chosen(where)) + own[:, at] * gram.noise[where]
    own[:, at] += _solved(gram, where, V[:, at] - product, trend)
    after = sp.csr_array(own.double().cpu().numpy())
    quadratic = form(gram, after, embedding).diagonal() + own.square() @ gram.noise[points]
    return used, own, 2 * (V * own).sum(dim=1) - quadratic


def _solved(gram: Gram, chosen: torch.Tensor, residual: torch.Tensor, trend: LocalTrend | None) -> torch.Tensor:
    """What lowers the variance most on points ``chosen`` (k,), shape (m, k), unseen by a trend; zero if it fails."""
    factor, info = torch.linalg.cholesky_ex(gram.submatrix(chosen))
    if int(info):
        return torch.zeros_like(residual)
    half = torch.linalg.solve_triangular(factor, residual.T, upper=False)
    if trend is not None:
        basis = trend.basis[chosen]
        whitened = torch.linalg.solve_triangular(factor, basis, upper=False)
        nothing = basis.new_zeros(1, len(residual), basis.shape[1])
        found, _, poor = constrained(half[None], whitened[None], nothing)
        if bool(poor.any()):
            return torch.zeros_like(residual)
        half = found[0]
    return torch.linalg.solve_triangular(factor.T, half, upper=True).T

"""Exact kriging on batches of small neighbourhoods, universal kriging where the prior has a trend."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..algebra.weights import Weights
from ..errors import InputError, NotPositiveDefiniteError
from ..gram import Cross, Gram
from ..kernels import Embedding, map_embedding
from ..support.orthonormal import orthonormal
from ..support.threads import share_out

Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Task:
    """Neighbourhoods with training points ``members`` (B, m), which −1 fills up, and test points ``rows`` (B, s)."""

    members: torch.Tensor
    rows: torch.Tensor
    anchors: torch.Tensor | None = None  # (B, q), added where the members do not determine the trend; else the trend's


class LocalKriging:
    """Weights of test points on training points of ``gram`` chosen for them; ``trend`` is that of the prior."""

    def __init__(self, gram: Gram) -> None:
        self.gram = gram
        self.trend = None if gram.basis is None else LocalTrend(gram)

    def weights(self, cross: Cross, tasks: list[Task], strict: bool) -> Weights:
        """The weights of all test points, each of which is in one of the ``tasks``.

        Where a matrix is not positive definite, or no trend is determined, it is an error if ``strict``; otherwise
        these weights are zero, and with a trend their reduction is −∞.
        """
        more = 0 if self.trend is None else len(self.trend.anchors)
        width = max((task.members.shape[1] for task in tasks), default=0) + more
        values, reduction = self.gram.noise.new_empty(cross.size, width), self.gram.noise.new_empty(cross.size)
        indices = torch.empty(cross.size, width, dtype=torch.int64, device=self.gram.device)
        h = None if self.trend is None or cross.basis is None else self.trend.at(cross.basis)

        def solve(task: Task) -> None:
            rows, at = task.rows, task.rows.flatten()
            test = map_embedding(cross.test, lambda part: part[:, rows])
            members, found, taken = self._unbiased(test, None if h is None else h[rows], task, strict)
            n = members.shape[1]
            values[at, :n], reduction[at] = found.flatten(0, 1), taken.flatten()
            indices[at, :n] = members.clamp_min(0).repeat_interleave(rows.shape[1], dim=0)
            if n < width:
                values[at, n:] = indices[at, n:] = 0

        share_out(solve, tasks, self.gram.device)
        return Weights(values, reduction, 1, 0.0, self.gram.size, indices)

    def _unbiased(self, test: Embedding, h: torch.Tensor | None, task: Task, strict: bool) -> Three:
        """Members (B, m), with anchors where a trend needs them, weights (B, s, m) and reductions (B, s)."""
        members = task.members
        found, taken, poor = self._kriging(test, h, members, strict)
        if self.trend is None or not bool(poor.any()):
            return members, found, taken
        added = self.trend.anchors.expand(len(members), -1) if task.anchors is None else task.anchors
        known = (added[:, :, None] == members[:, None, :]).any(dim=2) | ~poor[:, None]
        members = torch.cat([members, added.masked_fill(known, -1)], dim=1)
        found = torch.nn.functional.pad(found, (0, added.shape[1]))
        some = map_embedding(test, lambda part: part[:, poor])
        found[poor], taken[poor], still = self._kriging(some, None if h is None else h[poor], members[poor], strict)
        if bool(still.any()) and strict:
            raise InputError(
                f"the {task.members.shape[1]} neighbours of a test point do not determine the trend; use a larger k or "
                "more far points"
            )
        useless = poor.nonzero()[:, 0][still]
        found[useless], taken[useless] = 0.0, -torch.inf
        return members, found, taken

    def _kriging(self, test: Embedding, h: torch.Tensor | None, members: torch.Tensor, strict: bool) -> Three:
        """Weights (B, s, m), reductions (B, s), and which neighbourhoods do not determine the trend (B,)."""
        missing = members < 0
        fewer = bool(missing.any())
        index = members.clamp_min(0) if fewer else members
        with self.gram.systems(test, index) as (G, V):
            if fewer:  # a point that has nothing to do with anything
                G.masked_fill_(missing[:, :, None], 0).masked_fill_(missing[:, None, :], 0)
                G.diagonal(dim1=1, dim2=2).masked_fill_(missing, 1)
                V.masked_fill_(missing[:, None, :], 0)
            factors, info = torch.linalg.cholesky_ex(G)
            if strict and bool(info.any()):
                raise NotPositiveDefiniteError(
                    f"the Gram matrix of the {members.shape[1]} neighbours of a test point is not positive definite to "
                    "working precision; a larger noise_variance or a smaller k helps"
                )
            half = torch.linalg.solve_triangular(factors, V.mT, upper=False)
        taken, failed = half.square().sum(dim=1), info > 0
        poor = torch.zeros_like(failed)
        if self.trend is not None and h is not None:
            basis = self.trend.basis[index].masked_fill(missing[:, :, None], 0)
            whitened = torch.linalg.solve_triangular(factors, basis, upper=False)
            half, cost, poor = constrained(half, whitened, h)
            taken = taken - cost
            poor &= ~failed
        values = torch.linalg.solve_triangular(factors.mT, half, upper=True).mT
        if bool(failed.any()):
            values = values.masked_fill(failed[:, None, None], 0)
            taken = taken.masked_fill(failed[:, None], 0 if self.trend is None else -torch.inf)
        return values, taken, poor


class LocalTrend:
    """The basis H (d, q) of a trend in columns that are orthonormal over all training points."""

    def __init__(self, gram: Gram) -> None:
        assert gram.basis is not None
        Q, R = orthonormal(gram.basis.double().cpu(), "the trend", 1e-10)
        scale = len(Q) ** 0.5
        self._factor = (R / scale).to(gram.device)
        self.basis = (Q * scale).to(gram.noise)
        # points (q,) that determine the trend, as far apart as its functions can tell: each is the one whose functions
        # are the largest without what those before say
        anchors, rest = [], Q.clone()
        for _ in range(Q.shape[1]):
            anchors.append(int(rest.square().sum(dim=1).argmax()))
            way = rest[anchors[-1]] / rest[anchors[-1]].norm()
            rest -= (rest @ way)[:, None] * way
        self.anchors = torch.tensor(anchors, device=gram.device)

    def at(self, h: torch.Tensor) -> torch.Tensor:
        """The basis at test points (T, q) in the same columns."""
        return torch.linalg.solve_triangular(self._factor, h.double(), upper=True, left=False).to(h.dtype)


def constrained(half: torch.Tensor, whitened: torch.Tensor, h: torch.Tensor) -> Three:
    """Universal kriging on batches of neighbourhoods with G = L Lᵀ, from L⁻¹v (B, m, s), L⁻¹H (B, m, q), h (B, s, q).

    Returns Lᵀw (B, m, s) of the weights w with Hᵀw = h and the smallest variance, what the constraint costs (B, s), and
    which neighbourhoods do not determine the trend (B,), whose results are of no use.
    """
    m, q = whitened.shape[1:]
    poor = torch.full((len(half),), m < q, device=half.device)
    if m < q:
        return half, half.new_zeros(len(half), half.shape[2]), poor
    # QR by two rounds of Cholesky: as exact as Householder's for a condition of up to 10⁸, and fast in batches anywhere
    size = whitened.norm(dim=1, keepdim=True)
    Q, right, limit = whitened / size, (h / size).mT, 10 * torch.finfo(half.dtype).eps ** 0.5
    for _ in range(2):
        L, info = torch.linalg.cholesky_ex(Q.mT @ Q)
        poor |= (info > 0) | ~(L.diagonal(dim1=1, dim2=2).amin(dim=1) > limit)
        Q = torch.linalg.solve_triangular(L.mT, Q, upper=True, left=False)
        right = torch.linalg.solve_triangular(L, right, upper=False)
    missing = right - Q.mT @ half
    return half + Q @ missing, missing.square().sum(dim=1), poor

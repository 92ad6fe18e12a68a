"""Exact kriging on batches of small neighbourhoods, universal kriging where the prior has a trend."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..algebra.weights import Weights
from ..errors import InputError, NotPositiveDefiniteError
from ..gram import Cross, Gram
from ..support.orthonormal import orthonormal
from ..support.threads import share_out, threads_allowed

if TYPE_CHECKING:
    from ..gram.compiled import CompiledCovariances

_LEAST = 10 * torch.finfo(torch.float64).eps ** 0.5  # part of a function of the trend that others do not have
Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


_BATCH_BYTES = {"cpu": 2**21, "cuda": 2**30}  # of k × k blocks: for the cache of a CPU core, or to fill a GPU
_PADDED = 1.05  # times the members or test points of the first neighbourhood of a batch that others may have
_ONE_TASK = 16  # neighbourhoods that one thread takes at a time where they are compiled
COPIES = 4  # how many blocks are in memory for each one that is solved: itself, its factor and temporaries


@dataclass(frozen=True)
class Neighbourhoods:
    """Training points ``members`` (n, m), which −1 fills up, for test points ``rows``, those of one after another.

    Those of neighbourhood c are rows[starts[c]] … rows[starts[c + 1] − 1].
    """

    members: torch.Tensor
    rows: np.ndarray
    starts: np.ndarray  # (n + 1,)
    anchors: torch.Tensor | None = None  # (n, q), added where the members do not determine the trend; else the trend's

    @classmethod
    def single(cls, members: torch.Tensor, rows: np.ndarray, anchors: torch.Tensor | None = None) -> Neighbourhoods:
        """Each of the test points ``rows`` (n,) with members of its own."""
        return cls(members, rows, np.arange(len(rows) + 1), anchors)


@dataclass(frozen=True)
class _Task:
    """Some of them, with as many test points each: ``members`` (B, m), −1 fills up, ``rows`` (B, s), (B, q) anchors."""

    members: torch.Tensor
    rows: torch.Tensor
    anchors: torch.Tensor | None


class LocalKriging:
    """Weights of test points on training points of ``gram`` chosen for them; ``trend`` is that of the prior."""

    def __init__(self, gram: Gram) -> None:
        self.gram = gram
        self.trend = None if gram.basis is None else LocalTrend(gram)

    def batch(self, size: int) -> int:
        """How many neighbourhoods of so many points are solved together."""
        block = size**2 * self.gram.dtype.itemsize
        allowed = min(_BATCH_BYTES.get(self.gram.device.type, 2**21), self.gram.working_budget // COPIES)
        return max(1, allowed // max(1, block))

    def weights(self, cross: Cross, asked: list[Neighbourhoods], strict: bool) -> Weights:
        """The weights of all test points, each of which is in one of the neighbourhoods.

        Where a matrix is not positive definite, or no trend is determined, it is an error if ``strict``; otherwise
        these weights are zero, and with a trend their reduction is −∞.
        """
        more = 0 if self.trend is None else len(self.trend.anchors)
        width = max((each.members.shape[1] for each in asked), default=0) + more
        values, reduction = self.gram.noise.new_empty(cross.size, width), self.gram.noise.new_empty(cross.size)
        found = Weights(values, reduction, 1, 0.0, self.gram.size, torch.empty_like(values, dtype=torch.int64))
        h = None if self.trend is None or cross.basis is None else self.trend.at(cross.basis)
        cross = cross.seen_by(self.gram)
        if cross.of_values and (code := self.gram.compiled) is not None:
            for each in asked:
                self._compiled(code, cross, each, h, strict, found)
        else:
            tasks = [task for each in asked for task in self._tasks(each)]
            share_out(partial(self._solve, cross, h, strict, found), tasks, self.gram.device, large=True)
        return found

    def _compiled(
        self,
        code: CompiledCovariances,
        cross: Cross,
        asked: Neighbourhoods,
        h: torch.Tensor | None,
        strict: bool,
        found: Weights,
    ) -> None:
        """The weights of neighbourhoods into what is ``found``, by compiled code."""
        from .compiled_kriging import NOT_POSITIVE, SOLVED, UNDETERMINED, Asked, Found, krige

        none, number = np.empty((cross.size, 0)), len(asked.members)
        anchors, basis, at = np.empty((number, 0), dtype=np.int64), np.empty((self.gram.size, 0)), none
        if self.trend is not None and h is not None:
            given = self.trend.anchors.expand(number, -1) if asked.anchors is None else asked.anchors
            anchors, basis, at = (each.contiguous().numpy() for each in (given, self.trend.basis, h))
        assert found.indices is not None
        state = np.full(cross.size, SOLVED)
        into = Found(found.values.numpy(), found.indices.numpy(), found.reduction.numpy(), state)
        members, test = asked.members.contiguous().numpy(), code.coordinates(cross.test)
        given_to_code = Asked(members, asked.rows, asked.starts, test, basis, at, anchors)
        known = code.known(self.gram.noise)
        share_out(
            lambda c: krige(known, given_to_code, c, min(c + _ONE_TASK, number), _LEAST, into),
            range(0, number, _ONE_TASK),
            self.gram.device,
            large=True,
        )
        if strict and (state == NOT_POSITIVE).any():
            raise _not_positive_definite(members.shape[1])
        if strict and (state == UNDETERMINED).any():
            raise _undetermined(members.shape[1])
        failed = torch.from_numpy(state != SOLVED)
        found.reduction[failed] = 0.0 if self.trend is None else -torch.inf

    def _tasks(self, asked: Neighbourhoods) -> list[_Task]:
        """Neighbourhoods in batches with about as many members, and as many test points, each."""
        counts, there = np.diff(asked.starts), (asked.members >= 0).cpu().numpy()
        sizes = (there * np.arange(1, there.shape[1] + 1)).max(axis=1, initial=0)
        kind = np.ceil(np.log(np.maximum(sizes, 1)) / np.log(_PADDED))
        ranked, start, tasks = np.lexsort((sizes, counts, kind)), 0, []
        share = -(-len(ranked) // threads_allowed())  # something for every thread
        while start < len(ranked):
            head = ranked[start]
            some = ranked[start : start + min(share, self.batch(int(sizes[head] * _PADDED)))]
            some = some[(kind[some] == kind[head]) & (counts[some] <= 1 + _PADDED * counts[head])]
            # what fills up a row repeats its last test point
            place = np.minimum(np.arange(counts[some].max()), counts[some, None] - 1)
            rows = torch.from_numpy(asked.rows[asked.starts[some, None] + place]).to(self.gram.device)
            at = torch.from_numpy(some).to(self.gram.device)
            anchors = None if asked.anchors is None else asked.anchors[at]
            tasks.append(_Task(asked.members[at, : int(sizes[some].max())], rows, anchors))
            start += len(some)
        return tasks

    def _solve(self, cross: Cross, h: torch.Tensor | None, strict: bool, into: Weights, task: _Task) -> None:
        """The weights of a task into what is found, by torch."""
        rows, at = task.rows, task.rows.flatten()
        members, found, taken = self._unbiased(cross, None if h is None else h[rows], task, strict)
        n = members.shape[1]
        assert into.indices is not None
        into.values[at, :n], into.reduction[at] = found.flatten(0, 1), taken.flatten()
        into.indices[at, :n] = members.clamp_min(0).repeat_interleave(rows.shape[1], dim=0)
        into.values[at, n:] = into.indices[at, n:] = 0

    def _unbiased(self, cross: Cross, h: torch.Tensor | None, task: _Task, strict: bool) -> Three:
        """Members (B, m), with anchors where a trend needs them, weights (B, s, m) and reductions (B, s)."""
        members = task.members
        found, taken, poor = self._kriging(cross, task.rows, h, members, strict)
        if self.trend is None or not bool(poor.any()):
            return members, found, taken
        added = self.trend.anchors.expand(len(members), -1) if task.anchors is None else task.anchors
        known = (added[:, :, None] == members[:, None, :]).any(dim=2) | ~poor[:, None]
        members = torch.cat([members, added.masked_fill(known, -1)], dim=1)
        found = torch.nn.functional.pad(found, (0, added.shape[1]))
        some, at = task.rows[poor], None if h is None else h[poor]
        found[poor], taken[poor], still = self._kriging(cross, some, at, members[poor], strict)
        if bool(still.any()) and strict:
            raise _undetermined(task.members.shape[1])
        useless = poor.nonzero()[:, 0][still]
        found[useless], taken[useless] = 0.0, -torch.inf
        return members, found, taken

    def _kriging(
        self, cross: Cross, rows: torch.Tensor, h: torch.Tensor | None, members: torch.Tensor, strict: bool
    ) -> Three:
        """Weights (B, s, m), reductions (B, s), and which neighbourhoods do not determine the trend (B,)."""
        missing = members < 0
        fewer = bool(missing.any())
        index = members.clamp_min(0) if fewer else members
        with cross.systems(rows, index) as (G, V):
            if fewer:  # a point that has nothing to do with anything
                G.masked_fill_(missing[:, :, None], 0).masked_fill_(missing[:, None, :], 0)
                G.diagonal(dim1=1, dim2=2).masked_fill_(missing, 1)
                V.masked_fill_(missing[:, None, :], 0)
            factors, info = torch.linalg.cholesky_ex(G)
            if strict and bool(info.any()):
                raise _not_positive_definite(members.shape[1])
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


def _not_positive_definite(neighbours: int) -> NotPositiveDefiniteError:
    return NotPositiveDefiniteError(
        f"the Gram matrix of the {neighbours} neighbours of a test point is not positive definite to working "
        "precision; a larger noise_variance or a smaller k helps"
    )


def _undetermined(neighbours: int) -> InputError:
    return InputError(
        f"the {neighbours} neighbours of a test point do not determine the trend; use a larger k or more far points"
    )


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
        anchors, rest = [int(Q.square().sum(dim=1).argmax())], Q
        while len(anchors) < Q.shape[1]:
            way = rest[anchors[-1]] / rest[anchors[-1]].norm()
            rest = rest - (rest @ way)[:, None] * way
            anchors.append(int(rest.square().sum(dim=1).argmax()))
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

"""Draws at any points by the Vecchia process: each point given a few near ones among those drawn before it.

Points come in an order from coarse to fine, so that early ones carry the long range and later ones add detail. Points
that do not depend on each other are drawn together: the graph of who depends on whom has a few hundred levels.
"""

from __future__ import annotations

import torch

from ..algebra.weights import weighted_sums
from ..gram.covariances import Covariances
from ..gram.previous_neighbours import NONE, previous_neighbours_of
from ..kernels import Embedding, Kernel, embedding_leaves, embedding_size, map_embedding
from ..support.threads import on_one_thread, share_out
from .prior_draws import PriorDraws

NEIGHBOURS = 30  # for each point, of those before it

_PROBES = 16  # points whose covariances with all others are compared with those of the prior
_DRAWS_AT_ONCE = 32  # by a thread of a CPU: threads that shared a level would wait for each other at every one
_BLOCK_BYTES = {"cpu": 2**21, "cuda": 2**30}
_NUGGETS = (1e-12, 1e-10, 1e-8, 1e-6)  # of the variance, added to blocks that are singular to working precision


class VecchiaDraws(PriorDraws):
    """f at each of N points: ``NEIGHBOURS`` of those before it, times their weights, and noise of its own."""

    exact, method = False, "vecchia"

    def __init__(self, kernel: Kernel, embedding: Embedding, k: int = NEIGHBOURS) -> None:
        size = embedding_size(embedding)
        coordinates = torch.cat(embedding_leaves(embedding)).T
        order = on_one_thread(lambda: _coarse_to_fine(coordinates), coordinates.device)
        ordered = map_embedding(embedding, lambda part: part[:, order].contiguous())
        near = previous_neighbours_of(kernel, ordered, min(k, size - 1)).to(order.device)
        weights, std, nuggets = _systems(kernel, ordered, near)
        level = on_one_thread(lambda: _levels(near), order.device)
        by_level = level.argsort(stable=True)
        place = by_level.argsort()
        self._weights, self._std = weights[by_level], std[by_level]
        self._near = place[near.clamp_min(0)][by_level]
        self._ends = level.bincount().cumsum(0).tolist()
        # the noise of a draw belongs to points as they were given, whatever the order
        self._noise_of = order[by_level]
        self._back = self._noise_of.argsort()
        self.noises = size
        self.largest_error, self.typical_error = on_one_thread(lambda: self._errors(kernel, embedding), order.device)
        self.how = (
            f"by the Vecchia process, {near.shape[1]} neighbours for each of {size:,} points, approximate: judged at "
            f"{min(_PROBES, size)} of them, covariances are off by {self.typical_error:.1g} of the variance (root mean "
            f"square), at most by {self.largest_error:.1g}"
        )
        if nuggets:
            self.how += f"; {nuggets:,} neighbourhoods were singular and got a nugget of at most 1e-06 of the variance"

    def _errors(self, kernel: Kernel, embedding: Embedding) -> tuple[float, float]:
        """How far covariances of a few points with all others are off, as parts of the variance: at most, and rms."""
        size = self.noises
        chosen = torch.randperm(size, generator=torch.Generator().manual_seed(0))[:_PROBES].to(self._std.device)
        probes = torch.zeros(size, len(chosen), dtype=torch.float64, device=self._std.device)
        probes[self._back[chosen], torch.arange(len(chosen), device=self._std.device)] = 1
        for start, stop in reversed(list(zip([0, *self._ends], self._ends, strict=False))):
            near, shares = self._near[start:stop], self._weights[start:stop, :, None] * probes[start:stop, None]
            probes.index_add_(0, near.flatten(), shares.flatten(0, 1))
        found = self._drawn(probes.mul_(self._std[:, None]))[self._back]
        wanted = kernel.evaluate(embedding, map_embedding(embedding, lambda part: part[:, chosen]))
        error = (found - wanted).abs() / kernel.diagonal(embedding).amax()
        return float(error.max()), float(error.square().mean().sqrt())

    def __call__(self, noise: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(noise)
        step = _DRAWS_AT_ONCE if noise.device.type == "cpu" else len(noise)

        def work(start: int) -> None:
            rows = slice(start, start + step)
            out[rows] = self._drawn(noise[rows, self._noise_of].T.contiguous())[self._back].T

        share_out(work, range(0, len(noise), max(1, step)), noise.device, large=True)
        return out

    def _drawn(self, noise: torch.Tensor) -> torch.Tensor:
        """Draws as columns from white noise (N, n), both in the order of the levels."""
        fields, start = noise * self._std[:, None], 0
        for stop in self._ends:
            if start:
                rows = slice(start, stop)
                fields[rows] += weighted_sums(self._near[rows], self._weights[rows], fields)
            start = stop
        return fields


def _systems(kernel: Kernel, embedding: Embedding, near: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """For each point given ``near`` (N, k): weights (N, k), standard deviations (N,), and how many got a nugget."""
    (size, k), device = near.shape, near.device
    variance, failed = kernel.diagonal(embedding), []
    weights, std = torch.zeros(size, k, dtype=torch.float64, device=device), variance.sqrt()
    if not k:
        return weights, std, 0
    covariances = Covariances(kernel, embedding, torch.zeros_like(variance))
    covariances.expect(size * k * k)
    step, every = max(1, _BLOCK_BYTES.get(device.type, 2**21) // (8 * k * k)), torch.arange(size, device=device)

    def work(start: int) -> None:
        rows = slice(start, start + step)
        test = map_embedding(embedding, lambda part: part[:, every[rows, None]])
        with covariances.systems(test, near[rows].clamp_min(0)) as (G, V):
            weights[rows], gained, count = _solved(G, V, near[rows] < 0)
        std[rows] = (variance[rows] - gained).clamp_min(0).sqrt()
        failed.append(count)

    share_out(work, range(0, size, step), device, large=True)
    return weights, std, sum(failed)


def _solved(G: torch.Tensor, V: torch.Tensor, missing: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Weights (m, k) of systems G (m, k, k), V (m, 1, k), what they take off the variance (m,), and nuggets added."""
    G.masked_fill_(missing[:, :, None], 0).masked_fill_(missing[:, None, :], 0)
    G.diagonal(dim1=1, dim2=2).masked_fill_(missing, 1)
    V.masked_fill_(missing[:, None, :], 0)
    factor, info = torch.linalg.cholesky_ex(G)
    bad = info > 0
    count = int(bad.sum())
    for nugget in _NUGGETS if count else ():
        again = G[bad]
        again.diagonal(dim1=1, dim2=2).mul_(1 + nugget)
        factor[bad], still = torch.linalg.cholesky_ex(again)
        bad = bad.masked_scatter(bad, still > 0)
        if not bool(bad.any()):
            break
    factor[bad] = torch.eye(G.shape[1], dtype=G.dtype, device=G.device)
    V.masked_fill_(bad[:, None, None], 0)  # singular even so: independent, rather than nonsense
    half = torch.linalg.solve_triangular(factor, V.mT, upper=False)
    weights = torch.linalg.solve_triangular(factor.mT, half, upper=True)[:, :, 0]
    return weights, half[:, :, 0].square().sum(dim=1), count


def _coarse_to_fine(coordinates: torch.Tensor) -> torch.Tensor:
    """An order of points (N, q): one of each large cell, then one of each smaller cell that has none, …, at random."""
    size = len(coordinates)
    shuffled = torch.randperm(size, generator=torch.Generator().manual_seed(0)).to(coordinates.device)
    points = coordinates[shuffled].double()
    low, extent = points.amin(dim=0), float((points.amax(dim=0) - points.amin(dim=0)).max())
    generator = torch.Generator().manual_seed(1)
    factors = torch.randint(2**62, (points.shape[1],), generator=generator).to(points.device) * 2 + 1
    rank, cells = torch.full((size,), 64, device=points.device), 1
    index = torch.arange(size, device=points.device)
    for level in range(40):
        left = (rank == 64).nonzero()[:, 0]
        if not len(left):
            break
        cell = ((points - low) / (extent or 1.0) * cells).floor().to(torch.int64)
        label = ((cell * factors).sum(dim=1)).unique(return_inverse=True)[1]
        taken = torch.zeros(int(label.max()) + 1, dtype=torch.bool, device=points.device)
        taken[label[rank < 64]] = True
        first = torch.full((len(taken),), size, device=points.device)
        first.scatter_reduce_(0, label[left], index[left], "amin")
        rank[first[~taken]] = level
        cells *= 2
    return shuffled[rank.argsort(stable=True)]


def _levels(near: torch.Tensor) -> torch.Tensor:
    """For each point (N,) the longest way to it through ``near`` (N, k): those of one level are independent."""
    size = len(near)
    level = torch.zeros(size, dtype=torch.int64, device=near.device)
    start, stop = 0, min(size, 1)
    while start < size and near.shape[1]:
        own = near[start:stop]
        while True:  # those of a block wait for each other, and for none after it
            new = torch.where(own == NONE, -1, level[own.clamp_min(0)]).amax(dim=1) + 1
            if torch.equal(new, level[start:stop]):
                break
            level[start:stop] = new
        start, stop = stop, min(size, 2 * stop)
    return level

"""Exact kriging on the nearest training points of each test point: the way to millions of test points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ..algebra.operations import Operations
from ..algebra.weights import Weights, zero_weights
from ..errors import InputError, NotPositiveDefiniteError
from ..gram import Cross, Gram
from ..support.memory import require
from ..support.threads import share_out
from ..support.validation import count
from .base import CalibratedSolver, MoreWork, Prepared

_BATCH_BYTES = {"cpu": 2**21, "cuda": 2**30}
"""For a batch of k × k blocks: small enough for the cache of a CPU core, large enough to fill a GPU."""

_BATCHES_AT_ONCE = {"cpu": 64, "cuda": 1}
"""How many batches the threads share out before Ctrl-C is heard."""

_COPIES = 4
"""How many blocks are in memory for each one that is solved: itself, its factor and temporaries."""


@dataclass(frozen=True, repr=False)
class NearestNeighbours(CalibratedSolver):
    """For each test point the exact weights on its ``k`` nearest training points, zero on all others.

    Near is what the kernel calls near: a KD tree in its own scaled coordinates where it falls with distance, the
    largest correlations otherwise. Calibrated, with the exact covariance between test points too.
    """

    k: int = 100

    side = "test"
    name = "nearest-neighbours"
    cost = "O(k³ T) time after a search tree, whatever d is; no pass over G"
    corrects = False

    def __post_init__(self) -> None:
        count(self.k, "k")

    def prepare(self, gram: Gram) -> PreparedNearestNeighbours:
        k = min(self.k, gram.size)
        n_bytes = _COPIES * k * k * gram.dtype.itemsize
        require(n_bytes, gram.budget, f"the Gram matrix of {k} neighbours", "choose a smaller k")
        return PreparedNearestNeighbours(gram, k)

    @property
    def effort(self) -> str:
        return "k"

    def is_exact(self, size: int) -> bool:
        return self.k >= size

    def points_used(self, size: int) -> int:
        return min(self.k, size)

    def with_more_work(self, size: int, seed: int = 0) -> MoreWork:
        k = min(max(2 * self.k, 1), size)
        return MoreWork(NearestNeighbours(k), f"{k} neighbours instead of {self.k}", counted=False)

    def operations(self, size: int, tests: int) -> Operations:
        k = min(self.k, size)
        tree = 3e4 * size  # as long as so many flops
        return Operations(flops=tree + tests * k**3 / 3, kernel_values=2.0 * tests * k * k)


class PreparedNearestNeighbours(Prepared):
    def __init__(self, gram: Gram, k: int) -> None:
        super().__init__(gram)
        self._k = k

    @property
    def _batch(self) -> int:
        block = self._k**2 * self.gram.dtype.itemsize
        allowed = min(_BATCH_BYTES.get(self.gram.device.type, 2**21), self.gram.working_budget // _COPIES)
        return max(1, allowed // max(1, block))

    @property
    def rows_at_once(self) -> int:
        return self._batch * _BATCHES_AT_ONCE.get(self.gram.device.type, 1)

    @property
    def numbers_per_test_point(self) -> int:
        return 6 * self._k  # the k × k blocks are made in batches of their own

    def inverse(self, rows: torch.Tensor) -> torch.Tensor | None:
        return None

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        raise InputError("NearestNeighbours starts a chain; it cannot correct the weights of another solver")

    def weights(self, cross: Cross) -> Iterator[Weights]:
        yield zero_weights(cross.size, self.gram)
        if self._k:
            yield self._solve(cross)

    def final(self, cross: Cross) -> Weights | None:
        return self._solve(cross) if self._k else None

    def where_possible(self, cross: Cross) -> Weights:
        """The same weights, but zero where the neighbours are not positive definite to working precision."""
        return self._solve(cross, strict=False)

    def _solve(self, cross: Cross, strict: bool = True) -> Weights:
        near = cross.nearest(self._k)
        values, reduction = self.gram.noise.new_empty(near.shape), self.gram.noise.new_empty(len(near))
        batch = min(self._batch, -(-len(near) // torch.get_num_threads()))  # something for every thread

        def solve(top: int) -> None:
            part = slice(top, top + batch)
            V = cross.rows(part).entries(near[part])
            with self.gram.submatrices(near[part]) as blocks:
                factors, info = torch.linalg.cholesky_ex(blocks)
            if strict and bool(info.any()):
                raise NotPositiveDefiniteError(
                    f"the Gram matrix of the {self._k} neighbours of a test point is not positive definite to working "
                    "precision; a larger noise_variance or a smaller k helps"
                )
            half = torch.linalg.solve_triangular(factors, V[..., None], upper=False)
            failed = info > 0
            values[part] = torch.linalg.solve_triangular(factors.mT, half, upper=True)[..., 0]
            values[part].masked_fill_(failed[:, None], 0)
            reduction[part] = half[..., 0].square().sum(dim=1).masked_fill_(failed, 0)

        share_out(solve, range(0, len(near), batch), self.gram.device)
        return Weights(values, reduction, 1, 0.0, self.gram.size, near)

    def stopped(self, iteration: int) -> str:
        if self._k == self.gram.size:
            return f"NearestNeighbours used all {self._k} training points: the posterior is exact."
        return f"NearestNeighbours used {self._k} of {self.gram.size} training points for each test point."

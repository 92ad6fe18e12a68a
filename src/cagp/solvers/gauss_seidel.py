"""The paper's CAGP-GS: the probabilistic Gauss-Seidel method, point by point or in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from ..algebra.sweeps import BlockDiagonal, sweep
from ..algebra.weights import Weights, in_given_order, in_order
from ..errors import InputError
from ..gram import Gram
from ..gram.neighbours import spatial_blocks
from ..support.validation import choice, count, whole_numbers
from .base import CalibratedSolver, Prepared, Solver, renumbered

ORDERS = ("random", "natural", "maximin")


@dataclass(frozen=True, repr=False)
class GaussSeidel(CalibratedSolver):
    """Algorithm 2 of the paper in its weights form: W is the m-th *backward* Gauss-Seidel iterate of G W = k(X, X′).

    ``order`` of the unknowns: "random" (seeded; on gridded data the natural order converges many times slower),
    "natural" (as the data come, what the paper does), "maximin" (each next point is the farthest from all before), or a
    permutation. With a ``block_size``, diagonal blocks of that many points are solved exactly in the same pass: cut
    from the order, or where ``partition`` is "spatial" blocks of neighbours (the leaves of a KD tree), in "random" or
    "natural" order.
    """

    iterations: int = 10
    order: str | Sequence[int] = "random"
    seed: int = 0
    block_size: int | None = None
    partition: str = "order"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.order, str):
            object.__setattr__(self, "order", whole_numbers(self.order, "order"))
        elif self.order not in ORDERS:
            known = ", ".join(map(repr, ORDERS))
            raise InputError(f"order must be one of {known} or a permutation, got {self.order!r}")
        choice(self.partition, "partition", ("order", "spatial"))
        if self.block_size is not None:
            count(self.block_size, "block_size", minimum=1)
        if self.partition == "spatial" and (self.block_size is None or self.order not in ("random", "natural")):
            raise InputError(
                'partition="spatial" makes its own order: it needs a block_size, and order "random" or "natural" '
                f"for its blocks, got block_size={self.block_size!r} and order={self.order!r}"
            )

    def prepare(self, gram: Gram) -> Prepared:
        if self.partition == "spatial":
            assert self.block_size is not None
            seed = self.seed if self.order == "random" else None
            order = spatial_blocks(gram.coordinates(), self.block_size, seed)
        elif self.order == "natural":
            return _PreparedGaussSeidel(self, gram, None)
        elif self.order == "random":
            order = torch.randperm(gram.size, generator=torch.Generator().manual_seed(self.seed))
        elif self.order == "maximin":
            order = _maximin(gram.coordinates())
        else:
            order, n = torch.tensor(self.order), gram.size
            if order.shape != (n,) or not torch.equal(order.sort().values, torch.arange(n)):
                raise InputError(f"order must be a permutation of the {n} training points: each index 0…{n - 1} once")
        order = order.to(gram.device)
        return _PreparedGaussSeidel(self, gram.permuted(order), order)

    def for_points(self, kept: np.ndarray, size: int) -> Solver:
        if isinstance(self.order, str):
            return self
        return replace(self, order=renumbered(self.order, kept, size))


class _PreparedGaussSeidel(Prepared):
    def __init__(self, solver: GaussSeidel, gram: Gram, order: torch.Tensor | None) -> None:
        super().__init__(solver, gram, order)
        self._blocks = BlockDiagonal(gram, solver.block_size) if solver.block_size else None
        self.held_bytes = self._blocks.held_bytes if self._blocks else 0

    def corrections(self, rhs: torch.Tensor) -> Iterator[Weights]:
        values, reduction = torch.zeros_like(rhs), rhs.new_zeros(len(rhs))
        for i in range(1, self.limit + 1):
            reduction = reduction + sweep(self.gram, values, rhs, backward=True, blocks=self._blocks)
            yield Weights(values, reduction, i, float(i), self.gram.size, order=self.order)

    def coefficients(self, b: torch.Tensor) -> Iterator[torch.Tensor]:
        own, rhs = torch.zeros_like(b)[None, :], in_order(b[None, :], self.order)
        yield own[0].clone()
        for _ in range(self.limit):
            sweep(self.gram, own, rhs, backward=False, blocks=self._blocks)
            yield in_given_order(own, self.order)[0].clone()


def _maximin(points: torch.Tensor) -> torch.Tensor:
    """Each next point is the one farthest from all before it, for points (d, q); O(d²), like one pass over G."""
    order = torch.empty(len(points), dtype=torch.int64)
    distance = -(points - points.mean(dim=0)).square().sum(dim=1)  # the first is the most central one
    for i in range(len(points)):
        chosen = int(distance.argmax())
        order[i] = chosen
        step = (points - points[chosen]).square().sum(dim=1)
        distance = step if i == 0 else torch.minimum(distance, step)
        distance[order[: i + 1]] = -1.0
    return order

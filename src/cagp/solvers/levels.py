"""Training points far from a test point: the nearest of random subsets, each sparser than the one before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ..gram import Cross, Gram
from ..gram.neighbours import Search, search

SIZES = (4096, 512, 64)
"""How many training points the subsets have, where there are enough."""

_ROWS = 4096
"""Test points whose neighbours are compared with each other at once."""


@dataclass(frozen=True)
class Level:
    """A random subset ``points`` (n,) of the training points, of which a test point takes the ``take`` nearest.

    It asks for a few more, ``ask``, because some of them may be among its neighbours already.
    """

    points: torch.Tensor
    take: int
    ask: int
    search: Search | None

    def nearest(self, cross: Cross) -> torch.Tensor:
        """The nearest training points of this subset for every test point, nearest first, shape (T, ask)."""
        coordinates = cross.gram.search_coordinates(cross.test)
        if self.search is None or coordinates is None:
            return self.points[cross.strongest(self.ask, self.points)]
        return self.points[self.search.query(coordinates, self.ask)]


def levels_of(gram: Gram, k: int, far: int, seed: int) -> list[Level]:
    """Disjoint random subsets for ``far`` further points beside the ``k`` nearest; ``far`` is shared out evenly."""
    order = torch.randperm(gram.size, generator=torch.Generator().manual_seed(seed))
    coordinates, levels, start = gram.search_coordinates(), [], 0
    for i, size in enumerate(SIZES):
        count = min(size, gram.size >> (i + 2))
        share = far * (i + 1) // len(SIZES) - far * i // len(SIZES)
        take = min(share, count)
        if take:
            points = order[start : start + count].to(gram.device)
            among_near = -(-2 * k * count // gram.size) + 2  # twice as many as is to be expected
            tree = None if coordinates is None else search(coordinates[points])
            levels.append(Level(points, take, min(count, take + among_near), tree))
        start += count
    return levels


def with_far(near: torch.Tensor, levels: list[Level], nearest: Callable[[Level], torch.Tensor]) -> torch.Tensor:
    """The nearest points (T, k) and those of all levels, each once, shape (T, k + far); −1 where there are fewer.

    ``nearest`` gives those of a level that are nearest to each test point, shape (T, level.ask).
    """
    sets = [near]
    for level in levels:
        found = nearest(level)
        parts = [
            _new(some, known, level.take) for some, known in zip(found.split(_ROWS), near.split(_ROWS), strict=True)
        ]
        sets.append(torch.cat(parts))
    return torch.cat(sets, dim=1)


def _new(found: torch.Tensor, known: torch.Tensor, take: int) -> torch.Tensor:
    """The first ``take`` of ``found`` (T, n) that are not in ``known`` (T, k), then −1, shape (T, take)."""
    old = (found[:, :, None] == known[:, None, :]).any(dim=2)
    found = found.masked_fill(old, -1)
    return found.gather(1, old.to(torch.uint8).argsort(dim=1, stable=True)[:, :take])

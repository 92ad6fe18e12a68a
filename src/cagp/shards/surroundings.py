"""The nearest of all observations, from the few blocks that can hold them.

Every block of a store has a box in the coordinates in which the kernel falls with distance. In the block around a place
its k-th neighbour is at some distance; only blocks whose boxes come nearer than that can hold nearer ones, and these
are looked at as well. So neighbours are those among all observations, for any kernel
that falls with distance, on the globe as in the plane, in gaps and outside of the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
import torch
from scipy.spatial import cKDTree

from ..errors import InputError
from ..kernels import Kernel
from ..kernels.nearness import Near, coordinates_of, looked_at, near_coordinates
from .store import Rows, Store
from .work import Workers

Far: TypeAlias = Sequence[tuple[torch.Tensor, int, int]]

_BLOCKS = 40  # places around so many blocks are looked at together
_KEPT = 160  # blocks that are kept: those, and those around them
_ROUNDING = 1e-9  # distances are compared up to this


@dataclass(frozen=True)
class Metric:
    """The coordinates in which a kernel falls with distance, as ``near_coordinates`` has them for all observations."""

    kernel: Kernel
    origin: torch.Tensor
    near: Near

    @classmethod
    def of(cls, kernel: Kernel, size: int, some: Rows) -> Metric:
        """That of so many observations, ``some`` of which are those of ``looked_at(size)``."""
        place = np.searchsorted(some.row, looked_at(size))
        X = torch.from_numpy(some.X[place])
        origin = X.mean(dim=0)
        near = near_coordinates(kernel, kernel.embed(X, origin), size=size)
        if not near:
            raise InputError(
                f"kernel: no part of {kernel!r} falls with distance, so that no observation is near another, and data "
                "in shards cannot be predicted from neighbours; take a kernel such as Matern32"
            )
        return cls(kernel, origin, near)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Points (n, p) in these coordinates (n, q)."""
        found = coordinates_of(self.near, self.kernel.embed(torch.from_numpy(X), self.origin))
        return found.contiguous().numpy()


@dataclass(frozen=True)
class Surroundings:
    """Who is near in a ``store``, by a ``metric``; the box of each of its blocks is from ``low`` to ``high`` (n, q).

    ``far`` are subsets of observations that may be far from a point, as ``far_rows`` has them.
    """

    store: Store
    metric: Metric
    low: np.ndarray
    high: np.ndarray
    far: Far = ()

    @classmethod
    def of(cls, store: Store, metrics: list[Metric], by: Workers) -> list[Surroundings]:
        """Those of several metrics, in one pass over the data; nobody is far."""
        tiles = by.all_of(_boxes_of, [(store, tile, metrics) for tile in range(len(store.rows))], "boxes of blocks")
        ends = [[np.concatenate([tile[i][end] for tile in tiles]) for end in (0, 1)] for i in range(len(metrics))]
        return [cls(store, metric, low, high) for metric, (low, high) in zip(metrics, ends, strict=True)]

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}  # no trees

    @cached_property
    def _middles(self) -> cKDTree:
        return cKDTree((self.low + self.high) / 2)

    @cached_property
    def _opened(self) -> Callable[[int], tuple[Rows, cKDTree]]:
        """The rows of a block, with their tree; some are kept for who asks again."""

        def opened(block: int) -> tuple[Rows, cKDTree]:
            rows = self.store.read(block)
            return rows, cKDTree(self.metric(rows.X), balanced_tree=False, compact_nodes=False)

        return lru_cache(maxsize=_KEPT)(opened)

    def batches(self, at: np.ndarray, most: int) -> list[np.ndarray]:
        """Places (n, q) in an order in which those near each other are together, so many, or blocks, at a time."""
        block = self._middles.query(at)[1]
        order = block.argsort(kind="stable")
        number = np.cumsum(np.append(0, np.diff(block[order]) > 0))
        found, start = list[np.ndarray](), 0
        while start < len(order):
            stop = min(start + most, int(np.searchsorted(number, number[start] + _BLOCKS)))
            found.append(order[start:stop])
            start = stop
        return found

    def find(self, at: np.ndarray, k: int) -> tuple[Rows, np.ndarray, np.ndarray]:
        """The k observations nearest to places (n, q): the rows that take part, the places there of each neighbour,
        nearest first, and how far they are, both (n, k).
        """
        k = min(k, self.store.size)
        distance, code = np.full((len(at), k), np.inf), np.full((len(at), k), -1)
        first = self._middles.query(at)[1]
        for block in np.unique(first):
            self._look(int(block), np.flatnonzero(first == block), at, distance, code)
        for block in self._nearer(at, distance[:, -1]):
            near = self._away(block, at) <= distance[:, -1] * (1 + _ROUNDING)
            asked = np.flatnonzero(near & (first != block))
            if len(asked):
                self._look(int(block), asked, at, distance, code)
        used, place = np.unique(code, return_inverse=True)
        starts = np.flatnonzero(np.append(True, np.diff(used // self.store.block) > 0))
        parts = [
            self._opened(int(own[0] // self.store.block))[0].at(own % self.store.block)
            for own in np.split(used, starts[1:])
        ]
        every = (np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "row"))
        return Rows(*every), place.reshape(code.shape), distance

    def _look(self, block: int, asked: np.ndarray, at: np.ndarray, distance: np.ndarray, code: np.ndarray) -> None:
        """Take what a block has for the places ``asked`` into the nearest so far, (n, k), and who they are."""
        rows, tree = self._opened(block)
        k = distance.shape[1]
        found = tree.query(at[asked], min(k, len(rows.y)))
        away, place = (each.reshape(len(asked), -1) for each in found)
        away = np.concatenate([distance[asked], away], axis=1)
        who = np.concatenate([code[asked], block * self.store.block + place], axis=1)
        order = away.argsort(axis=1, kind="stable")[:, :k]
        distance[asked], code[asked] = (np.take_along_axis(each, order, axis=1) for each in (away, who))

    def _away(self, block: int, at: np.ndarray) -> np.ndarray:
        """How far the box of a block is from places (n, q), shape (n,)."""
        gaps = np.maximum(self.low[block] - at, 0.0) + np.maximum(at - self.high[block], 0.0)
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", gaps, gaps)))

    def _nearer(self, at: np.ndarray, reach: np.ndarray) -> np.ndarray:
        """The blocks whose boxes may be within ``reach`` (n,) of their places (n, q), nearest to all of them first."""
        apart = np.maximum(self.low - at.max(axis=0), 0.0) + np.maximum(at.min(axis=0) - self.high, 0.0)
        least = np.sqrt(np.square(apart).sum(axis=1))
        order = least.argsort(kind="stable")
        return order[least[order] <= reach.max() * (1 + _ROUNDING)]


def _boxes_of(store: Store, tile: int, metrics: list[Metric]) -> list[tuple[np.ndarray, np.ndarray]]:
    """The corners of the boxes of a tile's blocks (blocks, q) by each metric."""
    corners: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in metrics]
    for group in range(int((store.blocks[:, 0] == tile).sum())):
        X = Rows.read(store.tile(tile), [group], store.names).X
        for metric, found in zip(metrics, corners, strict=True):
            at = metric(X)
            found.append((at.min(axis=0), at.max(axis=0)))
    return [tuple(np.stack(each) for each in zip(*found, strict=True)) for found in corners]  # type: ignore[misc]

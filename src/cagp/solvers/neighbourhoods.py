"""Which training points a test point sees: the neighbours of its cell of space, and some far from it.

One factorisation serves all test points of a cell. Cells and their neighbours depend on the training points alone, so
the same point gets the same answer in whatever company; their number of neighbours is bounded, for points alone in one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import torch

from ..gram import Cross, Gram
from ..gram.neighbours import Search, TreeSearch, search

_SIZES = (4096, 512, 64)  # training points in the subsets that far ones are from, where there are enough
WIDEST = 2.0  # neighbours that a cell may have, as a multiple of those of a point
_USUAL = 0.93  # of so many: those of the usual cell; others have a little more
_WORTH = 1.5  # training points in the usual cell from which on there are cells at all: as many test points are expected
_COARSER, _FINER = 2, 10  # how often the side of the usual cell may be doubled in gaps, or halved in crowds
# Half diagonals of a cell within which its centre has fewer than k neighbours: so all points in the cell, and well
# around it, are neighbours of the centre.
_NEARER = 1.6
_BLOCK = 2  # test points that are worked on together lie in the same cubes, the usual cell doubled so often
_SAMPLED, _TRIED, _COUNTED = 16, 6, 200  # points and trials that find the side of the usual cell; points in it
_MOST_COLUMNS = 4
_FARTHEST = 2.0**50
_ROWS = 4096  # test points whose neighbours are compared with each other at once


@dataclass(frozen=True)
class Cells:
    """Boxes around the training points of a ``search``, for test points that would have ``k`` neighbours each.

    The neighbours of a box are those of its centre and of its corners. Boxes with too many are cut into halves.
    """

    search: TreeSearch
    k: int
    most: int  # neighbours of a box
    origin: np.ndarray
    side: float  # of the usual cell, a cube

    @classmethod
    def of(cls, search: TreeSearch, k: int) -> Cells | None:
        """The cells for k neighbours, or None where they would be too small to have several test points."""
        points = search.points
        size, columns = points.shape
        most = int(WIDEST * k)
        if most >= size:
            return cls(search, k, size, points[0], 1.0)
        if k == 0 or columns > _MOST_COLUMNS:
            return None
        sample = points[np.random.default_rng(0).choice(size, min(size, _COUNTED), replace=False)]
        some = sample[:_SAMPLED]
        reach = float(np.median(np.linalg.norm(points[search.nearest(some, k)[:, -1]] - some, axis=1)))
        low, high, around = np.log(0.05), np.log(2.0), np.zeros((1 + 2**columns, columns))
        around[1:] = list(product((-0.5, 0.5), repeat=columns))  # the centre of a cube, and its corners
        for _ in range(_TRIED):
            middle = (low + high) / 2
            near = search.nearest(some[:, None] + np.exp(middle) * reach * around, k).reshape(len(some), -1)
            enough = np.median(_distinct(near).sum(axis=1)) <= _USUAL * most
            low, high = (middle, high) if enough else (low, middle)
        side = float(np.exp(low)) * reach
        if not side > 0 or search.crowd(sample, side / 2, np.inf).mean() - 1 < _WORTH:
            return None
        origin = points.min(axis=0) - 0.382 * side  # no border along the first points
        return cls(search, k, most, origin, side)

    def find(self, test: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The cell of each test point (T, q), or −1, the centres of cells (n, q), and neighbours (n, most), or −1."""
        found, columns = np.full(len(test), -1), test.shape[1]
        if self.most == len(self.search.points):
            found[:] = 0
            return found, self.origin[None], np.arange(self.most)[None]
        finest = self.side / 2**_FINER
        place = np.floor((test - self.origin) / finest)
        todo = np.flatnonzero((np.abs(place) < _FARTHEST).all(axis=1))
        place, halvings = place[todo].astype(np.int64), np.full(columns, _COARSER + _FINER)
        boxes = place >> halvings
        _, first, label = np.unique(boxes, axis=0, return_index=True, return_inverse=True)
        label = label.reshape(-1)
        centres, members, number = [np.empty((0, columns))], [np.empty((0, self.most), dtype=np.int64)], 0
        while len(todo):
            centre, good, near = self._looked_at(boxes[first], finest * 2.0**halvings)
            done = good[label]
            found[todo[done]] = number + (np.cumsum(good) - 1)[label[done]]
            number += len(near)
            centres.append(centre[good])
            members.append(near)
            along = int(np.flatnonzero(halvings == halvings.max())[0])
            if halvings[along] == 0:
                break
            halvings[along] -= 1
            todo, place = todo[~done], place[~done]
            boxes = place >> halvings
            half = 2 * label[~done] + (boxes[:, along] & 1)
            _, first, label = np.unique(half, return_index=True, return_inverse=True)
        return found, np.concatenate(centres), np.concatenate(members)

    def _looked_at(self, boxes: np.ndarray, sides: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The centres of ``boxes`` (n, q) with ``sides`` (q,), which are cells (n,), and neighbours (cells, most)."""
        centre = self.origin + (boxes + 0.5) * sides
        good = self.search.crowd(centre, _NEARER * float(np.linalg.norm(sides)) / 2) < self.k
        own = self.search.nearest(centre[good], self.k)
        corners = boxes[good][:, None] + np.array(list(product((0, 1), repeat=len(sides))))
        distinct, which = np.unique(corners.reshape(-1, len(sides)), axis=0, return_inverse=True)
        near = self.search.nearest(self.origin + distinct * sides, self.k)[which.reshape(-1)]
        near = near.reshape(len(corners), self.k << len(sides))
        all_of = np.concatenate([own, near], axis=1)
        first = _distinct(all_of)
        few = first.sum(axis=1) <= self.most
        good[good] = few
        cell, column = np.nonzero(first[few])
        members = np.full((int(few.sum()), self.most), -1)
        members[cell, (np.cumsum(first[few], axis=1) - 1)[cell, column]] = all_of[few][cell, column]
        return centre, good, members

    def pieces(self, test: np.ndarray, points: int, cells: int) -> list[np.ndarray]:
        """Test points (T, q) in pieces of about so many ``points`` and ``cells`` at most; few cells are cut."""
        cubes = np.floor((test - self.origin) / (self.side * 2**_BLOCK))
        order = np.lexsort(cubes.T)
        begins = np.ones(len(test), dtype=bool)
        begins[1:] = (cubes[order[1:]] != cubes[order[:-1]]).any(axis=1)
        starts = np.flatnonzero(begins)
        counts = np.diff(np.append(starts, len(test)))
        within = np.minimum(counts, 2.0 ** (_BLOCK * test.shape[1]))  # cells of a block
        share = np.maximum(counts / points, within / cells)
        which = np.floor(np.cumsum(share) - share)
        cuts = starts[1:][which[1:] != which[:-1]]
        step = 2 * points  # a block with very many points
        return [part[i : i + step] for part in np.split(order, cuts) for i in range(0, len(part), step)]


def _distinct(rows: np.ndarray) -> np.ndarray:
    """Sort each of ``rows`` (n, m), and say which of its entries are the first of their kind, (n, m)."""
    rows.sort(axis=1)
    first = np.ones(rows.shape, dtype=bool)
    first[:, 1:] = rows[:, 1:] != rows[:, :-1]
    return first


@dataclass(frozen=True)
class FarSubset:
    """A random subset ``points`` (n,) of the training points, of which a test point takes the ``take`` nearest."""

    points: torch.Tensor
    take: int
    ask: int  # a few more: some of them may be among its neighbours already
    search: Search | None

    def nearest(self, cross: Cross) -> torch.Tensor:
        """The nearest training points of this subset for every test point, nearest first, shape (T, ask)."""
        coordinates = cross.gram.search_coordinates(cross.test)
        if self.search is None or coordinates is None:
            return self.points[cross.strongest(self.ask, self.points)]
        return self.nearest_to(coordinates)

    def with_more(self, factor: float) -> FarSubset:
        """The same subset, of which so many times as many are taken."""
        take = min(int(factor * self.take), len(self.points))
        return replace(self, take=take, ask=min(int(factor * self.ask), len(self.points)))

    def nearest_to(self, coordinates: torch.Tensor) -> torch.Tensor:
        """The same for points (T, q) in the coordinates of the search."""
        assert self.search is not None
        return self.points[self.search.query(coordinates, self.ask)]


def levels_of(gram: Gram, k: int, far: int, seed: int) -> list[FarSubset]:
    """Disjoint random subsets for ``far`` further points beside the ``k`` nearest; ``far`` is shared out evenly."""
    coordinates, levels = gram.search_coordinates(), []
    for rows, take, ask in far_rows(gram.size, k, far, seed):
        points = rows.to(gram.device)
        tree = None if coordinates is None else search(coordinates[points])
        levels.append(FarSubset(points, take, ask, tree))
    return levels


def far_rows(size: int, k: int, far: int, seed: int) -> list[tuple[torch.Tensor, int, int]]:
    """The rows of each of these subsets of so many points, how many of them a test point takes, and asks for."""
    order = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    found, start = [], 0
    for i, wanted in enumerate(_SIZES):
        count = min(wanted, size >> (i + 2))
        take = min(far * (i + 1) // len(_SIZES) - far * i // len(_SIZES), count)
        if take:
            among_near = -(-2 * k * count // size) + 2  # twice as many as is to be expected
            found.append((order[start : start + count].clone(), take, min(count, take + among_near)))
        start += count
    return found


def with_far(near: torch.Tensor, levels: list[FarSubset], nearest: Callable[[FarSubset], torch.Tensor]) -> torch.Tensor:
    """The nearest points (T, k) and the ``nearest`` (T, level.ask) of all levels, each once, (T, k + far), then −1."""
    sets = [near]
    for level in levels:
        parts = zip(nearest(level).split(_ROWS), near.split(_ROWS), strict=True)
        sets.append(torch.cat([_new(some, known, level.take) for some, known in parts]))
    return torch.cat(sets, dim=1)


def _new(found: torch.Tensor, known: torch.Tensor, take: int) -> torch.Tensor:
    """The first ``take`` of ``found`` (T, n) that are not in ``known`` (T, k), then −1, shape (T, take)."""
    old = (found[:, :, None] == known[:, None, :]).any(dim=2)
    found = found.masked_fill(old, -1)
    return found.gather(1, old.to(torch.uint8).argsort(dim=1, stable=True)[:, :take])

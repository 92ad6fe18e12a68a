"""Which test points of a prediction lie so close together that it pays to solve for them with the same neighbours.

Test points are sorted into blocks, and each block into halves, quarters and so on. The union of the neighbours of a
block is found without asking for those of each point: if r is how far the k-th neighbour of the block's centre is and ρ
how far its points are from the centre, all their neighbours lie within r + 2ρ of the centre. One matrix of distances
then tells whose neighbours they are, and a comparison of costs, from the smallest blocks up, which blocks share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from ..gram.neighbourhoods import Neighbourhoods
from ..gram.neighbours import TreeSearch
from ..support.threads import share_out

LARGEST = 64
"""Test points in the largest blocks."""

SMALLEST = 4
"""Test points in the smallest blocks that may share: for fewer it hardly pays."""

WIDEST = 2.25
"""How many times as many neighbours as one point has a block may have: a bound on the memory for weights."""

_BLOCKS_AT_ONCE = 512
_DISTANCES_AT_ONCE = 2**19
_TOO_MANY = 12
"""Candidates, as a multiple of the neighbours of one point, beyond which a block is halved unseen."""

_GAIN = 1.5
"""How much less sharing must cost by these estimates: machines differ."""

_LEAST = 0.1
"""Of the cost: where sharing seems to save less, a closer look costs more than it finds."""

_SAMPLED = 12
"""Blocks from which that is judged first, where there are many more: sorting all test points takes much longer."""

_OPTIMISM = 0.7
"""Of the cost estimated before the neighbours are known: halving is considered again once they are."""


@dataclass(frozen=True)
class Asked:
    """The ``k`` nearest points of ``search`` are asked for; point i of it is training point ``points[i]``."""

    search: TreeSearch
    points: np.ndarray | None
    k: int


def shared_neighbourhoods(test: np.ndarray, asked: Sequence[Asked], size: int) -> Neighbourhoods | None:
    """Groups of test points (T, q), of which each would have ``size`` neighbours; None where none should share.

    ``asked`` are the questions whose answers are the neighbours of a test point.
    """
    if len(test) < SMALLEST:
        return None
    full = len(test) // LARGEST
    if full > 4 * _SAMPLED:
        some = np.sort(np.random.default_rng(0).choice(full, _SAMPLED, replace=False))
        if _Blocks(test, _ordered(test, some), asked, size).promising()[1] < _LEAST:
            return None
    blocks = _Blocks(test, _ordered(test), asked, size)
    todo, saving = blocks.promising()
    if saving < _LEAST:
        return None
    found: list[_Found] = []
    for rows in (LARGEST >> i for i in range(LARGEST.bit_length()) if LARGEST >> i >= SMALLEST):
        nodes, halves = todo.pop(rows, np.empty((0, rows), dtype=np.int64)), []
        pieces = [nodes[i : i + _BLOCKS_AT_ONCE] for i in range(0, len(nodes), _BLOCKS_AT_ONCE)]
        results: list[tuple[list[_Found], np.ndarray] | None] = [None] * len(pieces)

        def look(i: int, pieces: list[np.ndarray] = pieces, results: list[object] = results) -> None:  # type: ignore[assignment]
            results[i] = blocks.look(pieces[i])

        share_out(look, range(len(pieces)), torch.device("cpu"))
        for result in results:
            assert result is not None
            found += result[0]
            halves.append(result[1])
        if rows > SMALLEST and halves:
            split = np.concatenate(halves).reshape(-1, rows // 2)
            todo[rows // 2] = np.concatenate([todo.get(rows // 2, split[:0]), split])
    return _joined(found, len(test))


# --- blocks -----------------------------------------------------------------------------------------------------------


def _ordered(test: np.ndarray, only: np.ndarray | None = None) -> np.ndarray:
    """Test points in blocks of ``LARGEST`` neighbours, halves of which are neighbours too, …: (blocks, LARGEST).

    The last block is filled up by −1. ``only`` some of the blocks are made if their numbers are given, in order.
    """
    leaves: list[np.ndarray] = []
    columns = np.ascontiguousarray(test.T)

    def split(indices: np.ndarray, first: int) -> None:
        blocks = -(-len(indices) // LARGEST)
        if only is not None and np.searchsorted(only, first) == np.searchsorted(only, first + blocks):
            return
        if blocks <= 1:
            leaves.append(indices)
            return
        along = max((column[indices] for column in columns), key=np.ptp)
        middle = LARGEST * (blocks // 2)  # whole blocks, so that only the very last is short
        ranked = indices[np.argpartition(along, middle)]
        split(ranked[:middle], first)
        split(ranked[middle:], first + blocks // 2)

    split(np.arange(len(test)), 0)
    flat = np.concatenate(leaves)
    order = np.concatenate([flat, np.full(-len(flat) % LARGEST, -1)]).reshape(-1, LARGEST)
    rows = LARGEST
    while rows > SMALLEST:
        parts = order.reshape(-1, rows)
        points = test[parts]
        widest = np.ptp(points, axis=1).argmax(axis=1)
        along = np.take_along_axis(points, widest[:, None, None], axis=2)[:, :, 0]
        along[parts < 0] = np.inf  # what fills up stays last
        order = np.take_along_axis(parts, np.argpartition(along, rows // 2, axis=1), axis=1)
        if (parts[-1] < 0).any():
            order[-1] = parts[-1][np.argsort(along[-1], kind="stable")]
        rows //= 2
    return order.reshape(-1, LARGEST)


def _own_cost(n: int) -> float:
    """About the nanoseconds of a test point with n neighbours of its own: search, kernel, Cholesky, two solutions."""
    return 2e3 + 300 * n + 5.5 * n**2 + n**3 / 3 * (0.03 + 8 / (n + 1))


def _shared_cost(rows: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The same for ``rows`` test points together with n neighbours, with what it takes to find them."""
    once = 4e4 + 5.5 * n**2 + n**3 / 3 * (0.03 + 8 / (n + 1))
    return _GAIN * (once + rows * (4e3 + 7 * n + 2 * n**2 * (0.035 + 5 / (n + 1))))


@dataclass(frozen=True)
class _Found:
    """Groups that share: their test points (groups, rows), −1 where fewer, and for each its neighbours."""

    rows: np.ndarray
    members: np.ndarray
    sizes: np.ndarray


class _Blocks:
    def __init__(self, test: np.ndarray, order: np.ndarray, asked: Sequence[Asked], size: int) -> None:
        self._test, self._order, self._asked, self._size = test, order, asked, size
        self._alone = _own_cost(size)

    def _round(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Centres (n, q) of blocks (n, rows) and how far their points are from them (n,)."""
        filled = np.where(nodes < 0, nodes[:, :1], nodes)
        points = self._test[filled]
        centres = (points.min(axis=1) + points.max(axis=1)) / 2
        return centres, np.sqrt(np.square(points - centres[:, None]).sum(axis=2).max(axis=1))

    def promising(self) -> tuple[dict[int, np.ndarray], float]:
        """Blocks that seem worth looking at, none inside another, by their number of rows: each (n, rows).

        And what part of the cost of all blocks that would save.
        """
        centres, _ = self._round(self._order)
        reach = [np.maximum(each.search.reach(centres, each.k), 1e-300) for each in self._asked]
        best, chosen, rows = np.empty(0), {}, SMALLEST
        while rows <= LARGEST:
            nodes = self._order.reshape(-1, rows)
            _, radius = self._round(nodes)
            union = np.zeros(len(nodes))
            for each, r in zip(self._asked, reach, strict=True):
                grown = 1 + radius / np.repeat(r, LARGEST // rows)
                union += np.minimum(each.k * grown ** each.search.points.shape[1], len(each.search.points))
            there = (nodes >= 0).sum(axis=1)
            together = _OPTIMISM * _shared_cost(there, union)
            apart = best.reshape(-1, 2).sum(axis=1) if len(best) else there * self._alone
            chosen[rows] = (together < apart) & (there >= SMALLEST)
            best = np.where(chosen[rows], together, apart)
            rows *= 2
        taken = np.zeros(len(self._order), dtype=bool)
        promising, rows = {}, LARGEST
        while rows >= SMALLEST:
            new = chosen[rows] & ~taken
            promising[rows] = self._order.reshape(-1, rows)[new]
            taken = np.repeat(taken | new, 2)
            rows //= 2
        return promising, 1 - best.sum() / (self._alone * np.count_nonzero(self._order >= 0))

    def look(self, nodes: np.ndarray) -> tuple[list[_Found], np.ndarray]:
        """The groups in some blocks (n, rows), and the blocks that have too many candidates to look at."""
        centres, radius = self._round(nodes)
        candidates = []
        for each in self._asked:
            reach = each.search.reach(centres, each.k) + 2 * radius
            candidates.append(each.search.within(centres, reach * (1 + 1e-6) + 1e-300))
        counts = np.array([[len(some) for some in lists] for lists in candidates])  # (questions, n)
        total = counts.sum(axis=0)
        few = np.flatnonzero(total <= _TOO_MANY * self._size)
        few = few[np.argsort(total[few], kind="stable")]
        found, start = [], 0
        while start < len(few):
            stop = start + 1
            while stop < len(few) and (stop - start) * nodes.shape[1] * total[few[stop]] < _DISTANCES_AT_ONCE:
                stop += 1
            part = few[start:stop]
            found += self._choose(nodes[part], [lists[part] for lists in candidates], counts[:, part])
            start = stop
        return found, nodes[total > _TOO_MANY * self._size]

    def _choose(self, nodes: np.ndarray, candidates: list[np.ndarray], counts: np.ndarray) -> list[_Found]:
        """Which of these blocks, or of their parts, share."""
        filled = np.where(nodes < 0, nodes[:, :1], nodes)
        points, whose, index = self._test[filled], [], []
        centres = points[:, :1]
        points = (points - centres).astype(np.float32)  # differences are small, and what is near is included, too
        for each, lists, n in zip(self._asked, candidates, counts, strict=True):
            there = np.arange(n.max()) < n[:, None]
            local = np.zeros(there.shape, dtype=np.int64)
            local[there] = np.fromiter(chain.from_iterable(lists), np.int64, int(n.sum()))
            near = (each.search.points[local] - centres).astype(np.float32)
            distance = np.square(points[:, :, None, 0] - near[:, None, :, 0])
            for c in range(1, points.shape[2]):
                distance += np.square(points[:, :, None, c] - near[:, None, :, c])
            distance[np.broadcast_to(~there[:, None], distance.shape)] = np.inf
            reach = np.partition(distance, each.k - 1, axis=2)[:, :, each.k - 1 : each.k]
            whose.append((distance <= reach * (1 + 1e-4)) & (nodes >= 0)[:, :, None])  # those as far as the k-th, too
            index.append(local if each.points is None else each.points[local])
        members, all_of = np.concatenate(whose, axis=2), np.concatenate(index, axis=1)
        return self._cheapest(nodes, members, all_of)

    def _cheapest(self, nodes: np.ndarray, members: np.ndarray, index: np.ndarray) -> list[_Found]:
        n, rows, width = members.shape
        step, seen = SMALLEST, np.asarray(members.reshape(n, -1, SMALLEST, width).any(axis=2))
        best: np.ndarray | None = None
        choices: list[tuple[int, np.ndarray, np.ndarray]] = []
        while True:
            there = (nodes.reshape(n, -1, step) >= 0).sum(axis=2)
            union = seen.sum(axis=2)
            together = np.where(union <= WIDEST * self._size, _shared_cost(there, union.astype(float)), np.inf)
            apart = there * self._alone if best is None else best.reshape(n, -1, 2).sum(axis=2)
            best = np.minimum(together, apart)
            choices.append((step, seen, (together <= apart) & (there > 0)))
            if step == rows:
                break
            seen, step = np.logical_or(seen[:, 0::2], seen[:, 1::2]), 2 * step
        found, taken = [], np.zeros((n, 1), dtype=bool)
        for step, seen, chosen in reversed(choices):
            new = chosen & ~taken
            if new.any():
                block, _ = np.nonzero(new)
                group, place = np.nonzero(seen[new])
                found.append(_distinct(nodes.reshape(n, -1, step)[new], group, index[block[group], place]))
            taken = np.repeat(taken | new, 2, axis=1)
        return found


def _distinct(rows: np.ndarray, group: np.ndarray, members: np.ndarray) -> _Found:
    """Groups with each of their members once; ``group`` and ``members`` are pairs."""
    order = np.lexsort((members, group))
    group, members = group[order], members[order]
    first = np.ones(len(group), dtype=bool)
    first[1:] = (group[1:] != group[:-1]) | (members[1:] != members[:-1])
    return _Found(rows, members[first], np.bincount(group[first], minlength=len(rows)))


def _joined(found: list[_Found], T: int) -> Neighbourhoods | None:
    if not found:
        return None
    group, first = np.full(T, -1), 0
    for each in found:
        labels = np.broadcast_to(np.arange(first, first + len(each.rows))[:, None], each.rows.shape)
        real = each.rows >= 0
        group[each.rows[real]] = labels[real]
        first += len(each.rows)
    sizes = np.concatenate([each.sizes for each in found])
    members = np.concatenate([each.members for each in found])
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Neighbourhoods(*(torch.from_numpy(part) for part in (group, members, offsets)))

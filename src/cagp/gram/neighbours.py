"""Who is near: nearest points (a search tree on a CPU, blocks on a GPU, both exact), and points in blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial import cKDTree

from ..support.threads import threads_allowed

_FEW = 500  # fewer questions are answered before another thread has begun
# Points are those of another tree in other units where they differ by so much of their extent, and are searched there
# where it is enough to look at about so many times as many. Distances are compared up to rounding.
_ALIKE, _MORE, _ROUNDING = 1e-12, 8.0, 1e-12


def search(points: torch.Tensor, few: bool = False) -> Search:
    """Prepare points (n, q) for questions, on the device they are on; for ``few``, so that preparing is quick."""
    return TreeSearch(points, few) if points.device.type == "cpu" else BlockSearch(points)


class TreeSearch:
    """SciPy's KD tree; for ``few`` questions one that is built faster and searched more slowly."""

    def __init__(self, points: torch.Tensor, few: bool = False) -> None:
        self._tree = cKDTree(points.numpy(), balanced_tree=not few, compact_nodes=not few)

    def query(self, test: torch.Tensor, k: int) -> torch.Tensor:
        """The k points nearest to each of ``test`` (T, q), nearest first: indices (T, k)."""
        return torch.from_numpy(self.nearest(test.numpy(), k))

    @property
    def points(self) -> np.ndarray:
        """The points (n, q), in float64."""
        return np.asarray(self._tree.data)

    def nearest(self, test: np.ndarray, k: int) -> np.ndarray:
        """The k points nearest to each of ``test`` (…, q), nearest first: indices (…, k)."""
        return self.apart(test, k)[1]

    def apart(self, test: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """How far they are, and which they are, both (…, k)."""
        few = test.size < _FEW * test.shape[-1]
        found = self._tree.query(test, k=k, workers=1 if few else threads_allowed())
        distance, near = (each.reshape(*test.shape[:-1], k) for each in found)
        return distance, near

    def crowd(self, centres: np.ndarray, reach: float, norm: float = 2.0) -> np.ndarray:
        """How many points there are within ``reach`` of each of ``centres`` (n, q), shape (n,)."""
        return self._tree.query_ball_point(centres, reach, p=norm, return_length=True, workers=threads_allowed())


class ScaledSearch:
    """The ``points`` (n, q) of a tree, each coordinate times one of ``factors`` (q,): no tree of their own is built.

    What is nearest here is among some more that are nearest there: whoever is further there than r is further here than
    the smallest factor times r.
    """

    def __init__(self, tree: TreeSearch, points: torch.Tensor, factors: torch.Tensor) -> None:
        self._tree, self._points, self._factors = tree, points, factors
        self._least = (1 + _ROUNDING) * float(factors.min())

    @classmethod
    def of(cls, tree: TreeSearch, points: torch.Tensor) -> ScaledSearch | None:
        """The search among points (n, q); None where they are no such multiples, or others are nearest too often."""
        known = torch.from_numpy(tree.points)
        if known.shape != points.shape:
            return None
        (low, high), (its_low, its_high) = (torch.aminmax(each, dim=0) for each in (points, known))
        factors = (high - low) / (its_high - its_low)
        if not float(factors.max() / factors.min()) ** (len(factors) - 1) <= _MORE:
            return None
        unlike = (known * factors).sub_(points).abs_().amax(dim=0)
        return cls(tree, points, factors) if bool((unlike <= _ALIKE * (high - low)).all()) else None

    def query(self, test: torch.Tensor, k: int) -> torch.Tensor:
        """The k points nearest to each of ``test`` (T, q), nearest first: indices (T, k)."""
        found, todo = torch.empty(len(test), k, dtype=torch.int64), torch.arange(len(test))
        ask, places = k, test / self._factors
        while len(todo):
            furthest, near = map(torch.from_numpy, self._tree.apart(places[todo].numpy(), ask))
            own = (self._points[near] - test[todo, None]).square().sum(dim=2).topk(k, dim=1, largest=False)
            found[todo] = near.gather(1, own.indices)
            sure = own.values[:, -1].sqrt() <= self._least * furthest[:, -1]
            todo, ask = todo[~sure if ask < len(self._points) else []], min(2 * ask, len(self._points))
        return found


class BlockSearch:
    """Points and test points in blocks of neighbours; each block of test points looks into the nearest blocks.

    If even the k-th neighbour found is nearer than the box around the next block, nothing was missed; otherwise twice
    as many blocks are looked into. A block has ``leaf`` points, and looks into ``first_blocks`` at first; ``entries``
    distances are in memory at once. Among few points all of them are looked at.
    """

    def __init__(self, points: torch.Tensor, leaf: int = 256, first_blocks: int = 16, entries: int = 2**27) -> None:
        self._known, self._points = _blocks(points, leaf), points
        self._leaf, self._first_blocks, self._entries = leaf, first_blocks, entries

    def query(self, test: torch.Tensor, k: int) -> torch.Tensor:
        if len(self._points) <= self._first_blocks * self._leaf:
            parts = test.split(max(1, self._entries // len(self._points)))
            distances = (_squared_distances(part, self._points) for part in parts)
            return torch.cat([each.topk(k, dim=1, largest=False).indices for each in distances])
        queries = _blocks(test, self._leaf)
        blocks, leaf, _ = queries.points.shape
        nearest = torch.empty(blocks, leaf, k, dtype=torch.int64, device=test.device)
        todo = torch.arange(blocks, device=test.device)
        known, size, _ = self._known.points.shape
        look = min(known, max(self._first_blocks, 2 * -(-k // size)))
        while len(todo):
            step = max(1, self._entries // max(look * size * leaf, known))
            todo = torch.cat([self._look(queries, part, look, nearest) for part in todo.split(step)])
            look = min(known, 2 * look)
        found = torch.empty(len(test), k, dtype=torch.int64, device=test.device)
        real = queries.index >= 0
        found[queries.index[real]] = nearest[real]
        return found

    def _look(self, queries: _Blocks, asked: torch.Tensor, look: int, nearest: torch.Tensor) -> torch.Tensor:
        """Fill in the neighbours of test blocks ``asked`` (m,) from the ``look`` nearest; who must look further."""
        known, everything = self._known, look == len(self._known.points)
        below, above = queries.low[asked, None] - known.high, known.low - queries.high[asked, None]
        gap = below.clamp_min(0) + above.clamp_min(0)
        reach = gap.square().sum(dim=2).topk(look if everything else look + 1, largest=False)
        chosen = reach.indices[:, :look]
        index = known.index[chosen].flatten(1)
        distance = _squared_distances(queries.points[asked], known.points[chosen].flatten(1, 2))
        distance.masked_fill_((index < 0)[:, None], torch.inf)
        best = distance.topk(nearest.shape[2], dim=2, largest=False)
        nearest[asked] = index[:, None].expand_as(distance).gather(2, best.indices)
        if everything:
            return asked[:0]
        return asked[best.values[:, :, -1].amax(dim=1) > reach.values[:, -1]]


Search = TreeSearch | BlockSearch


def _squared_distances(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    """Those between points A (…, n, q) and B (…, m, q), shape (…, n, m), one coordinate after another."""
    distance = (A[..., :, None, 0] - B[..., None, :, 0]).square_()
    for c in range(1, A.shape[-1]):
        distance += (A[..., :, None, c] - B[..., None, :, c]).square_()
    return distance


@dataclass(frozen=True)
class _Blocks:
    """Points (blocks, leaf, q), their indices or −1 (blocks, leaf), and the corners of the boxes (blocks, q)."""

    points: torch.Tensor
    index: torch.Tensor
    low: torch.Tensor
    high: torch.Tensor


def _blocks(points: torch.Tensor, leaf: int) -> _Blocks:
    leaf = min(leaf, len(points))
    order = spatial_blocks(points, leaf, None).to(points.device)
    missing = -len(points) % leaf
    index = torch.cat([order, order.new_full((missing,), -1)]).view(-1, leaf)
    # what fills up the last block repeats its last point, so that the box stays as it is
    blocks = points[torch.cat([order, order[-1:].expand(missing)])].view(-1, leaf, points.shape[1])
    return _Blocks(blocks, index, blocks.amin(dim=1), blocks.amax(dim=1))


def spatial_blocks(points: torch.Tensor, block_size: int, seed: int | None) -> torch.Tensor:
    """An order in which each ``block_size`` consecutive points (d, q) are neighbours; a ``seed`` shuffles blocks."""
    leaves: list[torch.Tensor] = []

    def split(indices: torch.Tensor) -> None:
        if len(indices) <= block_size:
            leaves.append(indices)
            return
        coordinates = points[indices]
        widest = int((coordinates.amax(dim=0) - coordinates.amin(dim=0)).argmax())
        ranked = indices[coordinates[:, widest].argsort()]
        blocks = -(-len(ranked) // block_size)
        middle = block_size * (blocks // 2)  # whole blocks to the left, so that only the very last one is short
        split(ranked[:middle])
        split(ranked[middle:])

    split(torch.arange(len(points), device=points.device))
    if seed is not None:
        full = [leaf for leaf in leaves if len(leaf) == block_size]
        shuffled = torch.randperm(len(full), generator=torch.Generator().manual_seed(seed)).tolist()
        leaves = [full[i] for i in shuffled] + [leaf for leaf in leaves if len(leaf) < block_size]  # that stays last
    return torch.cat(leaves).cpu()

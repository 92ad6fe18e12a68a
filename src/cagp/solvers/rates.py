"""How fast this machine is at what solvers do: measured once, in a fraction of a second."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import torch

from ..algebra.operations import Pace
from ..gram import Gram
from ..gram.neighbours import search
from ..kernels import Matern32, map_embedding
from ..support.threads import share_out
from ..support.timing import least_seconds
from .nearest_neighbours import NearestNeighbours

_STEP = 1.25
"""Rates are rounded to powers of it, so that what is decided by them does not follow every breath of the machine."""

_REPEATS = 5
_COORDINATES = 2
_MORE_COORDINATES = 26

_SQUARE = {"cpu": 768, "cuda": 8192}
"""Rows of the matrices whose product is timed."""

_BLOCK = {"cpu": 384, "cuda": 4096}
"""Rows of the block of kernel values that is timed; on a CPU one for each thread, because threads that wait for each
other take many times as long where others are busy.
"""

_NEIGHBOURHOODS = {
    "cpu": ((25, 256), (100, 64), (400, 8)),
    "cuda": ((25, 65_536), (100, 8_192), (400, 512)),
}
"""Neighbours, and test points to time them with: enough to fill the device."""

_WIDE = 100
"""Neighbours with which more coordinates are timed."""


@dataclass(frozen=True)
class Rates:
    """The seconds that a machine takes for one of each.

    ``pace`` is that of large matrices, ``coordinate`` what a kernel value takes longer for each coordinate more than
    two, ``search`` is one coordinate that a search tree looks at, and ``neighbourhoods`` is (k, seconds) for a test
    point with k neighbours, known already, in two coordinates.
    """

    pace: Pace
    coordinate: float
    search: float
    neighbourhoods: tuple[tuple[int, float], ...]

    def neighbourhood(self, k: int, coordinates: int) -> float:
        """Seconds for a test point with k neighbours in so many coordinates; k³ for more than were measured."""
        points = [(math.log(n), math.log(seconds)) for n, seconds in self.neighbourhoods]
        at = math.log(max(k, 1))
        if at >= points[-1][0]:
            seconds = points[-1][1] + _GROWTH * (at - points[-1][0])
        else:
            (x0, y0), (x1, y1) = next(pair for pair in pairwise(points) if at < pair[1][0])
            seconds = y0 + (y1 - y0) * (max(at, x0) - x0) / (x1 - x0)
        return math.exp(seconds) + self.coordinate * max(0, coordinates - _COORDINATES) * k * k

    @classmethod
    def measured(cls, device: torch.device, dtype: torch.dtype) -> Rates:
        """Those of this machine, with as many threads as torch now has; measured when first asked for."""
        return _measured(str(device), dtype, torch.get_num_threads())


_GROWTH = 2.8
"""The time of larger neighbourhoods grows with this power of k: nearly that of the flops."""


@cache
def _measured(name: str, dtype: torch.dtype, threads: int) -> Rates:
    device = torch.device(name)
    n = _SQUARE.get(device.type, _SQUARE["cpu"])
    A = torch.rand(n, n, dtype=dtype, device=device)
    flop = _seconds(lambda: A @ A, device) / (2 * n**3)
    column = A[0]
    read = _seconds(lambda: A @ column, device) / n**2
    narrow, wide = (_points(2 * n, q, dtype, device) for q in (_COORDINATES, _MORE_COORDINATES))
    block = torch.arange(_BLOCK.get(device.type, _BLOCK["cpu"]), device=device)
    pieces = [block] * (threads if device.type == "cpu" else 1)
    several = _seconds(lambda: share_out(narrow.submatrix, pieces, device), device)
    value = several / (len(pieces) * len(block) ** 2)
    each = tuple((k, _neighbourhood(narrow, k, T)) for k, T in _NEIGHBOURHOODS.get(device.type, _NEIGHBOURHOODS["cpu"]))
    T = dict(_NEIGHBOURHOODS.get(device.type, _NEIGHBOURHOODS["cpu"]))[_WIDE]
    more = (_neighbourhood(wide, _WIDE, T) - dict(each)[_WIDE]) / (_WIDE**2 * (_MORE_COORDINATES - _COORDINATES))
    tree, test = search(wide.coordinates()), wide.coordinates()[:64] + 0.5
    looked = _seconds(lambda: tree.query(test, 50), device) / (64 * wide.size * _MORE_COORDINATES)
    return Rates(
        Pace(_rounded(value), _rounded(read), _rounded(flop)),
        _rounded(max(more, 1e-3 * value)),
        _rounded(looked),
        tuple((k, _rounded(seconds)) for k, seconds in each),
    )


def _points(n: int, coordinates: int, dtype: torch.dtype, device: torch.device) -> Gram:
    """The Gram matrix of random points; nothing is computed yet."""
    X = torch.rand(n, coordinates, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
    kernel = Matern32(coordinates**0.5)
    embedding = map_embedding(kernel.embed(X, X.mean(dim=0)), lambda part: part.to(dtype))
    return Gram(kernel, embedding, torch.full((n,), 0.1, dtype=dtype, device=device), storage="tiles", budget=2**40)


def _neighbourhood(gram: Gram, k: int, tests: int) -> float:
    """Seconds for a test point with k neighbours, without the search for them."""
    which = torch.arange(tests, device=gram.device) % gram.size
    cross = gram.cross(map_embedding(gram.embedding, lambda part: part[:, which]))
    prepared = NearestNeighbours(k).prepare(gram)
    looking = _seconds(lambda: cross.nearest(k), gram.device)
    all_of_it = _seconds(lambda: prepared.where_possible(cross), gram.device)
    return max(all_of_it - looking, 0.2 * all_of_it) / tests


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    return least_seconds(call, device, _REPEATS)


def _rounded(seconds: float) -> float:
    return _STEP ** round(math.log(seconds) / math.log(_STEP))

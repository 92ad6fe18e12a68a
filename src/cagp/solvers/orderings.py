"""Orders of the training points for sweeps."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..errors import InputError
from ..gram import Gram
from ..support.validation import whole_numbers

ORDERS = ("random", "natural", "maximin")


def check_order(order: str | Sequence[int]) -> str | tuple[int, ...]:
    """An order as a user writes it: a name, or a permutation."""
    if isinstance(order, str):
        if order not in ORDERS:
            raise InputError(f"order must be one of {', '.join(map(repr, ORDERS))} or a permutation, got {order!r}")
        return order
    return whole_numbers(order, "order")


def permutation(order: str | Sequence[int], gram: Gram, seed: int) -> torch.Tensor:
    """The order as a permutation (d,) of the training points."""
    if order == "random":
        return torch.randperm(gram.size, generator=torch.Generator().manual_seed(seed))
    if order == "maximin":
        return maximin(gram.coordinates())
    given = torch.tensor(order)
    if given.shape != (gram.size,) or not torch.equal(given.sort().values, torch.arange(gram.size)):
        raise InputError(
            f"order must be a permutation of the {gram.size} training points: each index 0…{gram.size - 1} once"
        )
    return given


def maximin(points: torch.Tensor) -> torch.Tensor:
    """Each next point is the one farthest from all before it, for points (d, q); O(d²), like one pass over G."""
    order = torch.empty(len(points), dtype=torch.int64)
    distance = (points - points.mean(dim=0)).square().sum(dim=1)
    distance = -distance  # the first is the most central one
    for i in range(len(points)):
        chosen = int(distance.argmax())
        order[i] = chosen
        step = (points - points[chosen]).square().sum(dim=1)
        distance = step if i == 0 else torch.minimum(distance, step)
        distance[order[: i + 1]] = -1.0
    return order

"""Bounds on the computational variance, batch by batch; weights that were not kept are computed again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch

from ..algebra.weights import Weights
from ..gram import Cross, PortablePoints
from ..support.interrupt import Interrupt
from ..workers.joblib_pool import Pool, find_pool
from ..workers.parcel import Parcel, received
from .bounds import ComputationalVariance, bounds_of
from .conditioned import Conditioned
from .memory_plan import MemoryPlan
from .solved import Solved
from .solving import run_to

_PIECES_PER_WORKER = 4


def bounds_of_batches(model: Conditioned, batches: Sequence[Solved]) -> ComputationalVariance:
    """The bounds for all test points; by the workers of ``joblib.parallel_config`` where weights were not kept."""
    elsewhere = all(batch.weights is None and batch.cross.travels for batch in batches)
    pool = find_pool(None) if elsewhere else None
    if pool is None:
        parts = [_bounds(model, batch.cross, batch.iterations, batch.weights) for batch in batches]
    else:
        parts = _bounds_by(pool, model, batches)
    return _joined(parts)


def _bounds(
    model: Conditioned, cross: Cross, iterations: torch.Tensor, weights: Weights | None = None
) -> ComputationalVariance:
    if weights is None and model.prepared.limit > 1:
        weights = run_to(model, cross, iterations)  # for all together: each iteration reads G
    step = MemoryPlan(model).bounds(cross.size)
    parts = []
    for start in range(0, cross.size, step):
        part = slice(start, start + step)
        some = cross.rows(part)
        own = run_to(model, some, iterations[part]) if weights is None else weights.rows(part)
        parts.append(bounds_of(model, some, own))
    cross.forget()
    return _joined(parts)


def _joined(parts: Sequence[ComputationalVariance]) -> ComputationalVariance:
    return ComputationalVariance(
        *(torch.cat([getattr(part, field.name) for part in parts]) for field in fields(ComputationalVariance))
    )


# --- elsewhere --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Piece:
    """Some test points and the iteration at which each of them is, shape (n,)."""

    points: PortablePoints
    iterations: torch.Tensor

    def __sizeof__(self) -> int:
        return 100 + self.points.nbytes + self.iterations.nbytes


def _bounds_by(pool: Pool, model: Conditioned, batches: Sequence[Solved]) -> list[ComputationalVariance]:
    total = sum(batch.cross.size for batch in batches)
    share = -(-total // (_PIECES_PER_WORKER * pool.count))
    pieces = []
    for batch in batches:
        for start in range(0, batch.cross.size, share):
            part = slice(start, start + share)
            pieces.append(_Piece(batch.cross.rows(part).portable(), batch.iterations[part].cpu()))
    sent = model.to_send(pool)
    with Interrupt() as interrupt:
        found = dict(pool.results(_bounds_of, ((sent, *piece) for piece in enumerate(pieces)), interrupt))
    if interrupt.requested:
        raise KeyboardInterrupt  # a part of the bounds is no answer
    device = model.gram.device
    return [ComputationalVariance(*(bound.to(device) for bound in found[i])) for i in range(len(pieces))]


def _bounds_of(
    sent: Conditioned | Parcel[Conditioned], number: int, piece: _Piece
) -> tuple[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]:
    """The work of one worker."""
    model = received(sent)
    found = _bounds(model, model.gram.cross_of(piece.points), piece.iterations.to(model.gram.device))
    return number, (found.lower.cpu(), found.estimate.cpu(), found.upper.cpu())

"""A prediction cut into batches of test points, solved and bounded here, or by joblib's workers or several devices."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ..algebra.weights import Weights
from ..errors import InputError
from ..gram import Cross, PortablePoints
from ..stopping import Rule, Watch
from ..support.interrupt import Interrupt
from ..support.progress import Advance
from ..workers.devices import Devices, Piece, named, require_device
from ..workers.pool import Parcel, Pool, find_pool, received
from .bounds import ComputationalVariance, bounds_of, joined_bounds
from .conditioned import Conditioned
from .memory_plan import MemoryPlan
from .solving import Iterates, OnePlace, Solved, run, run_to, watches_of

# Enough for a progress bar that moves and for workers of different speed, few enough that each pays off.
_BATCHES_PER_WORKER = 4


@dataclass(frozen=True)
class Batch:
    """Some test points on their way to a model, with their prior mean (n,)."""

    points: PortablePoints
    prior_mean: torch.Tensor
    rule: Rule | None
    started: float

    def __sizeof__(self) -> int:
        """What the numbers take: joblib's Dask backend goes by it and sends large arguments apart from the task."""
        return 100 + self.points.nbytes + self.prior_mean.nbytes

    def solve(self, model: Conditioned, interrupt: Interrupt, advance: Advance) -> dict[str, Any]:
        """The numbers of the posterior, without the weights; clocks of different machines must agree."""
        rule = None if self.rule is None else self.rule.after(max(0.0, time.time() - self.started))
        cross, mean = model.gram.cross(*self.points), self.prior_mean.to(model.gram.device)
        return _solved(model, cross, mean, watches_of(rule), interrupt, advance, keep=False).numbers()


@dataclass(frozen=True)
class Batches:
    """All test points with their prior mean (T,), ``size`` at a time; ``keep`` the weights if that is all of them."""

    model: Conditioned
    cross: Cross
    prior_mean: torch.Tensor
    rule: Rule | None
    size: int
    keep: bool = True
    started: float = field(default_factory=time.time)

    def _cut(self, size: int) -> Iterator[tuple[Cross, torch.Tensor]]:
        for start in range(0, self.cross.size, size):
            part = slice(start, start + size)
            yield (self.cross if size >= self.cross.size else self.cross.rows(part)), self.prior_mean[part]

    def solve(self, interrupt: Interrupt, advance: Advance) -> list[Solved]:
        """One batch after another, in this process."""
        watches, whole = watches_of(self.rule), self.size >= self.cross.size
        work: Any = {"watches": watches, "interrupt": interrupt, "advance": advance, "keep": self.keep and whole}
        if whole:
            return [_solved(self.model, self.cross, self.prior_mean, **work)]
        place = OnePlace(self.cross.size)
        return [place.put(_solved(self.model, cross, mean, **work)) for cross, mean in self._cut(self.size)]

    def solve_with(
        self, workers: Workers | Devices, asked: bool, interrupt: Interrupt, advance: Advance
    ) -> tuple[list[Solved], str]:
        """By ``workers``, and who these were, in words; what Ctrl-C left undone is at the prior.

        Batches are as ``asked`` for, else so small that all workers get some, and joined where one process had one.
        """
        share = -(-self.cross.size // (_BATCHES_PER_WORKER * workers.count))
        cut = list(self._cut(self.size if asked else min(self.size, share)))
        sent = [Batch(cross.portable(), mean.cpu().clone(), self.rule, self.started) for cross, mean in cut]
        found = dict(workers.results(self.model, sent, interrupt, advance))
        solved = [
            Solved.from_numbers(cross, found[i])
            if i in found
            else Solved.of(self.model, cross, mean, False, Iterates(self.model, cross).nothing())
            for i, (cross, mean) in enumerate(cut)
        ]
        if self.size >= self.cross.size:
            solved = [Solved.joined(self.cross, solved)]
        return solved, f" In {len(cut)} batches on {workers}."


def _solved(
    model: Conditioned,
    cross: Cross,
    prior_mean: torch.Tensor,
    watches: list[Watch],
    interrupt: Interrupt,
    advance: Advance,
    keep: bool,
) -> Solved:
    """A batch from its test points and prior mean (n,), in the pieces that the solver asks for, whose weights go."""
    pieces = model.prepared.pieces(cross) if not watches else []
    if len(pieces) <= 1:
        return Solved.of(model, cross, prior_mean, keep, *run(model, cross, watches, interrupt, advance))
    parts = []
    for rows in pieces:
        at = rows.to(prior_mean.device)
        part = cross.rows(at)
        parts.append(Solved.of(model, part, prior_mean[at], False, *run(model, part, [], interrupt, advance)))
    return Solved.joined(cross, parts, torch.cat(pieces))


@dataclass(frozen=True)
class _Bounding:
    """Some test points that are to get bounds, and the iteration at which each of them is, shape (n,)."""

    points: PortablePoints
    iterations: torch.Tensor

    def __sizeof__(self) -> int:
        return 100 + self.points.nbytes + self.iterations.nbytes

    def solve(self, model: Conditioned, interrupt: Interrupt, advance: Advance) -> dict[str, Any]:
        """The bounds, on the CPU."""
        found = _bounds(model, model.gram.cross(*self.points), self.iterations.to(model.gram.device))
        return vars(found.map(torch.Tensor.cpu))


def bounds_of_batches(model: Conditioned, batches: Sequence[Solved]) -> ComputationalVariance:
    """The bounds for all test points; where no weights were kept, by the workers of ``joblib.parallel_config``."""
    elsewhere = all(batch.weights is None and batch.cross.travels for batch in batches)
    pool = find_pool(None) if elsewhere else None
    if pool is None:
        return joined_bounds([_bounds(model, batch.cross, batch.iterations, batch.weights) for batch in batches])
    share = -(-sum(batch.cross.size for batch in batches) // (_BATCHES_PER_WORKER * pool.count))
    pieces = []
    for batch in batches:
        for start in range(0, batch.cross.size, share):
            part = slice(start, start + share)
            pieces.append(_Bounding(batch.cross.rows(part).portable(), batch.iterations[part].cpu()))
    with Interrupt() as interrupt:
        found = dict(Workers(pool).results(model, pieces, interrupt, lambda steps: None))
    if interrupt.requested:
        raise KeyboardInterrupt  # a part of the bounds is no answer
    parts = [ComputationalVariance(**found[i]) for i in range(len(pieces))]
    return joined_bounds(parts).map(lambda bound: bound.to(model.gram.device))


def _bounds(
    model: Conditioned, cross: Cross, iterations: torch.Tensor, weights: Weights | None = None
) -> ComputationalVariance:
    if weights is None and model.prepared.limit > 1:
        weights = run_to(model, cross, iterations)  # for all together: each iteration reads G
    cross.forget()  # each part has its own
    held = model.bounding.held_bytes + (0 if weights is None else weights.nbytes)
    step = MemoryPlan([model]).bounds(cross.size, held)
    parts = []
    for start in range(0, cross.size, step):
        part = slice(start, start + step)
        some = cross.rows(part)
        own = run_to(model, some, iterations[part]) if weights is None else weights.rows(part)
        parts.append(bounds_of(model, some, own))
    return joined_bounds(parts)


@dataclass(frozen=True)
class Workers:
    """The workers of ``pool``, each with the model on its own ``device``; that of the model if None."""

    pool: Pool
    device: str | None = None

    @property
    def count(self) -> int:
        return self.pool.count

    def __str__(self) -> str:
        return f"{self.count} workers"

    def results(
        self, model: Conditioned, pieces: Sequence[Piece], interrupt: Interrupt, advance: Advance
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number and the result of every piece, in the order in which they finish; fewer after Ctrl-C."""
        sent = model.to_send(self.pool, self.device)
        calls = ((sent, number, piece) for number, piece in enumerate(pieces))
        for number, found in self.pool.results(_solve, calls, interrupt):
            advance(len(next(iter(found.values()))))
            yield number, found


def _solve(sent: Conditioned | Parcel[Conditioned], number: int, piece: Piece) -> tuple[int, dict[str, Any]]:
    """The work of one worker. Ctrl-C in a terminal reaches its processes too, and must not be an error there."""
    with Interrupt() as interrupt:
        return number, piece.solve(received(sent), interrupt, lambda steps: None)


def find_workers(n_jobs: int | None, devices: str | Sequence[str] | None) -> Workers | Devices | None:
    """Who is to do the work; None for this process as it is."""
    pool = find_pool(n_jobs)
    if devices is None:
        return None if pool is None else Workers(pool)
    names = named(devices)
    if pool is None:
        for name in names:
            require_device(name)
        return Devices(names)
    if devices == "all" or len(names) > 1:
        raise InputError(
            f"devices={devices!r} for the workers of joblib, which have one each: start one worker per device, with "
            'CUDA_VISIBLE_DEVICES set to it, and give devices="cuda"; or n_jobs=1 for the devices of this machine'
        )
    return Workers(pool, names[0])

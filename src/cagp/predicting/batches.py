"""A prediction cut into batches of test points, solved one after another here or sent elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from ..gram import Cross, PortablePoints
from ..stopping import Rule, Watch
from ..support.interrupt import Interrupt
from ..support.progress import Advance
from .conditioned import Conditioned
from .solved import Solved
from .solving import Iterates, outcome_of, run, watches_of

_BATCHES_PER_WORKER = 4
"""Enough for a progress bar that moves and for workers of different speed, few enough that each pays off."""


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
        cross, mean = model.gram.cross_of(self.points), self.prior_mean.to(model.gram.device)
        return _solved(model, cross, mean, watches_of(rule), interrupt, advance, keep=False).numbers()


@dataclass(frozen=True)
class Batches:
    """All test points with their prior mean (T,), to be worked on ``size`` at a time."""

    model: Conditioned
    cross: Cross
    prior_mean: torch.Tensor
    rule: Rule | None
    size: int
    started: float = field(default_factory=time.time)

    def _cut(self, size: int) -> Iterator[tuple[Cross, torch.Tensor]]:
        for start in range(0, self.cross.size, size):
            part = slice(start, start + size)
            yield (self.cross if size >= self.cross.size else self.cross.rows(part)), self.prior_mean[part]

    def solve(self, interrupt: Interrupt, advance: Advance) -> list[Solved]:
        """One batch after another, in this process. The weights are kept where one batch holds all test points."""
        watches, keep = watches_of(self.rule), self.size >= self.cross.size
        return [
            _solved(self.model, cross, mean, watches, interrupt, advance, keep=keep)
            for cross, mean in self._cut(self.size)
        ]

    def cut_for(self, workers: int, asked: bool) -> list[tuple[Cross, Batch]]:
        """The batches for that many workers: as large as asked for, else small enough that all get some."""
        share = -(-self.cross.size // (_BATCHES_PER_WORKER * workers))
        size = self.size if asked else min(self.size, share)
        return [(cross, self._batch(cross, mean)) for cross, mean in self._cut(size)]

    def _batch(self, cross: Cross, mean: torch.Tensor) -> Batch:
        return Batch(cross.portable(), mean.cpu().clone(), self.rule, self.started)

    def join(self, cut: list[tuple[Cross, Batch]], found: dict[int, dict[str, Any]]) -> list[Solved]:
        """The batches of ``cut`` from the numbers found for them; those not found are left at the prior.

        Joined to one where one process would have solved them as one: then weights are computed again when asked for.
        """
        solved = []
        for i, (cross, batch) in enumerate(cut):
            if i in found:
                solved.append(Solved.from_numbers(cross, found[i]))
            else:
                nothing = outcome_of(Iterates(self.model, cross).nothing())
                mean = batch.prior_mean.to(self.prior_mean.device)
                solved.append(Solved.of(self.model, cross, nothing, mean, keep=False))
        return [Solved.joined(self.cross, solved)] if self.size >= self.cross.size else solved


def _solved(
    model: Conditioned,
    cross: Cross,
    prior_mean: torch.Tensor,
    watches: list[Watch],
    interrupt: Interrupt,
    advance: Advance,
    keep: bool,
) -> Solved:
    """A batch from its test points and prior mean (n,), in the pieces that the solver asks for.

    The weights of several pieces are not kept: a solver that works in pieces computes them again before they could be
    put together.
    """
    pieces = model.prepared.pieces(cross) if not watches else []
    if len(pieces) <= 1:
        return Solved.of(model, cross, run(model, cross, watches, interrupt, advance), prior_mean, keep=keep)
    parts = []
    for rows in pieces:
        at = rows.to(prior_mean.device)
        part = cross.rows(at)
        parts.append(Solved.of(model, part, run(model, part, [], interrupt, advance), prior_mean[at], keep=False))
    return Solved.joined(cross, parts, torch.cat(pieces))

"""Running a solver on a batch of test points until it is done, told to stop, or interrupted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from ..algebra.weights import Weights, certified, zero_weights
from ..gram import Cross
from ..solvers import Prepared
from ..stopping import Rule, Watch
from ..support.interrupt import Interrupt
from ..support.progress import Advance
from .batch_progress import BatchProgress, ExactVariance

if TYPE_CHECKING:
    from ..model import Model


@dataclass(frozen=True)
class Outcome:
    """Weights for a batch, after how many iterations for each test point (T,), and which rule stopped it (T,).

    ``stopped`` is the index of the rule, or −1 where the solver finished by itself or was interrupted.
    """

    weights: Weights
    iterations: torch.Tensor
    stopped: torch.Tensor


def run(model: Model, cross: Cross, watches: list[Watch], interrupt: Interrupt, advance: Advance) -> Outcome:
    """The weights of a batch when every test point has stopped; ``advance`` is told of the iterations."""
    prepared, T = model.prepared, cross.size
    never = torch.full((T,), -1, device=model.gram.device)
    if interrupt.requested:
        return outcome_of(zero_weights(T, model.gram.size, model.b))
    own = model.solver_cross(cross)
    if not watches and (final := _final(prepared, own, interrupt, advance)) is not None:
        return replace(final, weights=certified_in_full(final.weights, cross, own))
    frozen, exact = _Frozen(T, never), ExactVariance(model, cross)
    for iterate in prepared.weights(own):
        weights = iterate
        if watches and iterate.iteration:
            weights = certified_in_full(iterate, cross, own)
            if model.gram.dtype != torch.float64:  # the variances of two iterates differ by rounding, too
                exact = ExactVariance(model, cross)
            frozen.update(weights, watches, BatchProgress(weights, cross, exact))
        if iterate.iteration:
            advance(T / prepared.limit)
        if frozen.all or interrupt.requested:
            break
    return frozen.finish(weights if weights is not iterate else certified_in_full(iterate, cross, own))


def _final(prepared: Prepared, cross: Cross, interrupt: Interrupt, advance: Advance) -> Outcome | None:
    """The last weights at once, a few test points at a time where the solver asks for it, so that Ctrl-C is heard."""
    step = prepared.rows_at_once or cross.size
    parts: list[Weights] = []
    for start in range(0, cross.size, step):
        if parts and interrupt.requested:
            break
        part = cross if step >= cross.size else cross.rows(slice(start, start + step))
        weights = prepared.final(part)
        if weights is None:
            return None
        parts.append(weights)
        advance(part.size)
    return _joined(parts, cross.size)


def _joined(parts: list[Weights], T: int) -> Outcome:
    """Weights of several parts as one; test points that were not reached keep the prior."""
    if len(parts) == 1 and len(parts[0].values) == T:
        return outcome_of(parts[0])
    missing = T - sum(len(part.values) for part in parts)

    def cat(tensors: list[torch.Tensor]) -> torch.Tensor:
        return torch.cat([*tensors, tensors[0].new_zeros(missing, *tensors[0].shape[1:])])

    indices = parts[0].indices
    if indices is not None and indices.ndim == 2:
        indices = cat([part.indices for part in parts if part.indices is not None])
    weights = replace(
        parts[0],
        values=cat([part.values for part in parts]),
        reduction=cat([part.reduction for part in parts]),
        indices=indices,
        upper=None,
    )
    iterations = cat([torch.full_like(part.reduction, part.iteration, dtype=torch.int64) for part in parts])
    return Outcome(weights, iterations, torch.full_like(iterations, -1))


def run_to(model: Model, cross: Cross, iterations: torch.Tensor) -> Weights:
    """The weights of a batch after the given iteration of each test point (T,): the same run once more."""
    own = model.solver_cross(cross)
    frozen = _Frozen(cross.size, torch.full_like(iterations, -1))
    for iterate in model.prepared.weights(own):
        reached = iterations == iterate.iteration
        if bool(reached.all()):
            return certified_in_full(iterate, cross, own)  # as sparse as they come
        if bool(reached.any()):
            frozen.keep(certified_in_full(iterate, cross, own), reached, 0)
        if frozen.all:
            break
    return frozen.finish(certified_in_full(iterate, cross, own)).weights


def certified_in_full(weights: Weights, cross: Cross, own: Cross) -> Weights:
    """Weights from lower-precision arithmetic with the variance that they really achieve, in full precision."""
    if own is cross:
        return weights
    exact = certified(weights.dense().to(cross.gram.dtype), cross)
    return replace(exact, iteration=weights.iteration, passes=weights.passes + 1)


class _Frozen:
    """Test points that have stopped, with the weights they stopped at."""

    def __init__(self, T: int, never: torch.Tensor) -> None:
        self._stopped = never.clone()
        self._iterations = torch.zeros_like(never)
        self._values: torch.Tensor | None = None
        self._reduction: torch.Tensor | None = None
        self.all = False

    def update(self, weights: Weights, watches: list[Watch], progress: BatchProgress) -> None:
        for rule, watch in enumerate(watches):
            new = watch(progress) & (self._stopped < 0)
            if bool(new.any()):
                self.keep(weights, new, rule)

    def keep(self, weights: Weights, new: torch.Tensor, rule: int) -> None:
        """Freeze the test points ``new`` (T,) at these weights."""
        dense = weights.dense()
        if self._values is None or self._reduction is None:
            self._values, self._reduction = dense.clone(), weights.reduction.clone()
        self._values[new], self._reduction[new] = dense[new], weights.reduction[new]
        self._stopped[new], self._iterations[new] = rule, weights.iteration
        self.all = bool((self._stopped >= 0).all())

    def finish(self, last: Weights) -> Outcome:
        """All test points: the frozen ones as they were, the others at the last weights."""
        running = self._stopped < 0
        iterations = torch.where(running, last.iteration, self._iterations)
        if self._values is None or self._reduction is None:
            return Outcome(last, iterations, self._stopped)
        self._values[running], self._reduction[running] = last.dense()[running], last.reduction[running]
        weights = replace(last, values=self._values, reduction=self._reduction, indices=None, upper=None)
        return Outcome(weights, iterations, self._stopped)


def outcome_of(weights: Weights) -> Outcome:
    """Weights that all test points have after the same iteration."""
    iterations = torch.full_like(weights.reduction, weights.iteration, dtype=torch.int64)
    return Outcome(weights, iterations, torch.full_like(iterations, -1))


def watches_of(rule: Rule | None) -> list[Watch]:
    """The rules that make up ``rule``, at work on one prediction."""
    return [] if rule is None else [part.watch() for part in rule.parts]

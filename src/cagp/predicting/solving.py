"""Running a solver on a batch of test points until it is done, told to stop, or interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from ..algebra.weights import Weights, certified, zero_weights
from ..gram import Cross
from ..stopping import Rule, Watch
from ..support.interrupt import Interrupt
from ..support.progress import Advance
from .batch_progress import BatchProgress, ExactVariance
from .conditioned import Conditioned


@dataclass(frozen=True)
class Outcome:
    """Weights for a batch, after how many iterations for each test point (T,), and which rule stopped it (T,).

    ``stopped`` is the index of the rule, or −1 where the solver finished by itself or was interrupted.
    """

    weights: Weights
    iterations: torch.Tensor
    stopped: torch.Tensor


class Iterates:
    """The weights of a batch of test points, iterate by iterate, as the prepared solver of a model makes them.

    The solver sees the test points in its own order and precision. Where that precision is lower than the model's,
    ``reported`` gives an iterate the variance that it really achieves, at the price of one product with G in full
    precision: bad arithmetic makes the error bars wider, never wrong. Where the mean is unknown, it also makes the
    weights unbiased. What leaves this room must have passed through it.
    """

    def __init__(self, model: Conditioned, cross: Cross) -> None:
        self._prepared, self._cross, self._certifies = model.prepared, cross, model.recipe.certifies
        self._trend = model.unbiasing
        self._own = cross.seen_by(model.prepared.gram)

    def __iter__(self) -> Iterator[Weights]:
        """After iterations 0, 1, 2, …; each is valid until the next, and not to be reported yet."""
        return self._prepared.weights(self._own)

    def reported(self, weights: Weights) -> Weights:
        """An iterate as it may be reported."""
        cross, order = self._own, self._prepared.order
        if self._certifies:
            if not weights.iteration:
                return self.nothing()
            cross, order = self._cross, None
            exact = certified(weights.dense().to(cross.gram.dtype), cross)
            weights = replace(exact, iteration=weights.iteration, passes=weights.passes + 1)
        return weights if self._trend is None else self._trend.unbiased(weights, cross, order)

    def nothing(self) -> Weights:
        """Iteration 0 as it may be reported: the prior, or what a trend alone says."""
        zero = zero_weights(self._cross.size, self._cross.gram)
        return zero if self._trend is None else self._trend.unbiased(zero, self._cross)

    def final(self) -> Weights | None:
        """The last weights at once, as they may be reported, where the solver has a shorter way to them."""
        weights = self._prepared.final(self._own)
        return None if weights is None else self.reported(weights)


def run(model: Conditioned, cross: Cross, watches: list[Watch], interrupt: Interrupt, advance: Advance) -> Outcome:
    """The weights of a batch when every test point has stopped; ``advance`` is told of the iterations."""
    T = cross.size
    iterates = Iterates(model, cross)
    if interrupt.requested:
        return outcome_of(iterates.nothing())
    if not watches and (final := iterates.final()) is not None:
        advance(T)
        return outcome_of(final)
    frozen, exact = _Frozen(torch.full((T,), -1, device=model.gram.device)), ExactVariance(model, cross)
    for iterate in iterates:
        weights = None
        if watches and iterate.iteration:
            weights = iterates.reported(iterate)
            if model.gram.dtype != torch.float64:  # the variances of two iterates differ by rounding, too
                exact = ExactVariance(model, cross)
            frozen.update(weights, watches, BatchProgress(weights, cross, exact))
        if iterate.iteration:
            advance(T / model.prepared.limit)
        if frozen.all or interrupt.requested:
            break
    return frozen.finish(weights or iterates.reported(iterate))


def run_to(model: Conditioned, cross: Cross, iterations: torch.Tensor) -> Weights:
    """The weights of a batch after the given iteration of each test point (T,): the same run once more."""
    iterates = Iterates(model, cross)
    frozen = _Frozen(torch.full_like(iterations, -1))
    for iterate in iterates:
        reached = iterations == iterate.iteration
        if bool(reached.all()):
            return iterates.reported(iterate)  # as sparse as they come
        if bool(reached.any()):
            frozen.keep(iterates.reported(iterate), reached, 0)
        if frozen.all:
            break
    return frozen.finish(iterates.reported(iterate)).weights


class _Frozen:
    """Test points that have stopped, with the weights they stopped at; ``never`` is −1 for each, shape (T,)."""

    def __init__(self, never: torch.Tensor) -> None:
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
        dense = {"values": self._values, "reduction": self._reduction, "indices": None, "order": None, "shift": None}
        weights = replace(last, upper=None, **dense)  # type: ignore[arg-type]
        return Outcome(weights, iterations, self._stopped)


def outcome_of(weights: Weights) -> Outcome:
    """Weights that all test points have after the same iteration."""
    iterations = torch.full_like(weights.reduction, weights.iteration, dtype=torch.int64)
    return Outcome(weights, iterations, torch.full_like(iterations, -1))


def watches_of(rule: Rule | None) -> list[Watch]:
    """The rules that make up ``rule``, at work on one prediction."""
    return [] if rule is None else [part.watch() for part in rule.parts]

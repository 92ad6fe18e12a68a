"""Running a solver on a batch of test points until it is done, told to stop, or interrupted; and what was found."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch

from ..algebra.weights import Weights, certified, zero_weights
from ..errors import DivergenceError
from ..gram import Cross
from ..solvers import Auto
from ..stopping import Rule, Watch
from ..support.interrupt import Interrupt
from ..support.progress import Advance
from .bounds import BatchProgress, ExactVariance
from .conditioned import Conditioned
from .memory_plan import MemoryPlan

Outcome = tuple[Weights, torch.Tensor | None, torch.Tensor | None]
"""Weights for a batch, and as in ``Solved`` ``iterations`` and ``stopped``; None where that is the same for all."""


class Iterates:
    """The weights of a batch of test points, iterate by iterate, as the prepared solver of a model makes them.

    The solver sees the test points in its own order and precision. What leaves this room must have passed ``reported``:
    where that precision is lower than the model's, it gives an iterate the variance that it really achieves, for one
    product with G in full precision; where the mean is unknown, it makes the weights unbiased.
    """

    def __init__(self, model: Conditioned, cross: Cross) -> None:
        self._prepared, self._cross, self._certifies = model.prepared, cross, model.recipe.certifies
        self._trend, self._own = model.unbiasing, cross.seen_by(model.prepared.gram)

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
    T, iterates = cross.size, Iterates(model, cross)
    if interrupt.requested:
        return iterates.nothing(), None, None
    if not watches and (final := iterates.final()) is not None:
        advance(T)
        return final, None, None
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
    iterates, frozen = Iterates(model, cross), _Frozen(torch.full_like(iterations, -1))
    for iterate in iterates:
        reached = iterations == iterate.iteration
        if bool(reached.all()):
            return iterates.reported(iterate)  # as sparse as they come
        if bool(reached.any()):
            frozen.keep(iterates.reported(iterate), reached, 0)
        if frozen.all:
            break
    return frozen.finish(iterates.reported(iterate))[0]


class _Frozen:
    """Test points that have stopped, with the weights they stopped at; ``never`` is −1 for each, shape (T,)."""

    def __init__(self, never: torch.Tensor) -> None:
        self._stopped, self._iterations = never.clone(), torch.zeros_like(never)
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
            return last, iterations, self._stopped
        self._values[running], self._reduction[running] = last.dense()[running], last.reduction[running]
        dense = {"values": self._values, "reduction": self._reduction, "indices": None, "order": None, "shift": None}
        return replace(last, upper=None, **dense), iterations, self._stopped  # type: ignore[arg-type]


def watches_of(rule: Rule | None) -> list[Watch]:
    """The rules that make up ``rule``, at work on one prediction."""
    return [] if rule is None else [part.watch() for part in rule.parts]


@dataclass(frozen=True)
class Solved:
    """One batch of test points after their ``iterations`` (T,); ``weights`` is None where they were not kept.

    ``stopped`` (T,) is the index of the rule that stopped a test point, or −1 where none did.
    """

    cross: Cross
    weights: Weights | None
    iterations: torch.Tensor
    stopped: torch.Tensor
    passes: float
    mean: torch.Tensor
    variance: torch.Tensor
    at_rounding: torch.Tensor

    @classmethod
    def of(
        cls,
        model: Conditioned,
        cross: Cross,
        prior_mean: torch.Tensor,
        keep: bool,
        weights: Weights,
        iterations: torch.Tensor | None = None,
        stopped: torch.Tensor | None = None,
    ) -> Solved:
        """Mean and variance from the weights of an ``Outcome``; without ``keep``, the weights and V are let go.

        C(W) is a sum of terms of at most (√k(x′, x′) + Σ |wᵢ| √Gᵢᵢ)² together, which each iteration moves by about eps
        times that. A variance below this limit is not known any better, so the limit is reported.
        """
        root, prior_variance = weights.absolute().apply(model.gram.scale) + cross.prior_scale(), cross.prior_variance()
        each = weights.iteration if iterations is None else iterations
        limit = root.square() * (2 * torch.finfo(root.dtype).eps * (1 + each))
        achieved = prior_variance - weights.reduction
        variance = torch.maximum(achieved, limit)  # keeps NaN, so that a method that diverged is noticed
        if not math.isfinite(float(variance.sum())):
            raise DivergenceError(
                f"the weights of {model.recipe.solver!r} are no longer finite after {int(torch.as_tensor(each).max())} "
                "iterations; ask for fewer, or use a method that converges"
            )
        mean = prior_mean + weights.apply(model.b)
        if not keep:
            cross.forget()
        kept = weights if keep else None
        stopped = torch.full_like(mean, -1, dtype=torch.int64) if stopped is None else stopped
        iterations = torch.full_like(stopped, weights.iteration) if iterations is None else iterations
        return cls(cross, kept, iterations, stopped, weights.passes, mean, variance, achieved < limit)

    def numbers(self) -> dict[str, Any]:
        """What was found for each test point, on the CPU and without the weights: to be sent from elsewhere."""
        return {**{name: getattr(self, name).cpu() for name in _PER_POINT}, "passes": self.passes}

    @classmethod
    def from_numbers(cls, cross: Cross, numbers: dict[str, Any]) -> Solved:
        """A batch that was solved elsewhere."""
        found = {name: numbers[name].to(cross.gram.device) for name in _PER_POINT}
        return cls(cross, None, passes=numbers["passes"], **found)

    @classmethod
    def joined(cls, cross: Cross, parts: Sequence[Solved], rows: torch.Tensor | None = None) -> Solved:
        """Several batches as one, with ``cross`` for all their test points; ``rows`` (T,) says which these are."""
        found = {name: joined([getattr(part, name) for part in parts]) for name in _PER_POINT}
        if rows is not None:
            back = rows.argsort().to(cross.gram.device)
            found = {name: values[back] for name, values in found.items()}
        return cls(cross, None, passes=sum(part.passes for part in parts), **found)


def joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """What was found for some test points after the others; mostly one batch has all of them."""
    return parts[0] if len(parts) == 1 else torch.cat(tuple(parts))


class OnePlace:
    """The numbers of batches in tensors for all ``size`` test points.

    Left where each batch makes them, in what it let go of its large arrays, they would keep the next batch from using
    that again: malloc took three times the memory budget after some dozen batches.
    """

    def __init__(self, size: int) -> None:
        self._size, self._filled = size, 0
        self._whole: dict[str, torch.Tensor] = {}

    def put(self, batch: Solved) -> Solved:
        """The next batch, with its numbers here."""
        part = slice(self._filled, self._filled + batch.cross.size)
        self._filled = part.stop
        self._whole = self._whole or {name: getattr(batch, name).new_empty(self._size) for name in _PER_POINT}
        for name, values in self._whole.items():
            values[part] = getattr(batch, name)
        here: Any = {name: values[part] for name, values in self._whole.items()}
        return replace(batch, **here)


_PER_POINT = ("iterations", "stopped", "mean", "variance", "at_rounding")


def coefficients(component: Conditioned) -> Iterator[torch.Tensor] | None:
    """v (d,) after iterations 0, 1, 2, … such that the mean is m₀ + V v, without variances; None where unknown."""
    residual = component.b - _estimated(component, None)
    return component.prepared.coefficients(residual.to(component.recipe.solve_dtype))


def cheap_means(component: Conditioned, test: torch.Tensor, last: bool = False) -> Iterator[torch.Tensor] | None:
    """The means (T,) at test points (T, p) after iterations 1, 2, …, or the ``last`` alone; None as above."""
    ready = component.ready_for(test)[0] if isinstance(component.solver, Auto) else component
    vectors = coefficients(ready)
    return None if vectors is None else _means(ready, test, vectors, last)


def _means(
    component: Conditioned, test: torch.Tensor, vectors: Iterator[torch.Tensor], last: bool
) -> Iterator[torch.Tensor]:
    prior_mean = component.offset(test) + _estimated(component, test)
    crosses = [component.cross(part) for part in test.split(MemoryPlan([component]).means(len(test)))]
    for v in deque(vectors, maxlen=1) if last else islice(vectors, 1, None):
        products = []
        for cross in crosses:
            products.append(cross.matrix @ v.to(component.gram.dtype))
            if len(crosses) > 1:  # V as a whole would exceed the budget
                cross.forget()
        found = prior_mean + torch.cat(products)
        if not bool(torch.isfinite(found).all()):
            raise DivergenceError(f"the means of {component.solver!r} are not finite; use a method that converges")
        yield found


def _estimated(component: Conditioned, test: torch.Tensor | None) -> torch.Tensor:
    """What the estimated trend adds to the offset at test points (T, p), or at the training points."""
    if component.basis is None or component.unbiasing is None:
        return torch.zeros((), dtype=component.gram.dtype, device=component.device)
    functions = component.basis.at_training_points if test is None else component.basis(test)
    return functions.to(component.gram.dtype) @ component.unbiasing.estimate(component.b)

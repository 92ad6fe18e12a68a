"""When to stop: by iterations, by time, by how much of the variance is computational. Rules combine with ``|``.

Every test point stops by itself, when the first rule fires for it; the iterations of the solver remain the limit.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from .errors import InputError, InputTypeError
from .support.validation import choice, count, positive


class Progress(Protocol):
    """What a rule may look at after an iteration; everything per test point has shape (T,)."""

    iteration: int
    variance: torch.Tensor

    def upper(self) -> torch.Tensor:
        """A guaranteed upper bound on the computational variance."""

    def estimate(self) -> torch.Tensor:
        """A cautious estimate of the computational variance, at most the upper bound."""


Watch = Callable[[Progress], torch.Tensor]
"""A rule at work on one prediction: for which test points to stop, boolean, shape (T,)."""


class Rule(ABC):
    """A reason to stop."""

    @abstractmethod
    def watch(self) -> Watch:
        """Start to watch one prediction."""

    @property
    def parts(self) -> tuple[Rule, ...]:
        """The single rules that this one is made of."""
        return (self,)

    def after(self, seconds: float) -> Rule:
        """The rule for a batch that is begun elsewhere, ``seconds`` after the prediction was."""
        return self

    def shared(self, parts: int) -> Rule:
        """The rule for the first of so many ``parts`` of the work that are done one after another."""
        return self

    def __or__(self, other: Rule) -> Rule:
        return AnyOf((*self.parts, *other.parts)) if isinstance(other, Rule) else NotImplemented


def require_rule(stop: Any) -> None:
    """Refuse what is neither a rule nor None."""
    if stop is not None and not isinstance(stop, Rule):
        raise InputTypeError(f"stop must be a rule such as ComputationalShare(0.05) | Seconds(60), got {stop!r}")


@dataclass(frozen=True)
class AnyOf(Rule):
    """Stop a test point when any of the rules says so; write it with ``|``."""

    rules: tuple[Rule, ...]

    @property
    def parts(self) -> tuple[Rule, ...]:
        return self.rules

    def after(self, seconds: float) -> Rule:
        return AnyOf(tuple(rule.after(seconds) for rule in self.rules))

    def shared(self, parts: int) -> Rule:
        return AnyOf(tuple(rule.shared(parts) for rule in self.rules))

    def watch(self) -> Watch:
        watches = [rule.watch() for rule in self.rules]
        return lambda progress: torch.stack([watch(progress) for watch in watches]).any(dim=0)

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.rules))


@dataclass(frozen=True)
class Iterations(Rule):
    """Stop after ``limit`` iterations."""

    limit: int

    def __post_init__(self) -> None:
        count(self.limit, "limit", minimum=1)

    def watch(self) -> Watch:
        return lambda progress: torch.full_like(progress.variance, progress.iteration >= self.limit, dtype=torch.bool)


@dataclass(frozen=True)
class Seconds(Rule):
    """Stop at the end of the first iteration after ``limit`` seconds of prediction, for all test points together."""

    limit: float

    def __post_init__(self) -> None:
        positive(self.limit, "limit")

    def after(self, seconds: float) -> Rule:
        return Seconds(max(self.limit - seconds, 1e-9))

    def shared(self, parts: int) -> Rule:
        return Seconds(self.limit / parts)

    def watch(self) -> Watch:
        end = time.perf_counter() + self.limit
        return lambda progress: torch.full_like(progress.variance, time.perf_counter() >= end, dtype=torch.bool)


@dataclass(frozen=True)
class ComputationalShare(Rule):
    """Stop a test point when its computational variance is at most ``share`` times its exact variance.

    Then the error bar is within √(1 + share) of the exact one: ``share=0.05`` means at most 2.5% wider. ``judged``
    "certified" goes by the guaranteed upper bound, "estimated" by three times the estimate, which is not certain.
    ``CalibratedCG`` with ``Nystrom`` knows a bound for free. For other solvers, and for estimates, bounds cost three
    products with G after iterations 1, 2, 3, 5, 8, 13, 21, …, for the test points that gain by it.
    """

    share: float = 0.05
    judged: str = "certified"

    def __post_init__(self) -> None:
        if not 0 < positive(self.share, "share") < 1:
            raise InputError(f"share must be between 0 and 1, got {self.share!r}; for 5% write 0.05")
        choice(self.judged, "judged", ("certified", "estimated"))

    def watch(self) -> Watch:
        def fired(progress: Progress) -> torch.Tensor:
            computational = progress.upper() if self.judged == "certified" else progress.estimate()
            # variance − computational is the exact variance, or less than it where the bound is not tight
            return computational <= self.share * (progress.variance - computational)

        return fired

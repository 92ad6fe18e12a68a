"""Why a solver stopped, in words."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from .solvers import Solver
from .stopping import Rule


@dataclass(frozen=True)
class Status:
    """``reason`` is one word for programs ("finished", "interrupted", "iterating"), ``message`` is for people."""

    reason: str
    message: str

    def __str__(self) -> str:
        return self.message


def interrupted_text(iterations: torch.Tensor) -> str:
    """How far an interrupted prediction got, from the iterations of each test point (T,)."""
    done = sorted(zip(*iterations.unique(return_counts=True), strict=True), key=lambda pair: -int(pair[0]))
    each = ", ".join(f"{int(n)} test points after iteration {int(i)}" for i, n in done)
    prior = " Iteration 0 is the prior." if int(done[-1][0]) == 0 else ""
    return f"Interrupted: {each}.{prior} The error bars are right for what was computed."


def by_rules(stop: Rule, stopped: torch.Tensor, solver: Solver) -> str:
    """Which rule stopped how many test points; ``stopped`` (T,) is the index of the rule, or −1."""
    counts = [(int((stopped == i).sum()), repr(rule)) for i, rule in enumerate(stop.parts)]
    parts = [f"{n} test points stopped by {rule}" for n, rule in counts if n]
    rest = int((stopped < 0).sum())
    if rest:
        advice = ": raise its iterations to get further" if hasattr(solver, "iterations") else ""
        parts.append(f"{rest} test points reached the limit of {solver!r}{advice}")
    return "; ".join(parts)


def iteration_range(iterations: torch.Tensor) -> str:
    """The iterations of all test points (T,) in words."""
    low, high = int(iterations.min()), int(iterations.max())
    return f"after {low} iterations" if low == high else f"after {low} to {high} iterations"

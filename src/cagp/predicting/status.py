"""Why a solver stopped, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..solvers import Solver
from ..stopping import Rule
from .conditioned import Conditioned
from .solved import Solved


@dataclass(frozen=True)
class Status:
    """``reason`` is one word for programs ("finished", "interrupted", "iterating"), ``message`` is for people."""

    reason: str
    message: str

    def __str__(self) -> str:
        return self.message


def status_of(
    model: Conditioned, batches: Sequence[Solved], stop: Rule | None, interrupted: bool, seconds: float, where: str = ""
) -> Status:
    """The status of a prediction that took ``seconds``; ``where`` says on what it ran, if not in this process."""
    iterations = torch.cat([batch.iterations for batch in batches])
    stopped = torch.cat([batch.stopped for batch in batches])
    if interrupted:
        reason, message = "interrupted", _interrupted(iterations)
    elif stop is None or model.prepared.limit <= 1:
        reason, message = "finished", model.prepared.stopped(int(iterations.max()))
        if stop is not None:
            message += " It works in one step, so there was nothing for a rule to stop."
    else:
        rest = int((stopped < 0).sum())
        reason = "stopped" if rest < len(stopped) else "finished"
        message = _by_rules(stop, stopped, model.recipe.solver) + f" ({_range(iterations)}, {seconds:.3g} s)."
    return Status(reason, message + _circumstances(model) + where)


def _circumstances(model: Conditioned) -> str:
    """How G was kept and what was picked."""
    solving = model.prepared.gram
    where = f" G: {solving.describe()}." if solving.computed or not solving.stored_bytes else ""
    if model.recipe.certifies:
        where += f" Solved in {solving.arithmetic}, certified in {model.gram.arithmetic}."
    if model.prepared.picked:
        where += f" Auto picked {model.prepared.picked!r}."
    return where


def _interrupted(iterations: torch.Tensor) -> str:
    done = sorted(zip(*iterations.unique(return_counts=True), strict=True), key=lambda pair: -int(pair[0]))
    each = ", ".join(f"{int(n)} test points after iteration {int(i)}" for i, n in done)
    prior = " Iteration 0 is the prior." if int(done[-1][0]) == 0 else ""
    return f"Interrupted: {each}.{prior} The error bars are right for what was computed."


def _by_rules(stop: Rule, stopped: torch.Tensor, solver: Solver) -> str:
    counts = [(int((stopped == i).sum()), repr(rule)) for i, rule in enumerate(stop.parts)]
    parts = [f"{n} test points stopped by {rule}" for n, rule in counts if n]
    rest = int((stopped < 0).sum())
    if rest:
        advice = ": raise its iterations to get further" if hasattr(solver, "iterations") else ""
        parts.append(f"{rest} test points reached the limit of {solver!r}{advice}")
    return "; ".join(parts)


def _range(iterations: torch.Tensor) -> str:
    low, high = int(iterations.min()), int(iterations.max())
    if low < high:
        return f"after {low} to {high} iterations"
    return f"after {low} iteration{'' if low == 1 else 's'}"

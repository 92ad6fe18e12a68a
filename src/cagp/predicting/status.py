"""Why a solver stopped, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from ..solvers import Solver
from ..stopping import Rule
from ..support.advice import IN_PYTHON, Advice
from .conditioned import Conditioned
from .solved import Solved


@dataclass(frozen=True)
class Status:
    """Why a solver stopped: ``reason`` is one word for programs ("finished", "interrupted", "iterating").

    ``message`` is for people: what ``happened``, ``advice`` where there is more to be had, and the ``circumstances``.
    """

    reason: str
    happened: str
    advice: Advice | None = None
    circumstances: str = ""

    @property
    def message(self) -> str:
        """All of it in words, for people."""
        return self.worded(IN_PYTHON)

    def worded(self, remedies: Mapping[str, str]) -> str:
        """The message with the ``remedies`` of a front end, by kind of advice."""
        advice = "" if self.advice is None else self.advice.worded(remedies)
        return self.happened + advice + self.circumstances

    def __str__(self) -> str:
        return self.message


def status_of(
    model: Conditioned,
    batches: Sequence[Solved],
    stop: Rule | None,
    interrupted: bool,
    seconds: float,
    where: str = "",
    expected: str = "",
) -> Status:
    """The status of a prediction that took ``seconds``; ``where`` says on what it ran, if not in this process.

    ``expected`` is what was to be expected of the solver, in words, where ``Auto`` has picked it.
    """
    iterations = torch.cat([batch.iterations for batch in batches])
    stopped = torch.cat([batch.stopped for batch in batches])
    because = f": {expected}, took {seconds:.2g} s" if expected else ""
    circumstances = _circumstances(model, because) + where
    if interrupted:
        return Status("interrupted", _interrupted(iterations), circumstances=circumstances)
    if stop is None or model.prepared.limit <= 1:
        happened = model.prepared.stopped(int(iterations.max()))
        if stop is not None:
            circumstances = " It works in one step, so there was nothing for a rule to stop." + circumstances
        advice = Advice("iterations done") if _can_go_on(model) else None
        return Status("finished", happened, advice, circumstances)
    rest = int((stopped < 0).sum())
    advice = Advice("limit reached") if rest and model.recipe.solver.effort == "iterations" else None
    circumstances = f" ({_range(iterations)}, {seconds:.3g} s)." + circumstances
    reason = "stopped" if rest < len(stopped) else "finished"
    return Status(reason, _by_rules(stop, stopped, model.recipe.solver), advice, circumstances)


def _can_go_on(model: Conditioned) -> bool:
    """Whether more iterations of the solver would change anything."""
    solver, size = model.prepared.picked or model.recipe.solver, model.gram.size
    if solver.is_exact(size) or solver.points_used(size) is not None:
        return False
    more = solver.with_more_work(size)
    exhausted = model.prepared.limit < getattr(solver, solver.effort, 0)  # it made fewer than were asked for
    return more is not None and more.counted and not exhausted


def _circumstances(model: Conditioned, because: str) -> str:
    """How G was kept, and what was picked and why."""
    solving = model.prepared.gram
    where = f" G: {solving.describe()}." if solving.computed or not solving.stored_bytes else ""
    if model.recipe.certifies:
        where += f" Solved in {solving.arithmetic}, certified in {model.gram.arithmetic}."
    if model.prepared.picked:
        where += f" Auto picked {model.prepared.picked!r}{because}."
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
        parts.append(f"{rest} test points reached the limit of {solver!r}")
    return "; ".join(parts)


def _range(iterations: torch.Tensor) -> str:
    low, high = int(iterations.min()), int(iterations.max())
    if low < high:
        return f"after {low} to {high} iterations"
    return f"after {low} iteration{'' if low == 1 else 's'}"

"""Why a solver stopped, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch

from ..solvers import Solver
from ..stopping import Rule
from ..support.advice import IN_PYTHON, Advice
from .conditioned import Conditioned
from .solving import Solved, joined


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

    def noting(self, more: str) -> Status:
        """The same with ``more`` circumstances."""
        return replace(self, circumstances=self.circumstances + more)

    def __str__(self) -> str:
        return self.message


def joint_status(each: Sequence[Status]) -> Status:
    """One that speaks for the components of a model: that of the heaviest, unless another was interrupted."""
    if len(each) == 1:
        return each[0]
    interrupted = [status for status in each if status.reason == "interrupted"]
    if interrupted:
        return interrupted[0].noting(f" {len(each) - len(interrupted)} of {len(each)} components were done.")
    return each[0].noting(f" This is about the first of {len(each)} components of the model.")


def status_of(
    model: Conditioned,
    batches: Sequence[Solved],
    stop: Rule | None,
    interrupted: bool,
    seconds: float,
    where: str = "",
    expected: str = "",
) -> Status:
    """The status of a prediction that took ``seconds``; ``where`` it ran and what was ``expected`` of it, in words."""
    iterations, stopped = (joined([getattr(batch, name) for batch in batches]) for name in ("iterations", "stopped"))
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
    iterative = model.recipe.solver.description(model.gram.size).effort == "iterations"
    advice = Advice("limit reached") if rest and iterative else None
    low, high = int(iterations.min()), int(iterations.max())
    after = f"{low} to {high} iterations" if low < high else f"{low} iteration{'' if low == 1 else 's'}"
    circumstances = f" (after {after}, {seconds:.3g} s)." + circumstances
    reason = "stopped" if rest < len(stopped) else "finished"
    return Status(reason, _by_rules(stop, stopped, model.recipe.solver), advice, circumstances)


def _can_go_on(model: Conditioned) -> bool:
    """Whether more iterations of the solver would change anything."""
    solver, size = model.prepared.picked or model.recipe.solver, model.gram.size
    known = solver.description(size)
    if known.exact or not known.continues:
        return False
    return model.prepared.limit >= getattr(solver, known.effort, 0)  # else it made fewer than were asked for


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

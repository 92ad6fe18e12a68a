"""How a fit came about, in words and as a table."""

from __future__ import annotations

import re

from ..kernels.rotated import directions_in_words
from ..prior import Prior
from ..solvers.exact import EXACT_UP_TO
from ..story import Story, Tried, table_of
from .search import CandidateSearch


def story_of(search: CandidateSearch, seconds: float) -> Story:
    """What was tried and chosen, what was found about hyperparameters and error bars, and the time that it took."""
    judges, request = search.judges, search.request
    assert judges is not None
    weights = {id(each): weight for each, weight in search.chosen}
    scores = [(each, float(each.scores.log_score.mean()), weights.get(id(each), 0.0)) for each in search.fits]
    tried = tuple(Tried(each.candidate.name, each.crps, score, each.seconds, weight) for each, score, weight in scores)
    where = "standing in for points to be predicted" if judges.stand_in else "left out alone"
    several = "1 candidate was" if len(tried) == 1 else f"{len(tried)} candidates were"
    lines = [
        f"{several} fitted to {len(search.y):,} observations and judged by the CRPS of {len(judges):,} of them, "
        f"{where}:",
        table_of(tried, search.seconds),
    ]
    if len(search.chosen) == 1:
        lines.append(f"Chosen: {search.heaviest.candidate.name}, {_in_short(search.heaviest.prior)}.")
    else:
        lines.append(
            "Chosen: a mixture, under which left-out observations are clearly likelier: "
            + "; ".join(f"{weight:.2f} × {_in_short(each.prior)}" for each, weight in search.chosen)
            + "."
        )
    if request.like is None:
        lines.append("Where predictions are wanted was not said; with like, candidates are judged there.")
    lines.append(judges.note)
    names = request.data.names or [f"x{i + 1}" for i in range(search.X.shape[1])]
    found = search.findings
    if search.idle and len(search.y) > EXACT_UP_TO:
        idle = ", ".join(names[i] for i in sorted(search.idle))
        lines.append(f"Along {idle} the observations hardly vary: these lengthscales are those of the first candidate.")
    lines += [*search.notes, f"Predictions: {request.solver!r}.", request.data.dates, found.get("transform", "")]
    lines += directions_in_words(search.heaviest.prior.kernel, names)
    lines += [found.get(name, "") for name in ("integration", "error bars", "constant")]
    stopped = search.interrupt.requested
    budget = f"{request.seconds:.3g}" if request.seconds < 100 else f"{request.seconds:,.0f}"
    if search.not_tried:
        why, remedy = f"To end within {budget} seconds", "; more seconds= try them"
        why, remedy = ("Interrupted", "") if stopped else (why, remedy)
        lines.append(f"{why}, these were not tried: {', '.join(search.not_tried)}{remedy}.")
    if stopped:
        lines.append("Interrupted: the best so far was kept, and the error bars were not judged.")
    took = f"All of it took {seconds:.1f} s of a budget of {budget} s."
    text = "\n".join([*(line for line in lines if line), took])
    return Story(text, tried, stopped)


def _in_short(prior: Prior) -> str:
    """The prior with four digits of each number, and without what is not known."""
    text = re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda number: f"{float(number.group()):.4g}", repr(prior))
    return text.replace(", columns=None", "").replace(", coefficients=None", "")

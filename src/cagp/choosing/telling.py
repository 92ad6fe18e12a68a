"""How a fit came about, in words and as a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..mixtures import Tried
from ..mixtures.fitted import table_of
from ..prior import Prior
from ..solvers import Solver
from .search import Fit, Search


def table(search: Search, parts: Sequence[tuple[Fit, float]]) -> tuple[Tried, ...]:
    """What was tried, in the order in which it was."""
    weights = {id(each): weight for each, weight in parts}
    return tuple(
        Tried(
            each.candidate.name,
            each.fitted_by,
            each.crps,
            float(each.scores.log_score.mean()),
            each.seconds,
            weights.get(id(each), 0.0),
        )
        for each in search.fits
    )


def told(
    search: Search,
    parts: Sequence[tuple[Fit, float]],
    tried: tuple[Tried, ...],
    findings: Sequence[str],
    solver: Solver,
    geometry: bool,
    interrupted: bool,
    seconds: float,
) -> str:
    """All of it: what was tried and chosen, the ``findings`` about hyperparameters and error bars, the time."""
    site = search.site
    assert site is not None
    where = "left out alone" if site.gaps is None else "left out with gaps as wide as those to be predicted"
    several = "1 candidate was" if len(tried) == 1 else f"{len(tried)} candidates were"
    lines = [
        f"{several} fitted to {len(search.y):,} observations and judged by the CRPS of {len(site.rows):,} of them, "
        f"{where}:",
        table_of(tried),
    ]
    if len(parts) == 1:
        lines.append(f"Chosen: {parts[0][0].candidate.name}, {_in_short(parts[0][0].prior)}.")
    else:
        lines.append(
            "Chosen: a mixture, since these are about equally good: "
            + "; ".join(f"{weight:.2f} × {_in_short(each.prior)}" for each, weight in parts)
            + "."
        )
    if not geometry:
        lines.append("Where predictions are wanted was not said; with like, candidates are judged there.")
    if site.capped:
        lines.append(
            f"{site.capped:.0%} of the points to be predicted lie so far from the data that no gap as wide can be left "
            "out: the widest possible ones judge, and predictions there are extrapolations."
        )
    lines += search.failures
    lines += [f"Predictions: {solver!r}.", *(each for each in findings if each)]
    if interrupted:
        lines.append("Interrupted: the best so far was kept, and the error bars were not judged.")
    return "\n".join([*lines, f"All of it took {seconds:.1f} s."])


def _in_short(prior: Prior) -> str:
    """The prior with four digits of each number, and without what is not known."""
    text = re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda number: f"{float(number.group()):.4g}", repr(prior))
    return text.replace(", columns=None", "").replace(", coefficients=None", "")
